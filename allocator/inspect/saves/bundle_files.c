/* The files of a bundle of a launch that is saved by request. */
#include "bundles.h"

#include "inspect/values/types.h"
#include "vmm/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct writing {
    const struct bundling *bundling;
    const struct visit *visit;
    struct bundle_writer *writer;
    struct launch_entry entry; /* the launch */
    int has_outputs;
    cufence_buffer *near; /* the same buffers as the bundle's, for the report of a replay */
};

/* ---- buffers ---- */

static struct bundle_buffer *add_buffer(struct writing *writing, const cufence_buffer *from)
{
    size_t number = writing->writer->buffer_count;
    struct bundle_buffer *buffer = writer_add(writing->writer, from);
    if (buffer) {
        buffer->is_bounded = 1;
        writing->near[number] = *from;
    }
    return buffer;
}

/* One of the buffers whose arrays are there for the user already. */
static void take_saved(struct writing *writing, struct bundle_buffer *buffer, const struct saved_buffer *saved)
{
    const struct reached *reached = &writing->visit->reached[saved->reached];
    snprintf(buffer->file, sizeof buffer->file, SAVED_BEFORE, saved->reached);
    if (saved->has_changed)
        snprintf(buffer->after, sizeof buffer->after, SAVED_AFTER, saved->reached);
    snprintf(buffer->type, sizeof buffer->type, "%s", value_names[types_of(writing->visit->function, reached).type]);
}

static void take_direct(struct writing *writing, const cufence_buffer *from, const struct saved_buffer *saved, size_t count)
{
    struct bundle_buffer *buffer = add_buffer(writing, from);
    size_t i = 0;
    while (i < count && writing->visit->reached[saved[i].reached].range.id != from->id)
        i++;
    if (buffer && i < count)
        take_saved(writing, buffer, &saved[i]);
    else if (buffer)
        writer_leave_out(buffer, "more than save_values keeps of a launch");
}

static void put_bytes(struct writing *writing, struct bundle_buffer *buffer, const uint8_t *before, const uint8_t *after)
{
    writer_put_bytes(writing->writer, buffer, 0, before);
    if (writing->has_outputs && memcmp(before, after, buffer->size) != 0)
        writer_put_bytes(writing->writer, buffer, 1, after);
}

static void take_found(struct writing *writing, const cufence_buffer *from, uint64_t at, const uint8_t *memory)
{
    struct bundling_area offsets = bundling_area(writing->bundling);
    struct bundle_buffer *buffer = add_buffer(writing, from);
    if (!buffer)
        return;
    if (at != REACH_NONE) {
        put_bytes(writing, buffer, memory + offsets.before + at, memory + offsets.after + at);
        return;
    }
    writer_leave_out(buffer, "no room for what is reached through memory");
    bundling_lacks_room(writing->visit->function);
}

static void take_buffers(struct writing *writing, const struct saved_buffer *saved, size_t count, const uint8_t *memory)
{
    const struct bundling *bundling = writing->bundling;
    struct bundling_area offsets = bundling_area(bundling);
    const struct reach_buffer *table = (const struct reach_buffer *)(const void *)(memory + offsets.table);
    const struct reach_queue *queue = (const struct reach_queue *)(const void *)(memory + offsets.queue);
    for (uint32_t i = 0; i < bundling->first; i++)
        take_direct(writing, &bundling->buffers[bundling->direct[i]], saved, count);
    for (uint32_t i = bundling->first; i < queue->count; i++)
        take_found(writing, &bundling->buffers[queue->at[i]], table[queue->at[i]].at, memory);
}

static void take_pinned(struct writing *writing, const uint8_t *memory)
{
    const struct bundling *bundling = writing->bundling;
    struct bundling_area offsets = bundling_area(bundling);
    const uint8_t *before = memory + offsets.pinned_before, *after = memory + offsets.pinned_after;
    for (size_t i = 0; i < bundling->pinned_count; i++) {
        put_bytes(writing, writer_add_pinned(writing->writer, &bundling->pinned[i]), before, after);
        before += bundling->pinned[i].size;
        after += bundling->pinned[i].size;
    }
}

/* ---- the code ---- */

#define IMAGES 16

/* Images that have been written lately, the newest first. The visits' thread's. */
static struct {
    const struct code *code; /* a reference; NULL: none */
    char path[sizeof((struct bundle_writer *)0)->folder + 32];
} images[IMAGES];

/* The code of a library may be large: bundles of its kernels share one file, where the file system can do that. */
static void put_image(struct writing *writing)
{
    const struct code *code = writing->bundling->code;
    char path[sizeof images->path];
    snprintf(path, sizeof path, "%s/" BUNDLE_IMAGE, writing->writer->folder);
    for (size_t i = 0; i < IMAGES && images[i].code; i++)
        if (images[i].code == code && link(images[i].path, path) == 0)
            return;
    writer_put(writing->writer, BUNDLE_IMAGE, NULL, 0, code->bytes, code->size);
    if (writing->writer->has_failed)
        return;
    code_give_back(images[IMAGES - 1].code);
    memmove(images + 1, images, (IMAGES - 1) * sizeof *images);
    images[0].code = code_hold(code);
    memcpy(images[0].path, path, sizeof path);
}

/* ---- the rest ---- */

static struct bundle bundle_of(const struct visit *visit, const struct rerun_launch *launch)
{
    const struct launch_function *function = visit->function;
    struct bundle bundle = {.symbol = function->name,
                            .arena_start = arena_start(),
                            .arena_end = arena_end(),
                            .launches = launch,
                            .launch_count = 1,
                            .layout = function->has_layout ? function->arguments : NULL,
                            .argument_count = function->has_layout ? function->argument_count : 0};
    bundle.compute = driver_describe(visit->device, bundle.device_name, sizeof bundle.device_name);
    return bundle;
}

/* What a report of a replay says of the buffers and of the launch, if it faults there. */
static void put_facts(struct writing *writing)
{
    const struct visit *visit = writing->visit;
    struct stack_frame frames[STACK_READ];
    const struct fault_launch launch = {
        .entry = &writing->entry, .frames = frames, .frame_count = stack_frames(&visit->stack, frames, STACK_READ), .place = 1};
    const struct fault_memory memory = {.near = writing->near,
                                        .near_count = writing->writer->buffer_count,
                                        .live_total = writing->writer->buffer_count,
                                        .device = visit->device,
                                        .arena_start = arena_start(),
                                        .arena_end = arena_end(),
                                        .now_ns = visit->time_ns,
                                        .launches = &launch,
                                        .launch_count = 1,
                                        .frames = {stack_buffer_frames, NULL}};
    writer_put_facts(writing->writer, &memory, NULL);
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

void bundling_write(const struct bundling *bundling, const struct visit *visit, struct bundle_writer *writer,
                    const struct saved_buffer *saved, size_t count, const uint8_t *memory)
{
    struct writing writing = {.bundling = bundling,
                              .visit = visit,
                              .writer = writer,
                              .entry = entry_of(visit),
                              .has_outputs = 1,
                              .near = calloc(BUNDLE_BUFFERS, sizeof *writing.near)};
    if (!writing.near)
        return;
    for (size_t i = 0; i < count; i++)
        writing.has_outputs &= !saved[i].is_lost && !saved[i].beside[0]; /* in a replay nobody writes meanwhile */
    take_buffers(&writing, saved, count, memory);
    take_pinned(&writing, memory);
    put_image(&writing);
    put_facts(&writing);
    const struct rerun_launch launch = rerun_launch_of(&writing.entry, visit->arguments);
    struct bundle bundle = bundle_of(visit, &launch);
    bundle.has_outputs = writing.has_outputs;
    writer_finish_launch(writer, &bundle);
    free(writing.near);
}
