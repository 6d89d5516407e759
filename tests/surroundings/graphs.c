/* Graphs: captured and made by hand, with memory of their own, updated, and with other graphs in them. */
#include "play.h"

static void launch_twice(CUgraph graph)
{
    CUgraphExec executable;
    NEED(cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
    for (int i = 0; i < 2; i++)
        NEED(cu.cuGraphLaunch(executable, act_streams[0]));
    NEED(cu.cuStreamSynchronize(act_streams[0]));
    NEED(cu.cuGraphExecDestroy(executable));
    NEED(cu.cuGraphDestroy(graph));
}

static void capture(CUdeviceptr to)
{
    CUgraph graph;
    CUdeviceptr own;
    NEED(cu.cuStreamBeginCapture(act_streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    NEED(cu.cuMemAllocAsync(&own, 4000, act_streams[0]));
    NEED(act_fill(act_streams[0], own, 1000, 5));
    NEED(cu.cuMemsetD32Async(to, pick(1000), 500, act_streams[0]));
    NEED(cu.cuMemcpyDtoDAsync(to + 2000, own, 2000, act_streams[0]));
    NEED(cu.cuMemFreeAsync(own, act_streams[0]));
    NEED(cu.cuStreamEndCapture(act_streams[0], &graph));
    launch_twice(graph);
}

static CUDA_KERNEL_NODE_PARAMS fill_of(void **arguments)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = act_kernel("fill"),
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 1,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = arguments};
}

static void add_set(CUgraph graph, CUgraphNode *node, CUdeviceptr to)
{
    CUDA_MEMSET_NODE_PARAMS parameters = {.dst = to, .value = pick(1000), .elementSize = 4, .width = 100, .height = 1};
    CUcontext current;
    NEED(cu.cuDevicePrimaryCtxRetain(&current, 0));
    NEED(cu.cuGraphAddMemsetNode(node, graph, NULL, 0, &parameters, current));
    NEED(cu.cuDevicePrimaryCtxRelease(0));
}

/* A kernel behind a set, launched, given another value, launched again. */
static void update(CUdeviceptr to)
{
    CUgraph graph;
    CUgraphExec executable;
    CUgraphNode set, kernel;
    uint32_t words = 1000, value = pick(1000);
    void *arguments[] = {&to, &words, &value};
    NEED(cu.cuGraphCreate(&graph, 0));
    add_set(graph, &set, to);
    CUDA_KERNEL_NODE_PARAMS parameters = fill_of(arguments);
    NEED(cu.cuGraphAddKernelNode(&kernel, graph, &set, 1, &parameters));
    NEED(cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
    NEED(cu.cuGraphLaunch(executable, act_streams[0]));
    value += 7;
    NEED(cu.cuGraphExecKernelNodeSetParams(executable, kernel, &parameters));
    NEED(cu.cuGraphLaunch(executable, act_streams[0]));
    NEED(cu.cuStreamSynchronize(act_streams[0]));
    NEED(cu.cuGraphExecDestroy(executable));
    NEED(cu.cuGraphDestroy(graph));
}

static void nest(CUdeviceptr to)
{
    CUgraph inner, outer;
    CUgraphNode set, child;
    NEED(cu.cuGraphCreate(&inner, 0));
    NEED(cu.cuGraphCreate(&outer, 0));
    add_set(inner, &set, to);
    NEED(cu.cuGraphAddChildGraphNode(&child, outer, NULL, 0, inner));
    NEED(cu.cuGraphDestroy(inner));
    launch_twice(outer);
}

void act_on_graph(void)
{
    CUdeviceptr to;
    NEED(cu.cuMemAlloc(&to, 4000));
    NEED(cu.cuMemsetD8(to, 1, 4000));
    NEED(cu.cuCtxSynchronize());
    switch (pick(3)) {
    case 0:
        capture(to);
        break;
    case 1:
        update(to);
        break;
    default:
        nest(to);
    }
    step_record("graph", act_hash(to, 4000));
    NEED(cu.cuMemFree(to));
}
