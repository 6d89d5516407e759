/* Memory that graphs allocate and free: by capture, by nodes made by hand, updated, cloned, shared. */
#include "contract.h"

#define NODES "CUDA Programming Guide, Graph Memory Nodes"
#define LIVES                                                                                                                  \
    NODES ": an allocation lives from its node until a free node, cuMemFreeAsync or cuMemFree; not only until the graph ends"

static CUgraph captured(CUstream stream, CUdeviceptr *pointer, int value)
{
    capture_begin(stream);
    MUST(cuMemAllocAsync(pointer, 1000, stream));
    MUST(cuMemsetD8Async(*pointer, (unsigned char)value, 1000, stream));
    CUgraph graph = capture_end(stream);
    return graph;
}

static const char *seen(CUstream stream, CUdeviceptr pointer)
{
    MUST(cuStreamSynchronize(stream));
    return ends_of(pointer, 1000);
}

PROMISE(graph_freed_outside, 1, LIVES)
{
    CUdeviceptr pointer;
    CUstream stream = stream_new();
    CUgraphExec executable = instantiated(captured(stream, &pointer, 7), 0);
    for (int i = 0; i < 4; i++) {
        MUST(cuGraphLaunch(executable, stream));
        printf("%s; ", seen(stream, pointer));
        if (i % 2)
            ASK(cuMemFree(pointer));
        else
            ASK(cuMemFreeAsync(pointer, stream));
    }
}

PROMISE(graph_not_freed, 1, NODES ": a graph cannot be launched again while its allocation is not freed")
{
    CUdeviceptr pointer;
    CUstream stream = stream_new();
    CUgraphExec executable = instantiated(captured(stream, &pointer, 7), 0);
    ASK(cuGraphLaunch(executable, stream));
    ASK(cuGraphLaunch(executable, stream));
    ASK(cuStreamSynchronize(stream));
    ASK(cuMemFreeAsync(pointer, stream));
    ASK(cuMemFreeAsync(pointer, stream));
    ASK(cuGraphLaunch(executable, stream));
    ASK(cuStreamSynchronize(stream));
}

PROMISE(graph_auto_free, 1,
        "cuda.h, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH: frees what is allocated before it is launched again")
{
    CUdeviceptr pointer;
    CUstream stream = stream_new();
    CUgraphExec executable = instantiated(captured(stream, &pointer, 7), CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    for (int i = 0; i < 3; i++) {
        MUST(cuGraphLaunch(executable, stream));
        printf("%s; ", seen(stream, pointer));
    }
    ASK(cuMemFreeAsync(pointer, stream));
}

PROMISE(graph_gone_first, 1, LIVES)
{
    CUdeviceptr pointer;
    CUstream stream = stream_new();
    CUgraph graph = captured(stream, &pointer, 7);
    CUgraphExec executable = instantiated(graph, 0);
    MUST(cuGraphLaunch(executable, stream));
    MUST(cuGraphExecDestroy(executable));
    MUST(cuGraphDestroy(graph));
    printf("%s; ", seen(stream, pointer));
    usleep(400000);
    printf("%s; ", seen(stream, pointer));
    ASK(cuMemFreeAsync(pointer, stream));
}

PROMISE(graph_freed_by_another, 1, LIVES)
{
    CUdeviceptr pointer;
    CUstream stream = stream_new();
    CUgraphExec executable = instantiated(captured(stream, &pointer, 7), 0);
    MUST(cuGraphLaunch(executable, stream));
    capture_begin(stream);
    ASK(cuMemFreeAsync(pointer, stream));
    CUgraph other = capture_end(stream);
    CUgraphExec freeing = instantiated(other, 0);
    for (int i = 0; i < 3; i++) {
        printf("%s; ", seen(stream, pointer));
        MUST(cuGraphLaunch(freeing, stream));
        MUST(cuGraphLaunch(executable, stream));
    }
    ASK(cuMemFreeAsync(pointer, stream));
}

PROMISE(graph_freed_by_hand, 1, "cuda.h, cuGraphAddMemFreeNode: dptr is the address of memory of a graph")
{
    CUdeviceptr pointer;
    CUgraphNode node;
    CUstream stream = stream_new();
    CUgraphExec executable = instantiated(captured(stream, &pointer, 7), 0);
    CUdeviceptr plain = plain_memory(1000), pool = pool_memory(1000, stream);
    CUgraph other = graph_new();
    ASK(cuGraphAddMemFreeNode(&node, other, NULL, 0, plain));
    ASK(cuGraphAddMemFreeNode(&node, other, NULL, 0, pool));
    ASK(cuGraphAddMemFreeNode(&node, other, NULL, 0, 0));
    if (ASK(cuGraphAddMemFreeNode(&node, other, NULL, 0, pointer)) != CUDA_SUCCESS)
        return;
    ASK(cuGraphAddMemFreeNode(&node, other, NULL, 0, pointer));
    CUgraphExec freeing = instantiated(other, 0);
    for (int i = 0; i < 3; i++) {
        MUST(cuGraphLaunch(executable, stream));
        printf("%s; ", seen(stream, pointer));
        MUST(cuGraphLaunch(freeing, stream));
        ASK(cuStreamSynchronize(stream));
    }
    CUdeviceptr told = 0;
    ASK(cuGraphMemFreeNodeGetParams(node, &told));
    printf("the node's address is the memory's: %d\n", told == pointer);
}

PROMISE(graph_by_hand, 1, NODES ": nodes made by cuGraphAddMemAllocNode")
{
    CUDA_MEM_ALLOC_NODE_PARAMS wanted = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
        .bytesize = 1000};
    CUDA_MEMSET_NODE_PARAMS set = {.value = 9, .elementSize = 1, .width = 1000, .height = 1};
    CUgraphNode allocation, setting;
    CUcontext context = primary(0);
    CUstream stream = stream_new();
    CUgraph graph = graph_new();
    ASK(cuGraphAddMemAllocNode(&allocation, graph, NULL, 0, &wanted));
    set.dst = wanted.dptr;
    ASK(cuGraphAddMemsetNode(&setting, graph, &allocation, 1, &set, context));
    CUgraphExec executable = instantiated(graph, 0);
    MUST(cuGraphLaunch(executable, stream));
    printf("%s; ", seen(stream, wanted.dptr));
    ASK(cuMemFreeAsync(wanted.dptr, stream));
    MUST(cuStreamSynchronize(stream));
}

PROMISE(graph_node_any, 1, NODES ": nodes made by cuGraphAddNode")
{
    CUgraphNodeParams wanted = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    CUgraphNode allocation, end;
    CUstream stream = stream_new();
    wanted.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    wanted.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    wanted.alloc.bytesize = 1000;
    CUgraph graph = graph_new();
    ASK(cuGraphAddNode(&allocation, graph, NULL, NULL, 0, &wanted));
    CUgraphNodeParams freed = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE};
    freed.free.dptr = wanted.alloc.dptr;
    ASK(cuGraphAddNode(&end, graph, &allocation, NULL, 1, &freed));
    CUgraphExec executable = instantiated(graph, 0);
    ASK(cuGraphLaunch(executable, stream));
    ASK(cuStreamSynchronize(stream));
}

PROMISE(graph_into_own, 1, "cuda.h, cuStreamBeginCaptureToGraph: captures into an existing graph")
{
    CUstream stream = stream_new();
    CUgraph graph = graph_new();
    MUST(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUdeviceptr first = pool_memory(1000, stream);
    MUST(cuMemsetD8Async(first, 7, 1000, stream));
    CUgraph out = capture_end(stream);
    printf("the same graph: %d\n", out == graph);
    MUST(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUdeviceptr second = pool_memory(1000, stream);
    MUST(cuMemsetD8Async(second, 9, 1000, stream));
    MUST(cuStreamEndCapture(stream, &out));
    CUgraphExec executable = instantiated(graph, 0);
    for (int i = 0; i < 2; i++) {
        MUST(cuGraphLaunch(executable, stream));
        printf("%s, ", seen(stream, first));
        printf("%s\n", seen(stream, second));
        ASK(cuMemFreeAsync(first, stream));
        ASK(cuMemFreeAsync(second, stream));
    }
}

static cuuint64_t capture_id(CUstream stream, CUgraph into)
{
    CUstreamCaptureStatus status;
    cuuint64_t id = 0;
    CUgraph out;
    if (into)
        MUST(cuStreamBeginCaptureToGraph(stream, into, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    else
        capture_begin(stream);
    MUST(cuStreamGetCaptureInfo(stream, &status, &id, &out, NULL, NULL, NULL));
    return id;
}

PROMISE(capture_ids, 1, "cuda.h, cuStreamGetCaptureInfo: the id of a capture, which is that of its graph")
{
    CUstream stream = stream_new(), other = stream_new();
    CUgraph graph = graph_new();
    cuuint64_t into = capture_id(stream, graph);
    printf("at once: %s\n",
           result_name(cuStreamBeginCaptureToGraph(other, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED)));
    capture_end(stream);
    printf("again the same: %d\n", capture_id(stream, graph) == into);
    capture_end(stream);
    cuuint64_t plain = capture_id(stream, NULL);
    CUgraph captured = capture_end(stream);
    printf("another graph, the same: %d\n", plain == into);
    printf("into what was captured, the same: %d\n", capture_id(stream, captured) == plain);
    capture_end(stream);
}

PROMISE(graph_updated, 1, "cuda.h, cuGraphExecUpdate: an executable with allocation nodes cannot be updated")
{
    CUgraphExecUpdateResultInfo info = {0};
    CUgraph graphs[2];
    CUstream stream = stream_new();
    CUdeviceptr kept = plain_memory(1000);
    for (int i = 0; i < 2; i++) {
        capture_begin(stream);
        CUdeviceptr pointer = pool_memory(1000, stream);
        MUST(cuMemsetD8Async(pointer, (unsigned char)(7 + i), 1000, stream));
        MUST(cuMemcpyDtoDAsync(kept, pointer, 1000, stream));
        MUST(cuMemFreeAsync(pointer, stream));
        MUST(cuStreamEndCapture(stream, &graphs[i]));
    }
    CUgraphExec executable = instantiated(graphs[0], 0);
    MUST(cuGraphLaunch(executable, stream));
    printf("%s\n", seen(stream, kept));
    if (ASK(cuGraphExecUpdate(executable, graphs[1], &info)) == CUDA_SUCCESS) {
        MUST(cuGraphDestroy(graphs[0]));
        MUST(cuGraphDestroy(graphs[1]));
        usleep(300000);
    }
    printf("the reason: %d\n", (int)info.result);
    MUST(cuGraphLaunch(executable, stream));
    printf("%s\n", seen(stream, kept));
}

PROMISE(graph_cloned, 1, "cuda.h, cuGraphClone: graphs with allocation nodes cannot be cloned; nor can they be child graphs")
{
    CUgraph clone = NULL;
    CUgraphNode node;
    CUstream stream = stream_new();
    capture_begin(stream);
    CUdeviceptr pointer = pool_memory(1000, stream);
    MUST(cuMemFreeAsync(pointer, stream));
    CUgraph graph = capture_end(stream);
    ASK(cuGraphClone(&clone, graph));
    CUgraph parent = graph_new();
    ASK(cuGraphAddChildGraphNode(&node, parent, NULL, 0, graph));
}

PROMISE(graph_instantiated_twice, 1, NODES ": a graph with memory nodes has one executable at a time")
{
    CUdeviceptr pointer;
    CUgraphExec first, second;
    CUstream stream = stream_new();
    CUgraph graph = captured(stream, &pointer, 7);
    ASK(cuGraphInstantiate(&first, graph, 0));
    ASK(cuGraphInstantiate(&second, graph, 0));
    MUST(cuGraphLaunch(first, stream));
    free_and_await(pointer, stream);
    MUST(cuGraphExecDestroy(first));
    ASK(cuGraphInstantiate(&second, graph, 0));
    MUST(cuGraphLaunch(second, stream));
    printf("%s; ", seen(stream, pointer));
    ASK(cuMemFreeAsync(pointer, stream));
}

PROMISE(graph_two_streams, 1, NODES ": allocations are ordered as nodes are")
{
    CUstream stream = stream_new(), other = stream_new();
    CUevent forked = event_new(), joined = event_new();
    MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(cuEventRecord(forked, stream));
    MUST(cuStreamWaitEvent(other, forked, 0));
    CUdeviceptr first = pool_memory(1000, other);
    MUST(cuMemsetD8Async(first, 5, 1000, other));
    CUdeviceptr second = pool_memory(1000, stream);
    MUST(cuMemsetD8Async(second, 6, 1000, stream));
    MUST(cuEventRecord(joined, other));
    MUST(cuStreamWaitEvent(stream, joined, 0));
    MUST(cuMemFreeAsync(second, stream));
    CUgraph graph = capture_end(stream);
    CUgraphExec executable = instantiated(graph, 0);
    MUST(cuGraphLaunch(executable, stream));
    printf("%s; ", seen(stream, first));
    ASK(cuMemFreeAsync(first, other));
    MUST(cuStreamSynchronize(other));
    MUST(cuGraphLaunch(executable, other));
    printf("%s\n", seen(other, first));
}

PROMISE(graph_memory_before_launch, 1,
        "cuda.h, cuMemFreeAsync: during capture it makes a free node, and must be given a graph allocation")
{
    CUgraph graph = NULL;
    CUstream stream = stream_new();
    CUdeviceptr pool = ready_memory(1000, stream);
    capture_begin(stream);
    CUdeviceptr pointer = pool_memory(1000, stream);
    ASK(cuMemFreeAsync(pool, stream));
    ASK(cuMemFree(pointer));
    ASK(cuMemFreeAsync(pointer, stream));
    ASK(cuMemFreeAsync(pointer, stream));
    ASK(cuStreamEndCapture(stream, &graph));
    graph = captured(stream, &pointer, 7);
    ASK(cuMemFreeAsync(pointer, stream));
    ASK(cuMemFree(pointer));
    MUST(cuGraphLaunch(instantiated(graph, 0), stream));
    printf("%s; ", seen(stream, pointer));
    ASK(cuMemFree(pointer));
}

PROMISE(graph_conditional, 1, "cuda.h, cuGraphConditionalHandleCreate; the memory of other graphs has nothing to do with it")
{
    CUdeviceptr pointer;
    CUgraphConditionalHandle handle;
    CUcontext context = primary(0);
    CUstream stream = stream_new();
    CUresult result = CUDA_SUCCESS;
    int count = 0;
    CUgraph graph = graph_new();
    ASK(cuGraphConditionalHandleCreate(&handle, graph, context, 0, 0));
    MUST(cuGraphDestroy(graph));
    for (; count < 40 && result == CUDA_SUCCESS; count++) {
        capture_begin(stream);
        result = cuMemAllocAsync(&pointer, share(5), stream);
        if (result == CUDA_SUCCESS)
            result = cuMemFreeAsync(pointer, stream);
        MUST(cuStreamEndCapture(stream, &graph));
        CUgraphExec executable = instantiated(graph, 0);
        MUST(cuGraphLaunch(executable, stream));
        MUST(cuStreamSynchronize(stream));
        MUST(cuGraphExecDestroy(executable));
        MUST(cuGraphDestroy(graph));
    }
    printf("%d graphs: %s\n", count, result_name(result));
}
