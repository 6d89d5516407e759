/* Addresses of buffers that graphs and textures keep. */
#include "buffers.h"
#include "textures.h"

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

/* In a child graph. */
static CUgraphExec disabled_inner(CUgraphNode *node, CUdeviceptr buffer)
{
    CUgraph inner;
    CUgraphNode child;
    size_t count = 1;
    CUgraphExec executable = executable_of(parent_of(captured_copy(buffer, kept), &child));
    MUST(cu.cuGraphChildGraphNodeGetGraph(child, &inner));
    MUST(cu.cuGraphGetNodes(inner, node, &count));
    MUST(cu.cuGraphNodeSetEnabled(executable, *node, 0));
    return executable;
}
ENABLED(inner)

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
    return play_with_buffer(count, arguments, &here, &first);
}
