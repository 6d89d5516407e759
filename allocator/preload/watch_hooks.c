/* The hooks that hooks.h describes: one macro for each kind. */
#include "api/closing.h"
#include "launch/device_progress.h"
#include "launch/launch.h"
#include "launch/inspect_table.h"
#include "launch/tensor_maps.h"

#include "bounds.h"
#include "preload_internal.h" /* last: see hooks.h */

#define BARE(...) __VA_ARGS__

/* What a stream means in the legacy form, and in the one for per-thread default streams. */
#define MEANT_0 as_it_is
#define MEANT_1 own_default

#define BY_HAND(symbol, base, thread, what, parameters, arguments)
#define COPIES(symbol, base, thread, check, parameters, arguments)                                                             \
    WATCH(symbol, base, check, parameters, real.symbol arguments, MEANT_##thread(stream), 0, 0, NULL)
#define COPIES_TO(symbol, base, thread, check, parameters, arguments)                                                          \
    WATCH(symbol, base, check, parameters, real.symbol arguments, MEANT_##thread(stream), 0, 0, (const void *)(uintptr_t)to)
#define SETS(symbol, base, thread, check, parameters, arguments)                                                               \
    WATCH(symbol, base, check, parameters, real.symbol arguments, MEANT_##thread(NULL), 0, 1, NULL)
#define COPIES_NOW(symbol, base, thread, check, parameters, arguments)                                                         \
    WATCH(symbol, base, check, parameters, settled(real.symbol arguments, 0), MEANT_##thread(NULL), 1, 1, NULL)
#define WATCH(symbol, base, check, parameters, result, on, waits, may_be_awaited, target)                                      \
    CUresult hook_##symbol parameters                                                                                          \
    {                                                                                                                          \
        struct order_copy copied;                                                                                              \
        struct host_kind kind = {0};                                                                                           \
        struct host_call this_call = {                                                                                         \
            .name = base, .frame = __builtin_frame_address(0), .stream = on, .kind = (may_be_awaited) ? &kind : NULL};         \
        const struct host_call *const call = &this_call;                                                                       \
        if (order_is_wanted()) {                                                                                               \
            copied = (struct order_copy){                                                                                      \
                .call = base, .frame = call->frame, .stream = on, .is_awaited = waits, .host_target = target};                 \
            this_call.copy = &copied;                                                                                          \
        }                                                                                                                      \
        if (is_active()) {                                                                                                     \
            CUresult fault = failure();                                                                                        \
            if (fault != CUDA_SUCCESS)                                                                                         \
                return fault;                                                                                                  \
            if (!(check))                                                                                                      \
                return CUDA_ERROR_INVALID_VALUE;                                                                               \
        }                                                                                                                      \
        struct tried tried;                                                                                                    \
        const unsigned wait = (waits) ? wait_begins(base, call->frame) : HOST_WAITS;                                           \
        CUresult answer = RELIEVED(result);                                                                                    \
        wait_ends(wait);                                                                                                       \
        if (progress_is_wanted() && answer == CUDA_SUCCESS)                                                                    \
            work_queued(on);                                                                                                   \
        if ((may_be_awaited) && __builtin_expect(kind.is_synchronous, 0))                                                      \
            answer = awaited_now(answer, on);                                                                                  \
        if (call->copy && answer == CUDA_SUCCESS)                                                                              \
            races_copied(call), races_learned(call);                                                                           \
        return answer;                                                                                                         \
    }

#define AFTER(symbol, base, thread, what, parameters, arguments)                                                               \
    CUresult hook_##symbol parameters                                                                                          \
    {                                                                                                                          \
        CUstream (*const meant)(CUstream) = MEANT_##thread;                                                                    \
        (void)meant;                                                                                                           \
        struct tried tried;                                                                                                    \
        CUresult result = RELIEVED(real.symbol arguments);                                                                     \
        if (result == CUDA_SUCCESS)                                                                                            \
            what;                                                                                                              \
        return result;                                                                                                         \
    }
#define ON_MEMORY(symbol, base, thread, what, parameters, arguments)                                                           \
    CUresult hook_##symbol parameters                                                                                          \
    {                                                                                                                          \
        const struct host_call *const call =                                                                                   \
            &(const struct host_call){.name = base, .frame = __builtin_frame_address(0), .stream = MEANT_##thread(stream)};    \
        if (is_active() && !memops_are_within(call, BARE what))                                                                \
            return CUDA_ERROR_INVALID_VALUE;                                                                                   \
        struct tried tried;                                                                                                    \
        CUresult result = RELIEVED(real.symbol arguments);                                                                     \
        if (order_is_wanted() && result == CUDA_SUCCESS)                                                                       \
            memops_done(call, BARE what);                                                                                      \
        return result;                                                                                                         \
    }
#define WHERE_WANTED(call) (order_is_wanted() ? (void)(call) : (void)0)
#define ORDERS(symbol, base, thread, what, parameters, arguments)                                                              \
    AFTER(symbol, base, thread, WHERE_WANTED(what), parameters, arguments)
#define QUEUES(symbol, base, thread, what, parameters, arguments)                                                              \
    AFTER(symbol, base, thread, (WHERE_WANTED(what), work_queued(meant(stream))), parameters, arguments)
#define BEFORE(symbol, base, thread, what, parameters, arguments)                                                              \
    CUresult hook_##symbol parameters                                                                                          \
    {                                                                                                                          \
        if (is_active())                                                                                                       \
            what;                                                                                                              \
        struct tried tried;                                                                                                    \
        return RELIEVED(real.symbol arguments);                                                                                \
    }

/* CUDA takes memory of cuMemAlloc for nothing of that, but would ours, which is mapped. */
#define NOT_OURS(symbol, base, thread, what, parameters, arguments)                                                            \
    CUresult hook_##symbol parameters                                                                                          \
    {                                                                                                                          \
        struct tried tried;                                                                                                    \
        return is_ours((CUdeviceptr)(what)) ? CUDA_ERROR_INVALID_VALUE : RELIEVED(real.symbol arguments);                      \
    }

/* The call about a node of a graph. */
#define NODE_CALL(base)                                                                                                        \
    (&(const struct host_call){.name = base, .frame = __builtin_frame_address(0), .kind = &(struct host_kind){.is_of_node = 1}})
#define CHECKS(symbol, base, thread, check, parameters, arguments)                                                             \
    CUresult hook_##symbol parameters                                                                                          \
    {                                                                                                                          \
        const struct host_call *const call = NODE_CALL(base);                                                                  \
        struct tried tried;                                                                                                    \
        CUresult result = is_active() && !(check) ? CUDA_ERROR_INVALID_VALUE : RELIEVED(real.symbol arguments);                \
        if (result != CUDA_SUCCESS && call->kind->executable) /* the node is what it was */                                    \
            keepers_forget(call->kind->executable, call->kind->node, 0);                                                       \
        return result;                                                                                                         \
    }

#define BEGINS(symbol, base, thread, what, parameters, arguments)                                                              \
    CUresult hook_##symbol parameters                                                                                          \
    {                                                                                                                          \
        struct stream *followed = capture_begins(MEANT_##thread(stream));                                                      \
        return capture_begun(real.symbol arguments, followed, what);                                                           \
    }

#define INSTEAD(symbol, base, thread, what, parameters, arguments)                                                             \
    CUresult hook_##symbol parameters                                                                                          \
    {                                                                                                                          \
        return what(real.symbol, BARE arguments);                                                                              \
    }

/* The driver's own debugger may still read the modules after a fault, and crashes if one is unloaded (driver 580.159.04). */
#define UNLOADS(symbol, base, thread, what, parameters, arguments)                                                             \
    CUresult hook_##symbol parameters                                                                                          \
    {                                                                                                                          \
        if (failure() != CUDA_SUCCESS)                                                                                         \
            return failure();                                                                                                  \
        if (is_active())                                                                                                       \
            launch_forget_functions();                                                                                         \
        if (inspector_now())                                                                                                   \
            inspector_now()->unloads(what);                                                                                    \
        return real.symbol arguments;                                                                                          \
    }
#define LOADED(handle, is_library, image)                                                                                      \
    (INSPECTOR_WANTS(loaded) ? inspector_now()->loaded(handle, is_library, image) : (void)0)
#define LOADED_FILE(handle, is_library, path)                                                                                  \
    (INSPECTOR_WANTS(loaded_file) ? inspector_now()->loaded_file(handle, is_library, path) : (void)0)

/* Kernels that a program puts into graphs itself, or changes there. Each is recorded with its arguments, as a kernel is that a
 * stream's capture puts there. */
static void note_node(const struct launch_call *call)
{
    struct context *context = is_active() ? context_current() : NULL;
    if (!context)
        return;
    launch_record_node(context, call);
    look_at_pointers(call, NULL, 1);
}

/* CUDA_KERNEL_NODE_PARAMS_v1, _v2 and _v3 begin alike; kernel->kern, which only the later ones have, is passed as `other`. */
#define CALL_OF(kernel, other)                                                                                                 \
    {                                                                                                                          \
        .function = (kernel)->func ? (kernel)->func : (CUfunction)(other),                                                     \
        .grid = {(kernel)->gridDimX, (kernel)->gridDimY, (kernel)->gridDimZ},                                                  \
        .block = {(kernel)->blockDimX, (kernel)->blockDimY, (kernel)->blockDimZ}, .shared_bytes = (kernel)->sharedMemBytes,    \
        .parameters = (kernel)->kernelParams, .extra = (kernel)->extra, .frame = __builtin_frame_address(0)                    \
    }
#define KERNEL_NODE(kernel, other) ((kernel) ? note_node(&(struct launch_call)CALL_OF(kernel, other)) : (void)0)

/* Nodes of any kind, some of which order streams. */
#define ANY_NODE(node)                                                                                                         \
    (WHERE_WANTED(order_node_added(node)), (node) && (node)->type == CU_GRAPH_NODE_TYPE_KERNEL                                 \
                                               ? note_node(&(struct launch_call)CALL_OF(&(node)->kernel, (node)->kernel.kern)) \
                                               : (void)0)

#define CHANGES_NODE(symbol, base, thread, what, parameters, arguments)                                                        \
    CUresult hook_##symbol parameters                                                                                          \
    {                                                                                                                          \
        if (is_active() && !node_is_within(NODE_CALL(base), what))                                                             \
            return CUDA_ERROR_INVALID_VALUE;                                                                                   \
        struct tried tried;                                                                                                    \
        CUresult result = RELIEVED(real.symbol arguments);                                                                     \
        if (result == CUDA_SUCCESS)                                                                                            \
            ANY_NODE(what);                                                                                                    \
        return result;                                                                                                         \
    }

#define ADDS_NODE(symbol, base, thread, what, parameters, arguments)                                                           \
    CUresult hook_##symbol parameters                                                                                          \
    {                                                                                                                          \
        if (is_active() && !node_is_within(NODE_CALL(base), what))                                                             \
            return CUDA_ERROR_INVALID_VALUE;                                                                                   \
        CUdeviceptr freed = node_begins(what);                                                                                 \
        struct tried tried;                                                                                                    \
        CUresult result = RELIEVED(real.symbol arguments);                                                                     \
        node_ends(what, freed, graph, result);                                                                                 \
        if (result == CUDA_SUCCESS)                                                                                            \
            ANY_NODE(what);                                                                                                    \
        return result;                                                                                                         \
    }

#define HOOK(symbol, base, version, thread, how, what, parameters, arguments)                                                  \
    how(symbol, base, thread, what, parameters, arguments)
PRELOAD_HOOKS(HOOK)

CUresult hook_cuCtxSynchronize(void)
{
    if (!is_active())
        return real.cuCtxSynchronize();
    CUresult fault = failure();
    return fault != CUDA_SUCCESS ? fault : synchronised("cuCtxSynchronize", context_synchronised(), real.cuCtxSynchronize);
}

CUresult hook_cuCtxSynchronize_v2(CUcontext context)
{
    CUcontext popped;
    if (!is_active() || !context || driver->cuCtxPushCurrent(context) != CUDA_SUCCESS)
        return real.cuCtxSynchronize_v2(context);
    CUresult result = failure();
    if (result == CUDA_SUCCESS)
        result = synchronised("cuCtxSynchronize", context_synchronised(), driver->cuCtxSynchronize);
    driver->cuCtxPopCurrent(&popped);
    return result;
}
