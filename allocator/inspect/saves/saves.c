#include "inspect/inspect.h"

#include "base/output.h"
#include "base/text.h"
#include "bundles.h"
#include "fault/monitor.h"
#include "inspect/values/tell_values.h"
#include "inspect/values/types.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PINNED (UINT64_C(512) << 20) /* most bytes of one launch, before and after together */

static struct {
    struct filter filter; /* constant after the start, as are folder and most */
    char folder[1024];
    uint64_t most;       /* bytes to save in all */
    uint64_t taken;      /* atomic: bytes of the launches that have been chosen */
    uint64_t refused;    /* atomic: launches beyond `most` */
    uint64_t saved;      /* this and the rest: launches; used by the visits' thread alone */
    uint64_t bytes;      /* written */
    uint64_t incomplete; /* buffers left out */
    int has_failed;      /* nothing more is saved */
    uint64_t bundled;
    uint64_t most_bundles; /* of a kernel; constant after the start */
} saves;

/* ---- the buffers of a launch: each once, in order, as long as there is room ---- */

struct walk {
    size_t next;    /* in visit->reached */
    size_t index;   /* of the buffer */
    uint64_t at;    /* of its bytes before the launch, in the part's memory */
    uint64_t after; /* of those after it */
    uint64_t end;
};

static int next_buffer(const struct visit *visit, struct walk *walk)
{
    for (; walk->next < visit->reached_count; walk->next++) {
        const struct reached *reached = &visit->reached[walk->next];
        if (reached->is_out_of_way || visit_first_of_buffer(visit, walk->next) < walk->next ||
            reached->range.size > (PINNED - walk->end) / 2 - visit_rounded(1))
            continue;
        walk->index = walk->next++;
        walk->at = walk->end;
        walk->after = walk->at + visit_rounded(reached->range.size);
        walk->end = walk->after + visit_rounded(reached->range.size);
        return 1;
    }
    return 0;
}

static size_t size_of_buffers(const struct visit *visit)
{
    struct walk walk = {0};
    while (next_buffer(visit, &walk))
        continue;
    return walk.end;
}

/* The bundle's memory follows that of the buffers. */
static size_t size(const struct visit *visit)
{
    return size_of_buffers(visit) + bundles_size(visit);
}

/* Takes room of all that may be saved. Returns 0 if there is not enough. */
static int take_room(uint64_t bytes)
{
    if (__atomic_add_fetch(&saves.taken, bytes, __ATOMIC_RELAXED) <= saves.most)
        return 1;
    __atomic_sub_fetch(&saves.taken, bytes, __ATOMIC_RELAXED);
    return 0;
}

static int wants(const struct visit *visit)
{
    size_t buffers = size_of_buffers(visit);
    if (!take_room(buffers)) {
        __atomic_add_fetch(&saves.refused, 1, __ATOMIC_RELAXED);
        return 0;
    }
    bundles_begin(visit, buffers, saves.most - __atomic_load_n(&saves.taken, __ATOMIC_RELAXED));
    take_room(bundles_size(visit)); /* it asked for no more than there is */
    return 1;
}

static void copy(struct visit_part *part, int is_after)
{
    struct walk walk = {0};
    while (next_buffer(part->visit, &walk)) {
        const struct heap_range *range = &part->visit->reached[walk.index].range;
        visit_copy(part, part->memory + (is_after ? walk.after : walk.at), range->address, range->size);
    }
}

static void before(struct visit_part *part)
{
    copy(part, 0);
    bundles_before(part);
}

static void after(struct visit_part *part)
{
    copy(part, 1);
    bundles_after(part);
}

/* ---- the files ---- */

/* Names the launch's folder: "000012-softmax". */
static void name_folder(const struct visit *visit, char name[80])
{
    const struct kernel_names *names = types_names(visit->function);
    int number = snprintf(name, 80, "%06" PRIu64 "-", visit->number);
    snprintf(name + number, (size_t)(80 - number), "%.48s", names ? names->plain : "kernel");
    for (char *at = name + number; *at; at++)
        *at = isalnum((unsigned char)*at) ? *at : '_';
}

/* A line of JSON, as values= writes it, without figures. */
static void put_launch(const struct visit *visit, struct bundle_writer *writer, const struct saved_buffer *saved, size_t count)
{
    struct stack_frame frames[STACK_READ];
    struct shown_pointer *pointers = calloc(visit->reached_count + 1, sizeof *pointers);
    const struct shown_launch launch = {.visit = visit,
                                        .how = saved->is_lost ? VISIT_LOST : VISIT_DONE,
                                        .names = types_names(visit->function),
                                        .frames = frames,
                                        .frame_count = stack_frames(&visit->stack, frames, STACK_READ),
                                        .pointers = pointers,
                                        .pointer_count = visit->reached_count};
    for (size_t i = 0; pointers && i < visit->reached_count; i++) {
        pointers[i].reached = &visit->reached[i];
        for (size_t k = 0; k < count; k++)
            if (visit->reached[saved[k].reached].range.id == visit->reached[i].range.id)
                memcpy(pointers[i].beside, saved[k].beside, sizeof saved[k].beside);
        arguments_describe(&visit->reached[i].range, &pointers[i].buffer);
    }
    writer_put_text(writer, "values.json", pointers ? values_json(&launch) : NULL);
    free(pointers);
}

/* Returns the type of a buffer's elements as the kernel's signature says it; VALUE_TYPES where it does not, or two pointers
 * into the buffer disagree. index: of a pointer into it, in visit->reached. */
static enum value_type saved_type(const struct visit *visit, size_t index)
{
    const struct heap_range *range = &visit->reached[index].range;
    enum value_type found = VALUE_TYPES;
    for (size_t i = 0; i < visit->reached_count; i++) {
        const struct reached *reached = &visit->reached[i];
        struct known_type known = {VALUE_WORD, TYPE_UNKNOWN};
        if (reached->range.id != range->id)
            continue;
        if (reached->function)
            known = types_of(reached->function, reached);
        size_t width = known.from == TYPE_SIGNATURE ? value_width(known.type) : 0;
        int fits = width && range->size % width == 0 && (reached->pointer - range->address) % width == 0;
        if (!fits || (found != VALUE_TYPES && found != known.type))
            return VALUE_TYPES;
        found = known.type;
    }
    return found;
}

/* Says what the files of a buffer hold. */
static void describe(FILE *file, const struct visit *visit, const struct saved_buffer *saved, enum value_type type)
{
    const size_t index = saved->reached;
    const struct reached *reached = &visit->reached[index];
    const char *name = declared_name(reached->handle, reached->function, reached->argument);
    fprintf(file, "%zu.before.npy%s", index,
            saved->is_lost       ? " (no .after.npy: a kernel has faulted)"
            : saved->has_changed ? " and .after.npy"
                                 : " (the same after the launch)");
    if (saved->beside[0])
        fprintf(file, " (candidate: %s may have written, too)", saved->beside);
    fprintf(file, ": ");
    if (reached->argument >= 0)
        fprintf(file, "argument %d%s%s, ", reached->argument, name ? " " : "", name ? name : "");
    fprintf(file, "buffer #%" PRIu64 ", ", reached->range.id);
    if (type == VALUE_TYPES) {
        fprintf(file, "%" PRIu64 " bytes: their type is not known. .view(\"float32\") makes an array of it\n",
                reached->range.size);
        return;
    }
    uint64_t count = reached->range.size / value_width(type);
    fprintf(file, "%s[%" PRIu64 "]", value_names[type], count);
    if (npy_has(type))
        fprintf(file, "\n");
    else
        fprintf(file, ", as uint%zu, for NumPy has no such type: torch.from_numpy(array.view(\"int%zu\")).view(torch.%s)\n",
                8 * value_width(type), 8 * value_width(type), value_names[type]);
}

/* A context survives its first fault where a dump is written: what comes behind the kernel that faulted is done, and its copies
 * are no outputs. Which launch it was is not known yet. */
static int may_have_faulted(const struct visit *visit)
{
    return __atomic_load_n(&visit->context->fault, __ATOMIC_ACQUIRE) != CUDA_SUCCESS ||
           monitor_wait(0) == CUFENCE_ERROR_TIMEOUT;
}

/* Puts the files of one buffer. Returns 1 if the launch has changed it. */
static int put_buffer(struct bundle_writer *writer, const uint8_t *results, const struct walk *walk, uint64_t bytes,
                      enum value_type type, int is_lost)
{
    char name[40];
    snprintf(name, sizeof name, SAVED_BEFORE, walk->index);
    writer_put_array(writer, name, type, results + walk->at, bytes);
    if (is_lost || !memcmp(results + walk->at, results + walk->after, bytes))
        return 0;
    snprintf(name, sizeof name, SAVED_AFTER, walk->index);
    writer_put_array(writer, name, type, results + walk->after, bytes);
    return 1;
}

/* Writes the buffers and README.txt, and notes each in `saved`. Returns their number. */
static size_t put_buffers(const struct visit *visit, struct bundle_writer *writer, const uint8_t *results,
                          struct saved_buffer *saved)
{
    const struct kernel_names *names = types_names(visit->function);
    struct walk walk = {0};
    size_t count = 0, different = 0, size;
    int is_lost = may_have_faulted(visit);
    char *text = NULL;
    FILE *readme = open_memstream(&text, &size);
    if (!readme)
        return 0;
    fprintf(readme, "Launch #%" PRIu64 " of %s: its buffers before and after, for numpy.load(). values.json has the rest.\n\n",
            visit->number, names ? names->demangled : "a kernel");
    while (next_buffer(visit, &walk)) {
        enum value_type type = saved_type(visit, walk.index);
        const struct heap_range *range = &visit->reached[walk.index].range;
        int has_changed = put_buffer(writer, results, &walk, range->size, type, is_lost);
        saved[count] = (struct saved_buffer){.reached = walk.index, .has_changed = has_changed, .is_lost = is_lost};
        if (has_changed)
            beside_named(visit, range, range->address, range->address + range->size, saved[count].beside);
        describe(readme, visit, &saved[count++], type);
    }
    writer_put_text(writer, "README.txt", fclose(readme) == 0 ? text : NULL);
    for (size_t i = 0; i < visit->reached_count; i++)
        different += visit_first_of_buffer(visit, i) == i;
    saves.incomplete += different - count;
    return count;
}

static void save(const struct visit *visit, const uint8_t *results)
{
    char name[80];
    struct bundle_writer writer;
    uint64_t room = bundles_size(visit);
    struct bundling *bundling = bundles_take(visit, results);
    struct saved_buffer *saved = calloc(visit->reached_count + 1, sizeof *saved);
    name_folder(visit, name);
    if (saved && writer_begin(&writer, "save_values", saves.folder, name)) {
        size_t count = put_buffers(visit, &writer, results, saved);
        uint64_t own = writer.bytes;
        if (bundling)
            bundling_write(bundling, visit, &writer, saved, count, results);
        put_launch(visit, &writer, saved, count); /* last: a folder that has it is whole */
        saves.bytes += writer.bytes;
        saves.bundled += bundling && !writer.has_failed;
        saves.saved += !writer.has_failed;
        uint64_t used = writer.bytes - own; /* most was for what might have been found */
        __atomic_sub_fetch(&saves.taken, used < room ? room - used : 0, __ATOMIC_RELAXED);
        saves.has_failed = writer.has_failed;
    } else {
        saves.has_failed = 1;
    }
    if (saved)
        writer_end(&writer);
    free(saved);
    bundling_free(bundling);
}

static void finished(const struct visit *visit, uint8_t *results, size_t bytes, enum visit_end how)
{
    (void)bytes;
    if (!saves.has_failed && visit->result == CUDA_SUCCESS && how == VISIT_DONE)
        save(visit, results);
    else if (!saves.has_failed && visit->result == CUDA_SUCCESS)
        output_note("save_values: launch %" PRIu64 " could not be saved: %s", visit->number,
                    how == VISIT_NO_ROOM ? "there is no pinned memory left" : "a kernel has faulted, or the program ended");
    bundling_free(bundles_take(visit, NULL));
}

static void closed(void)
{
    uint64_t refused = __atomic_load_n(&saves.refused, __ATOMIC_RELAXED);
    output_note("save_values: %" PRIu64 " launch%s saved in %s (%" PRIu64 " bytes)", saves.saved, plural_es(saves.saved),
                saves.folder, saves.bytes);
    if (saves.bundled)
        output_note("save_values: %" PRIu64 " of them for `cufence replay`, at most %" PRIu64 " of a kernel", saves.bundled,
                    saves.most_bundles);
    if (refused)
        output_note("save_values: %" PRIu64 " more launch%s left out: BYTES is %" PRIu64, refused,
                    refused == 1 ? " was" : "es were", saves.most);
    if (saves.incomplete)
        output_note("save_values: %" PRIu64 " buffer%s left out: a launch may have %" PRIu64
                    " MiB, and buffers of other devices cannot be read",
                    saves.incomplete, saves.incomplete == 1 ? " was" : "s were", (uint64_t)(PINNED >> 21));
}

cufence_status saves_open(const struct options *options)
{
    static struct visit_user user = {.kernels = BUNDLES_KERNELS,
                                     .filter = &saves.filter,
                                     .wants = wants,
                                     .size = size,
                                     .before = before,
                                     .after = after,
                                     .finished = finished,
                                     .closed = closed};
    if (!options->save_values[0])
        return CUFENCE_OK;
    cufence_status status = options_place_path(options->saved, saves.folder, sizeof saves.folder);
    if (status != CUFENCE_OK)
        return status;
    filter_parse(&saves.filter, options->save_values);
    saves.most = options->saves_max;
    saves.most_bundles = options->save_replay;
    bundles_open(options);
    user.ptx = bundles_ptx();
    visits_need(2 * PINNED);
    visits_add(&user);
    return CUFENCE_OK;
}
