/*
 * Captures, and launches of their graphs. A capture fills existing buffers, and buffers that it allocates and frees itself; one
 * of these may be left for the program to free after each launch. Ordinary steps on other streams go on in between.
 */
#include "world.h"

#include <string.h>

static struct result *result_of(struct world *world, int graph, int i)
{
    return &world->graph_results[graph * GRAPH_STEPS + i];
}

void graphs_verify(struct world *world)
{
    for (int g = 0; g < GRAPHS; g++) {
        struct graph *graph = &world->graphs[g];
        if (!graph->is_live || !graph->launches || !clock_covers(&world->host, &graph->last))
            continue;
        for (int i = 0; i < graph->check_count; i++) {
            const struct result *result = result_of(world, g, i);
            if (result->wrong)
                fail(world, "graph %d: buffer #%u held wrong data: word %u was %#x", g, graph->checked[i], result->index,
                     result->got);
            if (__atomic_load_n(&result->done, __ATOMIC_ACQUIRE) != graph->launches)
                fail(world, "graph %d: a check ran %u times in %u launches", g, result->done, graph->launches);
        }
        graph->is_live = graph->executable != NULL || !graph->launches;
    }
}

/* ---- capturing ---- */

/* The capture in progress. */
struct capture {
    int number, queue;
    struct graph *graph;
    const struct kernels *kernels;
    CUstream stream;
};

static void capture_check(struct world *world, const struct capture *capture, CUdeviceptr address, size_t bytes, unsigned id,
                          uint32_t value, uint32_t step)
{
    struct graph *graph = capture->graph;
    if (graph->check_count == GRAPH_STEPS)
        return;
    struct result *result = result_of(world, capture->number, graph->check_count);
    memset(result, 0, sizeof *result);
    graph->checked[graph->check_count++] = id;
    say(world, "  check #%u", id);
    MUST(world, launch_check(capture->kernels, capture->stream, address, bytes, value, step, result));
}

static void capture_fill(struct world *world, const struct capture *capture, int number)
{
    struct buffer *buffer = &world->buffers[number];
    struct graph *graph = capture->graph;
    uint32_t value = (uint32_t)draw(world), step = chance(world, 50) ? 0 : 1;
    if (graph->write_count == GRAPH_STEPS)
        return;
    graph->writes[graph->write_count++] = (struct graph_write){number, value, step};
    buffer->graphs |= 1u << capture->number;
    say(world, "  fill #%u with %#x", buffer->id, value);
    MUST(world, step ? launch_fill(capture->kernels, capture->stream, buffer->address, buffer->bytes, value, step)
                     : cu.cuMemsetD32Async(buffer->address, value, buffer->bytes / 4, capture->stream));
    if (chance(world, 60))
        capture_check(world, capture, buffer->address, buffer->bytes, buffer->id, value, step);
}

static CUresult allocate(struct world *world, const struct capture *capture, CUdeviceptr *address, size_t bytes, unsigned *id)
{
    *id = ++world->next_buffer;
    CUresult result = cu.cuMemAllocAsync(address, bytes, capture->stream);
    say(world, "  #%u = cuMemAllocAsync of %zu bytes: %#llx", *id, bytes, (unsigned long long)*address);
    if (result != CUDA_SUCCESS && !world->lacks)
        must(world, "cuMemAllocAsync in a capture", result);
    return result;
}

/* Adds a buffer used by the capture only, or (half of the time) two that use the same memory one after the other. */
static void capture_temporary(struct world *world, const struct capture *capture)
{
    CUdeviceptr address = 0;
    size_t bytes = 4 + 4 * (size_t)pick(world, 4096);
    unsigned id;
    if (allocate(world, capture, &address, bytes, &id) != CUDA_SUCCESS)
        return;
    uint32_t value = (uint32_t)draw(world);
    MUST(world, launch_fill(capture->kernels, capture->stream, address, bytes, value, 3));
    if (chance(world, 30))
        step_within(world);
    queue_enter(world, capture->queue);
    capture_check(world, capture, address, bytes, id, value, 3);
    say(world, "  free #%u", id);
    MUST(world, cu.cuMemFreeAsync(address, capture->stream));
}

static void capture_output(struct world *world, const struct capture *capture)
{
    struct graph *graph = capture->graph;
    struct buffer *buffer = NULL;
    int number = 0;
    for (; number < BUFFERS && !buffer; number++)
        buffer = world->buffers[number].is_live || world->buffers[number].owner ? NULL : &world->buffers[number];
    if (!buffer || graph->output >= 0 || graph->write_count == GRAPH_STEPS)
        return;
    *buffer = (struct buffer){.kind = BUFFER_POOL, .context = graph->context, .bytes = 4 + 4 * (size_t)pick(world, 4096)};
    buffer->device = buffer->pool = world->contexts[graph->context].device;
    if (allocate(world, capture, &buffer->address, buffer->bytes, &buffer->id) != CUDA_SUCCESS)
        return;
    buffer->owner = 1 + capture->number;
    graph->output = --number;
    world->has_outputs = 1;
    capture_fill(world, capture, number);
    buffer->graphs = 0; /* the program frees it after each launch */
}

/* Makes later work on a stream of the capture wait for work on another. */
static void capture_join(struct world *world, CUstream to, CUstream from)
{
    CUevent event;
    MUST(world, cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(world, cu.cuEventRecord(event, from));
    MUST(world, cu.cuStreamWaitEvent(to, event, 0));
    MUST(world, cu.cuEventDestroy(event));
}

/* Two frees outside of the capture: when the stream joins, cufence has recorded an event behind at most the first one. */
static void free_before(struct world *world, int queue)
{
    for (int times = 0; times < 2 && buffer_make(world, queue, 4096); times++) {
        int newest = buffer_newest(world);
        if (newest >= 0)
            buffer_free_on(world, newest, queue);
    }
}

/* Captures part of the work on another stream, which joins the capture. */
static void capture_beside(struct world *world, const struct capture *capture)
{
    struct capture beside = *capture;
    beside.queue = PICK_WHERE(world, QUEUES,
                              i != capture->queue && world->queues[i].is_live && world->queues[i].kind == QUEUE_NON_BLOCKING &&
                                  world->contexts[world->queues[i].context].is_live);
    if (beside.queue < 0)
        return;
    beside.stream = world->queues[beside.queue].handle;
    beside.kernels = &world->contexts[world->queues[beside.queue].context].kernels;
    int is_trimmed = chance(world, 50);
    if (is_trimmed && !world->queues[beside.queue].is_captured)
        free_before(world, beside.queue);
    queue_enter(world, capture->queue);
    say(world, "  queue %d joins", beside.queue);
    capture_join(world, beside.stream, capture->stream);
    world->queues[beside.queue].is_captured = 1;
    if (is_trimmed)
        step_trim(world);
    queue_enter(world, capture->queue);
    capture_temporary(world, &beside);
    queue_enter(world, beside.queue);
    capture_join(world, capture->stream, beside.stream);
    queue_enter(world, capture->queue);
}

static void capture_step(struct world *world, const struct capture *capture)
{
    unsigned kind = pick(world, 100);
    if (kind < 10) {
        capture_beside(world, capture);
    } else if (kind < 35) {
        capture_temporary(world, capture);
    } else if (kind < 65) {
        int number = buffer_pick(world);
        if (number >= 0 && !world->buffers[number].owner && buffer_is_reachable(world, &world->buffers[number], capture->queue))
            capture_fill(world, capture, number);
    } else if (kind < 75) {
        capture_output(world, capture);
    } else if (kind < 80) {
        step_primary(world);
    } else {
        step_within(world);
    }
}

int step_capture(struct world *world)
{
    int queue = PICK_WHERE(world, QUEUES, world->queues[i].is_live && world->queues[i].kind == QUEUE_NON_BLOCKING), number = 0;
    while (number < GRAPHS && world->graphs[number].is_live)
        number++;
    if (queue < 0 || number == GRAPHS || world->depth || settings.is_alone || (settings.without & FEATURE_GRAPH))
        return 0;
    struct queue *on = &world->queues[queue];
    struct graph *graph = &world->graphs[number];
    *graph = (struct graph){.is_live = 1, .context = on->context, .output = -1};
    struct capture capture = {number, queue, graph, &world->contexts[on->context].kernels, on->handle};
    queue_enter(world, queue);
    say(world, "capture queue %d as graph %d", queue, number);
    captures_begin();
    MUST(world, cu.cuStreamBeginCapture(on->handle, CU_STREAM_CAPTURE_MODE_RELAXED));
    on->is_captured = 1;
    world->depth++;
    for (unsigned i = 2 + pick(world, 6); i > 0; i--) {
        queue_enter(world, queue);
        capture_step(world, &capture);
    }
    world->depth--;
    for (int i = 0; i < QUEUES; i++)
        world->queues[i].is_captured = 0;
    queue_enter(world, queue);
    say(world, "end of the capture");
    MUST(world, cu.cuStreamEndCapture(on->handle, &graph->graph));
    captures_end();
    MUST(world, cu.cuGraphInstantiateWithFlags(&graph->executable, graph->graph, 0));
    if (chance(world, 40)) {
        MUST(world, cu.cuGraphDestroy(graph->graph));
        graph->graph = NULL;
    }
    return 1;
}

/* ---- launching ---- */

static int launch(struct world *world, int number)
{
    struct graph *graph = &world->graphs[number];
    struct clock needed = graph->last;
    int queue = queue_pick(world, graph->context);
    if (queue < 0 || (graph->output >= 0 && world->buffers[graph->output].is_live))
        return 0;
    for (int i = 0; i < graph->write_count; i++)
        clock_join(&needed, &world->buffers[graph->writes[i].buffer].uses);
    if (!queue_wait(world, queue, &needed))
        return 0;
    queue_enter(world, queue);
    uint32_t position = queue_submit(world, queue);
    memset(&graph->last, 0, sizeof graph->last);
    graph->last.at[queue] = position;
    graph->launches++;
    for (int i = 0; i < graph->write_count; i++) {
        struct buffer *buffer = &world->buffers[graph->writes[i].buffer];
        memset(&buffer->contents, 0, sizeof buffer->contents);
        buffer->contents.at[queue] = buffer->uses.at[queue] = position;
        buffer->value = graph->writes[i].value;
        buffer->step = graph->writes[i].step;
        buffer->is_filled = 1;
        buffer->is_live = 1;
    }
    say(world, "launch graph %d on queue %d", number, queue);
    MUST(world, cu.cuGraphLaunch(graph->executable, world->queues[queue].handle));
    return 1;
}

static int pick_graph(struct world *world)
{
    int first = (int)pick(world, GRAPHS);
    for (int i = 0; i < GRAPHS; i++) {
        if (world->graphs[(first + i) % GRAPHS].is_live && world->graphs[(first + i) % GRAPHS].executable)
            return (first + i) % GRAPHS;
    }
    return -1;
}

int step_launch_graph(struct world *world)
{
    int number = world->depth ? -1 : pick_graph(world);
    return number >= 0 && launch(world, number);
}

void graph_drop(struct world *world, int number)
{
    struct graph *graph = &world->graphs[number];
    /* An output that is unallocated at this point was never the program's. cufence can't know that and keeps it, so launch the
     * graph first. */
    for (int tries = 0; graph->output >= 0 && !graph->launches && tries < 20; tries++)
        launch(world, number);
    if (graph->output >= 0)
        world->buffers[graph->output].owner = 0;
    for (int i = 0; i < BUFFERS; i++)
        world->buffers[i].graphs &= ~(1u << number);
    context_enter(world, graph->context);
    MUST(world, cu.cuGraphExecDestroy(graph->executable));
    if (graph->graph)
        MUST(world, cu.cuGraphDestroy(graph->graph));
    say(world, "graph %d is gone; launches may be under way", number);
    graph->executable = NULL; /* keeps its place until the results of its launches were checked */
    graph->graph = NULL;
    graph->is_live = graph->launches != 0;
}

int step_drop_graph(struct world *world)
{
    int number = world->depth ? -1 : pick_graph(world);
    if (number < 0)
        return 0;
    graph_drop(world, number);
    return 1;
}
