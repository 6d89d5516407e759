/* Copies one graph's work into another: clones, child graphs, and updates of executables. */
#include "call.h"
#include "capture.h"
#include "handle.h"

/* A graph that owns memory can't be copied: each of its addresses exists only once. */
static int can_be_copied(CUgraph graph)
{
    return graph->recording->allocation_count == 0;
}

SIM_API CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
    CALL_ENTER("cuGraphClone");
    if (phGraphClone == NULL || !handle_is_valid(HANDLE_GRAPH, originalGraph) || !can_be_copied(originalGraph))
        return CUDA_ERROR_INVALID_VALUE;
    struct recording *copy = recording_copy(originalGraph->recording);
    CUgraph clone = copy == NULL ? NULL : graph_create(copy);
    if (clone == NULL && copy != NULL)
        recording_release(copy);
    *phGraphClone = clone;
    return clone == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

/* A node's handle is the address of its operation. */
SIM_API CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                          size_t numDependencies, CUgraph childGraph)
{
    CALL_ENTER("cuGraphAddChildGraphNode");
    if (phGraphNode == NULL || !handle_is_valid(HANDLE_GRAPH, hGraph) || (numDependencies != 0 && dependencies == NULL) ||
        !handle_is_valid(HANDLE_GRAPH, childGraph) || !can_be_copied(childGraph))
        return CUDA_ERROR_INVALID_VALUE;
    struct operation *operation = operation_create(OPERATION_GRAPH);
    CALL_REFUSE(operation == NULL, OUT_OF_MEMORY);
    operation->recording = recording_copy(childGraph->recording);
    int error = operation->recording == NULL ? -1 : recording_append(hGraph->recording, operation);
    *phGraphNode = error == 0 ? (CUgraphNode)operation : NULL;
    operation_release(operation);
    return error == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static int is_alike(const struct recording *a, const struct recording *b)
{
    size_t same = 0;
    while (same < a->count && same < b->count && a->operations[same]->kind == b->operations[same]->kind)
        same++;
    return same == a->count && same == b->count;
}

/* Launches in progress continue with the previous contents of the executable. */
SIM_API CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
    CALL_ENTER("cuGraphExecUpdate");
    if (!handle_is_valid(HANDLE_GRAPH_EXEC, hGraphExec) || !handle_is_valid(HANDLE_GRAPH, hGraph) || resultInfo == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    int is_fine = is_alike(hGraphExec->recording, hGraph->recording);
    *resultInfo = (CUgraphExecUpdateResultInfo){.result = is_fine ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                                                  : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED};
    CALL_REFUSE(!is_fine, GRAPH_EXEC_UPDATE_FAILURE);
    struct recording *previous = hGraphExec->recording;
    hGraphExec->recording = recording_retain(hGraph->recording);
    recording_release(previous);
    return CUDA_SUCCESS;
}

/* Creates a handle for conditional nodes, which are not simulated. */
SIM_API CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out, CUgraph hGraph, CUcontext ctx,
                                                unsigned int defaultLaunchValue, unsigned int flags)
{
    CALL_ENTER("cuGraphConditionalHandleCreate");
    static _Atomic CUgraphConditionalHandle next = 1;
    (void)defaultLaunchValue;
    CALL_TRY(context_validate(ctx));
    if (pHandle_out == NULL || !handle_is_valid(HANDLE_GRAPH, hGraph) || (flags & ~(unsigned)CU_GRAPH_COND_ASSIGN_DEFAULT) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *pHandle_out = next++;
    return CUDA_SUCCESS;
}
