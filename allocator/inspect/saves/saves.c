#include "inspect/inspect.h"

#include "base/files.h"
#include "base/output.h"
#include "bundles.h"
#include "inspect/values/tell_values.h"
#include "inspect/values/types.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
    uint64_t bundled;
    uint64_t most_bundles; /* of a kernel; constant after the start */
} saves;

/* ---- the option ---- */

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

static void give_room(uint64_t bytes)
{
    __atomic_sub_fetch(&saves.taken, bytes, __ATOMIC_RELAXED);
}

/* Takes room of all that may be saved. Returns 0 if there is not enough. */
static int take_room(uint64_t bytes)
{
    if (__atomic_add_fetch(&saves.taken, bytes, __ATOMIC_RELAXED) <= saves.most)
        return 1;
    give_room(bytes);
    return 0;
}

static int wants(const struct visit *visit)
{
    if (!take_room(size_of_buffers(visit))) {
        __atomic_add_fetch(&saves.refused, 1, __ATOMIC_RELAXED);
        return 0;
    }
    bundles_begin(visit, saves.most - __atomic_load_n(&saves.taken, __ATOMIC_RELAXED));
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
    bundles_before(part, part->memory + size_of_buffers(part->visit));
}

static void after(struct visit_part *part)
{
    copy(part, 1);
    bundles_after(part, part->memory + size_of_buffers(part->visit));
}

/* ---- the files ---- */

/* Makes a folder for the launch: "000012-softmax". */
static int make_folder(const struct visit *visit, char *path, size_t room)
{
    const struct kernel_names *names = types_names(visit->function);
    char kernel[49];
    int failed, copy_number = 1;
    snprintf(kernel, sizeof kernel, "%.48s", names ? names->plain : "kernel");
    for (char *at = kernel; *at; at++)
        *at = isalnum((unsigned char)*at) ? *at : '_';
    failed = !files_make_folder(saves.folder);
    snprintf(path, room, "%s/%06" PRIu64 "-%s", saves.folder, visit->number, kernel);
    while (!failed && (failed = mkdir(path, 0700)) != 0 && errno == EEXIST) {
        snprintf(path, room, "%.1023s/%06" PRIu64 "-%s.%d", saves.folder, visit->number, kernel, ++copy_number);
        failed = 0;
    }
    if (failed)
        saved_fail(saves.folder);
    return !failed;
}

/* A line of JSON, as values= writes it, without figures. */
static void put_launch(const struct visit *visit, const char *folder)
{
    char path[1400];
    struct stack_frame frames[STACK_READ];
    struct shown_pointer *pointers = calloc(visit->reached_count + 1, sizeof *pointers);
    const struct shown_launch launch = {.visit = visit,
                                        .names = types_names(visit->function),
                                        .frames = frames,
                                        .frame_count = stack_frames(&visit->stack, frames, STACK_READ),
                                        .pointers = pointers,
                                        .pointer_count = visit->reached_count};
    for (size_t i = 0; pointers && i < visit->reached_count; i++) {
        pointers[i].reached = &visit->reached[i];
        arguments_describe(&visit->reached[i].range, &pointers[i].buffer);
    }
    snprintf(path, sizeof path, "%s/launch.json", folder);
    char *text = pointers ? values_json(&launch) : NULL;
    saved_put(path, text, text ? strlen(text) : 0);
    free(text);
    free(pointers);
}

/* Puts the files of one buffer. Returns 1 if the launch has changed it. */
static int put_buffer(const struct visit *visit, const char *folder, const uint8_t *results, const struct walk *walk,
                      enum value_type type)
{
    char path[1400];
    uint64_t bytes = visit->reached[walk->index].range.size;
    snprintf(path, sizeof path, "%s/%zu.before.npy", folder, walk->index);
    saves.bytes += saved_put_array(path, type, results + walk->at, bytes) ? bytes : 0;
    if (!memcmp(results + walk->at, results + walk->after, bytes))
        return 0;
    snprintf(path, sizeof path, "%s/%zu.after.npy", folder, walk->index);
    saves.bytes += saved_put_array(path, type, results + walk->after, bytes) ? bytes : 0;
    return 1;
}

/* Writes the buffers, and notes each in `saved`. Returns their number. */
static size_t put_buffers(const struct visit *visit, const char *folder, const uint8_t *results, struct bundles_saved *saved)
{
    char path[1400];
    struct walk walk = {0};
    size_t count = 0, different = 0;
    snprintf(path, sizeof path, "%s/README.txt", folder);
    int fd = files_create(path);
    FILE *readme = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (readme)
        saved_begin(readme, visit);
    while (next_buffer(visit, &walk) && !saved_has_failed()) {
        enum value_type type = saved_type(visit, walk.index);
        int has_changed = put_buffer(visit, folder, results, &walk, type);
        if (readme)
            saved_describe(readme, visit, walk.index, type, has_changed);
        saved[count++] = (struct bundles_saved){walk.index, results + walk.at, has_changed};
    }
    if (!readme || fclose(readme) != 0)
        saved_fail(path);
    for (size_t i = 0; i < visit->reached_count; i++)
        different += visit_first_of_buffer(visit, i) == i;
    saves.incomplete += different - count;
    return count;
}

static void save(const struct visit *visit, const uint8_t *results, struct bundles_saved *saved)
{
    char folder[1300];
    if (!make_folder(visit, folder, sizeof folder))
        return;
    size_t count = put_buffers(visit, folder, results, saved);
    uint64_t room = bundles_size(visit);
    uint64_t bytes = saved_has_failed() ? 0 : bundles_finish(visit, folder, saved, count, results + size_of_buffers(visit));
    saves.bytes += bytes;
    saves.bundled += bytes != 0;
    give_room(bytes < room ? room - bytes : 0); /* most of it was for what might have been found */
    if (!saved_has_failed())
        put_launch(visit, folder); /* last: a folder that has it is whole */
    saves.saved += !saved_has_failed();
}

static void finished(const struct visit *visit, uint8_t *results, size_t bytes, enum visit_end how)
{
    (void)bytes;
    if (!saved_has_failed() && visit->result == CUDA_SUCCESS && how == VISIT_DONE) {
        struct bundles_saved *saved = calloc(visit->reached_count + 1, sizeof *saved);
        if (saved)
            save(visit, results, saved);
        free(saved);
    } else if (!saved_has_failed() && visit->result == CUDA_SUCCESS) {
        output_note("save_values: launch %" PRIu64 " could not be saved: %s", visit->number,
                    how == VISIT_NO_ROOM ? "there is no pinned memory left" : "a kernel has faulted, or the program ended");
    }
    bundles_drop(visit);
}

static void closed(void)
{
    uint64_t refused = __atomic_load_n(&saves.refused, __ATOMIC_RELAXED);
    output_note("save_values: %" PRIu64 " launch%s saved in %s (%" PRIu64 " bytes)", saves.saved, saves.saved == 1 ? "" : "es",
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
    cufence_status status = options_expand_path(options->saved, saves.folder, sizeof saves.folder);
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
