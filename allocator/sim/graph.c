/*
 * Graphs: their contents, executables, which have a copy of them, and launches. Nodes run in the order in which they were
 * added, which always satisfies their dependencies.
 */
#include "capture.h"
#include "handle.h"

#include <limits.h>

struct CUuserObject_st {
    atomic_uint references;
    CUhostFn destroy;
    void *user;
};

/* The last one calls the destructor on the calling thread, which must hold no lock. */
static void release(CUuserObject object, unsigned count)
{
    if (atomic_fetch_sub(&object->references, count) != count)
        return;
    handle_remove(HANDLE_USER_OBJECT, object);
    object->destroy(object->user);
    handle_free(HANDLE_USER_OBJECT, object);
}

void append(void *array, size_t *count, size_t *capacity, const void *item, size_t size)
{
    void *items;
    memcpy(&items, array, sizeof items);
    if (*count == *capacity) {
        size_t wanted = *capacity == 0 ? 16 : *capacity * 2;
        items = reallocarray(items, wanted, size);
        if (items == NULL)
            abort();
        memcpy(array, &items, sizeof items);
        *capacity = wanted;
    }
    memcpy((char *)items + (*count)++ * size, item, size);
}

void recording_append(struct recording *recording, struct operation *operation)
{
    append(&recording->operations, &recording->count, &recording->capacity, &operation, sizeof operation);
    operation_retain(operation);
    recording->memory_nodes += (size_t)operation_is_of_memory(operation);
}

/* Takes over a reference from the caller. */
static void recording_add_object(struct recording *recording, CUuserObject object)
{
    append(&recording->objects, &recording->object_count, &recording->object_capacity, &object, sizeof object);
}

static struct recording *recording_retain(struct recording *recording)
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
    for (size_t i = 0; i < recording->object_count; i++)
        release(recording->objects[i], 1);
    free(recording->operations);
    free(recording->objects);
    free(recording);
}

static struct recording *recording_create(void)
{
    struct recording *recording = memory_new(sizeof *recording);
    atomic_init(&recording->references, 1);
    return recording;
}

/* With the same operations, and references of its own to the same objects. */
struct recording *recording_copy(const struct recording *recording)
{
    struct recording *copy = recording_create();
    for (size_t i = 0; i < recording->count; i++)
        recording_append(copy, recording->operations[i]);
    for (size_t i = 0; i < recording->object_count; i++) {
        recording_add_object(copy, recording->objects[i]);
        atomic_fetch_add(&recording->objects[i]->references, 1);
    }
    return copy;
}

CUgraph graph_create(const struct recording *contents)
{
    CUgraph graph = handle_create(HANDLE_GRAPH, sizeof *graph, NULL);
    graph->recording = contents == NULL ? recording_create() : recording_copy(contents);
    return graph;
}

CUresult graph_free(CUgraph graph)
{
    CALL_REFUSE(!handle_remove(HANDLE_GRAPH, graph), INVALID_VALUE);
    recording_release(graph->recording);
    handle_free(HANDLE_GRAPH, graph);
    return CUDA_SUCCESS;
}

DRIVER_IS(cuGraphDestroy, 10000, (CUgraph, hGraph), graph_free(hGraph))

DRIVER(cuGraphGetNodes, 10000, (CUgraph, hGraph, CUgraphNode *, nodes, size_t *, numNodes))
{
    CALL_REFUSE(!handle_is_valid(HANDLE_GRAPH, hGraph) || numNodes == NULL, INVALID_VALUE);
    for (size_t i = 0; nodes != NULL && i < hGraph->recording->count && i < *numNodes; i++)
        nodes[i] = (CUgraphNode)hGraph->recording->operations[i];
    *numNodes = hGraph->recording->count;
    return CUDA_SUCCESS;
}

static CUresult destroy_executable(CUgraphExec executable)
{
    CALL_REFUSE(!handle_remove(HANDLE_GRAPH_EXEC, executable), INVALID_VALUE);
    if (executable->source != NULL) {
        atomic_store(&executable->source->is_instantiated, 0);
        recording_release(executable->source);
    }
    recording_release(executable->recording);
    handle_free(HANDLE_GRAPH_EXEC, executable);
    return CUDA_SUCCESS;
}

/* A graph with memory nodes has one executable at a time. */
static CUresult claim(CUgraphExec executable, struct recording *source)
{
    int is_free = 0;
    if (source->memory_nodes == 0)
        return CUDA_SUCCESS;
    CALL_REFUSE(!atomic_compare_exchange_strong(&source->is_instantiated, &is_free, 1), NOT_SUPPORTED);
    executable->source = recording_retain(source);
    return CUDA_SUCCESS;
}

/* cuda.h's cuGraphInstantiate is cuGraphInstantiateWithFlags. */
DRIVER(cuGraphInstantiate, 12000, (CUgraphExec *, phGraphExec, CUgraph, hGraph, unsigned long long, flags))
{
    const unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    CALL_REFUSE(phGraphExec == NULL || !handle_is_valid(HANDLE_GRAPH, hGraph) || (flags & ~known) != 0, INVALID_VALUE);
    CUgraphExec executable = handle_create(HANDLE_GRAPH_EXEC, sizeof *executable, NULL);
    executable->frees_first = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
    executable->recording = recording_copy(hGraph->recording);
    CUresult result = claim(executable, hGraph->recording);
    if (result != CUDA_SUCCESS)
        destroy_executable(executable);
    else
        *phGraphExec = executable;
    return result;
}

DRIVER_IS(cuGraphExecDestroy, 10000, (CUgraphExec, hGraphExec), destroy_executable(hGraphExec))

DRIVER_TWIN(cuGraphLaunch, ptsz, 10000, (CUgraphExec, hGraphExec, CUstream, hStream))
{
    CALL_REFUSE(!handle_is_valid(HANDLE_GRAPH_EXEC, hGraphExec), INVALID_VALUE);
    struct operation *operation = operation_create(OPERATION_GRAPH);
    operation->graph.recording = recording_retain(hGraphExec->recording);
    operation->graph.frees_first = hGraphExec->frees_first;
    return stream_submit_behind(hStream, operation, SUBMIT_ASYNC, &hGraphExec->last);
}

DRIVER(cuGraphCreate, 10000, (CUgraph *, phGraph, unsigned int, flags))
{
    CALL_REFUSE(phGraph == NULL || flags != 0, INVALID_VALUE);
    *phGraph = graph_create(NULL);
    return CUDA_SUCCESS;
}

DRIVER(cuGraphClone, 10000, (CUgraph *, phGraphClone, CUgraph, originalGraph))
{
    CALL_REFUSE(phGraphClone == NULL || !handle_is_valid(HANDLE_GRAPH, originalGraph), INVALID_VALUE);
    CALL_REFUSE(originalGraph->recording->memory_nodes != 0, NOT_SUPPORTED);
    *phGraphClone = graph_create(originalGraph->recording);
    return CUDA_SUCCESS;
}

static int is_alike(const struct recording *a, const struct recording *b)
{
    size_t same = 0;
    while (same < a->count && same < b->count && a->operations[same]->kind == b->operations[same]->kind)
        same++;
    return same == a->count && same == b->count;
}

/* Launches in progress continue with the previous contents of the executable. */
DRIVER(cuGraphExecUpdate, 12000, (CUgraphExec, hGraphExec, CUgraph, hGraph, CUgraphExecUpdateResultInfo *, resultInfo))
{
    if (!handle_is_valid(HANDLE_GRAPH_EXEC, hGraphExec) || !handle_is_valid(HANDLE_GRAPH, hGraph) || resultInfo == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct recording *previous = hGraphExec->recording;
    CUgraphExecUpdateResult why = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    if (previous->memory_nodes != 0 || hGraph->recording->memory_nodes != 0)
        why = CU_GRAPH_EXEC_UPDATE_ERROR;
    else if (!is_alike(previous, hGraph->recording))
        why = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    *resultInfo = (CUgraphExecUpdateResultInfo){.result = why};
    CALL_REFUSE(why != CU_GRAPH_EXEC_UPDATE_SUCCESS, GRAPH_EXEC_UPDATE_FAILURE);
    hGraphExec->recording = recording_copy(hGraph->recording);
    recording_release(previous);
    return CUDA_SUCCESS;
}

/* Creates a handle for conditional nodes, which are not simulated. */
DRIVER(cuGraphConditionalHandleCreate, 12030,
       (CUgraphConditionalHandle *, pHandle_out, CUgraph, hGraph, CUcontext, ctx, unsigned int, defaultLaunchValue,
        unsigned int, flags))
{
    static _Atomic CUgraphConditionalHandle next = 1;
    (void)defaultLaunchValue;
    CALL_TRY(context_validate(ctx));
    if (pHandle_out == NULL || !handle_is_valid(HANDLE_GRAPH, hGraph) || (flags & ~(unsigned)CU_GRAPH_COND_ASSIGN_DEFAULT) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *pHandle_out = next++;
    return CUDA_SUCCESS;
}

/* A program attaches user objects to graphs, to be told when nothing can launch them any more. */
DRIVER(cuUserObjectCreate, 11030,
       (CUuserObject *, object_out, void *, ptr, CUhostFn, destroy, unsigned int, initialRefcount, unsigned int, flags))
{
    CALL_REFUSE(object_out == NULL || destroy == NULL || initialRefcount == 0, INVALID_VALUE);
    CALL_REFUSE(initialRefcount > INT_MAX || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC, INVALID_VALUE);
    CUuserObject object = handle_create(HANDLE_USER_OBJECT, sizeof *object, NULL);
    atomic_init(&object->references, initialRefcount);
    object->destroy = destroy;
    object->user = ptr;
    *object_out = object;
    return CUDA_SUCCESS;
}

DRIVER(cuUserObjectRelease, 11030, (CUuserObject, object, unsigned int, count))
{
    if (!handle_is_valid(HANDLE_USER_OBJECT, object) || count == 0 || count > atomic_load(&object->references))
        return CUDA_ERROR_INVALID_VALUE;
    release(object, count);
    return CUDA_SUCCESS;
}

DRIVER(cuGraphRetainUserObject, 11030, (CUgraph, graph, CUuserObject, object, unsigned int, count, unsigned int, flags))
{
    CALL_REFUSE(!handle_is_valid(HANDLE_GRAPH, graph) || !handle_is_valid(HANDLE_USER_OBJECT, object), INVALID_VALUE);
    CALL_REFUSE(count == 0 || count > INT_MAX || (flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE) != 0, INVALID_VALUE);
    for (unsigned i = 0; i < count; i++) {
        recording_add_object(graph->recording, object);
        if (flags == 0)
            atomic_fetch_add(&object->references, 1);
    }
    return CUDA_SUCCESS;
}
