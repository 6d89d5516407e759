/*
 * Graphs: their contents, which executables and launches share, graphs built node by node, and copies of them. Nodes run in the
 * order in which they were added, which always satisfies their dependencies.
 */
#include "capture.h"
#include "call.h"
#include "handle.h"
#include "space.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

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
    free(object);
}

int append(void *array, size_t *count, size_t *capacity, const void *item, size_t size)
{
    void *items;
    memcpy(&items, array, sizeof items);
    if (*count == *capacity) {
        size_t wanted = *capacity == 0 ? 16 : *capacity * 2;
        items = reallocarray(items, wanted, size);
        if (items == NULL)
            return -1;
        memcpy(array, &items, sizeof items);
        *capacity = wanted;
    }
    memcpy((char *)items + (*count)++ * size, item, size);
    return 0;
}

int recording_append(struct recording *recording, struct operation *operation)
{
    int error = append(&recording->operations, &recording->count, &recording->capacity, &operation, sizeof operation);
    if (error == 0)
        operation_retain(operation);
    return error;
}

int recording_add_allocation(struct recording *recording, CUdeviceptr address)
{
    const struct graph_memory memory = {.address = address};
    size_t at = recording->allocation_count;
    if (append(&recording->allocations, &recording->allocation_count, &recording->allocation_capacity, &memory, sizeof memory))
        return -1;
    recording->allocations[at].id = space_give_to_graph(address);
    return 0;
}

/* Takes over a reference from the caller. */
static int recording_add_object(struct recording *recording, CUuserObject object)
{
    return append(&recording->objects, &recording->object_count, &recording->object_capacity, &object, sizeof object);
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
    for (size_t i = 0; i < recording->allocation_count; i++)
        space_free_of_graph(recording->allocations[i].address, recording->allocations[i].id);
    for (size_t i = 0; i < recording->object_count; i++)
        release(recording->objects[i], 1);
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

/* With the same operations, and references of its own to the same objects. NULL if out of memory. */
static struct recording *recording_copy(const struct recording *recording)
{
    struct recording *copy = recording_create();
    int error = copy == NULL;
    for (size_t i = 0; i < recording->count && !error; i++)
        error = recording_append(copy, recording->operations[i]);
    for (size_t i = 0; i < recording->object_count && !error; i++) {
        error = recording_add_object(copy, recording->objects[i]);
        if (!error)
            atomic_fetch_add(&recording->objects[i]->references, 1);
    }
    if (error && copy != NULL)
        recording_release(copy);
    return error ? NULL : copy;
}

CUgraph graph_create(const struct recording *contents)
{
    struct recording *recording = contents == NULL ? recording_create() : recording_copy(contents);
    CUgraph graph = recording == NULL ? NULL : handle_create(HANDLE_GRAPH, sizeof *graph, NULL);
    if (graph != NULL)
        graph->recording = recording;
    else if (recording != NULL)
        recording_release(recording);
    return graph;
}

CUresult graph_free(CUgraph graph)
{
    CALL_REFUSE(!handle_remove(HANDLE_GRAPH, graph), INVALID_VALUE);
    recording_release(graph->recording);
    handle_free(graph);
    return CUDA_SUCCESS;
}

SIM_API CUresult cuGraphDestroy(CUgraph hGraph)
{
    CALL_ENTER("cuGraphDestroy");
    return graph_free(hGraph);
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
    CUgraphExec executable = handle_create(HANDLE_GRAPH_EXEC, sizeof *executable, NULL);
    CALL_REFUSE(executable == NULL, OUT_OF_MEMORY);
    executable->recording = recording_retain(hGraph->recording);
    *phGraphExec = executable;
    return CUDA_SUCCESS;
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

static CUresult check(const CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count)
{
    CALL_REFUSE(node == NULL || !handle_is_valid(HANDLE_GRAPH, graph) || (count != 0 && dependencies == NULL), INVALID_VALUE);
    return CUDA_SUCCESS;
}

/* A node's handle is the address of its operation. Consumes the caller's reference; NULL returns CUDA_ERROR_OUT_OF_MEMORY. */
static CUresult add(CUgraphNode *node, CUgraph graph, struct operation *consumed)
{
    OPERATION(operation, consumed);
    CALL_REFUSE(recording_append(graph->recording, operation) != 0, OUT_OF_MEMORY);
    *node = (CUgraphNode)operation;
    return CUDA_SUCCESS;
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
    CALL_REFUSE(nodeParams == NULL || nodeParams->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE, INVALID_VALUE);
    CALL_REFUSE(nodeParams->poolProps.handleTypes != CU_MEM_HANDLE_TYPE_NONE, INVALID_VALUE);
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
    *phGraphClone = graph_create(originalGraph->recording);
    return *phGraphClone == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

SIM_API CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                          size_t numDependencies, CUgraph childGraph)
{
    CALL_ENTER("cuGraphAddChildGraphNode");
    CALL_TRY(check(phGraphNode, hGraph, dependencies, numDependencies));
    CALL_REFUSE(!handle_is_valid(HANDLE_GRAPH, childGraph) || !can_be_copied(childGraph), INVALID_VALUE);
    OPERATION(operation, operation_create(OPERATION_GRAPH));
    operation->recording = recording_copy(childGraph->recording);
    CALL_REFUSE(operation->recording == NULL, OUT_OF_MEMORY);
    return add(phGraphNode, hGraph, operation_retain(operation));
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

/* A program attaches user objects to graphs, to be told when nothing can launch them any more. */
SIM_API CUresult cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy, unsigned int initialRefcount,
                                    unsigned int flags)
{
    CALL_ENTER("cuUserObjectCreate");
    CALL_REFUSE(object_out == NULL || destroy == NULL || initialRefcount == 0, INVALID_VALUE);
    CALL_REFUSE(initialRefcount > INT_MAX || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC, INVALID_VALUE);
    CUuserObject object = handle_create(HANDLE_USER_OBJECT, sizeof *object, NULL);
    CALL_REFUSE(object == NULL, OUT_OF_MEMORY);
    atomic_init(&object->references, initialRefcount);
    object->destroy = destroy;
    object->user = ptr;
    *object_out = object;
    return CUDA_SUCCESS;
}

SIM_API CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    CALL_ENTER("cuUserObjectRelease");
    if (!handle_is_valid(HANDLE_USER_OBJECT, object) || count == 0 || count > atomic_load(&object->references))
        return CUDA_ERROR_INVALID_VALUE;
    release(object, count);
    return CUDA_SUCCESS;
}

SIM_API CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
{
    CALL_ENTER("cuGraphRetainUserObject");
    CALL_REFUSE(!handle_is_valid(HANDLE_GRAPH, graph) || !handle_is_valid(HANDLE_USER_OBJECT, object), INVALID_VALUE);
    CALL_REFUSE(count == 0 || count > INT_MAX || (flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE) != 0, INVALID_VALUE);
    for (unsigned i = 0; i < count; i++) {
        CALL_REFUSE(recording_add_object(graph->recording, object) != 0, OUT_OF_MEMORY);
        if (flags == 0)
            atomic_fetch_add(&object->references, 1);
    }
    return CUDA_SUCCESS;
}
