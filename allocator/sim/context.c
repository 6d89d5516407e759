#include "context.h"
#include "call.h"
#include "config.h"
#include "event.h"
#include "host.h"
#include "kernel.h"
#include "space.h"
#include "stream.h"

#include <pthread.h>
#include <stdlib.h>

#define STACK_DEPTH 64

static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUctx_st *contexts;                   /* under contexts_lock */
static struct CUctx_st *primaries[SIM_MAX_DEVICES]; /* under contexts_lock; NULL while inactive */
static unsigned primary_flags[SIM_MAX_DEVICES];     /* under contexts_lock */
static unsigned long long next_id = 1;              /* under contexts_lock */

static __thread struct {
    CUcontext stack[STACK_DEPTH];
    unsigned depth;
} current;

static CUresult context_state(CUcontext context)
{
    if (!atomic_load(&context->is_alive))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return (CUresult)atomic_load(&context->error);
}

CUresult context_current(CUcontext *context)
{
    *context = current.depth == 0 ? NULL : current.stack[current.depth - 1];
    return *context == NULL ? CUDA_ERROR_INVALID_CONTEXT : context_state(*context);
}

CUresult context_check(void)
{
    CUcontext context = current.depth == 0 ? NULL : current.stack[current.depth - 1];
    return context == NULL ? CUDA_SUCCESS : (CUresult)atomic_load(&context->error);
}

static int is_known(CUcontext context)
{
    pthread_mutex_lock(&contexts_lock);
    struct CUctx_st *known = contexts;
    while (known != NULL && known != context)
        known = known->next;
    pthread_mutex_unlock(&contexts_lock);
    return known != NULL;
}

CUresult context_validate(CUcontext context)
{
    return context == NULL || !is_known(context) ? CUDA_ERROR_INVALID_CONTEXT : context_state(context);
}

void context_dump_settings(CUcontext context, struct dump_settings *settings)
{
    pthread_mutex_lock(&contexts_lock);
    *settings = context->dump;
    pthread_mutex_unlock(&contexts_lock);
}

void context_set_dump_settings(CUcontext context, const struct dump_settings *settings)
{
    pthread_mutex_lock(&contexts_lock);
    context->dump = *settings;
    pthread_mutex_unlock(&contexts_lock);
}

static CUresult create_locked(CUcontext *out, int device, unsigned flags)
{
    struct CUctx_st *context = calloc(1, sizeof *context);
    if (context == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->id = next_id++;
    context->device = device;
    context->flags = flags;
    atomic_init(&context->is_alive, 1);
    coredump_snapshot(&context->dump);
    context->legacy = stream_create_legacy(context);
    if (context->legacy == NULL) {
        free(context);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    context->next = contexts;
    contexts = context;
    *out = context;
    return CUDA_SUCCESS;
}

/* Without contexts_lock: the context's work may call back into the driver. */
static void destroy(CUcontext context)
{
    atomic_store(&context->is_alive, 0);
    stream_destroy_all(context);
    event_destroy_all(context);
    kernel_unload_all(context);
    space_release_context(context);
    host_release_context(context);
}

static int is_device(CUdevice device)
{
    return device >= 0 && (unsigned)device < config_get()->devices;
}

SIM_API CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    CALL_ENTER("cuDevicePrimaryCtxRetain");
    if (pctx == NULL || !is_device(dev))
        return pctx == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&contexts_lock);
    if (primaries[dev] == NULL) {
        result = create_locked(&primaries[dev], dev, primary_flags[dev]);
        if (result == CUDA_SUCCESS)
            primaries[dev]->is_primary = 1;
    }
    if (result == CUDA_SUCCESS) {
        primaries[dev]->references++;
        *pctx = primaries[dev];
    }
    pthread_mutex_unlock(&contexts_lock);
    return result;
}

static CUresult primary_drop(CUdevice dev, int drops_all)
{
    if (!is_device(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    CUcontext gone = NULL;
    pthread_mutex_lock(&contexts_lock);
    CUcontext primary = primaries[dev];
    if (primary != NULL && (drops_all || --primary->references == 0)) {
        gone = primary;
        primaries[dev] = NULL;
    }
    pthread_mutex_unlock(&contexts_lock);
    if (gone != NULL)
        destroy(gone);
    return primary == NULL && !drops_all ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

SIM_API CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    CALL_ENTER("cuDevicePrimaryCtxRelease");
    return primary_drop(dev, 0);
}

SIM_API CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
    CALL_ENTER("cuDevicePrimaryCtxReset");
    return primary_drop(dev, 1);
}

SIM_API CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    CALL_ENTER("cuDevicePrimaryCtxGetState");
    if (!is_device(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (flags == NULL || active == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&contexts_lock);
    *flags = primary_flags[dev];
    *active = primaries[dev] != NULL;
    pthread_mutex_unlock(&contexts_lock);
    return CUDA_SUCCESS;
}

SIM_API CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
    CALL_ENTER("cuDevicePrimaryCtxSetFlags");
    if (!is_device(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&contexts_lock);
    primary_flags[dev] = flags;
    pthread_mutex_unlock(&contexts_lock);
    return CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
    if (current.depth == STACK_DEPTH)
        return CUDA_ERROR_OUT_OF_MEMORY;
    current.stack[current.depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev);

SIM_API CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    CALL_ENTER("cuCtxCreate");
    if (pctx == NULL || !is_device(dev))
        return pctx == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    CUcontext context = NULL;
    pthread_mutex_lock(&contexts_lock);
    CUresult result = create_locked(&context, dev, flags);
    if (result == CUDA_SUCCESS && (flags & CU_CTX_COREDUMP_ENABLE) != 0)
        context->dump.is_enabled = 1;
    pthread_mutex_unlock(&contexts_lock);
    if (result != CUDA_SUCCESS)
        return result;
    *pctx = context;
    return push(context);
}

SIM_API CUresult cuCtxCreate(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)
{
    if (ctxCreateParams != NULL && (ctxCreateParams->numExecAffinityParams != 0 || ctxCreateParams->cigParams != NULL))
        return CUDA_ERROR_NOT_SUPPORTED;
    return cuCtxCreate_v2(pctx, flags, dev);
}

SIM_API CUresult cuCtxDestroy(CUcontext ctx)
{
    CALL_ENTER("cuCtxDestroy");
    if (ctx == NULL || !is_known(ctx) || ctx->is_primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!atomic_load(&ctx->is_alive))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (current.depth != 0 && current.stack[current.depth - 1] == ctx)
        current.depth--;
    destroy(ctx);
    return CUDA_SUCCESS;
}

SIM_API CUresult cuCtxGetCurrent(CUcontext *pctx)
{
    CALL_ENTER("cuCtxGetCurrent");
    if (pctx == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *pctx = current.depth == 0 ? NULL : current.stack[current.depth - 1];
    return CUDA_SUCCESS;
}

SIM_API CUresult cuCtxSetCurrent(CUcontext ctx)
{
    CALL_ENTER("cuCtxSetCurrent");
    if (ctx != NULL && !is_known(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (ctx != NULL && !atomic_load(&ctx->is_alive))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (current.depth == 0)
        return ctx == NULL ? CUDA_SUCCESS : push(ctx);
    if (ctx == NULL)
        current.depth--;
    else
        current.stack[current.depth - 1] = ctx;
    return CUDA_SUCCESS;
}

SIM_API CUresult cuCtxPushCurrent(CUcontext ctx)
{
    CALL_ENTER("cuCtxPushCurrent");
    if (ctx == NULL || !is_known(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    return atomic_load(&ctx->is_alive) ? push(ctx) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

SIM_API CUresult cuCtxPopCurrent(CUcontext *pctx)
{
    CALL_ENTER("cuCtxPopCurrent");
    if (current.depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    current.depth--;
    if (pctx != NULL)
        *pctx = current.stack[current.depth];
    return CUDA_SUCCESS;
}

SIM_API CUresult cuCtxGetDevice(CUdevice *device)
{
    CALL_ENTER("cuCtxGetDevice");
    CUcontext context;
    CALL_TRY(context_current(&context));
    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *device = context->device;
    return CUDA_SUCCESS;
}

SIM_API CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
    CALL_ENTER("cuCtxGetDevice");
    CUresult result = ctx == NULL ? context_current(&ctx) : context_validate(ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *device = ctx->device;
    return CUDA_SUCCESS;
}

SIM_API CUresult cuCtxGetFlags(unsigned int *flags)
{
    CALL_ENTER("cuCtxGetFlags");
    CUcontext context;
    CALL_TRY(context_current(&context));
    if (flags == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = context->flags;
    return CUDA_SUCCESS;
}

SIM_API CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
    CALL_ENTER("cuCtxGetId");
    if (ctxId == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (ctx == NULL)
        CALL_TRY(context_current(&ctx));
    else
        CALL_TRY(context_validate(ctx));
    *ctxId = ctx->id;
    return CUDA_SUCCESS;
}

SIM_API CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
    CALL_ENTER("cuCtxEnablePeerAccess");
    CUcontext context;
    CALL_TRY(context_current(&context));
    CALL_TRY(context_validate(peerContext));
    return Flags != 0 || context->device == peerContext->device ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
