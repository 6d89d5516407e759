/* Contexts as the driver knows them: which is current, whether it is still the one that its handle named. */
#include "contexts_internal.h"

int contexts_watched;

void contexts_watch(void)
{
    __atomic_store_n(&contexts_watched, 1, __ATOMIC_RELEASE);
}

struct scope scope_enter(const struct context *context)
{
    struct scope scope = {.mode = CU_STREAM_CAPTURE_MODE_RELAXED, .is_entered = 1};
    scope.pushed = driver->cuCtxPushCurrent(__atomic_load_n(&context->handle, __ATOMIC_RELAXED)) == CUDA_SUCCESS;
    driver->cuThreadExchangeStreamCaptureMode(&scope.mode);
    return scope;
}

void scope_leave(struct scope scope)
{
    CUcontext popped;
    if (!scope.is_entered)
        return;
    driver->cuThreadExchangeStreamCaptureMode(&scope.mode);
    if (scope.pushed)
        driver->cuCtxPopCurrent(&popped);
    if (scope.held)
        context_let_go(scope.held, CONTEXT_IS_RETAINED);
}

unsigned long long context_unique_id(CUcontext handle)
{
    unsigned long long id = 0;
    if (driver->cuCtxGetId && driver->cuCtxGetId(handle, &id) != CUDA_SUCCESS)
        id = 0;
    return id;
}

/* A context with a sticky error may answer every call with the error; it is still the same. */
int context_has_same_id(const struct context *context, CUcontext handle)
{
    unsigned long long id = 0, unique = __atomic_load_n(&context->unique, __ATOMIC_RELAXED);
    if (!unique)
        return 1;
    CUresult result = driver->cuCtxGetId(handle, &id);
    if (result == CUDA_SUCCESS)
        return id == unique;
    return result != CUDA_ERROR_INVALID_CONTEXT && result != CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUcontext context_primary_of(CUdevice device)
{
    CUcontext primary = NULL;
    unsigned flags;
    int is_active = 0;
    if (driver->cuDevicePrimaryCtxGetState(device, &flags, &is_active) != CUDA_SUCCESS || !is_active ||
        driver->cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS)
        return NULL;
    driver->cuDevicePrimaryCtxRelease(device);
    return primary;
}

CUdevice context_device_of(CUcontext handle)
{
    CUcontext popped;
    CUdevice device = -1;
    if (driver->cuCtxPushCurrent(handle) != CUDA_SUCCESS)
        return -1;
    if (driver->cuCtxGetDevice(&device) != CUDA_SUCCESS)
        device = -1;
    driver->cuCtxPopCurrent(&popped);
    return device;
}

enum context_hold context_hold(const struct context *context)
{
    CUcontext primary;
    unsigned flags;
    int is_active = 0;
    if (contexts_are_watched() || !context->is_primary || __atomic_load_n(&context->fault, __ATOMIC_RELAXED) != CUDA_SUCCESS ||
        driver->cuDevicePrimaryCtxGetState(context->device, &flags, &is_active) != CUDA_SUCCESS)
        return CONTEXT_COUNTS_AS_THERE;
    if (!is_active)
        return CONTEXT_HAS_ENDED;
    if (driver->cuDevicePrimaryCtxRetain(&primary, context->device) != CUDA_SUCCESS)
        return CONTEXT_COUNTS_AS_THERE;
    if (primary == __atomic_load_n(&context->handle, __ATOMIC_RELAXED) && context_has_same_id(context, primary))
        return CONTEXT_IS_RETAINED;
    driver->cuDevicePrimaryCtxRelease(context->device);
    return CONTEXT_HAS_ENDED;
}

void context_let_go(const struct context *context, enum context_hold hold)
{
    if (hold == CONTEXT_IS_RETAINED)
        driver->cuDevicePrimaryCtxRelease(context->device);
}
