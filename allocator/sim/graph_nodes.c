/* Graphs that are built node by node. A node's handle is the address of its operation. */
#include "capture.h"
#include "handle.h"
#include "blocks.h"

static CUresult check(const CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count)
{
    CALL_REFUSE(node == NULL || !handle_is_valid(HANDLE_GRAPH, graph) || (count != 0 && dependencies == NULL), INVALID_VALUE);
    return CUDA_SUCCESS;
}

static CUresult create_kernel(struct operation **operation, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    CALL_REFUSE(nodeParams == NULL, INVALID_VALUE);
    CUfunction function = nodeParams->func != NULL ? nodeParams->func : (CUfunction)nodeParams->kern;
    return launch_create(operation, function,
                         (const uint32_t[3]){nodeParams->gridDimX, nodeParams->gridDimY, nodeParams->gridDimZ},
                         (const uint32_t[3]){nodeParams->blockDimX, nodeParams->blockDimY, nodeParams->blockDimZ},
                         nodeParams->sharedMemBytes, nodeParams->kernelParams, nodeParams->extra);
}

static CUresult create_set(struct operation **operation, const CUDA_MEMSET_NODE_PARAMS *set, CUcontext context)
{
    struct transfer transfer;
    CALL_TRY(context_validate(context));
    if (set == NULL || set->width == 0 || set->height == 0 ||
        (set->elementSize != 1 && set->elementSize != 2 && set->elementSize != 4))
        return CUDA_ERROR_INVALID_VALUE;
    size_t pitch = set->height == 1 ? 0 : set->pitch;
    CALL_TRY(transfer_set(&transfer, set->dst, pitch, set->value, set->elementSize, set->width, set->height));
    return transfer_create(operation, &transfer, context);
}

static CUresult create_copy(struct operation **operation, const CUDA_MEMCPY3D *copy, CUcontext context)
{
    struct transfer transfer;
    CALL_TRY(context_validate(context));
    CALL_TRY(transfer_volume(&transfer, copy, 0));
    return transfer_create(operation, &transfer, context);
}

static CUresult create_child(struct operation **out, CUgraph child)
{
    CALL_REFUSE(!handle_is_valid(HANDLE_GRAPH, child), INVALID_VALUE);
    CALL_REFUSE(child->recording->memory_nodes != 0, NOT_SUPPORTED);
    *out = operation_create(OPERATION_GRAPH);
    (*out)->graph.recording = recording_copy(child->recording);
    return CUDA_SUCCESS;
}

static CUresult create_allocation(struct operation **operation, CUDA_MEM_ALLOC_NODE_PARAMS *wanted)
{
    CALL_REFUSE(wanted == NULL || wanted->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE, INVALID_VALUE);
    CALL_REFUSE(wanted->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE, INVALID_VALUE);
    CALL_REFUSE(!config_has_device(wanted->poolProps.location.id), INVALID_DEVICE);
    return graph_memory_allocate_node(operation, &wanted->dptr, wanted->bytesize, wanted->poolProps.location.id);
}

static CUresult add_node(CUgraphNode *node, CUgraph graph, struct operation *operation)
{
    OPERATION(owned, operation);
    recording_append(graph->recording, owned);
    *node = (CUgraphNode)owned;
    return CUDA_SUCCESS;
}

/* A function that adds a node of the operation that `create` makes in `operation`; `last` are its own parameters. */
#define ADD_NODE(name, since, last, create)                                                                                    \
    DRIVER(name, since, (CUgraphNode *, node, CUgraph, graph, const CUgraphNode *, dependencies, size_t, count, ALL last))     \
    {                                                                                                                          \
        struct operation *operation = NULL;                                                                                    \
        CALL_TRY(check(node, graph, dependencies, count));                                                                     \
        CALL_TRY(create);                                                                                                      \
        return add_node(node, graph, operation);                                                                               \
    }
ADD_NODE(cuGraphAddKernelNode, 12000, (const CUDA_KERNEL_NODE_PARAMS *, params), create_kernel(&operation, params))
ADD_NODE(cuGraphAddMemsetNode, 10000, (const CUDA_MEMSET_NODE_PARAMS *, params, CUcontext, context),
         create_set(&operation, params, context))
ADD_NODE(cuGraphAddMemcpyNode, 10000, (const CUDA_MEMCPY3D *, params, CUcontext, context),
         create_copy(&operation, params, context))
ADD_NODE(cuGraphAddChildGraphNode, 10000, (CUgraph, child), create_child(&operation, child))
ADD_NODE(cuGraphAddMemAllocNode, 11040, (CUDA_MEM_ALLOC_NODE_PARAMS *, params), create_allocation(&operation, params))
ADD_NODE(cuGraphAddMemFreeNode, 11040, (CUdeviceptr, dptr), graph_memory_free_node(&operation, graph->recording, dptr))

/* Only the nodes of memory are made this way. */
static CUresult create_any(struct operation **operation, CUgraph graph, CUgraphNodeParams *params)
{
    CUDA_MEM_ALLOC_NODE_PARAMS wanted; /* the parameters of the newer function begin as these do */
    CALL_REFUSE(params == NULL, INVALID_VALUE);
    if (params->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
        return graph_memory_free_node(operation, graph->recording, params->free.dptr);
    CALL_REFUSE(params->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC, NOT_SUPPORTED);
    memcpy(&wanted, &params->alloc, sizeof wanted);
    CUresult result = create_allocation(operation, &wanted);
    params->alloc.dptr = wanted.dptr;
    return result;
}

DRIVER(cuGraphAddNode, 12030,
       (CUgraphNode *, node, CUgraph, graph, const CUgraphNode *, dependencies, const CUgraphEdgeData *, edges, size_t, count,
        CUgraphNodeParams *, params))
{
    struct operation *operation;
    (void)edges;
    CALL_TRY(check(node, graph, dependencies, count));
    CALL_TRY(create_any(&operation, graph, params));
    return add_node(node, graph, operation);
}

DRIVER(cuGraphMemAllocNodeGetParams, 11040, (CUgraphNode, hNode, CUDA_MEM_ALLOC_NODE_PARAMS *, params_out))
{
    const struct operation *operation = (const struct operation *)hNode;
    CALL_REFUSE(operation == NULL || params_out == NULL || operation->kind != OPERATION_ALLOCATE, INVALID_VALUE);
    *params_out = (CUDA_MEM_ALLOC_NODE_PARAMS){.dptr = operation->block->start, .bytesize = operation->block->requested};
    return CUDA_SUCCESS;
}

DRIVER(cuGraphMemFreeNodeGetParams, 11040, (CUgraphNode, hNode, CUdeviceptr *, dptr_out))
{
    const struct operation *operation = (const struct operation *)hNode;
    CALL_REFUSE(operation == NULL || dptr_out == NULL || operation->kind != OPERATION_RELEASE, INVALID_VALUE);
    *dptr_out = operation->block->start;
    return CUDA_SUCCESS;
}

DRIVER(cuGraphNodeGetType, 10000, (CUgraphNode, hNode, CUgraphNodeType *, type))
{
    static const CUgraphNodeType types[] = {
        [OPERATION_NOTHING] = CU_GRAPH_NODE_TYPE_EMPTY,      [OPERATION_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
        [OPERATION_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,        [OPERATION_SET] = CU_GRAPH_NODE_TYPE_MEMSET,
        [OPERATION_HOST] = CU_GRAPH_NODE_TYPE_HOST,          [OPERATION_CALLBACK] = CU_GRAPH_NODE_TYPE_HOST,
        [OPERATION_EVENT] = CU_GRAPH_NODE_TYPE_EVENT_RECORD, [OPERATION_GRAPH] = CU_GRAPH_NODE_TYPE_GRAPH,
        [OPERATION_WAIT] = CU_GRAPH_NODE_TYPE_WAIT_EVENT,    [OPERATION_FREE] = CU_GRAPH_NODE_TYPE_MEM_FREE,
        [OPERATION_ALLOCATE] = CU_GRAPH_NODE_TYPE_MEM_ALLOC, [OPERATION_RELEASE] = CU_GRAPH_NODE_TYPE_MEM_FREE};
    CALL_REFUSE(hNode == NULL || type == NULL, INVALID_VALUE);
    *type = types[((const struct operation *)hNode)->kind];
    return CUDA_SUCCESS;
}

/* Launches in progress continue with the previous contents of the executable. */
DRIVER(cuGraphExecKernelNodeSetParams, 12000,
       (CUgraphExec, hGraphExec, CUgraphNode, hNode, const CUDA_KERNEL_NODE_PARAMS *, nodeParams))
{
    struct operation *operation;
    size_t at = 0;
    CALL_REFUSE(!handle_is_valid(HANDLE_GRAPH_EXEC, hGraphExec), INVALID_VALUE);
    struct recording *previous = hGraphExec->recording;
    while (at < previous->count && previous->operations[at]->node != hNode && previous->operations[at] != (void *)hNode)
        at++;
    CALL_REFUSE(at == previous->count || previous->operations[at]->kind != OPERATION_KERNEL, INVALID_VALUE);
    CALL_TRY(create_kernel(&operation, nodeParams));
    struct recording *copy = hGraphExec->recording = recording_copy(previous);
    operation->node = hNode;
    operation_release(copy->operations[at]);
    copy->operations[at] = operation;
    recording_release(previous);
    return CUDA_SUCCESS;
}
