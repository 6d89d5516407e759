/* Addresses of buffers that graphs and textures keep. */
#include "buffers.h"
#include "textures.h"

#include <unistd.h>

static CUcontext here;
static CUstream first;

/* ---- wrong: copies and sets of graphs, and textures. The launch is refused ---- */

static CUgraph captured_copy(CUdeviceptr from, CUdeviceptr to)
{
    CUgraph graph;
    MUST(cu.cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(cu.cuMemcpyDtoDAsync(to, from, BYTES, first));
    MUST(cu.cuStreamEndCapture(first, &graph));
    return graph;
}

static CUDA_MEMCPY3D copy_of(CUdeviceptr from, CUdeviceptr to)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = from,
                           .srcPitch = BYTES / 4,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = to,
                           .dstPitch = BYTES / 4,
                           .WidthInBytes = BYTES / 4,
                           .Height = 4,
                           .Depth = 1};
}

static void change_copy(CUgraphExec executable, CUgraphNode node, CUdeviceptr from, CUdeviceptr to)
{
    const CUDA_MEMCPY3D copy = copy_of(from, to);
    MUST(cu.cuGraphExecMemcpyNodeSetParams(executable, node, &copy, here));
}

/* One that the program makes itself, of rows. */
static CUgraphExec made_of_copy(CUgraphNode *node, CUdeviceptr from, CUdeviceptr to)
{
    CUgraph graph;
    const CUDA_MEMCPY3D copy = copy_of(from, to);
    MUST(cu.cuGraphCreate(&graph, 0));
    MUST(cu.cuGraphAddMemcpyNode(node, graph, NULL, 0, &copy, here));
    return executable_of(graph);
}

/* The second launch comes behind the free; the memory would serve the buffer that is allocated in between. */
static void launch_around_free(CUgraphExec executable, CUdeviceptr buffer)
{
    MUST(cu.cuGraphLaunch(executable, first));
    MUST(cu.cuMemFreeAsync(buffer, first));
    allocate(BYTES, first);
    say("launch", cu.cuGraphLaunch(executable, first));
}

CASE(kept, copy_node)
{
    CUdeviceptr buffer = allocate(BYTES, first);
    launch_around_free(executable_of(captured_copy(buffer, allocate(BYTES, first))), buffer);
}

CASE(kept, copy_node_to)
{
    CUdeviceptr buffer = allocate(BYTES, first);
    CUgraphExec executable = executable_of(captured_copy(kept, buffer));
    MUST(cu.cuStreamSynchronize(first));
    MUST(cu.cuMemFree(buffer));
    say("launch", cu.cuGraphLaunch(executable, first));
}

CASE(kept, copy_node_by_hand)
{
    CUgraphNode node;
    CUdeviceptr buffer = allocate(BYTES, first);
    launch_around_free(made_of_copy(&node, buffer, allocate(BYTES, first)), buffer);
}

static CUgraph parent_of(CUgraph child, CUgraphNode *node)
{
    CUgraph parent;
    MUST(cu.cuGraphCreate(&parent, 0));
    MUST(cu.cuGraphAddChildGraphNode(node, parent, NULL, 0, child));
    return parent;
}

CASE(kept, copy_in_child)
{
    CUgraphNode node;
    CUdeviceptr buffer = allocate(BYTES, first);
    CUgraph inner = captured_copy(buffer, allocate(BYTES, first));
    launch_around_free(executable_of(parent_of(parent_of(inner, &node), &node)), buffer);
}

CASE(kept, set_node)
{
    CUgraph graph;
    CUdeviceptr buffer = allocate(BYTES, first);
    MUST(cu.cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(cu.cuMemsetD2D8Async(buffer, BYTES / 4, 7, BYTES / 8, 4, first));
    MUST(cu.cuStreamEndCapture(first, &graph));
    launch_around_free(executable_of(graph), buffer);
}

CASE(kept, copy_node_updated)
{
    CUgraphNode node;
    CUdeviceptr old = allocate(BYTES, first), buffer = allocate(BYTES, first), to = allocate(BYTES, first);
    CUgraphExec executable = made_of_copy(&node, old, to);
    change_copy(executable, node, buffer, to);
    launch_around_free(executable, buffer);
}

/* A node that is given the buffer, for the copy also before, while it is disabled. */
static CUgraphExec disabled_copy(CUgraphNode *node, CUdeviceptr buffer)
{
    CUgraphExec executable = made_of_copy(node, buffer, kept);
    MUST(cu.cuGraphNodeSetEnabled(executable, *node, 0));
    change_copy(executable, *node, buffer, kept);
    return executable;
}

static CUgraphExec disabled_set(CUgraphNode *node, CUdeviceptr buffer)
{
    CUgraph graph;
    CUDA_MEMSET_NODE_PARAMS set = {kept, 0, 1, 4, WORDS, 1};
    MUST(cu.cuGraphCreate(&graph, 0));
    MUST(cu.cuGraphAddMemsetNode(node, graph, NULL, 0, &set, here));
    CUgraphExec executable = executable_of(graph);
    MUST(cu.cuGraphNodeSetEnabled(executable, *node, 0));
    set.dst = buffer;
    MUST(cu.cuGraphExecMemsetNodeSetParams(executable, *node, &set, here));
    return executable;
}

#define ENABLED(what)                                                                                                          \
    CASE(kept, what##_enabled)                                                                                                 \
    {                                                                                                                          \
        CUgraphNode node;                                                                                                      \
        CUdeviceptr buffer = allocate(BYTES, first);                                                                           \
        CUgraphExec executable = disabled_##what(&node, buffer);                                                               \
        MUST(cu.cuMemFreeAsync(buffer, first));                                                                                \
        MUST(cu.cuGraphLaunch(executable, first));                                                                             \
        MUST(cu.cuGraphNodeSetEnabled(executable, node, 1));                                                                   \
        say("launch", cu.cuGraphLaunch(executable, first));                                                                    \
    }
ENABLED(copy)
ENABLED(set)

CASE(kept, texture)
{
    CUdeviceptr buffer = allocate(BYTES, first), out = allocate(BYTES, first);
    CUtexObject texture = texture_of(buffer);
    MUST(look_up(texture, out, first));
    MUST(cu.cuMemFreeAsync(buffer, first));
    allocate(BYTES, first);
    say("launch", look_up(texture, out, first));
}

/* ---- right: copies and sets of graphs, and textures ---- */

CASE(kept, copy_without_its_graph)
{
    CUdeviceptr buffer = allocate(BYTES, first), to = allocate(BYTES, first);
    CUgraphExec executable = executable_of(captured_copy(buffer, to)), other = executable_of(captured_copy(to, kept));
    MUST(cu.cuGraphLaunch(executable, first));
    MUST(cu.cuGraphExecDestroy(executable));
    MUST(cu.cuMemFreeAsync(buffer, first));
    MUST(cu.cuGraphLaunch(other, first));
}

/* The node gets other memory before its own is freed: by its parameters, or by another graph. */
CASE(kept, copy_moved)
{
    CUgraphNode node;
    CUdeviceptr buffer = allocate(BYTES, first), to = allocate(BYTES, first);
    CUgraphExec executable = made_of_copy(&node, buffer, to);
    change_copy(executable, node, kept, to);
    launch_around_free(executable, buffer);
}

CASE(kept, child_moved)
{
    CUgraphNode node;
    CUdeviceptr buffer = allocate(BYTES, first), to = allocate(BYTES, first);
    CUgraphExec executable = executable_of(parent_of(captured_copy(buffer, to), &node));
    MUST(cu.cuGraphExecChildGraphNodeSetParams(executable, node, captured_copy(kept, to)));
    launch_around_free(executable, buffer);
}

/* The driver refuses to change the node. */
CASE(kept, copy_not_moved)
{
    CUgraphNode node;
    CUdeviceptr buffer = allocate(BYTES, first), to = allocate(BYTES, first);
    CUgraphExec executable = made_of_copy(&node, kept, to);
    CUDA_MEMCPY3D copy = copy_of(buffer, to);
    copy.srcLOD = 1;
    say("change", cu.cuGraphExecMemcpyNodeSetParams(executable, node, &copy, here));
    launch_around_free(executable, buffer);
}

/* cufence refuses it: the node writes where it did before, but would read past an end. */
CASE(kept, copy_refused)
{
    CUgraphNode node;
    CUdeviceptr buffer = allocate(BYTES, first), to = allocate(BYTES, first);
    CUgraphExec executable = made_of_copy(&node, kept, to);
    const CUDA_MEMCPY3D copy = copy_of(kept + 8, buffer);
    say("change", cu.cuGraphExecMemcpyNodeSetParams(executable, node, &copy, here));
    launch_around_free(executable, buffer);
}

CASE(kept, copy_updated)
{
    CUgraphExecUpdateResultInfo info;
    CUdeviceptr buffer = allocate(BYTES, first), to = allocate(BYTES, first);
    CUgraphExec executable = executable_of(captured_copy(buffer, to));
    MUST(cu.cuGraphExecUpdate(executable, captured_copy(kept, to), &info));
    launch_around_free(executable, buffer);
}

/* Each launch allocates the memory again, which the program frees. */
CASE(kept, copy_of_its_own)
{
    CUgraph graph;
    CUdeviceptr own;
    MUST(cu.cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(cu.cuMemAllocAsync(&own, BYTES, first));
    MUST(cu.cuMemsetD32Async(own, 5, WORDS, first));
    MUST(cu.cuMemcpyDtoDAsync(kept, own, BYTES, first));
    MUST(cu.cuStreamEndCapture(first, &graph));
    CUgraphExec executable = executable_of(graph);
    for (int i = 0; i < 3; i++) {
        MUST(cu.cuGraphLaunch(executable, first));
        MUST(cu.cuMemFreeAsync(own, first));
    }
}

/* ---- right: graphs that allocate, and others ---- */

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
CASE(kept, handle_of_another)
{
    CUdeviceptr own;
    CUgraph graph = captured_set(NULL, &own, 5), again;
    CUgraphExecUpdateResultInfo info;
    CUgraphNode node;
    const CUDA_MEMCPY3D copy = copy_of(kept, allocate(BYTES, first));
    executable_of(graph);
    MUST(cu.cuGraphDestroy(graph));
    MUST(cu.cuGraphCreate(&again, 0));
    MUST(cu.cuGraphAddMemcpyNode(&node, again, NULL, 0, &copy, here));
    say(again == graph ? "update" : "another handle", cu.cuGraphExecUpdate(executable_of(again), again, &info));
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
    CUgraphNode node;
    void (*fail)(const char *, unsigned, CUresult);
    *(void **)&fail = driver_of_sim("cusim_fail_call");
    if (!beside)
        beside = made_of_copy(&node, kept, allocate(BYTES, first));
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

CASE(kept, freed_for_good)
{
    for (int i = 0; i < TIMES; i++) {
        allocate_and_free(i % 3 == 0 ? by_call : i % 3 == 1 ? by_capture : by_hand);
        free_orphan(i & 1);
    }
    for (int tries = 0; tries < 1000 && stats_of_cufence().mapped_bytes >= TIMES << 19; tries++) {
        MUST(cu.cuCtxSynchronize());
        usleep(10000);
    }
    printf("given back: %s\n", stats_of_cufence().mapped_bytes < TIMES << 19 ? "yes" : "no");
}

/* Once its graphs are gone. */
static void read_and_free(CUdeviceptr own)
{
    uint32_t word = 0;
    for (int i = 0; i < 20; i++) { /* the background looks */
        MUST(cu.cuCtxSynchronize());
        usleep(10000);
    }
    MUST(cu.cuMemcpyDtoH(&word, own, sizeof word));
    MUST(cu.cuMemFreeAsync(own, first));
    printf("it has %u\n", word);
}

/* Two captures into one graph: a launch allocates the memory of both again, and that outlives the graph. */
CASE(kept, captured_twice)
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

CASE(kept, allocated_again)
{
    for (int i = 0; i < 4; i++)
        outlive(i & 1, i >> 1);
}

/* It outlives its own graph, and another, which would free it, but is never launched. */
CASE(kept, never_freed)
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

CASE(kept, texture_in_order)
{
    CUdeviceptr out = allocate(BYTES, first);
    for (int i = 0; i < TIMES; i++) {
        CUdeviceptr buffer = allocate(BYTES, first);
        CUtexObject texture = texture_of(buffer);
        MUST(look_up(texture, out, first));
        MUST(cu.cuStreamSynchronize(first));
        MUST(cu.cuTexObjectDestroy(texture));
        MUST(cu.cuMemFreeAsync(buffer, first));
    }
}

/* Its handle is a number that a kernel has as such: its name says so, or its code, which reads through no texture or is not
 * there. */
CASE(kept, texture_of_nobody)
{
    CUdeviceptr buffer = allocate(BYTES, first), out = allocate(BYTES, first);
    CUtexObject texture = texture_of(buffer), other = texture_of(allocate(BYTES, first));
    MUST(cu.cuMemFreeAsync(buffer, first));
    MUST(look_up(other, out, first));
    MUST(launch(textures_code(), "_Z5countmPj", nothing, texture, out, first)); /* count(unsigned long, unsigned *) */
    MUST(launch(textures_code(), "_Z5countyPj", nothing, texture, out, first));
    MUST(launch(textures_code(), "_Z5widthyPi", nothing, texture, out, first));
    MUST(launch("an image", "_Z5countyPj", nothing, texture, out, first));
    MUST(launch(textures_code(), "_Z2atyy", nothing, texture, other, first)); /* its second number is the texture */
}

/* Its handle is a number that another context may have for a texture of its own. */
CASE(kept, texture_elsewhere)
{
    CUcontext other;
    CUdeviceptr out = allocate(BYTES, first), buffer;
    MUST(cu.cuCtxCreate(&other, NULL, 0, 0));
    MUST(cu.cuMemAlloc(&buffer, BYTES));
    CUtexObject texture = texture_of(buffer);
    MUST(cu.cuMemFree(buffer));
    MUST(cu.cuCtxSetCurrent(here));
    MUST(launch(textures_code(), "_Z5countyPj", nothing, texture, out, first)); /* count(unsigned long long, unsigned *) */
}

STORY(kept)
{
    start();
    MUST(cu.cuCtxGetCurrent(&here));
    first = new_stream();
    MUST(cu.cuMemAlloc(&kept, BYTES));
    play_case(count, arguments);
    return say("the end", cu.cuCtxSynchronize()) == CUDA_SUCCESS ? 0 : 1;
}
