/* Notes captures in progress, during which cufence must not synchronise a context, and has their memory followed; and the nodes
 * that programs put into graphs by hand. */
#include "api/closing.h"
#include "base/aside.h"
#include "base/clock.h"
#include "bounds.h"
#include "launch/inspect_table.h"

#include <stdlib.h>

#include "preload_internal.h" /* last: see hooks.h */

/* The driver's cuMemFree of nothing does nothing else than to say so. */
CUresult capture_asks(void)
{
    CUresult result = real.cuMemFree_v2(0);
    return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD ? result
                                                                                                               : CUDA_SUCCESS;
}

int capture_asks_stream(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return driver->cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static int have_begun; /* atomic: some stream has begun a capture */
static int held_off;   /* atomic: threads between captures_hold_off() and captures_go_on() */

int captures_hold_off(void)
{
    __atomic_add_fetch(&held_off, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&have_begun, __ATOMIC_SEQ_CST))
        return 1;
    captures_go_on();
    return 0;
}

void captures_go_on(void)
{
    __atomic_sub_fetch(&held_off, 1, __ATOMIC_RELEASE);
}

#define HOLD_OFF_MS 50 /* a thread may be waiting for a device that waits for the host */

static void await_frees(void *unused)
{
    const uint64_t until = monotonic_ms() + HOLD_OFF_MS;
    (void)unused;
    while (__atomic_load_n(&held_off, __ATOMIC_SEQ_CST) && monotonic_ms() < until)
        aside_sleep(50);
}

/* Prepares the capture's context before the capture begins, and keeps our threads from using the stream meanwhile. */
struct stream *capture_begins(CUstream handle)
{
    struct stream *stream = is_active() ? stream_resolve(handle) : NULL;
    if (stream) {
        __atomic_store_n(&have_begun, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&held_off, __ATOMIC_SEQ_CST)) /* by who has come before the first capture */
            aside_call(await_frees, NULL);
        heap_prepare_capture(stream->context);
        stream_touch_begin(stream);
        heap_capture_begins(stream);
    }
    return stream;
}

CUresult capture_begun(CUresult result, struct stream *stream, int is_into_own)
{
    if (!stream)
        return result;
    if (result != CUDA_SUCCESS)
        heap_capture_may_end(stream);
    stream_touch_end(stream);
    if (result == CUDA_SUCCESS)
        heap_follow_capture(stream, is_into_own);
    return result;
}

/* Some errors end the capture, others don't. `all` is what the driver is called with. */
#define END(symbol, stream_meant, all, ...)                                                                                    \
    CUresult hook_##symbol(CUstream stream __VA_ARGS__)                                                                        \
    {                                                                                                                          \
        struct stream *ending = is_active() && heap_may_capture() ? stream_resolve(stream_meant(stream)) : NULL;               \
        if (ending)                                                                                                            \
            stream_touch_begin(ending);                                                                                        \
        CUresult result = real.symbol all;                                                                                     \
        if (ending) {                                                                                                          \
            (result == CUDA_SUCCESS ? heap_capture_ends : heap_capture_may_end)(ending);                                       \
            stream_touch_end(ending);                                                                                          \
        }                                                                                                                      \
        return result;                                                                                                         \
    }
END(cuStreamEndCapture, as_it_is, (stream, graph), , CUgraph *graph)
END(cuStreamEndCapture_ptsz, own_default, (stream, graph), , CUgraph *graph)
END(cuStreamEndCaptureToCig, as_it_is, (stream))
END(cuStreamEndCaptureToCig_ptsz, own_default, (stream))

/* Waiting for an event may make the stream join a capture. */
#define WAIT(symbol, stream_meant)                                                                                             \
    CUresult hook_##symbol(CUstream stream, CUevent event, unsigned flags)                                                     \
    {                                                                                                                          \
        struct stream *joining = is_active() && heap_may_capture() ? stream_resolve(stream_meant(stream)) : NULL;              \
        if (joining)                                                                                                           \
            stream_touch_begin(joining);                                                                                       \
        CUresult result = real.symbol(stream, event, flags);                                                                   \
        if (joining)                                                                                                           \
            stream_touch_end(joining);                                                                                         \
        if (order_is_wanted() && result == CUDA_SUCCESS)                                                                       \
            order_event_waited(stream_meant(stream), event, flags);                                                            \
        return result;                                                                                                         \
    }
WAIT(cuStreamWaitEvent, as_it_is)
WAIT(cuStreamWaitEvent_ptsz, own_default)

/* Later work on the stream may no longer depend on earlier work. */
void capture_reordered(CUstream handle, unsigned flags)
{
    int replaces = is_active() && (flags & 1) == CU_STREAM_SET_CAPTURE_DEPENDENCIES;
    struct stream *stream = replaces ? stream_resolve(handle) : NULL;
    if (stream)
        heap_reordered(stream);
}

void graph_made(CUgraph graph)
{
    if (!is_active())
        return;
    heap_graph_made(graph);
    if (inspector_now())
        inspector_now()->graph_made(graph);
}

void graph_instantiated(CUgraphExec executable, CUgraph graph)
{
    if (!is_active())
        return;
    heap_graph_instantiated(executable, graph, graph_wants(graph));
    keepers_follow(executable, graph);
    if (inspector_now())
        inspector_now()->graph_instantiated(executable, graph);
}

/* The driver refuses to update an executable with a graph whose work has moved to memory that another graph allocates: the
 * addresses differ. Of ours it cannot know that. */
CUresult executable_updated(CUresult (*function)(CUgraphExec, CUgraph, CUgraphNode *, CUgraphExecUpdateResult *),
                            CUgraphExec executable, CUgraph graph, CUgraphNode *node, CUgraphExecUpdateResult *why)
{
    keepers_forget(executable, NULL, 0); /* to ask for all nodes again would cost what the update saves */
    if (!is_active() || !heap_graph_allocates(graph))
        return function(executable, graph, node, why);
    if (node)
        *node = NULL;
    if (why)
        *why = CU_GRAPH_EXEC_UPDATE_ERROR;
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CUresult executable_updated_v2(CUresult (*function)(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo *),
                               CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo *why)
{
    keepers_forget(executable, NULL, 0); /* to ask for all nodes again would cost what the update saves */
    if (!is_active() || !heap_graph_allocates(graph))
        return function(executable, graph, why);
    if (why)
        *why = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

void executable_ends(CUgraphExec executable)
{
    heap_executable_gone(executable);
    keepers_forget(executable, NULL, 1);
    if (inspector_now())
        inspector_now()->executable_gone(executable);
    if (order_is_wanted())
        order_graph_gone(executable);
}

/* ---- nodes ---- */

/*
 * Nodes that programs put into graphs by hand to allocate and free memory. What such a node allocates is the driver's. One that
 * frees may be given what a capture has allocated: the driver gets the node that stands for it there (heap_request.node), and
 * what it tells of such nodes is translated back. Copies and sets are checked as those on a stream.
 */

CUresult free_node_added(CUresult (*function)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUdeviceptr),
                         CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count, CUdeviceptr pointer)
{
    CUdeviceptr own = is_ours(pointer) ? heap_node_of(pointer) : 0;
    CUresult result = function(node, graph, nodes, count, own ? own : pointer);
    if (own && result == CUDA_SUCCESS)
        heap_graph_frees(pointer, graph);
    return result;
}

int node_is_within(const struct host_call *call, const CUgraphNodeParams *node)
{
    if (node && node->type == CU_GRAPH_NODE_TYPE_MEMCPY)
        return bounds_node_copies(&node->memcpy.copyParams, node->memcpy.copyCtx);
    if (node && node->type == CU_GRAPH_NODE_TYPE_MEMSET)
        return bounds_within_set_node(call, node->memset.dst, node->memset.pitch, node->memset.elementSize, node->memset.width,
                                      node->memset.height);
    return 1;
}

CUdeviceptr node_begins(CUgraphNodeParams *node)
{
    if (!is_active() || !node || node->type != CU_GRAPH_NODE_TYPE_MEM_FREE || !is_ours(node->free.dptr))
        return 0;
    CUdeviceptr pointer = node->free.dptr, own = heap_node_of(pointer);
    if (own)
        node->free.dptr = own;
    return own ? pointer : 0;
}

void node_ends(CUgraphNodeParams *node, CUdeviceptr freed, CUgraph graph, CUresult result)
{
    if (freed)
        node->free.dptr = freed;
    if (freed && result == CUDA_SUCCESS)
        heap_graph_frees(freed, graph);
    if (node && node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && result == CUDA_SUCCESS)
        node_allocates(node->alloc.bytesize);
    if (node && node->type == CU_GRAPH_NODE_TYPE_GRAPH && result == CUDA_SUCCESS)
        heap_graph_joins(node->graph.graph); /* only one that is moved there may allocate */
}

CUgraphNode *graph_nodes(CUgraph graph, size_t *count)
{
    CUgraphNode *nodes = NULL;
    *count = 0;
    if (driver->cuGraphGetNodes(graph, NULL, count) == CUDA_SUCCESS)
        nodes = malloc(*count * sizeof *nodes);
    if (!nodes || driver->cuGraphGetNodes(graph, nodes, count) != CUDA_SUCCESS)
        *count = 0;
    return nodes;
}

CUgraphNodeType node_type(CUgraphNode node)
{
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    driver->cuGraphNodeGetType(node, &type);
    return type;
}

static int have_nodes; /* atomic: the driver allocates for nodes of some graph */

void graph_has_node(void)
{
    __atomic_store_n(&have_nodes, 1, __ATOMIC_RELAXED);
}

void node_allocates(size_t bytes)
{
    closing_unguarded(UNGUARDED_NODE, bytes);
    graph_has_node();
}

size_t graph_wants(CUgraph graph)
{
    CUDA_MEM_ALLOC_NODE_PARAMS wanted;
    size_t count = 0, sum = 0;
    CUgraphNode *nodes = __atomic_load_n(&have_nodes, __ATOMIC_RELAXED) ? graph_nodes(graph, &count) : NULL;
    for (size_t i = 0; i < count; i++) {
        if (node_type(nodes[i]) == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
            real.cuGraphMemAllocNodeGetParams(nodes[i], &wanted) == CUDA_SUCCESS && wanted.bytesize > 1) /* ours: a byte */
            sum += wanted.bytesize;
    }
    free(nodes);
    return sum;
}

/* A launch that runs out keeps what it has found until then for good (driver 580.159): too late to give back what is kept. */
void graph_makes_room(CUgraphExec executable)
{
    const size_t wanted = __atomic_load_n(&have_nodes, __ATOMIC_RELAXED) ? heap_graph_wants(executable) : 0;
    struct context *context = wanted ? context_current() : NULL;
    cuuint64_t reserved = 0;
    size_t free_bytes, total;
    if (!context)
        return;
    if (driver->cuDeviceGetGraphMemAttribute)
        driver->cuDeviceGetGraphMemAttribute(context->device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &reserved);
    if (real.cuMemGetInfo_v2(&free_bytes, &total) == CUDA_SUCCESS && free_bytes + reserved < wanted)
        relieve(0);
}

void freed_by_node(CUdeviceptr *pointer)
{
    CUdeviceptr own = is_active() ? heap_at_node(*pointer) : 0;
    if (own)
        *pointer = own;
}

void allocated_by_node(CUdeviceptr *pointer, size_t *size)
{
    struct heap_range range;
    CUdeviceptr own = is_active() ? heap_at_node(*pointer) : 0;
    if (own)
        *pointer = own;
    if (own && heap_range_of(own, &range))
        *size = range.size;
}

void node_is_told(CUgraphNodeParams *node)
{
    if (node->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        freed_by_node(&node->free.dptr);
    else if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        allocated_by_node(&node->alloc.dptr, &node->alloc.bytesize);
}
