/* The files of a bundle of a launch that ended well. Its list is written last: a bundle that has it is whole. */
#include "bundling.h"

#include "analysis/snapshot/bundle.h"
#include "base/text.h"
#include "inspect/values/types.h"
#include "vmm/arena.h"
#include "fault/record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_ROOM 1500

struct writing {
    const struct bundling *bundling;
    const struct visit *visit;
    const char *folder;
    struct bundle bundle;
    struct bundle_buffer *buffers, pinned[RERUN_PINNED];
    cufence_buffer *near; /* the same buffers as buffers[], for the report of a replay */
    uint64_t bytes;
    int has_failed;
};

static void path_of(const struct writing *writing, const char *name, char path[PATH_ROOM])
{
    snprintf(path, PATH_ROOM, "%s/%s", writing->folder, name);
}

static void put(struct writing *writing, const char *name, const void *bytes, size_t size)
{
    char path[PATH_ROOM];
    path_of(writing, name, path);
    if (!writing->has_failed && !saved_put(path, bytes, size))
        writing->has_failed = 1;
    writing->bytes += size;
}

static void put_text(struct writing *writing, const char *name, char *text)
{
    put(writing, name, text, text ? strlen(text) : 0);
    free(text);
}

static void put_array(struct writing *writing, const char *name, const uint8_t *bytes, uint64_t size)
{
    char path[PATH_ROOM], inner[64];
    snprintf(inner, sizeof inner, BUNDLE_FOLDER "/%s", name);
    path_of(writing, inner, path);
    if (!writing->has_failed && !saved_put_array(path, VALUE_TYPES, bytes, size))
        writing->has_failed = 1;
    writing->bytes += size;
}

/* ---- buffers ---- */

static struct bundle_buffer *add_buffer(struct writing *writing, const cufence_buffer *from)
{
    struct bundle *bundle = &writing->bundle;
    if (bundle->buffer_count == BUNDLE_BUFFERS)
        return NULL;
    writing->near[bundle->buffer_count] = *from;
    struct bundle_buffer *buffer = &writing->buffers[bundle->buffer_count++];
    *buffer = bundle_buffer_of(from);
    buffer->is_bounded = 1;
    return buffer;
}

static void name_files(struct bundle_buffer *buffer, int has_after)
{
    snprintf(buffer->file, sizeof buffer->file, "%" PRIu64 ".npy", buffer->id);
    if (has_after)
        snprintf(buffer->after, sizeof buffer->after, "%" PRIu64 ".after.npy", buffer->id);
}

/* The file lies there under another name already: it gets a second one, where the file system can do that. */
static int link_file(const struct writing *writing, size_t number, const char *when, const char *name)
{
    char old[64], path[PATH_ROOM], new[PATH_ROOM];
    snprintf(old, sizeof old, "%zu.%s.npy", number, when);
    path_of(writing, old, path);
    snprintf(old, sizeof old, BUNDLE_FOLDER "/%s", name);
    path_of(writing, old, new);
    return link(path, new) == 0;
}

static void name_type(const struct writing *writing, struct bundle_buffer *buffer, const struct reached *reached)
{
    snprintf(buffer->type, sizeof buffer->type, "%s", value_names[types_of(writing->visit->function, reached).type]);
}

/* One of the buffers that are written to the launch's folder for the user. */
static void take_saved(struct writing *writing, struct bundle_buffer *buffer, const struct bundles_saved *saved)
{
    uint64_t step = visit_rounded(buffer->size); /* what it held after the launch follows in memory */
    name_files(buffer, saved->has_changed);
    name_type(writing, buffer, &writing->visit->reached[saved->reached]);
    if (!link_file(writing, saved->reached, "before", buffer->file))
        put_array(writing, buffer->file, saved->before, buffer->size);
    if (saved->has_changed && !link_file(writing, saved->reached, "after", buffer->after))
        put_array(writing, buffer->after, saved->before + step, buffer->size);
}

static void leave_out(struct bundle_buffer *buffer, const char *why)
{
    snprintf(buffer->reason, sizeof buffer->reason, "%s", why);
}

static void take_direct(struct writing *writing, const cufence_buffer *from, const struct bundles_saved *saved, size_t count)
{
    struct bundle_buffer *buffer = add_buffer(writing, from);
    for (size_t i = 0; buffer && i < count; i++) {
        if (writing->visit->reached[saved[i].reached].range.id != from->id)
            continue;
        take_saved(writing, buffer, &saved[i]);
        return;
    }
    if (buffer)
        leave_out(buffer, "more than save_values keeps of a launch");
}

static void take_found(struct writing *writing, const cufence_buffer *from, uint64_t at, const uint8_t *area)
{
    struct bundling_area offsets = bundling_area(writing->bundling);
    struct bundle_buffer *buffer = add_buffer(writing, from);
    if (!buffer)
        return;
    if (at == REACH_NONE) {
        leave_out(buffer, "no room for what is reached through memory");
        bundling_lacks_room(writing->visit->function);
        return;
    }
    const uint8_t *before = area + offsets.before + at, *after = area + offsets.after + at;
    int has_changed = memcmp(before, after, buffer->size) != 0;
    name_files(buffer, has_changed);
    put_array(writing, buffer->file, before, buffer->size);
    if (has_changed)
        put_array(writing, buffer->after, after, buffer->size);
}

static void take_buffers(struct writing *writing, const struct bundles_saved *saved, size_t count, const uint8_t *area)
{
    const struct bundling *bundling = writing->bundling;
    struct bundling_area offsets = bundling_area(bundling);
    const struct reach_buffer *table = (const struct reach_buffer *)(const void *)(area + offsets.table);
    const struct reach_queue *queue = (const struct reach_queue *)(const void *)(area + offsets.queue);
    for (uint32_t i = 0; i < bundling->first; i++)
        take_direct(writing, &bundling->buffers[bundling->direct[i]], saved, count);
    for (uint32_t i = bundling->first; i < queue->count; i++)
        take_found(writing, &bundling->buffers[queue->at[i]], table[queue->at[i]].at, area);
    writing->bundle.buffers = writing->buffers;
}

static void take_pinned(struct writing *writing, const uint8_t *area)
{
    const struct bundling *bundling = writing->bundling;
    struct bundling_area offsets = bundling_area(bundling);
    const uint8_t *before = area + offsets.pinned_before, *after = area + offsets.pinned_after;
    for (size_t i = 0; i < bundling->pinned_count; i++) {
        uint64_t address = bundling->pinned[i].address, size = bundling->pinned[i].bytes;
        struct bundle_buffer *buffer = &writing->pinned[i];
        *buffer = bundle_pinned_of(&bundling->pinned[i]);
        snprintf(buffer->file, sizeof buffer->file, "pinned-%" PRIx64 ".npy", address);
        put_array(writing, buffer->file, before, size);
        if (memcmp(before, after, size) != 0) {
            snprintf(buffer->after, sizeof buffer->after, "pinned-%" PRIx64 ".after.npy", address);
            put_array(writing, buffer->after, after, size);
        }
        before += size;
        after += size;
    }
    writing->bundle.pinned = writing->pinned;
    writing->bundle.pinned_count = bundling->pinned_count;
}

/* ---- the code ---- */

#define IMAGES 16

/* Images that have been written lately, the newest first. The visits' thread's. */
static struct {
    const struct code *code; /* a reference; NULL: none */
    char path[PATH_ROOM];
} images[IMAGES];

static void remember_image(const struct code *code, const char *path)
{
    code_give_back(images[IMAGES - 1].code);
    memmove(images + 1, images, (IMAGES - 1) * sizeof *images);
    images[0].code = code_hold(code);
    snprintf(images[0].path, sizeof images[0].path, "%s", path);
}

/* The code of a library may be large: bundles of its kernels share one file, where the file system can do that. */
static void put_image(struct writing *writing)
{
    const struct code *code = writing->bundling->code;
    char path[PATH_ROOM];
    path_of(writing, BUNDLE_IMAGE, path);
    for (size_t i = 0; i < IMAGES && images[i].code; i++)
        if (images[i].code == code && link(images[i].path, path) == 0)
            return;
    put(writing, BUNDLE_IMAGE, code->bytes, code->size);
    if (!writing->has_failed)
        remember_image(code, path);
}

/* ---- the rest ---- */

static void take_head(struct writing *writing)
{
    const struct visit *visit = writing->visit;
    struct bundle *bundle = &writing->bundle;
    bundle->compute = driver_describe(visit->device, bundle->device_name, sizeof bundle->device_name);
    bundle->symbol = visit->function->name;
    bundle->arena_start = arena_start();
    bundle->arena_end = arena_end();
    bundle->has_outputs = 1;
    bundle->layout = visit->function->has_layout ? visit->function->arguments : NULL;
    bundle->argument_count = visit->function->has_layout ? visit->function->argument_count : 0;
    struct rerun_launch *launch = &bundle->launches[bundle->launch_count++];
    *launch = (struct rerun_launch){.shape = visit->shape,
                                    .shared_bytes = visit->shared_bytes,
                                    .is_cooperative = (uint32_t)visit->is_cooperative,
                                    .argument_bytes = (uint32_t)visit->argument_bytes,
                                    .arguments = visit->arguments};
}

static struct launch_entry entry_of(const struct visit *visit)
{
    size_t kept = visit->argument_bytes < LAUNCH_KEPT_BYTES ? visit->argument_bytes : LAUNCH_KEPT_BYTES;
    struct launch_entry entry = {.sequence = visit->number,
                                 .shape = visit->shape,
                                 .time_ns = visit->time_ns,
                                 .function = visit->function,
                                 .stream = (uint64_t)(uintptr_t)visit->handle,
                                 .tid = visit->tid,
                                 .device = visit->device,
                                 .is_cooperative = visit->is_cooperative,
                                 .shared_bytes = visit->shared_bytes,
                                 .argument_bytes = (uint32_t)visit->argument_bytes,
                                 .kept_bytes = (uint32_t)kept};
    if (kept)
        memcpy(entry.bytes, visit->arguments, kept);
    return entry;
}

/* What a report of a replay says of the buffers and of the launch, if it faults there. */
static void put_snapshot(struct writing *writing)
{
    const struct visit *visit = writing->visit;
    struct stack_frame frames[STACK_READ];
    struct launch_entry entry = entry_of(visit);
    const struct fault_launch launch = {
        .entry = &entry, .frames = frames, .frame_count = stack_frames(&visit->stack, frames, STACK_READ), .place = 1};
    const struct fault_memory memory = {.near = writing->near,
                                        .near_count = writing->bundle.buffer_count,
                                        .live_total = writing->bundle.buffer_count,
                                        .device = visit->device,
                                        .arena_start = writing->bundle.arena_start,
                                        .arena_end = writing->bundle.arena_end,
                                        .now_ns = visit->time_ns,
                                        .launches = &launch,
                                        .launch_count = 1,
                                        .frames = {stack_buffer_frames, NULL}};
    put_text(writing, BUNDLE_SNAPSHOT, files_snapshot(&memory, writing->bundle.device_name, NULL));
}

static void put_readme(struct writing *writing)
{
    const struct bundle *bundle = &writing->bundle;
    char *text = bundle_readme(
        bundle,
        "# A launch of a GPU kernel\n\n"
        "cufence %s saved here what it takes to launch the kernel `%s` again as it was\nlaunched: its code, its arguments, "
        "and the memory that they reach, before the launch and after it. It ended well.\nIt ran on %s.\n\n"
        "```\ncufence replay .                             # launch it again, and compare what it writes\n"
        "cufence replay . --times 20                  # does it write the same every time?\n"
        "cufence replay . --set-arg 1=999             # with another value of argument 1\n"
        "cufence replay . --buffer 0=other.npy        # with other bytes in the buffer of argument 0\n```\n\n"
        "Any GPU of compute capability %u.%u will do, on any machine with cufence. launch.json says where it was\n"
        "launched. kernel.cubin is the module as the driver was given it: a cubin, a fat binary or PTX.",
        VERSION_TEXT, bundle->symbol, bundle->device_name, bundle->compute / 10, bundle->compute % 10);
    put_text(writing, BUNDLE_README, text);
}

uint64_t bundling_write(const struct bundling *bundling, const struct visit *visit, const char *folder,
                        const struct bundles_saved *saved, size_t count, const uint8_t *area)
{
    char path[PATH_ROOM];
    struct writing writing = {.bundling = bundling,
                              .visit = visit,
                              .folder = folder,
                              .buffers = calloc(BUNDLE_BUFFERS, sizeof *writing.buffers),
                              .near = calloc(BUNDLE_BUFFERS, sizeof *writing.near)};
    path_of(&writing, BUNDLE_FOLDER, path);
    errno = ENOMEM;
    if (!writing.buffers || !writing.near || mkdir(path, 0700) != 0) {
        saved_fail(path);
        writing.has_failed = 1;
    } else {
        take_head(&writing);
        take_buffers(&writing, saved, count, area);
        take_pinned(&writing, area);
        put_image(&writing);
        put_snapshot(&writing);
        put_readme(&writing);
        put_text(&writing, BUNDLE_INPUT, bundle_write(&writing.bundle));
    }
    free(writing.buffers);
    free(writing.near);
    return writing.has_failed ? 0 : writing.bytes;
}
