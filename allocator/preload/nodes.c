/*
 * Nodes that programs put into graphs by hand to allocate and free memory. What such a node allocates is the driver's. One that
 * frees may be given what a capture has allocated: the driver gets the node that stands for it there (heap_request.node).
 */
#include "api/closing.h"
#include "bounds.h"

#include "internal.h" /* last: see hooks.h */

CUresult free_node_added(CUresult (*function)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUdeviceptr),
                         CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count, CUdeviceptr pointer)
{
    CUdeviceptr own = is_ours(pointer) ? heap_node_of(pointer) : 0;
    CUresult result = function(node, graph, nodes, count, own ? own : pointer);
    if (own && result == CUDA_SUCCESS)
        heap_graph_frees(pointer, graph);
    return result;
}

CUdeviceptr node_begins(CUgraphNodeParams *node)
{
    if (is_active() && node && node->type == CU_GRAPH_NODE_TYPE_MEMCPY)
        bounds_node_copies(&node->memcpy.copyParams, node->memcpy.copyCtx);
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
        closing_unguarded(UNGUARDED_NODE, node->alloc.bytesize);
}

void freed_by_node(CUdeviceptr *pointer)
{
    CUdeviceptr own = is_active() ? heap_at_node(*pointer) : 0;
    if (own)
        *pointer = own;
}
