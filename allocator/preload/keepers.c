/*
 * What keeps addresses of our buffers beyond the call that it was given them: nodes of graphs that copy or set, and textures.
 *
 * Once a copy or a texture has faulted, nothing tells whose memory that was. So (1) who gives a node a buffer of ours is noted,
 * (2) when its graph is instantiated, the driver is asked what the nodes access by then, and (3) a launch of a graph, or of a
 * kernel that is given a texture, is refused once such a buffer has been freed.
 *
 * Textures also need more than the 16 bytes that align=16 gives (512, as CUDA's own allocations have). Where that makes the
 * call fail, it is said, and the place of allocation gets more from then on.
 */
#include "bounds.h"
#include "preload_internal.h"

#include "analysis/verdict/signature.h"
#include "base/aside.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/output.h"
#include "base/reader.h"
#include "base/text.h"
#include "base/thread.h"
#include "launch/inspect_table.h"

#define GIVEN_KEPT 1024
#define DEEPEST 16 /* child graphs in child graphs */

static struct given {
    uint64_t address, size, buffer; /* of the access, and the buffer's number */
    uint64_t time_ns, stream;
    const char *call;
    uint32_t tid, stack; /* stack_capture_interned() */
    int is_write;
} given[GIVEN_KEPT];         /* to nodes: a ring; under the lock, like the rest */
static uint64_t given_count; /* read without it, too, so that a program without any pays nothing, like the next two */
static int have_keepers;
int textures_are_known;
static uint64_t seen = UINT64_MAX; /* heap_given_frees() when textures were looked at */
static int was_any_gone;           /* and what that said */

static struct keeper {
    struct keeper_key {
        uint64_t handle;               /* of an executable graph, or a texture: a small number, which each context gives out */
        const struct context *context; /* NULL: a graph */
    } key;
    UT_hash_handle hh;
    uint64_t generation; /* of the context */
    uint64_t frees;      /* heap_given_frees() when all was still there */
    size_t count;
    struct access {
        CUgraphNode node; /* of the graph, or of a child graph in it */
        int is_inner;     /* in a child graph */
        int is_off;       /* the node is disabled, and this is no access */
        struct given given;
    } * accesses;
} * keepers;
static struct lock lock = LOCK(RANK_EXECUTABLES);

static uint64_t generation_of(const struct context *context)
{
    return context ? __atomic_load_n(&context->generation, __ATOMIC_RELAXED) : 0;
}

static struct keeper *find_locked(uint64_t handle, const struct context *context)
{
    const struct keeper_key key = {handle, context};
    struct keeper *keeper;
    lock_expect(RANK_EXECUTABLES);
    HASH_FIND(hh, keepers, &key, sizeof key, keeper);
    return keeper;
}

static void add_locked(uint64_t handle, const struct context *context, struct access access)
{
    struct keeper *keeper = find_locked(handle, context);
    if (!keeper && (keeper = calloc(1, sizeof *keeper)) != NULL) {
        keeper->key = (struct keeper_key){handle, context};
        keeper->generation = generation_of(context);
        HASH_ADD(hh, keepers, key, sizeof keeper->key, keeper);
        if ((keeper = HASH_KEPT(keeper)) != NULL)
            __atomic_add_fetch(&textures_are_known, context != NULL, __ATOMIC_RELAXED);
    }
    if (keeper && list_make_room(&keeper->accesses, keeper->count, sizeof *keeper->accesses))
        keeper->accesses[keeper->count++] = access;
    __atomic_store_n(&have_keepers, keepers != NULL, __ATOMIC_RELEASE);
}

static struct given given_by(const struct host_call *call, uint64_t address, uint64_t size, uint64_t buffer, int is_write)
{
    return (struct given){.address = address,
                          .size = size,
                          .buffer = buffer,
                          .time_ns = monotonic_ns(),
                          .stream = (uint64_t)(uintptr_t)call->stream,
                          .call = call->name,
                          .tid = thread_id(),
                          .stack = stack_capture_interned(),
                          .is_write = is_write};
}

/* node: NULL: all. A disabled one remains so until the handle ends. Those in child graphs are forgotten with any: whether a
 * program may change them alone, CUDA does not say. */
static void forget(uint64_t handle, const struct context *context, CUgraphNode node, int ends)
{
    size_t kept = 0;
    HOLD(&lock);
    struct keeper *keeper = find_locked(handle, context);
    if (!keeper)
        return;
    for (size_t i = 0; !ends && i < keeper->count; i++) {
        const struct access *access = &keeper->accesses[i];
        if (access->is_off || (node && access->node != node && !access->is_inner))
            keeper->accesses[kept++] = *access;
    }
    keeper->count = kept;
    if (kept)
        return;
    __atomic_sub_fetch(&textures_are_known, context != NULL, __ATOMIC_RELAXED);
    seen = UINT64_MAX;
    HASH_DEL(keepers, keeper);
    free(keeper->accesses);
    free(keeper);
    __atomic_store_n(&have_keepers, keepers != NULL, __ATOMIC_RELEASE);
}

void keepers_forget(CUgraphExec executable, CUgraphNode node, int ends)
{
    if (__atomic_load_n(&have_keepers, __ATOMIC_ACQUIRE))
        forget((uint64_t)(uintptr_t)executable, NULL, node, ends);
}

/* Returns the number of accesses if the node is enabled. */
static size_t find_disabled(const struct keeper *keeper, CUgraphNode node)
{
    size_t i = 0;
    while (i < keeper->count && !(keeper->accesses[i].is_off && keeper->accesses[i].node == node))
        i++;
    return i;
}

void keepers_enable(CUgraphExec executable, CUgraphNode node, int is_on)
{
    HOLD(&lock);
    struct keeper *keeper = find_locked((uint64_t)(uintptr_t)executable, NULL);
    size_t disabled = keeper ? find_disabled(keeper, node) : 0;
    if (keeper && disabled < keeper->count)
        keeper->accesses[disabled] = keeper->accesses[--keeper->count];
    if (keeper)
        keeper->frees = UINT64_MAX;
    if (!is_on)
        add_locked((uint64_t)(uintptr_t)executable, NULL, (struct access){.node = node, .is_off = 1});
}

static int is_gone(const struct given *kept)
{
    return heap_given_is_gone(kept->address, kept->buffer);
}

static int find_gone(uint64_t handle, const struct context *context, struct given *out)
{
    const uint64_t frees = heap_given_frees();
    HOLD(&lock);
    struct keeper *keeper = find_locked(handle, context);
    if (!keeper || keeper->generation != generation_of(context) || keeper->frees == frees)
        return 0;
    for (size_t i = 0; i < keeper->count; i++) {
        *out = keeper->accesses[i].given;
        if (is_gone(out) && find_disabled(keeper, keeper->accesses[i].node) == keeper->count)
            return 1;
    }
    keeper->frees = frees;
    return 0;
}

struct naming { /* large */
    struct earlier_use use;
    uint32_t stack;
    struct stack_frame frames[STACK_READ];
};

static void name_frames(void *argument)
{
    struct naming *naming = argument;
    naming->use.frames = naming->frames;
    naming->use.frame_count = stack_interned_frames(naming->stack, naming->frames, STACK_READ);
}

/* Who has given the address. The caller frees it; NULL: out of host memory. */
static struct earlier_use *giver(const struct host_call *call, const struct given *gone, uint64_t graph)
{
    struct naming *naming = malloc(sizeof *naming);
    if (!naming)
        return NULL;
    naming->stack = gone->stack;
    naming->use = (struct earlier_use){.call = gone->call,
                                       .is_kept = 1,
                                       .graph = graph,
                                       .stream = gone->stream,
                                       .by_stream = (uint64_t)(uintptr_t)call->stream,
                                       .tid = gone->tid,
                                       .time_ns = gone->time_ns};
    aside_call(name_frames, naming);
    return &naming->use;
}

/* ---- graphs ---- */

void keepers_give(const struct host_call *call, const struct heap_range *range, uint64_t address, size_t size, int is_write)
{
    int is_of_node = call->kind && call->kind->is_of_node;
    if ((!is_of_node && !capture_asks_stream(call->stream)) || !heap_given_for_later(address))
        return;
    const struct given now = given_by(call, address, size, range->id, is_write);
    HOLD(&lock);
    given[given_count % GIVEN_KEPT] = now;
    __atomic_store_n(&given_count, given_count + 1, __ATOMIC_RELEASE);
    if (is_of_node && call->kind->executable)
        add_locked((uint64_t)(uintptr_t)call->kind->executable, NULL, (struct access){.node = call->kind->node, .given = now});
}

void keepers_take(const struct host_kind *kind, uint64_t address, size_t size, int is_write)
{
    const struct given *found = NULL;
    HOLD(&lock);
    for (uint64_t i = given_count; i-- > 0 && given_count - i <= GIVEN_KEPT && !(found && found->size == size);) {
        const struct given *next = &given[i % GIVEN_KEPT];
        if (next->address == address && next->is_write == is_write && (!found || next->size == size))
            found = next; /* the driver may put the size in other words */
    }
    if (found)
        add_locked((uint64_t)(uintptr_t)kind->executable, NULL, (struct access){kind->node, kind->is_inner, .given = *found});
}

static void follow_nodes(const struct host_call *call, CUgraph graph)
{
    CUDA_MEMCPY3D copy;
    CUDA_MEMSET_NODE_PARAMS set;
    CUgraph child;
    size_t count = 0;
    CUgraphNode *nodes = graph_nodes(graph, &count);
    for (size_t i = 0; i < count; i++) {
        CUgraphNodeType type = node_type(nodes[i]);
        call->kind->node = nodes[i];
        if (type == CU_GRAPH_NODE_TYPE_MEMCPY && driver->cuGraphMemcpyNodeGetParams(nodes[i], &copy) == CUDA_SUCCESS)
            bounds_within_3d(call, &copy);
        else if (type == CU_GRAPH_NODE_TYPE_MEMSET && driver->cuGraphMemsetNodeGetParams(nodes[i], &set) == CUDA_SUCCESS)
            bounds_within_set_node(call, set.dst, set.pitch, set.elementSize, set.width, set.height);
        else if (type == CU_GRAPH_NODE_TYPE_GRAPH && call->kind->is_inner < DEEPEST &&
                 driver->cuGraphChildGraphNodeGetGraph(nodes[i], &child) == CUDA_SUCCESS) {
            call->kind->is_inner++;
            follow_nodes(call, child);
            call->kind->is_inner--;
        }
    }
    free(nodes);
}

void keepers_follow(CUgraphExec executable, CUgraph graph)
{
    struct host_kind kind = {.is_of_node = 1, .is_told = 1, .executable = executable};
    keepers_forget(executable, NULL, 1); /* its handle may have been another's */
    if (__atomic_load_n(&given_count, __ATOMIC_ACQUIRE))
        follow_nodes(&(const struct host_call){.kind = &kind}, graph);
}

int keepers_change(const struct host_call *call, CUgraphExec executable, CUgraphNode node)
{
    keepers_forget(executable, node, 0);
    call->kind->executable = executable;
    call->kind->node = node;
    return 1;
}

int keepers_allow_graph(const struct host_call *call, CUgraphExec graph)
{
    struct given gone;
    uint64_t handle = (uint64_t)(uintptr_t)graph;
    if (!__atomic_load_n(&have_keepers, __ATOMIC_ACQUIRE) || !find_gone(handle, NULL, &gone) ||
        capture_is_on(call->stream)) /* it may never be launched */
        return 1;
    struct earlier_use *use = giver(call, &gone, handle);
    bounds_refuse(call, gone.address, gone.size, gone.is_write, use);
    free(use);
    return 0;
}

/* ---- textures ---- */

/* Whether the buffer of any is gone. */
static int any_is_gone(void)
{
    const uint64_t frees = heap_given_frees();
    HOLD(&lock);
    if (seen == frees)
        return was_any_gone;
    was_any_gone = 0;
    for (const struct keeper *keeper = keepers; keeper && !was_any_gone; keeper = keeper->hh.next)
        was_any_gone = keeper->key.context && keeper->count && is_gone(&keeper->accesses[0].given);
    seen = frees;
    return was_any_gone;
}

static void follow(CUtexObject handle, CUdeviceptr memory, const void *frame)
{
    struct heap_range range;
    const struct context *context = context_current();
    forget(handle, context, NULL, 1); /* it may have been another's, which ended with its context */
    if (!context || !heap_range_of(memory, &range) || !heap_given_for_later(memory))
        return;
    const struct given now =
        given_by(&(const struct host_call){.name = "cuTexObjectCreate", .frame = frame}, memory, range.size, range.id, 0);
    HOLD(&lock);
    add_locked(handle, context, (struct access){.given = now});
    seen = UINT64_MAX;
}

void keepers_forget_texture(CUtexObject texture)
{
    if (__atomic_load_n(&textures_are_known, __ATOMIC_RELAXED))
        forget(texture, context_current(), NULL, 1);
}

/* Handles are small numbers, which other arguments have, too. The kernel's code tells which of them it reads through, if it can
 * be had: not during a capture. */
static int is_texture(CUfunction handle, const struct launch_function *function, uint32_t argument, int device)
{
    if (!INSPECTOR_WANTS(fetches) ||
        !inspector_now()->fetches(handle, function->name, device, function->arguments[argument].offset))
        return 0;
    char *demangled = text_demangled(function->name);
    int is = signature_is(demangled, function->argument_count, argument, "unsigned long long");
    free(demangled);
    return is;
}

static __attribute__((noinline)) int refuse(const struct launch_call *launch, const char *name_of_call, CUtexObject texture,
                                            uint32_t argument, const struct given *gone)
{
    const struct host_call call = {.name = name_of_call, .frame = launch->frame, .stream = launch->stream};
    cufence_description where;
    struct earlier_use *use = giver(&call, gone, 0);
    heap_describe(gone->address, &where);
    error_set(CUFENCE_ERROR_INVALID_ARGUMENT,
              "gives a kernel texture 0x%llx, as argument %u, of buffer #%llu, which has been freed", texture, argument,
              (unsigned long long)gone->buffer);
    misuse(&call, (struct misuse){.kind = "use-after-free", .address = gone->address, .where = &where, .earlier = use});
    free(use);
    return 0;
}

int keepers_allow_launch(const struct launch_call *call, const char *name_of_call)
{
    struct launch_span span;
    struct given gone;
    const struct launch_function *function = any_is_gone() ? functions_find(call->function) : NULL;
    const struct context *context = function ? context_current() : NULL;
    for (uint32_t i = 0; function && launch_span(call, function, i, &span); i++) {
        CUtexObject texture = !span.is_all && span.size == sizeof texture ? load_u64(span.bytes) : 0;
        if (texture && context && find_gone(texture, context, &gone) && !heap_captures() &&
            is_texture(call->function, function, i, context->device))
            return refuse(call, name_of_call, texture, i, &gone);
    }
    return 1;
}

static void tell(const char *call, CUdeviceptr pointer)
{
    struct heap_range range;
    int needed = 0;
    if (!is_ours(pointer) || !heap_range_of(pointer, &range) ||
        driver->cuDeviceGetAttribute(&needed, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, range.device) != CUDA_SUCCESS ||
        needed <= 0 || pointer % (unsigned)needed == 0 || !heap_wants_alignment(pointer, (uint32_t)needed))
        return;
    output_say(
        "cufence: %s fails because 0x%llx, in buffer #%llu of %llu bytes, is no multiple of %d bytes, which a texture needs "
        "and CUDA's own allocations are: align=%d gives that to every buffer. From now on those allocated at the same place "
        "have it\n",
        call, (unsigned long long)pointer, (unsigned long long)range.id, (unsigned long long)range.size, needed, needed);
}

CUresult texture_created(CUresult (*function)(CUtexObject *, const CUDA_RESOURCE_DESC *, const CUDA_TEXTURE_DESC *,
                                              const CUDA_RESOURCE_VIEW_DESC *),
                         CUtexObject *object, const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *texture,
                         const CUDA_RESOURCE_VIEW_DESC *view)
{
    struct tried tried;
    CUdeviceptr memory = 0;
    CUresult result = RELIEVED(function(object, resource, texture, view));
    if (resource && resource->resType == CU_RESOURCE_TYPE_LINEAR)
        memory = resource->res.linear.devPtr;
    else if (resource && resource->resType == CU_RESOURCE_TYPE_PITCH2D)
        memory = resource->res.pitch2D.devPtr;
    if (result == CUDA_ERROR_INVALID_VALUE)
        tell("cuTexObjectCreate", memory);
    else if (result == CUDA_SUCCESS && is_active())
        follow(*object, memory, __builtin_frame_address(0));
    return result;
}

CUresult texture_bound(CUresult (*function)(size_t *, CUtexref, CUdeviceptr, size_t), size_t *offset, CUtexref texture,
                       CUdeviceptr pointer, size_t size)
{
    CUresult result = function(offset, texture, pointer, size);
    if (result == CUDA_ERROR_INVALID_VALUE)
        tell("cuTexRefSetAddress", pointer);
    return result;
}

CUresult texture_bound_2d(CUresult (*function)(CUtexref, const CUDA_ARRAY_DESCRIPTOR *, CUdeviceptr, size_t), CUtexref texture,
                          const CUDA_ARRAY_DESCRIPTOR *shape, CUdeviceptr pointer, size_t pitch)
{
    CUresult result = function(texture, shape, pointer, pitch);
    if (result == CUDA_ERROR_INVALID_VALUE)
        tell("cuTexRefSetAddress2D", pointer);
    return result;
}
