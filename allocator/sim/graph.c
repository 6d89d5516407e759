/*
 * Graphs: their contents, executables, which have a copy of them, and launches. Nodes run in the order in which they were
 * added, which always satisfies their dependencies.
 */
#include "capture.h"
#include "virtual_memory.h"

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

void append(void *array, size_t *count, const void *item, size_t size)
{
    void *items;
    memcpy(&items, array, sizeof items);
    items = reallocarray(items, *count + 1, size);
    if (items == NULL)
        abort();
    memcpy(array, &items, sizeof items);
    memcpy((char *)items + (*count)++ * size, item, size);
}

void recording_append(struct recording *recording, struct operation *operation)
{
    append(&recording->operations, &recording->count, &operation, sizeof operation);
    operation_retain(operation);
    recording->memory_nodes += (size_t)operation_is_of_memory(operation);
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
    copy->disabled = recording->disabled;
    for (size_t i = 0; i < recording->count; i++)
        recording_append(copy, recording->operations[i]);
    for (size_t i = 0; i < recording->object_count; i++) {
        append(&copy->objects, &copy->object_count, &recording->objects[i], sizeof(CUuserObject));
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
        append(&graph->recording->objects, &graph->recording->object_count, &object, sizeof object);
        if (flags == 0)
            atomic_fetch_add(&object->references, 1);
    }
    return CUDA_SUCCESS;
}

/* ---- graphs that are built node by node. The handle of a node is the address of its operation ---- */

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

/* The node owns the graph, which is no copy. */
DRIVER(cuGraphChildGraphNodeGetGraph, 10000, (CUgraphNode, hNode, CUgraph *, phGraph))
{
    struct operation *node = (struct operation *)hNode;
    CALL_REFUSE(node == NULL || phGraph == NULL || node->kind != OPERATION_GRAPH, INVALID_VALUE);
    if (node->graph.handle == NULL) {
        node->graph.handle = handle_create(HANDLE_GRAPH, sizeof **phGraph, NULL);
        node->graph.handle->recording = recording_retain(node->graph.recording);
    }
    *phGraph = node->graph.handle;
    return CUDA_SUCCESS;
}

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
    CALL_TRY(check(node, graph, dependencies, count));
    CALL_TRY(create_any(&operation, graph, params));
    return add_node(node, graph, operation);
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

/* Tells what a node of one kind does. */
#define NODE_PARAMS(name, since, wanted, type, told)                                                                           \
    DRIVER(name, since, (CUgraphNode, hNode, type *, params))                                                                  \
    {                                                                                                                          \
        const struct operation *node = (const struct operation *)hNode;                                                        \
        CALL_REFUSE(node == NULL || params == NULL || node->kind != (wanted), INVALID_VALUE);                                  \
        *params = told;                                                                                                        \
        return CUDA_SUCCESS;                                                                                                   \
    }
#define BLOCK node->block
#define TRANSFER node->copy.transfer
#define SIDE(side, end)                                                                                                        \
    .side##MemoryType = end.type, .side##Device = end.address, .side##Host = (void *)(uintptr_t)end.address,                   \
    .side##Pitch = end.pitch, .side##Height = end.pitch != 0 ? end.slice / end.pitch : 0
NODE_PARAMS(cuGraphMemFreeNodeGetParams, 11040, OPERATION_RELEASE, CUdeviceptr, BLOCK->start)
NODE_PARAMS(cuGraphMemAllocNodeGetParams, 11040, OPERATION_ALLOCATE, CUDA_MEM_ALLOC_NODE_PARAMS,
            ((CUDA_MEM_ALLOC_NODE_PARAMS){.dptr = BLOCK->start, .bytesize = BLOCK->requested}))
NODE_PARAMS(cuGraphMemcpyNodeGetParams, 10000, OPERATION_COPY, CUDA_MEMCPY3D,
            ((CUDA_MEMCPY3D){SIDE(src, TRANSFER.from), SIDE(dst, TRANSFER.to), .WidthInBytes = TRANSFER.bytes,
                             .Height = TRANSFER.rows, .Depth = TRANSFER.slices}))
NODE_PARAMS(cuGraphMemsetNodeGetParams, 10000, OPERATION_SET, CUDA_MEMSET_NODE_PARAMS,
            ((CUDA_MEMSET_NODE_PARAMS){TRANSFER.to.address, TRANSFER.to.pitch, TRANSFER.value, TRANSFER.width,
                                       TRANSFER.bytes / TRANSFER.width, TRANSFER.rows}))

static size_t find_node(const struct recording *recording, CUgraphNode node)
{
    size_t at = 0;
    while (at < recording->count && recording->operations[at]->node != node && recording->operations[at] != (void *)node)
        at++;
    return at;
}

/* Puts an operation in the place of a node. Launches in progress continue with the previous contents of the executable. */
static CUresult exchange(CUgraphExec executable, CUgraphNode node, struct operation *operation, enum operation_kind kind)
{
    OPERATION(owned, operation);
    struct recording *previous = executable->recording;
    size_t at = find_node(previous, node);
    CALL_REFUSE(at == previous->count || previous->operations[at]->kind != kind, INVALID_VALUE);
    struct recording *copy = executable->recording = recording_copy(previous);
    owned->node = node;
    operation_release(copy->operations[at]);
    copy->operations[at] = operation_retain(owned);
    recording_release(previous);
    return CUDA_SUCCESS;
}

/* Gives a node of an executable the operation that `create` makes in `operation`. */
#define SET_NODE(name, since, kind, last, create)                                                                              \
    DRIVER(name, since, (CUgraphExec, executable, CUgraphNode, node, ALL last))                                                \
    {                                                                                                                          \
        struct operation *operation = NULL;                                                                                    \
        CALL_REFUSE(!handle_is_valid(HANDLE_GRAPH_EXEC, executable), INVALID_VALUE);                                           \
        CALL_TRY(create);                                                                                                      \
        return exchange(executable, node, operation, kind);                                                                    \
    }
SET_NODE(cuGraphExecKernelNodeSetParams, 12000, OPERATION_KERNEL, (const CUDA_KERNEL_NODE_PARAMS *, params),
         create_kernel(&operation, params))
SET_NODE(cuGraphExecMemcpyNodeSetParams, 10020, OPERATION_COPY, (const CUDA_MEMCPY3D *, params, CUcontext, context),
         create_copy(&operation, params, context))
SET_NODE(cuGraphExecChildGraphNodeSetParams, 11010, OPERATION_GRAPH, (CUgraph, child), create_child(&operation, child))
SET_NODE(cuGraphExecMemsetNodeSetParams, 10020, OPERATION_SET, (const CUDA_MEMSET_NODE_PARAMS *, params, CUcontext, context),
         create_set(&operation, params, context))

static struct recording *switched(const struct recording *recording, CUgraphNode node, int is_enabled);

/* The same for a node in one of its child graphs. */
static struct recording *switched_inside(const struct recording *recording, CUgraphNode node, int is_enabled)
{
    for (size_t i = 0; i < recording->count; i++) {
        struct operation *child = recording->operations[i];
        struct recording *inner = child->kind == OPERATION_GRAPH ? switched(child->graph.recording, node, is_enabled) : NULL;
        if (inner == NULL)
            continue;
        struct recording *copy = recording_copy(recording);
        copy->operations[i] = operation_create(OPERATION_GRAPH);
        copy->operations[i]->graph.recording = inner;
        copy->operations[i]->node = child->node != NULL ? child->node : (CUgraphNode)child;
        operation_release(child);
        return copy;
    }
    return NULL;
}

/* Returns a copy with the node enabled, or disabled; NULL: it is not there. */
static struct recording *switched(const struct recording *recording, CUgraphNode node, int is_enabled)
{
    size_t at = find_node(recording, node);
    if (at == recording->count)
        return switched_inside(recording, node, is_enabled);
    struct recording *copy = at < 64 ? recording_copy(recording) : NULL;
    if (copy != NULL)
        copy->disabled = (recording->disabled & ~(UINT64_C(1) << at)) | (uint64_t)!is_enabled << at;
    return copy;
}

DRIVER(cuGraphNodeSetEnabled, 11060, (CUgraphExec, executable, CUgraphNode, node, unsigned int, is_enabled))
{
    CALL_REFUSE(!handle_is_valid(HANDLE_GRAPH_EXEC, executable), INVALID_VALUE);
    struct recording *previous = executable->recording, *now = switched(previous, node, is_enabled != 0);
    CALL_REFUSE(now == NULL, INVALID_VALUE);
    executable->recording = now;
    recording_release(previous);
    return CUDA_SUCCESS;
}
