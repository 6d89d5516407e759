#include "order.h"

#include "base/reader.h"
#include "order_internal.h"
#include "base/clock.h"
#include "base/thread.h"
#include "heap/heap.h"
#include "launch/launch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GIVEN_MOST 128u /* buffers of one launch; kernels on lists of tensors are given about a hundred */

/* ---- streams ---- */

static enum order_kind kind_of(const struct stream *stream)
{
    unsigned flags = 0;
    if (!stream->handle)
        return ORDER_LEGACY;
    if (stream->handle == CU_STREAM_PER_THREAD || driver->cuStreamGetFlags(stream->handle, &flags) != CUDA_SUCCESS)
        return ORDER_BLOCKING; /* where in doubt, more is ordered */
    return flags & CU_STREAM_NON_BLOCKING ? ORDER_NON_BLOCKING : ORDER_BLOCKING;
}

static __attribute__((noinline)) void track(struct stream *stream)
{
    enum order_kind kind = kind_of(stream);
    HOLD(&order_lock);
    if (!__atomic_load_n(&stream->tracked, __ATOMIC_RELAXED))
        __atomic_store_n(&stream->tracked, 1 + clocks_stream_begins(&order_state->clocks, stream->context, kind),
                         __ATOMIC_RELAXED);
}

/* Something may have been ordered that is not known: so all work so far counts as done. */
static void lose(void)
{
    HOLD(&order_lock);
    clocks_host_knows(&order_state->clocks, &order_state->clocks.latest);
    host_copies_forget_done();
}

static __attribute__((noinline)) enum followed ask_captured(const struct stream *stream)
{
    CUstreamCaptureStatus status;
    if (driver->cuStreamIsCapturing(stream->handle, &status) != CUDA_SUCCESS) {
        lose();
        return LOST;
    }
    return status == CU_STREAM_CAPTURE_STATUS_NONE ? FOLLOWED : CAPTURED;
}

enum followed follow(struct stream *stream)
{
    enum followed is = FOLLOWED;
    if (!stream) {
        lose();
        return LOST;
    }
    if (heap_may_capture())
        is = ask_captured(stream);
    if (is == FOLLOWED && __builtin_expect(!__atomic_load_n(&stream->tracked, __ATOMIC_RELAXED), 0))
        track(stream);
    return is;
}

void order_stream_ends(struct stream *stream)
{
    HOLD(&order_lock);
    clocks_stream_ends(&order_state->clocks, index_of(stream));
    __atomic_store_n(&stream->tracked, 0, __ATOMIC_RELAXED);
}

void order_context_gone(struct context *context)
{
    HOLD(&order_lock);
    clocks_context_ends(&order_state->clocks, context);
    host_copies_forget_done(); /* its memory of the host is gone, too */
}

/* ---- launches ---- */

static HOT_TLS struct order_position launched; /* the thread's latest launch */

/* Notes what other streams may do with the buffer at the same time. */
static void meet(uint64_t buffer, const struct use *use)
{
    lock_expect(RANK_ORDER);
    const struct buffer_uses *of = uses_of(&order_state->uses, buffer);
    for (uint32_t i = 0; of && i < of->count; i++) {
        const struct use *other = &of->uses[i];
        uint64_t done = clocks_done(&order_state->clocks, other->stream, use->stream);
        if (other->stream != use->stream && done < other->position)
            order_state->meetings[order_state->meeting_count++ % MEETINGS_KEPT] =
                (struct order_meeting){buffer, done, {*other, *use}};
    }
}

/* The live buffers that a launch was given. */
struct given {
    unsigned count;
    struct heap_range ranges[GIVEN_MOST];
};

/* Whether an argument has members that may not be set. Of large ones only those that are made of pointers alone are believed.
 */
static int may_be_stale(const struct launch_span *span)
{
    struct heap_range range;
    if (span->size <= LAUNCH_STRUCT_SURE || span->is_all)
        return 0;
    for (uint32_t at = (8 - span->offset % 8) % 8; at + 8 <= span->size; at += 8) {
        uint64_t word = load_u64(span->bytes + at);
        if (!heap_owns(word) || !heap_range_of(word, &range))
            return 1;
    }
    return 0;
}

static void look_at_arguments(struct given *given, const struct launch_call *call, const struct launch_function *function)
{
    struct launch_span span;
    for (uint32_t i = 0; launch_span(call, function, i, &span); i++) {
        for (uint32_t at = may_be_stale(&span) ? span.size : (8 - span.offset % 8) % 8; at + 8 <= span.size; at += 8) {
            uint64_t word = load_u64(span.bytes + at);
            if (heap_owns(word) && given->count < GIVEN_MOST && heap_range_of(word, &given->ranges[given->count]))
                given->count++;
        }
    }
}

static const struct order_call *add_call(const char *name, const void *frame)
{
    lock_expect(RANK_ORDER);
    struct order_call *record = &order_state->calls[order_state->call_count % CALLS_KEPT];
    record->turn = ++order_state->call_count;
    record->name = name;
    record->time_ns = clock_ns(CLOCK_MONOTONIC_COARSE);
    stack_capture_from(&record->stack, frame);
    return record;
}

static void kernel_launched(const struct launch_event *event, struct stream *stream)
{
    struct given given;
    const struct launch_mark mark = launch_newest(event->context);
    const struct launch_function *function = mark.function ? mark.function : functions_find(event->call->function);
    struct use use = {.kind = USE_LAUNCH,
                      .source = mark.slot,
                      .turn = mark.turn,
                      .function = function,
                      .python = mark.python,
                      .tid = thread_id(),
                      .handle = name_of(event->stream)};
    given.count = 0;
    look_at_arguments(&given, event->call, function);
    HOLD(&order_lock);
    use.stream = index_of(stream);
    use.position = clocks_step(&order_state->clocks, use.stream);
    for (unsigned i = 0; use.position && i < given.count; i++) {
        use.start = given.ranges[i].address;
        use.end = use.start + given.ranges[i].size;
        meet(given.ranges[i].id, &use);
        uses_add(&order_state->uses, given.ranges[i].id, &use);
    }
    if (use.position)
        meet(USES_GRAPHS, &use);
    launched = (struct order_position){use.position, order_state->meeting_count, use.stream};
}

/* It may be beside the latest work of every other stream, and whatever it has that is not done. */
static void graph_launched(const struct launch_event *event, unsigned index)
{
    lock_expect(RANK_ORDER);
    const struct order_clock *latest = &order_state->clocks.latest;
    const struct order_call *record = add_call("cuGraphLaunch", event->frame);
    const struct use use = {.kind = USE_LAUNCH,
                            .stream = index,
                            .position = latest->at[index],
                            .end = UINT64_MAX,
                            .source = record,
                            .turn = record->turn,
                            .function = record->name,
                            .python = record->stack.python,
                            .tid = thread_id(),
                            .handle = name_of(event->stream)};
    meet(USES_GRAPHS, &use);
    for (unsigned i = 0; i < order_state->clocks.count; i++) {
        uint64_t done = clocks_done(&order_state->clocks, i, index);
        if (i != index && done < latest->at[i])
            order_state->meetings[order_state->meeting_count++ % MEETINGS_KEPT] =
                (struct order_meeting){USES_GRAPHS, done, {{.kind = USE_READ, .stream = i, .position = latest->at[i]}, use}};
    }
    uses_add(&order_state->uses, USES_GRAPHS, &use);
    launched = (struct order_position){use.position, order_state->meeting_count, index};
}

void order_launched(const struct launch_event *event)
{
    struct stream *stream = stream_in(event->context, event->stream);
    launched = (struct order_position){.stream = ORDER_NOT_TRACKED};
    if (follow(stream) != FOLLOWED)
        return;
    if (event->call) {
        kernel_launched(event, stream);
        return;
    }
    HOLD(&order_lock);
    unsigned index = index_of(stream);
    clocks_graph_launched(&order_state->clocks, index, name_of(event->graph));
    host_copies_forget_done();
    if (index != ORDER_NOT_TRACKED)
        graph_launched(event, index);
}

/* ---- what ran at the same time ---- */

struct order_position order_launch_position(void)
{
    return launched;
}

void order_graph_given(const struct heap_range *buffer, CUstream stream)
{
    struct use use = {.kind = USE_LAUNCH,
                      .stream = launched.stream,
                      .position = launched.position,
                      .tid = thread_id(),
                      .handle = name_of(stream)};
    if (!use.position)
        return;
    HOLD(&order_lock);
    const struct buffer_uses *graphs = uses_of(&order_state->uses, USES_GRAPHS);
    for (uint32_t i = 0; graphs && i < graphs->count; i++)
        if (graphs->uses[i].stream == use.stream && graphs->uses[i].position == use.position)
            use = graphs->uses[i];
    use.start = buffer->address;
    use.end = buffer->address + buffer->size;
    meet(buffer->id, &use);
    uses_add(&order_state->uses, buffer->id, &use);
}

/* Which of the two uses may have run at the same time as the launch: NULL for none. */
static const struct use *other_of(const struct order_meeting *meeting, const struct order_position *launch)
{
    const struct use *uses = meeting->uses;
    if (uses[1].stream == launch->stream && uses[1].position == launch->position)
        return &uses[0];
    return uses[0].stream == launch->stream && meeting->done < launch->position && launch->position <= uses[0].position
               ? &uses[1]
               : NULL;
}

int order_beside(const struct order_position *launch, uint64_t buffer, uint64_t start, uint64_t end, struct order_race *race)
{
    HOLD(&order_lock);
    uint64_t count = order_state->meeting_count, first = count < MEETINGS_KEPT ? 0 : count - MEETINGS_KEPT;
    const struct use *graph = NULL;
    for (uint64_t i = count; launch->position && i-- > first;) {
        const struct order_meeting *meeting = &order_state->meetings[i % MEETINGS_KEPT];
        int may_be_graph = !graph && meeting->buffer == USES_GRAPHS;
        const struct use *other = meeting->buffer == buffer || may_be_graph ? other_of(meeting, launch) : NULL;
        if (!other || other->kind == USE_READ || start >= other->end || end <= other->start)
            continue;
        *race = (struct order_race){.use = *other};
        if (meeting->buffer == buffer)
            return 1;
        graph = other;
    }
    if (graph)
        return 1;
    *race = (struct order_race){.use = {.kind = USE_WRITE}};
    return !launch->position || first > launch->meetings;
}

int order_open(int finds)
{
    order_state = calloc(1, sizeof *order_state);
    if (!order_state)
        return 0;
    order_state->finds_races = finds;
    __atomic_store_n(&order_is_on, 1, __ATOMIC_RELEASE);
    return 1;
}

/* ---- buffers ---- */

void order_recorded(uint64_t address, CUstream handle)
{
    struct heap_range range;
    struct stream *stream = heap_range_of(address, &range) ? stream_in(range.context, handle) : NULL;
    if (!stream || follow(stream) != FOLLOWED)
        return;
    HOLD(&order_lock);
    uses_recorded(&order_state->uses, range.id, index_of(stream));
}

static int found(const struct use *use, struct order_race *race)
{
    if (!use || !order_state->finds_races)
        return 0;
    race->use = *use;
    return 1;
}

/* cuMemFree of plain memory waits for the buffer's context, so that the host knows all of its work to be done; and for no
 * other. Of a pool's memory it waits for nothing. */
static const struct use *against_host_free(const struct heap_range *range)
{
    lock_expect(RANK_ORDER);
    if (range->owner <= HEAP_PLAIN || range->owner == HEAP_TORCH) {
        struct order_clock seen = clocks_of_context(&order_state->clocks, range->context);
        clocks_host_knows(&order_state->clocks, &seen);
    }
    return uses_against_free(&order_state->uses, &order_state->clocks, range->id, ORDER_NOT_TRACKED);
}

int order_before_free(const struct heap_range *buffer, struct stream *stream, struct order_race *race)
{
    int is_race = 0;
    if (stream ? follow(stream) != FOLLOWED : heap_captures())
        return 0;
    *race = (struct order_race){.address = buffer->address, .stream = stream ? stream->handle : NULL, .by_host = !stream};
    HOLD(&order_lock);
    unsigned index = stream ? index_of(stream) : ORDER_NOT_TRACKED;
    if (!stream)
        is_race = found(against_host_free(buffer), race);
    else if (clocks_step(&order_state->clocks, index))
        is_race = found(uses_against_free(&order_state->uses, &order_state->clocks, buffer->id, index), race);
    uses_drop(&order_state->uses, buffer->id);
    return is_race;
}

void (*order_tell_race)(const char *call, const void *frame, const struct order_race *race);

void order_free(const char *call, const void *frame, const struct heap_range *buffer, struct stream *stream)
{
    struct order_race race;
    if (stream && order_before_free(buffer, stream, &race) && order_tell_race)
        order_tell_race(call, frame, &race);
    if (stream)
        return;
    HOLD(&order_lock); /* nobody can tell */
    uses_drop(&order_state->uses, buffer->id);
}

/* Whether the host may read the result of a copy to it when the call returns: so it is with memory that is not page-locked. */
static int is_pageable(const void *target)
{
    CUmemorytype type;
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)target;
    return !target || driver->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS;
}

/* Returns whether there is a race with the first access that has one. */
static int look_at_accesses(const struct order_copy *copy, const struct heap_range *ranges, struct use *use,
                            struct order_race *race)
{
    lock_expect(RANK_ORDER);
    int is_race = 0;
    for (unsigned i = 0; i < copy->count; i++) {
        const struct order_access *access = &copy->accesses[i];
        if (!ranges[i].id)
            continue;
        use->kind = access->is_write ? USE_WRITE : USE_READ;
        use->start = access->address;
        use->end = access->address + access->size;
        if (access->is_write && !is_race) {
            race->address = access->address;
            race->bytes = access->size;
            is_race = found(
                uses_against_write(&order_state->uses, &order_state->clocks, ranges[i].id, use->stream, use->start, use->end),
                race);
        }
        meet(ranges[i].id, use);
        if (!copy->is_awaited)
            uses_add(&order_state->uses, ranges[i].id, use);
    }
    return is_race;
}

int order_copied(const struct order_copy *copy, struct order_race *race)
{
    struct heap_range ranges[2] = {{0}};
    unsigned count = 0, writes = 0;
    struct stream *stream = stream_resolve(copy->stream);
    if (follow(stream) != FOLLOWED)
        return 0;
    for (unsigned i = 0; i < copy->count; i++) {
        count += heap_range_of(copy->accesses[i].address, &ranges[i]) != 0;
        writes += copy->accesses[i].is_write != 0;
    }
    int host_learns = copy->is_awaited || (!writes && is_pageable(copy->host_target));
    struct use use = {.tid = thread_id(), .handle = name_of(copy->stream), .function = copy->call};
    *race = (struct order_race){.stream = copy->stream, .by_host = copy->is_awaited};
    HOLD(&order_lock);
    use.stream = index_of(stream);
    use.position = clocks_step(&order_state->clocks, use.stream);
    int is_race = 0;
    if (use.position && (count || copy->host.end)) {
        if (!copy->is_awaited) {
            const struct order_call *record = add_call(copy->call, copy->frame);
            use.source = record;
            use.turn = record->turn;
            use.python = record->stack.python;
        }
        is_race = look_at_accesses(copy, ranges, &use, race);
        if (copy->host.end)
            host_copy_add(&copy->host, &use);
    }
    if (host_learns) {
        struct order_clock seen = clocks_of_stream(&order_state->clocks, use.stream);
        clocks_host_knows(&order_state->clocks, &seen);
    }
    return is_race;
}

/* ---- reports ---- */

static void describe_launch(const struct use *use, struct order_details *out)
{
    const struct launch_function *function = use->function;
    const struct launch_mark mark = {.slot = use->source, .turn = use->turn};
    out->use.kernel = function ? function->name : "";
    if (launch_read_marked(&mark, &out->entry, &out->stack)) {
        out->use.entry = &out->entry;
        out->use.time_ns = out->entry.time_ns;
    }
}

/* Of a copy, a set or a graph. */
static int is_call(const void *source)
{
    uintptr_t at = (uintptr_t)source, first = (uintptr_t)order_state->calls;
    return at >= first && at < first + sizeof order_state->calls;
}

static void describe_call(const struct use *use, struct order_details *out)
{
    const struct order_call *record = use->source;
    out->use.call = use->function;
    HOLD(&order_lock);
    if (record && record->turn == use->turn) {
        out->stack = record->stack;
        out->use.time_ns = record->time_ns;
    }
}

void order_describe(const struct order_race *race, int is_named, struct order_details *out)
{
    const struct use *use = &race->use;
    memset(&out->use, 0, sizeof out->use);
    memset(&out->stack, 0, sizeof out->stack);
    out->stack.python = use->python;
    out->use.tid = use->tid;
    out->use.stream = use->handle;
    out->use.by_stream = name_of(race->stream);
    out->use.by_host = race->by_host;
    out->where = (struct order_position){.position = use->position, .stream = use->stream};
    if (use->kind == USE_LAUNCH && !is_call(use->source))
        describe_launch(use, out);
    else
        describe_call(use, out);
    out->use.frames = out->frames;
    out->use.frame_count = is_named ? stack_frames(&out->stack, out->frames, STACK_READ) : 0;
}
