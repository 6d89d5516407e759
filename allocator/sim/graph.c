#include "call.h"
#include "capture.h"
#include "handle.h"
#include "space.h"

#include <stdlib.h>

static int grow(void **array, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity)
        return 0;
    size_t wanted = *capacity == 0 ? 16 : *capacity * 2;
    void *larger = reallocarray(*array, wanted, size);
    if (larger == NULL)
        return -1;
    *array = larger;
    *capacity = wanted;
    return 0;
}

int recording_append(struct recording *recording, struct operation *operation)
{
    void *array = recording->operations;
    if (grow(&array, &recording->capacity, recording->count, sizeof(struct operation *)) != 0)
        return -1;
    recording->operations = array;
    recording->operations[recording->count++] = operation_retain(operation);
    return 0;
}

int recording_add_allocation(struct recording *recording, CUdeviceptr address)
{
    void *array = recording->allocations;
    if (grow(&array, &recording->allocation_capacity, recording->allocation_count, sizeof *recording->allocations) != 0)
        return -1;
    recording->allocations = array;
    recording->allocations[recording->allocation_count++] = (struct graph_memory){address, space_give_to_graph(address)};
    return 0;
}

int recording_add_object(struct recording *recording, CUuserObject object)
{
    void *array = recording->objects;
    if (grow(&array, &recording->object_capacity, recording->object_count, sizeof(CUuserObject)) != 0)
        return -1;
    recording->objects = array;
    recording->objects[recording->object_count++] = object;
    return 0;
}

struct recording *recording_retain(struct recording *recording)
{
    atomic_fetch_add(&recording->references, 1);
    return recording;
}

void recording_release(struct recording *recording)
{
    if (atomic_fetch_sub(&recording->references, 1) != 1)
        return;
    for (size_t i = 0; i < recording->count; i++)
        operation_release(recording->operations[i]);
    for (size_t i = 0; i < recording->allocation_count; i++)
        space_free_of_graph(recording->allocations[i].address, recording->allocations[i].id);
    for (size_t i = 0; i < recording->object_count; i++)
        user_object_release(recording->objects[i]);
    free(recording->operations);
    free(recording->allocations);
    free(recording->objects);
    free(recording);
}

static struct recording *recording_create(void)
{
    struct recording *recording = calloc(1, sizeof *recording);
    if (recording != NULL)
        atomic_init(&recording->references, 1);
    return recording;
}

struct recording *recording_copy(const struct recording *recording)
{
    struct recording *copy = recording_create();
    int error = copy == NULL;
    for (size_t i = 0; i < recording->count && !error; i++)
        error = recording_append(copy, recording->operations[i]);
    for (size_t i = 0; i < recording->object_count && !error; i++) {
        error = recording_add_object(copy, recording->objects[i]);
        if (!error)
            user_object_retain(recording->objects[i]);
    }
    if (error && copy != NULL)
        recording_release(copy);
    return error ? NULL : copy;
}

CUgraph graph_create(struct recording *recording)
{
    CUgraph graph = calloc(1, sizeof *graph);
    struct recording *own = recording == NULL ? recording_create() : NULL;
    if (graph == NULL || (recording == NULL && own == NULL) || handle_add(HANDLE_GRAPH, graph, NULL) != 0) {
        free(graph);
        free(own);
        return NULL;
    }
    graph->recording = recording == NULL ? own : recording;
    return graph;
}

static void free_removed(CUgraph graph)
{
    recording_release(graph->recording);
    handle_free(graph);
}

void graph_free(CUgraph graph)
{
    handle_remove(HANDLE_GRAPH, graph);
    free_removed(graph);
}

SIM_API CUresult cuGraphDestroy(CUgraph hGraph)
{
    CALL_ENTER("cuGraphDestroy");
    CALL_REFUSE(!handle_remove(HANDLE_GRAPH, hGraph), INVALID_VALUE);
    free_removed(hGraph);
    return CUDA_SUCCESS;
}

SIM_API CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
    CALL_ENTER("cuGraphGetNodes");
    CALL_REFUSE(!handle_is_valid(HANDLE_GRAPH, hGraph) || numNodes == NULL, INVALID_VALUE);
    CALL_REFUSE(nodes != NULL, NOT_SUPPORTED);
    *numNodes = hGraph->recording->count;
    return CUDA_SUCCESS;
}

/* cuda.h's cuGraphInstantiate is cuGraphInstantiateWithFlags. */
SIM_API CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)
{
    CALL_ENTER("cuGraphInstantiate");
    const unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    CALL_REFUSE(phGraphExec == NULL || !handle_is_valid(HANDLE_GRAPH, hGraph) || (flags & ~known) != 0, INVALID_VALUE);
    CUgraphExec executable = calloc(1, sizeof *executable);
    if (executable == NULL || handle_add(HANDLE_GRAPH_EXEC, executable, NULL) != 0) {
        free(executable);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    executable->recording = recording_retain(hGraph->recording);
    *phGraphExec = executable;
    return CUDA_SUCCESS;
}

SIM_API CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                              CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    CALL_REFUSE(instantiateParams == NULL, INVALID_VALUE);
    CUresult result = cuGraphInstantiate(phGraphExec, hGraph, instantiateParams->flags);
    instantiateParams->hErrNode_out = NULL;
    instantiateParams->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}

SIM_API CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    CALL_ENTER("cuGraphExecDestroy");
    CALL_REFUSE(!handle_remove(HANDLE_GRAPH_EXEC, hGraphExec), INVALID_VALUE);
    {
        HOLD(&queue_lock);
        ticket_drop_locked(&hGraphExec->last);
    }
    recording_release(hGraphExec->recording);
    handle_free(hGraphExec);
    return CUDA_SUCCESS;
}

SIM_API CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
    CALL_ENTER("cuGraphLaunch");
    CALL_REFUSE(!handle_is_valid(HANDLE_GRAPH_EXEC, hGraphExec), INVALID_VALUE);
    struct operation *operation = operation_create(OPERATION_GRAPH);
    if (operation != NULL)
        operation->recording = recording_retain(hGraphExec->recording);
    return stream_submit_behind(hStream, operation, &hGraphExec->last);
}
