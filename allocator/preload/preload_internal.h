/*
 * Shared by the files of preload/: the hooks, the real functions behind them, and the checks that most hooks begin with. Before
 * cuInit has started cufence, or if the start failed, a hook only calls the real function.
 */
#pragma once

#include "contexts/contexts.h"
#include "driver/driver.h"
#include "finding/misuse.h"
#include "heap/heap.h"
#include "launch/host_waits.h"
#include "launch/pinned_memory.h"
#include "order/order.h"

#include "hooks.h" /* last: see there */

/* Our hook for each symbol: hook_<symbol>. */
#define DECLARE(symbol, base, version, thread, how, check, parameters, arguments) CUresult hook_##symbol parameters;
PRELOAD_HOOKS(DECLARE)
#undef DECLARE

/* The driver's functions, one for each hook. A hook (1) asks whether cufence runs and the context has not faulted, (2) tells
 * the heap, the launch ring or order/ what the call means, and (3) calls the function here, or answers in its place. It never
 * calls a hook, and returns no error that CUDA would not return. NULL if this driver lacks one; then its hook was never handed
 * out. Constant once a hook was handed out. */
struct real {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration */
#define MEMBER(symbol, base, version, thread, how, check, parameters, arguments) CUresult(*symbol) parameters;
    PRELOAD_HOOKS(MEMBER)
#undef MEMBER
};
extern struct real real;

/* start.c */
extern int preload_is_active;                 /* atomic: cufence runs. Cleared only in a forked child */
extern int preload_fault_returned;            /* atomic: a fault was returned to the program */
extern const struct options *preload_options; /* constant once set, like the number of devices */
extern int preload_devices;

static inline int is_active(void)
{
    return __atomic_load_n(&preload_is_active, __ATOMIC_ACQUIRE);
}

/* Returns the error that the program gets because of an earlier fault in the current context. CUDA_SUCCESS: no fault, or the
 * program gets its error from CUDA itself. */
static inline CUresult failure(void)
{
    CUresult fault = is_active() ? context_fault() : CUDA_SUCCESS;
    if (__builtin_expect(fault != CUDA_SUCCESS, 0))
        __atomic_store_n(&preload_fault_returned, 1, __ATOMIC_RELAXED);
    return fault;
}

/* A call of the driver, and heap_returns() before it. */
struct tried {
    uint64_t returns;
    CUresult result;
};

/* memory_hooks.c: gives back all memory that is kept, because the driver had none left. Returns whether there is more since
 * then. */
int relieve(uint64_t returns);
/* Evaluates a call of the driver, and once more behind that. The caller has a variable `struct tried tried`. */
#define RELIEVED(call)                                                                                                         \
    (tried.returns = heap_returns(),                                                                                           \
     __builtin_expect((tried.result = (call)) == CUDA_ERROR_OUT_OF_MEMORY, 0) && relieve(tried.returns) ? (call)               \
                                                                                                        : tried.result)

/* Whether the address is in our address space: in a live or freed buffer of ours, or a guard. */
static inline int is_ours(CUdeviceptr pointer)
{
    return is_active() && heap_owns(pointer);
}

/* Translate a stream handle for the legacy and for the per-thread default stream forms. */
static inline CUstream as_it_is(CUstream stream)
{
    return stream;
}

static inline CUstream own_default(CUstream stream)
{
    return stream ? stream : CU_STREAM_PER_THREAD;
}

/* table.c: looks up the real functions. Call before anything else in this room; any thread, any number of times. */
void table_open(void);

/* ---- the other files ---- */

/* launch_hooks.c: a freed pointer among the arguments is unmapped, so that the kernel faults if it uses it; the buffers of a
 * kernel in a graph will be, when they are freed (heap.h). function: NULL if it is not known yet. */
void look_at_pointers(const struct launch_call *call, const struct launch_function *function, int is_of_graph);

/* What the rows of hooks.h call. */
void give_hook(const char *name, void **out, int version);              /* table.c: in place of what the driver has answered */
CUresult host_free(CUresult (*function)(void *), void *pointer);        /* memory_hooks.c */
void pool_created(CUmemoryPool pool, const CUmemPoolProps *properties); /* pool_hooks.c, as the next */
void graph_memory_trimmed(CUdevice device);
void pools_changed(void); /* a device has another pool, or a context is destroyed */
/* memops.c: CU_POINTER_ATTRIBUTE_SYNC_MEMOPS. awaited_now() is for what it asks of a copy or set that was called on the stream.
 */
CUresult pointer_set(CUresult (*function)(const void *, CUpointer_attribute, CUdeviceptr), const void *value,
                     CUpointer_attribute attribute, CUdeviceptr pointer);
CUresult awaited_now(CUresult result, CUstream stream);
void pool_shared(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count); /* peers.c, as the next three */
void peer_changed(CUcontext owner, int is_allowed);
int peer_may_access(int device, int peer);        /* the program has given `peer` access to the memory of `device` */
void peer_reaches(CUdeviceptr address, int peer); /* gives it access to the buffer there, for a copy. -1: none */
CUresult context_destroy(CUresult (*function)(CUcontext), CUcontext context); /* context_hooks.c, as the next six */
void context_attached(CUcontext context);
CUresult context_detach(CUresult (*function)(CUcontext), CUcontext context);
CUresult primary_reset(CUresult (*function)(CUdevice), CUdevice device);
CUresult primary_release(CUresult (*function)(CUdevice), CUdevice device);
void primary_retained(CUdevice device);
void green_created(CUgreenCtx green, CUdevice device);
CUresult capture_asks(void); /* capture_hooks.c */
int capture_asks_stream(CUstream stream);

/* The error of a call that a capture in progress does not allow; CUDA_SUCCESS: it may be made. Some such calls end the capture,
 * as they do natively. */
static inline CUresult capture_forbids(void)
{
    return __builtin_expect(heap_may_capture(), 0) ? capture_asks() : CUDA_SUCCESS;
}

static inline int capture_is_on(CUstream stream)
{
    return __builtin_expect(heap_may_capture(), 0) && capture_asks_stream(stream);
}

int captures_hold_off(void); /* whether a context may be synchronised, since no stream has ever begun a capture. Those that do
                                wait a moment for captures_go_on(), to be called then */
void captures_go_on(void);
struct stream *capture_begins(CUstream stream); /* capture_hooks.c, as the next four: NULL if it is not followed */
CUresult capture_begun(CUresult result, struct stream *stream, int is_into_own);
void capture_reordered(CUstream stream, unsigned flags);
/* keepers.c */
CUresult texture_created(CUresult (*function)(CUtexObject *, const CUDA_RESOURCE_DESC *, const CUDA_TEXTURE_DESC *,
                                              const CUDA_RESOURCE_VIEW_DESC *),
                         CUtexObject *object, const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *texture,
                         const CUDA_RESOURCE_VIEW_DESC *view);
CUresult texture_bound(CUresult (*function)(size_t *, CUtexref, CUdeviceptr, size_t), size_t *offset, CUtexref texture,
                       CUdeviceptr pointer, size_t size);
CUresult texture_bound_2d(CUresult (*function)(CUtexref, const CUDA_ARRAY_DESCRIPTOR *, CUdeviceptr, size_t), CUtexref texture,
                          const CUDA_ARRAY_DESCRIPTOR *shape, CUdeviceptr pointer, size_t pitch);
/* capture_hooks.c: around the addition of a node of any kind to a graph. node_begins() returns what node_ends() takes. */
CUdeviceptr node_begins(CUgraphNodeParams *node);
void node_ends(CUgraphNodeParams *node, CUdeviceptr freed, CUgraph graph, CUresult result);
void node_allocates(size_t bytes);
/* Some graph has a node for which the driver allocates. graph_wants(): how much it does for this one; graph_makes_room(): call
 * before a launch. */
void graph_has_node(void);
size_t graph_wants(CUgraph graph);
CUgraphNode *graph_nodes(CUgraph graph, size_t *count); /* malloc'ed */
CUgraphNodeType node_type(CUgraphNode node); /* one that is asked for what another type has fails, which the driver logs */
void graph_makes_room(CUgraphExec executable);
CUresult free_node_added(CUresult (*function)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUdeviceptr),
                         CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count, CUdeviceptr pointer);
void freed_by_node(CUdeviceptr *pointer); /* translates what a node tells that it frees */
void allocated_by_node(CUdeviceptr *pointer, size_t *size);
void node_is_told(CUgraphNodeParams *node); /* the same for a node of any kind */
void graph_made(CUgraph graph);
void graph_instantiated(CUgraphExec executable, CUgraph graph);
CUresult executable_updated(CUresult (*function)(CUgraphExec, CUgraph, CUgraphNode *, CUgraphExecUpdateResult *),
                            CUgraphExec executable, CUgraph graph, CUgraphNode *node, CUgraphExecUpdateResult *why);
CUresult executable_updated_v2(CUresult (*function)(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo *),
                               CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo *why);
void executable_ends(CUgraphExec executable);

/* context_hooks.c: call once, at the start. Returns 0 if out of host memory. */
int contexts_count_devices(int devices);
/* Call with the result of a function that has waited for work of the current context. Learns of faults in that work. Returns
 * the result, or failure() if there is one. */
CUresult settled(CUresult result, int is_context_idle);
/* Calls a synchronisation of the current context and then settled(). `call`: what the program calls. `context`: the context all
 * of whose work is waited for, or NULL. */
CUresult synchronised(const char *call, struct context *context, CUresult (*function)(void));

/* launch_hooks.c: for device_progress.h, work on the stream that is no launch. */
void work_queued(CUstream stream);

/* host_waits.h, while cufence is active. */
static inline unsigned wait_begins(const char *call, const void *frame)
{
    return is_active() ? host_wait_begins(call, frame) : HOST_WAITS;
}

static inline void wait_ends(unsigned number)
{
    if (number != HOST_WAITS)
        host_wait_ends(number);
}

/* memory_hooks.c: host memory that kernels of the current context can reach at this address. */
void note_pinned(CUdeviceptr address, size_t size, enum pinned_kind kind);

/* pool_hooks.c: accounts of the program's memory pools. An owner is heap_request.owner: 1 and above here. */
#define OWNER_NO_POOL HEAP_PLAIN
#define OWNER_GRAPH 2u                                /* a graph: its memory is in no pool's figures */
unsigned pool_current(const struct context *context); /* of its device; 0: left to the driver */
unsigned pool_of_handle(CUmemoryPool handle);         /* 0: left to the driver */
int pool_reserve(unsigned owner, size_t size);        /* counts it; 0: beyond the pool's limit */
void pool_cancel(unsigned owner, size_t size);        /* the allocation failed */
void pool_mapped(unsigned owner, size_t mapped);      /* the allocation mapped this much */
void pool_freed(const struct heap_freed *freed);      /* the buffer was freed */
uint64_t pools_keep(int device);                      /* freed memory that the program wants its pools to keep, in bytes */
void pools_relieved(int device, uint64_t left);       /* of what was kept, all but that has been released */
CUmemoryPool pool_handle(unsigned owner);             /* NULL: it is no pool */
int pool_device(unsigned owner, const struct context *context); /* device of its memory: the pool's, or the context's */

/* map_hooks.c: after a tensor map was encoded. stride: of the dimensions from 1 on. box: NULL if it is no tiled map. */
struct map_shape {
    CUtensorMapDataType type;
    cuuint32_t rank;
    const void *base;
    const cuuint64_t *size, *stride;
    const cuuint32_t *box;
    int is_interleaved;
};
void map_encoded(const char *call, const CUtensorMap *encoded, const struct map_shape *shape);
CUresult map_moved(CUresult (*replace)(CUtensorMap *, void *), CUtensorMap *encoded, void *base);
CUresult map_reencoded(CUresult (*set)(CUtensorMap *, map_class, map_class *), CUtensorMap *encoded, map_class wanted,
                       map_class *effective);

/* coredumps.c: the program's own core dumps. */
typedef CUresult (*coredump_call)(CUcoredumpSettings attribute, void *value, size_t *size);
CUresult coredump_set(coredump_call function, CUcoredumpSettings attribute, void *value, size_t *size);
CUresult coredump_get(coredump_call function, CUcoredumpSettings attribute, void *value, size_t *size);
CUresult coredump_set_global(coredump_call function, CUcoredumpSettings attribute, void *value, size_t *size);
CUresult coredump_get_global(coredump_call function, CUcoredumpSettings attribute, void *value, size_t *size);

/* callers.c: special requirements of the code at this address on its allocations. */
struct needs {
    uint32_t alignment; /* bytes; 0: none */
    uint32_t exports;   /* 1: it exports the memory to other processes */
};
struct needs caller_needs(const void *address);

/* What is particular about a copy or set. */
struct host_kind {
    int is_of_node;         /* a graph will do it, perhaps with buffers that are not live now */
    int is_told;            /* and this is what the driver tells of it: the checks of bounds.h only note it */
    CUgraphExec executable; /* whose node it is, as far as the graph is instantiated; else NULL */
    CUgraphNode node;
    int is_inner;       /* so deep in child graphs */
    int is_synchronous; /* else: it may return before it is done, but a buffer asks that it does not; set by bounds_within() */
};

/* A call intercepted by a hook. No larger than it is: each free makes one. */
struct host_call {
    const char *name;        /* of the driver function, without its symbol's suffixes: the base in hooks.h */
    const void *frame;       /* __builtin_frame_address(0) of the hook; leads to its caller */
    struct order_copy *copy; /* with streams=on: where the checks of bounds.h note what it accesses. Else NULL */
    CUstream stream;         /* of a copy or set, as the calling thread names it */
    struct host_kind *kind;  /* of one that is no call on a stream; else NULL */
};
#define HOST_CALL(called) (&(const struct host_call){.name = called, .frame = __builtin_frame_address(0)}) /* in a hook */

/* capture_hooks.c: whether what a node will do stays within our buffers, as far as they are live. */
int node_is_within(const struct host_call *call, const CUgraphNodeParams *node);

/*
 * keepers.c: buffers whose address a node of a graph or a texture keeps, and that may be freed before a launch uses it. give():
 * the call gives one to a node; take(): the driver tells that a node does this; follow(): the executable was made of the graph;
 * change(): the checks of this call say what its node does from now on; enable(): whether it does; forget(): that is no longer
 * known of one node or (NULL) all, or of a texture (ends: not even who is disabled). allow_graph(), allow_launch() (call it if
 * textures_are_known, atomic): return 0 and report it if the launch would access such a buffer.
 */
extern int textures_are_known;
void keepers_give(const struct host_call *call, const struct heap_range *range, uint64_t address, size_t size, int is_write);
void keepers_take(const struct host_kind *kind, uint64_t address, size_t size, int is_write);
void keepers_follow(CUgraphExec executable, CUgraph graph);
int keepers_change(const struct host_call *call, CUgraphExec executable, CUgraphNode node);
void keepers_forget(CUgraphExec executable, CUgraphNode node, int ends);
void keepers_enable(CUgraphExec executable, CUgraphNode node, int is_on);
void keepers_forget_texture(CUtexObject texture);
int keepers_allow_graph(const struct host_call *call, CUgraphExec graph);
int keepers_allow_launch(const struct launch_call *call, const char *name_of_call);

/* refusals.c: reports an invalid call on one of our buffers. `what` holds its kind, address, access and what is there;
 * cufence_error_detail() is its message. Returns CUDA_ERROR_INVALID_VALUE. */
CUresult misuse(const struct host_call *call, struct misuse what);

/* races.c: with streams=on. Call races_before_free() before a free on the stream, and races_copied() after a copy or set that
 * succeeded, with what it has accessed. They report a buffer that another stream may still use. */
void races_before_free(const struct host_call *call, const struct heap_claim *claim, struct stream *stream);
void races_tell(const char *call, const void *frame, const struct order_race *race); /* for order_tell_race */
void races_copied(const struct host_call *call);
/* With streams=on+host: before a copy, with its part in the host's memory; where the host has learned that work is done; and
 * before page-locked memory goes. */
void races_host_copy(const struct host_call *call, const void *memory, size_t size, int is_read);
void races_settle(const struct host_call *call);
void races_before_host_free(const struct host_call *call, void *memory);

/* memops.c: operations of a stream on memory: whether what they write is within our buffers, and after their call, with
 * streams=on or nan=. */
int memops_are_within(const struct host_call *call, const CUstreamBatchMemOpParams *operations, unsigned count);
void memops_done(const struct host_call *call, const CUstreamBatchMemOpParams *operations, unsigned count);

static inline void races_learned(const struct host_call *call)
{
    if (order_host_is_wanted())
        races_settle(call);
}

/* ---- for interpose.c, which the loader puts into a program (libcufence_preload.so): it opens libcufence.so at the first use
 * of the driver, and calls these. Any thread, at any time. ---- */

#define CUFENCE_PRELOAD_EXPORT __attribute__((visibility("default")))

/* Returns the function to use in place of the driver's `symbol`, which the program has found at this address; NULL if it is not
 * hooked, this driver lacks it, or the address is no driver's: a program may have a library of its own with the driver's names.
 * found: NULL where the program was not told an address. Opens the driver library, but calls nothing in it. */
CUFENCE_PRELOAD_EXPORT void *cufence_preload_hook(const char *symbol, const void *found);

/* Call before the process ends without exit handlers: waits for the report of a fault that the program has been told of. Takes
 * no lock, so that it may be called in a signal handler. is_killed: by abort(); -1: it goes on, for no program has replaced it.
 */
CUFENCE_PRELOAD_EXPORT void cufence_preload_before_exit(int is_killed);
