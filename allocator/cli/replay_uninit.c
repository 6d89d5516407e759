/* `cufence replay --uninit`: a saved launch with 0x00 and with 0x4b where nobody had written. */
#include "compared.h"
#include "replay.h"

#include "arguments.h"

#include "base/options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEAST_RUN 8 /* bytes of the fill in a row that count as never written: fewer of them may be a number */

#define complain(...) arguments_complain("replay", 0, __VA_ARGS__)

/* The buffers that had bytes of the fill when the launch was saved. */
struct unwritten {
    struct replay *replay;
    struct fresh {
        const struct bundle_buffer *buffer;
        int files[2]; /* its bytes with 0x00 and with 0x4b there */
        uint64_t bytes, first;
    } list[OPENED_REPLACED];
    size_t count, given; /* given: replaced by --buffer */
};

/* ---- what nobody had written ---- */

/* The fill that the launch was saved with. Returns 0 after a message if it tells nothing. */
static int fill_of(const struct replay *replay, uint8_t *fill)
{
    struct options options;
    const struct snapshot *snapshot = replay->opened.snapshot;
    options_default(&options);
    if (snapshot && options_parse(&options, snapshot->origin.options, "the bundle") == CUFENCE_OK && options.fill > 0 &&
        options.fill < 0xff) {
        *fill = (uint8_t)options.fill;
        return 1;
    }
    return complain(
        "%s: what nobody had written is not known: a bundle has bytes, and tells those only if the program ran with "
        "`--fill 0x4b` when it was saved (another byte will do, but neither 0x00 nor 0xff, which programs write)",
        replay->folder);
}

/* Marks the runs of the fill in `bytes`, and counts them. */
static void set_unwritten(uint8_t *bytes, uint64_t size, uint8_t fill, uint8_t value, struct fresh *fresh)
{
    for (uint64_t at = 0, end; at < size; at = end + 1) {
        for (end = at; end < size && bytes[end] == fill; end++)
            continue;
        if (end - at < LEAST_RUN && (at || end < size))
            continue;
        if (!fresh->bytes)
            fresh->first = at;
        fresh->bytes += end - at;
        memset(bytes + at, value, end - at);
    }
}

/* A file with the buffer's bytes; -1: it cannot be had, or there is nothing that nobody had written. */
static int make_file(const struct opened *opened, uint8_t fill, uint8_t value, struct fresh *fresh)
{
    uint64_t offset, size = fresh->buffer->size;
    uint8_t *bytes = malloc(size ? size : 1);
    int from = opened_before(opened, fresh->buffer, &offset), made = -1;
    fresh->bytes = 0;
    if (bytes && from >= 0 && pread(from, bytes, size, (off_t)offset) == (ssize_t)size)
        set_unwritten(bytes, size, fill, value, fresh);
    if (fresh->bytes && (made = memfd_create("cufence-unwritten", MFD_CLOEXEC)) >= 0 &&
        pwrite(made, bytes, size, 0) != (ssize_t)size) {
        close(made);
        made = -1;
    }
    if (from >= 0)
        close(from);
    free(bytes);
    return made;
}

static void find_unwritten(struct unwritten *all, uint8_t fill)
{
    const struct opened *opened = &all->replay->opened;
    all->given = opened->replaced_count;
    for (size_t i = 0; i < opened->bundle->buffer_count && all->count + all->given < OPENED_REPLACED; i++) {
        struct fresh *fresh = &all->list[all->count];
        *fresh = (struct fresh){.buffer = &opened->bundle->buffers[i]};
        if (!fresh->buffer->file[0])
            continue;
        fresh->files[0] = make_file(opened, fill, 0, fresh);
        fresh->files[1] = fresh->files[0] >= 0 ? make_file(opened, fill, UNINIT_FILL, fresh) : -1;
        if (fresh->files[1] >= 0)
            all->count++;
        else if (fresh->files[0] >= 0)
            close(fresh->files[0]);
    }
}

/* ---- launches ---- */

/* Launches it with 0x4b in the buffers from `first` to before `last`, and with 0x00 in the others. Returns the files of the
 * results, one for each buffer of the bundle; NULL if it did not end well, which was said, with *status then. */
static int *launch(struct unwritten *all, size_t first, size_t last, int *status)
{
    struct replay *replay = all->replay;
    size_t count = replay->opened.bundle->buffer_count;
    int *results = malloc((count + 1) * sizeof *results);
    for (size_t i = 0; results && i < count; i++)
        results[i] = -1;
    for (size_t i = 0; i < all->count; i++)
        opened_replace(&replay->opened, all->list[i].buffer, dup(all->list[i].files[i >= first && i < last]));
    replay->results = results;
    enum replay_outcome outcome = results ? replay_once(replay, 1) : REPLAY_FAILED;
    compare_end(replay);
    replay->results = NULL;
    opened_restore(&replay->opened, all->given);
    *status = outcome == REPLAY_FAULTED ? -1 : outcome == REPLAY_FAILED ? STATUS_FAILED : 0;
    if (outcome == REPLAY_FAULTED)
        complain("that was with %s in the bytes that nobody had written", last > first ? "0x4b" : "0x00");
    return results;
}

static void drop(const struct unwritten *all, int *results)
{
    for (size_t i = 0; results && i < all->replay->opened.bundle->buffer_count; i++)
        if (results[i] >= 0)
            close(results[i]);
    free(results);
}

/* The first buffer of which the results differ, in the order of addresses. `own`: the results of a launch like the first, whose
 * differences do not count; NULL: none. Returns 0 if there is none. */
static int find_difference(const struct unwritten *all, const int *one, const int *own, const int *other,
                           struct difference *found)
{
    const struct bundle *bundle = all->replay->opened.bundle;
    for (size_t i = 0; i < bundle->buffer_count; i++) {
        const struct bundle_buffer *buffer = &bundle->buffers[i];
        struct difference apart = *found = compared_begin(buffer);
        if (one[i] < 0 || other[i] < 0)
            continue;
        if (own && compared_files(&apart, (struct compared){one[i], 0}, (struct compared){own[i], 0}, 0) && apart.different)
            continue;
        if (compared_files(found, (struct compared){one[i], 0}, (struct compared){other[i], 0}, 1) && found->different)
            return 1;
    }
    return 0;
}

/* ---- the report ---- */

static int argument_of(const struct opened *opened, const struct bundle_buffer *buffer)
{
    const struct bundle *bundle = opened->bundle;
    for (size_t i = 0; bundle->layout && i < bundle->argument_count; i++) {
        uint64_t pointer;
        if (bundle->layout[i].size != sizeof pointer)
            continue;
        memcpy(&pointer, opened->arguments + bundle->layout[i].offset, sizeof pointer);
        if (pointer && bundle_find(bundle, pointer) == buffer)
            return (int)i;
    }
    return -1;
}

/* fresh: that the launch has used; with more than one `count`, one of several. */
static void report(const struct unwritten *all, const struct fresh *fresh, size_t count, const struct difference *found)
{
    const struct opened *opened = &all->replay->opened;
    const struct finding_origin origin = replay_origin(all->replay);
    cufence_buffer buffer = {.id = fresh->buffer->id, .address = fresh->buffer->address, .size = fresh->buffer->size};
    struct finding finding;
    struct uninit_fact fact = {.symbol = opened->bundle->symbol,
                               .launched = opened_record(opened, 0),
                               .fresh = &buffer,
                               .from = argument_of(opened, fresh->buffer),
                               .unwritten = fresh->bytes,
                               .first_unwritten = fresh->first,
                               .more = count - 1,
                               .argument = argument_of(opened, found->buffer),
                               .type = found->type,
                               .elements = found->elements,
                               .different = found->different,
                               .first = found->first};
    fact.shape = opened->launches[0].shape;
    memcpy(fact.values[0], found->saved, sizeof fact.values[0]);
    memcpy(fact.values[1], found->now, sizeof fact.values[1]);
    const struct fault_memory *memory = &opened->snapshot->memory; /* it has said what the fill was */
    fact.now_ns = memory->now_ns;
    for (size_t i = 0; i < memory->near_count; i++)
        if (memory->near[i].id == buffer.id)
            fact.fresh = &memory->near[i];
    fact.frames = memory->frames;
    finding_of_uninit(&finding, &fact, &origin);
    replay_print(all->replay, &finding);
}

/* With 0x4b in all of them the results differ from `zeros`: which one is it? */
static int tell(struct unwritten *all, const int *zeros, const int *own, const struct difference *found)
{
    int status = 0;
    struct difference alone;
    for (size_t i = 0; all->count > 1 && i < all->count && status == 0; i++) {
        int *results = launch(all, i, i + 1, &status);
        int is_it = status == 0 && find_difference(all, zeros, own, results, &alone);
        drop(all, results);
        if (!is_it)
            continue;
        report(all, &all->list[i], 1, &alone);
        return -1;
    }
    report(all, &all->list[0], all->count, found);
    return -1;
}

static int compare(struct unwritten *all)
{
    int status = 0, *runs[3] = {NULL, NULL, NULL}, is_json = all->replay->is_json;
    struct difference found;
    for (size_t i = 0; i < 3 && status == 0; i++)
        runs[i] = launch(all, 0, i == 2 ? all->count : 0, &status);
    if (status == 0 && find_difference(all, runs[0], NULL, runs[1], &found))
        complain("two launches with the same bytes differ by themselves, in buffer #%" PRIu64
                 " and perhaps others: those are left out",
                 found.buffer->id);
    if (status == 0 && find_difference(all, runs[0], runs[1], runs[2], &found))
        status = tell(all, runs[0], runs[1], &found);
    else if (status == 0 && !is_json)
        printf("cufence replay: what the launch writes does not depend on bytes that nobody had written (in %zu buffers)\n",
               all->count);
    for (size_t i = 0; i < 3; i++)
        drop(all, runs[i]);
    return status;
}

int replay_uninit(struct replay *replay)
{
    struct unwritten all = {.replay = replay};
    uint8_t fill = 0;
    int status = 0;
    if (!fill_of(replay, &fill))
        return STATUS_USAGE;
    find_unwritten(&all, fill);
    replay->input.is_compared = 1;
    if (all.count)
        status = compare(&all);
    else if (!replay->is_json)
        printf("cufence replay: the launch was given nothing that nobody had written\n");
    for (size_t i = 0; i < all.count; i++)
        for (int side = 0; side < 2; side++)
            close(all.list[i].files[side]);
    return status;
}
