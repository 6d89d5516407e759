/*
 * Nodes that programs put into graphs by hand to allocate and free memory. What such a node allocates is the driver's. One that
 * frees may be given what a capture has allocated: the driver gets the node that stands for it there (heap_request.node), and
 * what it tells of such nodes is translated back. Copies and sets are checked as those on a stream.
 */
#include "api/closing.h"
#include "bounds.h"

#include <stdlib.h>

#include "preload_internal.h" /* last: see hooks.h */

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
    CUgraphNode *nodes = NULL;
    size_t count = 0, sum = 0;
    if (__atomic_load_n(&have_nodes, __ATOMIC_RELAXED) && driver->cuGraphGetNodes &&
        driver->cuGraphGetNodes(graph, NULL, &count) == CUDA_SUCCESS)
        nodes = malloc(count * sizeof *nodes);
    if (nodes && driver->cuGraphGetNodes(graph, nodes, &count) != CUDA_SUCCESS)
        count = 0;
    for (size_t i = 0; nodes && i < count; i++) {
        CUgraphNodeType type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
        if (driver->cuGraphNodeGetType) /* the driver logs it where a node of another kind is asked, and refuses */
            driver->cuGraphNodeGetType(nodes[i], &type);
        if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && real.cuGraphMemAllocNodeGetParams(nodes[i], &wanted) == CUDA_SUCCESS &&
            wanted.bytesize > 1) /* ours: a byte */
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
