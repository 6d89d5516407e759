/* Hooks that only check: they return the error of an earlier fault, refuse copies out of bounds, and report faults found by
 * waiting. */
#include "bounds.h"
#include "internal.h"

#include "values/visits.h"

/* Shows a copy or set that has been submitted to those who want to see it. `own`: a default stream is the thread's own. */
static CUresult shown(CUresult result, const struct host_call *call, CUstream stream, int own)
{
    const struct host_access *access = call->access;
    if (result == CUDA_SUCCESS && (access->written || access->read))
        visits_copied(&(struct visit_copy){.name = call->name,
                                           .stream = own ? own_default(stream) : stream,
                                           .to = access->to,
                                           .written = access->written,
                                           .from = access->from,
                                           .read = access->read,
                                           .frame = call->frame});
    return result;
}

/* The stream of a hook that has no parameter of that name. */
#pragma GCC diagnostic ignored "-Wshadow"
static const CUstream stream = NULL;

#define BY_HAND(symbol, base, thread, check, parameters, arguments)
#define QUEUES(symbol, base, thread, check, parameters, arguments)                                                             \
    WATCH(symbol, base, thread, check, parameters, real.symbol arguments)
#define WAITS(symbol, base, thread, check, parameters, arguments)                                                              \
    WATCH(symbol, base, thread, check, parameters, settled(real.symbol arguments, 0))
#define WATCH(symbol, base, thread, check, parameters, result)                                                                 \
    CUresult hook_##symbol parameters                                                                                          \
    {                                                                                                                          \
        struct host_access access = {0};                                                                                       \
        const struct host_call *const call = &(const struct host_call){base, __builtin_frame_address(0), &access};             \
        if (is_active()) {                                                                                                     \
            CUresult fault = failure();                                                                                        \
            if (fault != CUDA_SUCCESS)                                                                                         \
                return fault;                                                                                                  \
            if (!(check))                                                                                                      \
                return CUDA_ERROR_INVALID_VALUE;                                                                               \
        }                                                                                                                      \
        if (__builtin_expect(visits_see_copies, 0))                                                                            \
            return shown(result, call, stream, thread);                                                                        \
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
