/* Hooks of one kind each: they return the error of an earlier fault, refuse copies out of bounds, report faults found by
 * waiting, and tell order/ what it wants to know. */
#include "bounds.h"
#include "internal.h"

#include "base/aside.h"
#include "launch/lens.h"

static void show_aside(void *copy)
{
    lens->copied(copy);
}

/* Shows a copy or set that has been submitted to those who want to see it. */
static void show(const struct host_call *call, CUstream stream)
{
    const struct host_access *access = call->access;
    if (access->written || access->read)
        aside_call(show_aside, &(struct lens_copy){.name = call->name,
                                                   .stream = stream,
                                                   .to = access->to,
                                                   .written = access->written,
                                                   .from = access->from,
                                                   .read = access->read,
                                                   .frame = call->frame});
}

/* What a stream means in the legacy form, and in the one for per-thread default streams. */
#define MEANT_0 as_it_is
#define MEANT_1 own_default

#define BY_HAND(symbol, base, thread, check, parameters, arguments)
#define COPIES(symbol, base, thread, check, parameters, arguments)                                                             \
    WATCH(symbol, base, check, parameters, real.symbol arguments, MEANT_##thread(stream), 0, NULL)
#define COPIES_TO(symbol, base, thread, check, parameters, arguments)                                                          \
    WATCH(symbol, base, check, parameters, real.symbol arguments, MEANT_##thread(stream), 0, (const void *)(uintptr_t)to)
#define SETS(symbol, base, thread, check, parameters, arguments)                                                               \
    WATCH(symbol, base, check, parameters, real.symbol arguments, MEANT_##thread(NULL), 0, NULL)
#define COPIES_NOW(symbol, base, thread, check, parameters, arguments)                                                         \
    WATCH(symbol, base, check, parameters, settled(real.symbol arguments, 0), MEANT_##thread(NULL), 1, NULL)
#define WATCH(symbol, base, check, parameters, result, on, waits, target)                                                      \
    CUresult hook_##symbol parameters                                                                                          \
    {                                                                                                                          \
        struct order_copy copied;                                                                                              \
        struct host_access access;                                                                                             \
        struct host_call this_call = {base, __builtin_frame_address(0), NULL, NULL};                                           \
        const struct host_call *const call = &this_call;                                                                       \
        if (order_is_wanted()) {                                                                                               \
            copied = (struct order_copy){                                                                                      \
                .call = base, .frame = call->frame, .stream = on, .is_awaited = waits, .host_target = target};                 \
            this_call.copy = &copied;                                                                                          \
        }                                                                                                                      \
        if (LENS_WANTS(copied)) {                                                                                              \
            access = (struct host_access){0};                                                                                  \
            this_call.access = &access;                                                                                        \
        }                                                                                                                      \
        if (is_active()) {                                                                                                     \
            CUresult fault = failure();                                                                                        \
            if (fault != CUDA_SUCCESS)                                                                                         \
                return fault;                                                                                                  \
            if (!(check))                                                                                                      \
                return CUDA_ERROR_INVALID_VALUE;                                                                               \
        }                                                                                                                      \
        CUresult answer = result;                                                                                              \
        if (call->copy && answer == CUDA_SUCCESS)                                                                              \
            races_copied(call);                                                                                                \
        if (call->access && answer == CUDA_SUCCESS)                                                                            \
            show(call, on);                                                                                                    \
        return answer;                                                                                                         \
    }
#define ORDERS(symbol, base, thread, noted, parameters, arguments)                                                             \
    CUresult hook_##symbol parameters                                                                                          \
    {                                                                                                                          \
        CUstream (*const meant)(CUstream) = MEANT_##thread;                                                                    \
        (void)meant;                                                                                                           \
        CUresult result = real.symbol arguments;                                                                               \
        if (order_is_wanted() && result == CUDA_SUCCESS)                                                                       \
            noted;                                                                                                             \
        return result;                                                                                                         \
    }
#define HOOK(symbol, base, version, thread, how, check, parameters, arguments)                                                 \
    how(symbol, base, thread, check, parameters, arguments)
PRELOAD_HOOKS(HOOK)

CUresult hook_cuCtxSynchronize(void)
{
    if (!is_active())
        return real.cuCtxSynchronize();
    CUresult fault = failure();
    return fault != CUDA_SUCCESS ? fault : synchronised(context_synchronised(), real.cuCtxSynchronize);
}

CUresult hook_cuCtxSynchronize_v2(CUcontext context)
{
    CUcontext popped;
    if (!is_active() || !context || driver->cuCtxPushCurrent(context) != CUDA_SUCCESS)
        return real.cuCtxSynchronize_v2(context);
    CUresult result = failure();
    if (result == CUDA_SUCCESS)
        result = synchronised(context_synchronised(), driver->cuCtxSynchronize);
    driver->cuCtxPopCurrent(&popped);
    return result;
}
