/* Graphs built node by node. Nodes run in the order in which they were added, which always satisfies their dependencies. */
#include "call.h"
#include "capture.h"
#include "handle.h"
#include "space.h"
#include "transfer.h"

static CUresult check(const CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count)
{
    CALL_REFUSE(node == NULL || !handle_is_valid(HANDLE_GRAPH, graph) || (count != 0 && dependencies == NULL), INVALID_VALUE);
    return CUDA_SUCCESS;
}

/* A node's handle is the address of its operation. Consumes the caller's reference; NULL returns CUDA_ERROR_OUT_OF_MEMORY. */
static CUresult add(CUgraphNode *node, CUgraph graph, struct operation *operation)
{
    CALL_REFUSE(operation == NULL, OUT_OF_MEMORY);
    int error = recording_append(graph->recording, operation);
    *node = error == 0 ? (CUgraphNode)operation : NULL;
    operation_release(operation);
    return error == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_API CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
    CALL_ENTER("cuGraphCreate");
    CALL_REFUSE(phGraph == NULL || flags != 0, INVALID_VALUE);
    *phGraph = graph_create(NULL);
    return *phGraph == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
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

SIM_API CUresult cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                      size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    CALL_ENTER("cuGraphAddKernelNode");
    struct operation *operation;
    CALL_TRY(check(phGraphNode, hGraph, dependencies, numDependencies));
    CALL_TRY(create_kernel(&operation, nodeParams));
    return add(phGraphNode, hGraph, operation);
}
/* Launches in progress continue with the previous contents of the executable. */
SIM_API CUresult cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    CALL_ENTER("cuGraphExecKernelNodeSetParams");
    struct operation *operation;
    size_t at = 0;
    CALL_REFUSE(!handle_is_valid(HANDLE_GRAPH_EXEC, hGraphExec), INVALID_VALUE);
    struct recording *previous = hGraphExec->recording;
    while (at < previous->count && previous->operations[at]->node != hNode && previous->operations[at] != (void *)hNode)
        at++;
    if (at == previous->count || previous->operations[at]->kind != OPERATION_KERNEL || previous->allocation_count != 0)
        return CUDA_ERROR_INVALID_VALUE;
    CALL_TRY(create_kernel(&operation, nodeParams));
    struct recording *copy = recording_copy(previous);
    if (copy == NULL) {
        operation_release(operation);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    operation->node = hNode;
    operation_release(copy->operations[at]);
    copy->operations[at] = operation;
    hGraphExec->recording = copy;
    recording_release(previous);
    return CUDA_SUCCESS;
}

SIM_API CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                      size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    CALL_ENTER("cuGraphAddMemsetNode");
    CALL_TRY(check(phGraphNode, hGraph, dependencies, numDependencies));
    CALL_TRY(context_validate(ctx));
    if (memsetParams == NULL || memsetParams->width == 0 || memsetParams->height == 0 ||
        (memsetParams->elementSize != 1 && memsetParams->elementSize != 2 && memsetParams->elementSize != 4))
        return CUDA_ERROR_INVALID_VALUE;
    struct operation *operation;
    CALL_TRY(transfer_create_set(&operation, memsetParams->dst, memsetParams->height == 1 ? 0 : memsetParams->pitch,
                                 memsetParams->value, memsetParams->elementSize, memsetParams->width, memsetParams->height));
    return add(phGraphNode, hGraph, operation);
}

/* Allocates the memory at once. All replays use the same address. It is freed with the graph and its executables. */
SIM_API CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                        size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
    CALL_ENTER("cuGraphAddMemAllocNode");
    CONTEXT_CURRENT(context);
    CALL_TRY(check(phGraphNode, hGraph, dependencies, numDependencies));
    if (nodeParams == NULL || nodeParams->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        nodeParams->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_INVALID_VALUE;
    int device = nodeParams->poolProps.location.id;
    CALL_REFUSE(!config_has_device(device), INVALID_DEVICE);
    CALL_TRY(space_allocate(&nodeParams->dptr, nodeParams->bytesize, context->home, device, NULL));
    if (recording_add_allocation(hGraph->recording, nodeParams->dptr) != 0) {
        space_free(nodeParams->dptr);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return add(phGraphNode, hGraph, operation_create(OPERATION_NOTHING));
}

SIM_API CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                       size_t numDependencies, CUdeviceptr dptr)
{
    CALL_ENTER("cuGraphAddMemFreeNode");
    struct space_range range;
    CALL_TRY(check(phGraphNode, hGraph, dependencies, numDependencies));
    CALL_REFUSE(space_find(dptr, &range) != CUDA_SUCCESS || !range.is_of_graph || range.start != dptr, INVALID_VALUE);
    return add(phGraphNode, hGraph, operation_create(OPERATION_NOTHING));
}
