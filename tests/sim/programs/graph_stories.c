/* Memory that graphs allocate: whose launch allocates it again, what frees it, and how long it lives. */
#include "buffers.h"

#include <unistd.h>

static CUcontext here;
static CUstream first;

/* It allocates nothing. */
static CUgraph made_by_hand(void)
{
    CUgraph graph;
    CUgraphNode node;
    const CUDA_MEMSET_NODE_PARAMS set = {kept, 0, 1, 4, WORDS, 1};
    MUST(cu.cuGraphCreate(&graph, 0));
    MUST(cu.cuGraphAddMemsetNode(&node, graph, NULL, 0, &set, here));
    return graph;
}

/* Sets memory of its own, in a graph of the program or (NULL) a new one. */
static CUgraph captured_set(CUgraph into, CUdeviceptr *own, unsigned value)
{
    CUgraph graph;
    if (into)
        MUST(cu.cuStreamBeginCaptureToGraph(first, into, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    else
        MUST(cu.cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cu.cuMemAllocAsync(own, BYTES, first));
    MUST(cu.cuMemsetD32Async(*own, value, WORDS, first));
    MUST(cu.cuStreamEndCapture(first, &graph));
    return graph;
}

/* A graph that allocates nothing has the handle of one that did. */
CASE(graphs, handle_of_another)
{
    CUdeviceptr own;
    CUgraph graph = captured_set(NULL, &own, 5), again;
    CUgraphExecUpdateResultInfo info;
    executable_of(graph);
    MUST(cu.cuGraphDestroy(graph));
    again = made_by_hand();
    say(again == graph ? "update" : "another handle", cu.cuGraphExecUpdate(executable_of(again), again, &info));
}

/* The same for one with a kernel. */
CASE(graphs, handle_of_a_kernel)
{
    CUgraph graph, again;
    MUST(cu.cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(add_one(kept, WORDS, first));
    MUST(cu.cuStreamEndCapture(first, &graph));
    MUST(cu.cuGraphLaunch(executable_of(graph), first));
    MUST(cu.cuGraphDestroy(graph));
    again = made_by_hand();
    say(again == graph ? "launch" : "another handle", cu.cuGraphLaunch(executable_of(again), first));
}

/* A graph that frees the memory of another: captured, or made by hand. */
static CUgraph freeing(CUdeviceptr own, int is_by_hand)
{
    CUgraph graph;
    CUgraphNode node;
    if (is_by_hand) {
        MUST(cu.cuGraphCreate(&graph, 0));
        MUST(cu.cuGraphAddMemFreeNode(&node, graph, NULL, 0, own));
    } else {
        MUST(cu.cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED));
        MUST(cu.cuMemFreeAsync(own, first));
        MUST(cu.cuStreamEndCapture(first, &graph));
    }
    return graph;
}

static void end(CUgraphExec executable, CUgraph graph)
{
    MUST(cu.cuStreamSynchronize(first));
    MUST(cu.cuGraphExecDestroy(executable));
    MUST(cu.cuGraphDestroy(graph));
}

/* Its launch allocates the memory, frees_by() frees it, and both are gone. */
static void allocate_and_free(void (*frees_by)(CUgraphExec executable, CUdeviceptr own))
{
    CUdeviceptr own;
    CUgraph graph = captured_set(NULL, &own, 5);
    CUgraphExec executable = executable_of(graph);
    MUST(cu.cuGraphLaunch(executable, first));
    frees_by(executable, own);
    end(executable, graph);
}

/* Another graph is launched then, and a launch of its own fails. */
static void by_call(CUgraphExec executable, CUdeviceptr own)
{
    static CUgraphExec beside;
    void (*fail)(const char *, unsigned, CUresult);
    *(void **)&fail = driver_of_sim("cusim_fail_call");
    if (!beside)
        beside = executable_of(made_by_hand());
    MUST(cu.cuMemFreeAsync(own, first));
    MUST(cu.cuGraphLaunch(beside, first));
    fail("cuGraphLaunch", 1, CUDA_ERROR_INVALID_VALUE);
    cu.cuGraphLaunch(executable, first);
}

static void by_graph(CUdeviceptr own, int is_by_hand)
{
    CUgraph graph = freeing(own, is_by_hand);
    CUgraphExec executable = executable_of(graph);
    MUST(cu.cuGraphLaunch(executable, first));
    end(executable, graph);
}

static void by_capture(CUgraphExec executable, CUdeviceptr own)
{
    by_graph(own, 0);
}

static void by_hand(CUgraphExec executable, CUdeviceptr own)
{
    by_graph(own, 1);
}

/* When the graph itself is gone already. */
static void free_orphan(int is_by_hand)
{
    CUdeviceptr own;
    CUgraph graph = captured_set(NULL, &own, 5);
    CUgraphExec executable = executable_of(graph);
    MUST(cu.cuGraphLaunch(executable, first));
    end(executable, graph);
    usleep(2000);
    by_graph(own, is_by_hand);
}

/* By a node in the graph itself, made by hand. */
static void free_inside(void)
{
    CUdeviceptr own;
    CUgraphNode node;
    CUgraph graph = captured_set(NULL, &own, 5);
    MUST(cu.cuGraphAddMemFreeNode(&node, graph, NULL, 0, own));
    CUgraphExec executable = executable_of(graph);
    MUST(cu.cuGraphLaunch(executable, first));
    MUST(cu.cuGraphLaunch(executable, first));
    end(executable, graph);
}

CASE(graphs, freed_for_good)
{
    CUdeviceptr own[2];
    CUgraph graph = made_by_hand();
    for (unsigned i = 0; i < 2; i++)
        captured_set(graph, &own[i], i);
    for (int i = 0; i < TIMES; i++) {
        allocate_and_free(i % 3 == 0 ? by_call : i % 3 == 1 ? by_capture : by_hand);
        free_orphan(i & 1);
        free_inside();
    }
    for (int tries = 0; tries < 1000 && stats_of_cufence().mapped_bytes >= TIMES << 19; tries++) {
        MUST(cu.cuCtxSynchronize());
        usleep(10000);
    }
    printf("given back: %s\n", stats_of_cufence().mapped_bytes < TIMES << 19 ? "yes" : "no");
}

/* The background looks for what is gone. */
static void look_aside(void)
{
    for (int i = 0; i < 20; i++) {
        MUST(cu.cuCtxSynchronize());
        usleep(10000);
    }
}

/* Once its graphs are gone. */
static void read_and_free(CUdeviceptr own)
{
    uint32_t word = 0;
    look_aside();
    MUST(cu.cuMemcpyDtoH(&word, own, sizeof word));
    MUST(cu.cuMemFreeAsync(own, first));
    printf("it has %u\n", word);
}

/* Two captures into one graph: a launch allocates the memory of both again, and that outlives the graph. */
CASE(graphs, captured_twice)
{
    CUdeviceptr own[2];
    CUgraph graph;
    MUST(cu.cuGraphCreate(&graph, 0));
    for (unsigned i = 0; i < 2; i++)
        captured_set(graph, &own[i], 5 + i);
    CUgraphExec executable = executable_of(graph);
    MUST(cu.cuGraphLaunch(executable, first));
    for (int i = 0; i < 2; i++)
        MUST(cu.cuMemFreeAsync(own[i], first));
    MUST(cu.cuGraphLaunch(executable, first));
    end(executable, graph);
    for (int i = 0; i < 2; i++)
        read_and_free(own[i]);
}

static void set_and_free(CUstream stream, CUgraph into, CUdeviceptr *own)
{
    MUST(cu.cuStreamBeginCaptureToGraph(stream, into, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cu.cuMemAllocAsync(own, BYTES, stream));
    MUST(cu.cuMemsetD32Async(*own, 5, WORDS, stream));
    MUST(cu.cuMemFreeAsync(*own, stream));
}

/* Two captures into one graph are branches of it, which may run at the same time: they share no memory. */
CASE(graphs, captured_apart)
{
    CUdeviceptr own[2];
    CUgraph graph;
    MUST(cu.cuGraphCreate(&graph, 0));
    for (unsigned i = 0; i < 2; i++) {
        set_and_free(first, graph, &own[i]);
        MUST(cu.cuStreamEndCapture(first, &graph));
    }
    printf("apart: %s\n", own[0] + BYTES <= own[1] || own[1] + BYTES <= own[0] ? "yes" : "no");
}

/* The graph is the program's: it stays when the stream that was captured into it is destroyed. */
CASE(graphs, captured_and_lost)
{
    CUdeviceptr own;
    CUgraph graph;
    CUstream lost;
    MUST(cu.cuGraphCreate(&graph, 0));
    MUST(cu.cuStreamCreate(&lost, CU_STREAM_NON_BLOCKING));
    set_and_free(lost, graph, &own);
    MUST(cu.cuStreamDestroy(lost));
    look_aside();
    say("launch", cu.cuGraphLaunch(executable_of(graph), first));
}

/* ---- captures of several contexts ---- */

static CUstream stream_of_another(void)
{
    CUcontext other;
    MUST(cu.cuCtxCreate(&other, NULL, 0, 0));
    CUstream stream = new_stream();
    MUST(cu.cuCtxSetCurrent(here));
    return stream;
}

static void say_apart(CUdeviceptr a, CUdeviceptr b)
{
    printf("apart: %s\n", a + BYTES <= b || b + BYTES <= a ? "yes" : "no");
}

/* They take turns to capture into one graph: the first has other memory each time, and an executable keeps it. */
CASE(graphs, captured_by_two)
{
    CUdeviceptr own[3];
    CUgraph graph;
    CUgraphExec executable = NULL;
    CUstream streams[3] = {first, stream_of_another(), first};
    MUST(cu.cuGraphCreate(&graph, 0));
    for (int i = 0; i < 3; i++) {
        set_and_free(streams[i], graph, &own[i]);
        MUST(cu.cuStreamEndCapture(streams[i], &graph));
        if (!executable)
            executable = executable_of(graph);
    }
    say_apart(own[0], own[2]);
    MUST(cu.cuGraphDestroy(graph));
    look_aside();
    say("launch", cu.cuGraphLaunch(executable, first));
}

static void follows(CUstream stream, CUstream leads)
{
    CUcontext context;
    CUevent event;
    MUST(cu.cuStreamGetCtx(leads, &context));
    MUST(cu.cuCtxSetCurrent(context));
    MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(cu.cuEventRecord(event, leads));
    MUST(cu.cuStreamWaitEvent(stream, event, 0));
    MUST(cu.cuEventDestroy(event));
    MUST(cu.cuCtxSetCurrent(here));
}

/* Captures with a stream of another context. frees: NULL: nobody. */
static CUgraph joined(CUgraph into, CUstream other, CUstream allocates, CUstream frees, CUdeviceptr *own)
{
    CUgraph graph;
    if (into)
        MUST(cu.cuStreamBeginCaptureToGraph(first, into, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    else
        MUST(cu.cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED));
    follows(other, first);
    MUST(cu.cuMemAllocAsync(own, BYTES, allocates));
    MUST(cu.cuMemsetD32Async(*own, 5, WORDS, allocates));
    follows(first, other);
    follows(other, first);
    if (frees)
        MUST(cu.cuMemFreeAsync(*own, frees));
    follows(first, other);
    MUST(cu.cuStreamEndCapture(first, &graph));
    return graph;
}

CASE(graphs, joined_by_another)
{
    CUdeviceptr own[2];
    CUcontext context;
    CUstream other = stream_of_another();
    CUstream streams[] = {first, other, NULL};
    CUgraph graph;
    MUST(cu.cuStreamGetCtx(other, &context));
    for (int i = 0; i < 2 * TIMES; i++) {

        CUstream frees = streams[i / 2 % 3];
        graph = joined(NULL, other, streams[i & 1], frees, own);
        CUgraphExec executable = executable_of(graph);
        MUST(cu.cuGraphLaunch(executable, first));
        if (!frees)
            MUST(cu.cuMemFreeAsync(own[0], first));
        end(executable, graph);
    }
    for (int tries = 0; tries < 10 && stats_of_cufence().mapped_bytes >= TIMES << 18; tries++) {
        MUST(cu.cuCtxSetCurrent(context));
        MUST(cu.cuCtxSynchronize());
        MUST(cu.cuCtxSetCurrent(here));
        look_aside();
        MUST(cu.cuDeviceGraphMemTrim(0));
    }
    printf("given back: %s\n", stats_of_cufence().mapped_bytes < TIMES << 18 ? "yes" : "no");
    MUST(cu.cuGraphCreate(&graph, 0));
    for (int i = 0; i < 2; i++)
        joined(graph, other, other, other, &own[i]);
    say_apart(own[0], own[1]);
    for (int i = 0; i < 2; i++) { /* what a launch allocates outlives the graph */
        graph = joined(NULL, other, streams[i], NULL, own);
        CUgraphExec executable = executable_of(graph);
        MUST(cu.cuGraphLaunch(executable, first));
        end(executable, graph);
        read_and_free(own[0]);
    }
}

/* A graph of another context would free the memory of one that is gone, but is never launched. */
CASE(graphs, never_freed_elsewhere)
{
    CUdeviceptr own;
    CUcontext context;
    CUstream other = stream_of_another();
    CUgraph graph = captured_set(NULL, &own, 5), frees;
    CUgraphExec executable = executable_of(graph);
    MUST(cu.cuGraphLaunch(executable, first));
    end(executable, graph);
    look_aside();
    MUST(cu.cuStreamGetCtx(other, &context));
    MUST(cu.cuCtxSetCurrent(context));
    MUST(cu.cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cu.cuMemFreeAsync(own, other));
    MUST(cu.cuStreamEndCapture(other, &frees));
    MUST(cu.cuGraphDestroy(frees));
    MUST(cu.cuCtxSynchronize());
    MUST(cu.cuCtxSetCurrent(here));
    read_and_free(own);
}

/* A child graph has the handle of one that allocated and whose executable is still there. */
CASE(graphs, child_with_handle)
{
    CUdeviceptr own;
    CUgraph graph = captured_set(NULL, &own, 5), plain = made_by_hand(), parent, child;
    CUgraphNode node;
    CUgraphExec executable = executable_of(graph);
    CUgraphExecUpdateResultInfo info;
    MUST(cu.cuGraphCreate(&parent, 0));
    MUST(cu.cuGraphAddChildGraphNode(&node, parent, NULL, 0, plain));
    MUST(cu.cuGraphDestroy(graph));
    MUST(cu.cuGraphChildGraphNodeGetGraph(node, &child));
    say(child == graph ? "update" : "another handle", cu.cuGraphExecUpdate(executable_of(plain), child, &info));
    MUST(cu.cuGraphExecDestroy(executable));
}

/* A second capture into the graph frees what the first has allocated; an executable of before does not. */
CASE(graphs, freed_by_the_second)
{
    CUdeviceptr own;
    CUgraph graph;
    MUST(cu.cuGraphCreate(&graph, 0));
    captured_set(graph, &own, 5);
    CUgraphExec executable = executable_of(graph);
    MUST(cu.cuGraphLaunch(executable, first));
    MUST(cu.cuGraphExecDestroy(executable));
    MUST(cu.cuStreamBeginCaptureToGraph(first, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cu.cuMemFreeAsync(own, first));
    MUST(cu.cuStreamEndCapture(first, &graph));
    executable = executable_of(graph);
    read_and_free(own);
    MUST(cu.cuGraphLaunch(executable, first));
    MUST(cu.cuGraphLaunch(executable, first));
    end(executable, graph);
    look_aside();
}

/* From a pool of another device, which may use the memory, as the driver is told by the node's. */
CASE(graphs, pool_elsewhere)
{
    const CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
    CUmemoryPool pool;
    CUdeviceptr own;
    CUgraph graph;
    int device = -1;
    MUST(cu.cuMemPoolCreate(&pool, &properties));
    MUST(cu.cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cu.cuMemAllocFromPoolAsync(&own, BYTES, pool, first));
    MUST(cu.cuStreamEndCapture(first, &graph));
    MUST(cu.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, own));
    printf("on device %d\n", device);
    CUgraphExec executable = executable_of(graph);
    for (int i = 0; i < 2; i++) {
        MUST(cu.cuGraphLaunch(executable, first));
        MUST(cu.cuStreamSynchronize(first));
        use_device(1);
        MUST(add_one(own, WORDS, new_stream()));
        say("used there", cu.cuCtxSynchronize());
        MUST(cu.cuCtxSetCurrent(here));
        MUST(i ? cu.cuMemFree(own) : cu.cuMemFreeAsync(own, first));
    }
    end(executable, graph);
    look_aside();
}

/* What a launch has allocated again outlives the graph that has freed it before, or never did. */
static void outlive(int is_by_hand, int times)
{
    CUdeviceptr own;
    CUgraph graph = captured_set(NULL, &own, 5);
    CUgraphExec executable = executable_of(graph);
    MUST(cu.cuGraphLaunch(executable, first));
    CUgraph other = freeing(own, is_by_hand);
    CUgraphExec frees = executable_of(other);
    for (int i = 0; i < times; i++) {
        MUST(cu.cuGraphLaunch(frees, first));
        MUST(cu.cuGraphLaunch(executable, first));
    }
    end(executable, graph);
    end(frees, other);
    read_and_free(own);
}

CASE(graphs, allocated_again)
{
    for (int i = 0; i < 4; i++)
        outlive(i & 1, i >> 1);
}

/* It outlives its own graph, and another, which would free it, but is never launched. */
CASE(graphs, never_freed)
{
    for (int is_by_hand = 0; is_by_hand < 2; is_by_hand++) {
        CUdeviceptr own;
        CUgraph graph = captured_set(NULL, &own, 5);
        CUgraphExec executable = executable_of(graph);
        MUST(cu.cuGraphLaunch(executable, first));
        end(executable, graph);
        usleep(200000); /* the background looks */
        CUgraph other = freeing(own, is_by_hand);
        end(executable_of(other), other);
        read_and_free(own);
    }
}

STORY(graphs)
{
    return play_with_buffer(count, arguments, &here, &first);
}
