/* Hooks that only check: they return the error of an earlier fault, refuse copies out of bounds, and report faults found by
 * waiting. */
#include "bounds.h"
#include "internal.h"

#define BY_HAND(symbol, base, check, parameters, arguments)
#define QUEUES(symbol, base, check, parameters, arguments) WATCH(symbol, base, check, parameters, real.symbol arguments)
#define WAITS(symbol, base, check, parameters, arguments)                                                                      \
    WATCH(symbol, base, check, parameters, settled(real.symbol arguments, 0))
#define WATCH(symbol, base, check, parameters, result)                                                                         \
    CUresult hook_##symbol parameters                                                                                          \
    {                                                                                                                          \
        const struct host_call *const call = HOST_CALL(base);                                                                  \
        (void)call;                                                                                                            \
        if (is_active()) {                                                                                                     \
            CUresult fault = failure();                                                                                        \
            if (fault != CUDA_SUCCESS)                                                                                         \
                return fault;                                                                                                  \
            if (!(check))                                                                                                      \
                return CUDA_ERROR_INVALID_VALUE;                                                                               \
        }                                                                                                                      \
        return result;                                                                                                         \
    }
#define HOOK(symbol, base, version, thread, how, check, parameters, arguments) how(symbol, base, check, parameters, arguments)
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
