#include "context.h"
#include "capture.h"
#include "virtual_memory.h"
#include "kernel.h"
#include "trap.h"

#define STACK_DEPTH 32 /* small, because the libraries are dlopened and static thread-local storage is scarce */

static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUctx_st *contexts;                   /* under contexts_lock */
static struct CUctx_st *primaries[SIM_MAX_DEVICES]; /* under contexts_lock; NULL while inactive */
static unsigned retains[SIM_MAX_DEVICES];           /* under contexts_lock: the primary one, which a reset doesn't release */
static unsigned long long next_id = 1;              /* under contexts_lock */

static __thread struct {
    struct {
        CUcontext context;
        unsigned long long id; /* a different one if the handle was reused */
    } stack[STACK_DEPTH];
    unsigned depth;
} current;

CUresult context_error(const struct CUctx_st *context)
{
    return (CUresult)atomic_load(&context->home->error);
}

static CUcontext top(void)
{
    return current.depth == 0 ? NULL : current.stack[current.depth - 1].context;
}

CUresult context_current(CUcontext *context)
{
    *context = top();
    CALL_REFUSE(*context == NULL, INVALID_CONTEXT);
    int is_gone = current.stack[current.depth - 1].id != (*context)->id || !atomic_load(&(*context)->is_alive);
    if (is_gone)
        handle_is_stale((uintptr_t)*context);
    return is_gone ? CUDA_ERROR_CONTEXT_IS_DESTROYED : context_error(*context);
}

CUresult context_check(void)
{
    CUcontext context = top();
    int is_there = context != NULL && current.stack[current.depth - 1].id == context->id && atomic_load(&context->is_alive);
    return is_there ? context_error(context) : CUDA_SUCCESS;
}

static int is_known(CUcontext context)
{
    HOLD(&contexts_lock);
    const struct CUctx_st *known = contexts;
    while (known != NULL && known != context)
        known = known->next;
    return known != NULL;
}

/* Errors: INVALID_CONTEXT, CONTEXT_IS_DESTROYED. */
static CUresult check_alive(CUcontext context)
{
    CUresult result = CUDA_SUCCESS;
    if (context == NULL || !is_known(context))
        result = CUDA_ERROR_INVALID_CONTEXT;
    else if (!atomic_load(&context->is_alive))
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (result != CUDA_SUCCESS)
        handle_is_stale((uintptr_t)context);
    return result;
}

CUresult context_validate(CUcontext context)
{
    CALL_TRY(check_alive(context));
    return context_error(context);
}

/* A new one, or one that was destroyed, of which a thread may still have the handle as its current one, and check it. */
static CUcontext take_locked(void)
{
    CUcontext context = contexts;
    while (context != NULL && !context->is_spent)
        context = context->next;
    if (context == NULL) {
        context = memory_new(sizeof *context);
        LL_PREPEND(contexts, context);
        return context;
    }
    atomic_store(&context->error, CUDA_SUCCESS);
    atomic_store(&context->faults, 0);
    context->is_primary = context->is_spent = 0;
    context->green = NULL;
    memset(context->peers, 0, sizeof context->peers);
    return context;
}

/* Returns 0 if the host has not got the address space that the first context of a device takes. */
static int take_space_locked(int device)
{
    static int has_taken[SIM_MAX_DEVICES];
    size_t size = config_get()->space;
    if (size != 0 && !has_taken[device])
        has_taken[device] = pages_reserve(size, SIM_GRANULARITY, 0) != 0;
    return size == 0 || has_taken[device];
}

/* `home` is NULL for a context that is its own home. */
static CUcontext create_locked(int device, CUcontext home)
{
    struct CUctx_st *context = take_locked();
    context->home = home == NULL ? context : home;
    context->references = 1;
    atomic_store(&context->id, next_id++);
    context->device = device;
    coredump_snapshot(&context->dump);
    context->legacy = stream_create(context, CU_STREAM_DEFAULT);
    atomic_store(&context->is_alive, 1);
    return context;
}

/* Makes the handle available to the next context. Until then it stays known as a destroyed one. */
static void retire(CUcontext context)
{
    HOLD(&contexts_lock);
    context->is_spent = config_get()->reuses_handles != 0;
}

/* Each had retained its home. */
static void end_greens(CUcontext home)
{
    HOLD(&contexts_lock);
    for (CUcontext context = contexts; context != NULL; context = context->next) {
        if (context->home == home && atomic_exchange(&context->is_alive, 0) && context != home)
            retains[home->device]--;
    }
}

/* Called without contexts_lock: the context's work may call the driver. */
static void destroy(CUcontext context)
{
    end_greens(context);
    capture_end_all(context);
    stream_destroy_all(context);
    handle_free_owned(context); /* events, modules, arrays, textures */
    space_release_context(context);
    host_release_context(context);
    retire(context);
}

static CUresult retain_primary_locked(CUdevice dev)
{
    if (primaries[dev] == NULL) {
        CALL_REFUSE(!take_space_locked(dev), OUT_OF_MEMORY);
        primaries[dev] = create_locked(dev, NULL);
        primaries[dev]->is_primary = 1;
    }
    retains[dev]++;
    return CUDA_SUCCESS;
}

DRIVER(cuDevicePrimaryCtxRetain, 7000, (CUcontext *, pctx, CUdevice, dev))
{
    CALL_TRY(device_check(dev, pctx));
    HOLD(&contexts_lock);
    CALL_TRY(retain_primary_locked(dev));
    *pctx = primaries[dev];
    return CUDA_SUCCESS;
}

static CUresult primary_drop(CUdevice dev, int is_reset)
{
    CALL_REFUSE(!config_has_device(dev), INVALID_DEVICE);
    pthread_mutex_lock(&contexts_lock);
    CUcontext primary = primaries[dev];
    CUresult result = !is_reset && retains[dev] == 0 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
    int is_gone = primary != NULL && result == CUDA_SUCCESS && (is_reset || retains[dev] == 1);
    if (is_gone)
        primaries[dev] = NULL;
    if (!is_reset && result == CUDA_SUCCESS)
        retains[dev]--;
    pthread_mutex_unlock(&contexts_lock);
    if (is_gone)
        destroy(primary);
    return result;
}

DRIVER_IS(cuDevicePrimaryCtxRelease, 11000, (CUdevice, dev), primary_drop(dev, 0))

DRIVER_IS(cuDevicePrimaryCtxReset, 11000, (CUdevice, dev), primary_drop(dev, 1))

DRIVER(cuDevicePrimaryCtxGetState, 7000, (CUdevice, dev, unsigned int *, flags, int *, active))
{
    CALL_REFUSE(!config_has_device(dev), INVALID_DEVICE);
    CALL_REFUSE(flags == NULL || active == NULL, INVALID_VALUE);
    HOLD(&contexts_lock);
    *flags = 0;
    *active = primaries[dev] != NULL;
    return CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
    CALL_REFUSE(current.depth == STACK_DEPTH, OUT_OF_MEMORY);
    current.stack[current.depth].context = context;
    current.stack[current.depth++].id = context->id;
    return CUDA_SUCCESS;
}

DRIVER_FORM("cuCtxCreate", cuCtxCreate_v2, 3020, (CUcontext *, pctx, unsigned int, flags, CUdevice, dev))
{
    CALL_TRY(device_check(dev, pctx));
    HOLD(&contexts_lock);
    CALL_REFUSE(!take_space_locked(dev), OUT_OF_MEMORY);
    *pctx = create_locked(dev, NULL);
    (*pctx)->dump.is_enabled |= (flags & CU_CTX_COREDUMP_ENABLE) != 0;
    return push(*pctx);
}

FORM_IS("cuCtxCreate", cuCtxCreate, 12050, (CUcontext *, pctx, CUctxCreateParams *, params, unsigned int, flags, CUdevice, dev),
        params != NULL && (params->numExecAffinityParams != 0 || params->cigParams != NULL) ? CUDA_ERROR_NOT_SUPPORTED
                                                                                            : cuCtxCreate_v2(pctx, flags, dev))

static void end(CUcontext context)
{
    if (top() == context)
        current.depth--;
    destroy(context);
}

DRIVER(cuCtxDestroy, 4000, (CUcontext, ctx))
{
    CALL_REFUSE(ctx == NULL, INVALID_VALUE);
    CALL_TRY(check_alive(ctx));
    CALL_REFUSE(ctx->is_primary || ctx->green != NULL, INVALID_CONTEXT);
    end(ctx);
    return CUDA_SUCCESS;
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* these two are */
DRIVER(cuCtxAttach, 2000, (CUcontext *, pctx, unsigned int, flags))
{
    CONTEXT_CURRENT(context);
    CALL_REFUSE(pctx == NULL || flags != 0, INVALID_VALUE);
    CALL_REFUSE(context->green != NULL, INVALID_CONTEXT);
    HOLD(&contexts_lock);
    if (context->is_primary)
        retains[context->device]++;
    else
        atomic_fetch_add(&context->references, 1);
    *pctx = context;
    return CUDA_SUCCESS;
}

/* Measured: also takes a primary context. */
DRIVER(cuCtxDetach, 2000, (CUcontext, ctx))
{
    CALL_TRY(check_alive(ctx));
    CALL_REFUSE(ctx != top() || ctx->green != NULL, INVALID_CONTEXT);
    if (ctx->is_primary)
        return primary_drop(ctx->device, 0);
    if (atomic_fetch_sub(&ctx->references, 1) == 1)
        end(ctx);
    return CUDA_SUCCESS;
}

DRIVER(cuCtxGetCurrent, 4000, (CUcontext *, pctx))
{
    CALL_REFUSE(pctx == NULL, INVALID_VALUE);
    *pctx = top();
    return CUDA_SUCCESS;
}

DRIVER(cuCtxSetCurrent, 4000, (CUcontext, ctx))
{
    if (ctx != NULL)
        CALL_TRY(check_alive(ctx));
    if (current.depth != 0)
        current.depth--;
    return ctx == NULL ? CUDA_SUCCESS : push(ctx);
}

DRIVER(cuCtxPushCurrent, 4000, (CUcontext, ctx))
{
    CALL_TRY(check_alive(ctx));
    return push(ctx);
}

DRIVER(cuCtxPopCurrent, 4000, (CUcontext *, pctx))
{
    CALL_REFUSE(current.depth == 0, INVALID_CONTEXT);
    current.depth--;
    if (pctx != NULL)
        *pctx = current.stack[current.depth].context;
    return CUDA_SUCCESS;
}

DRIVER_FORM("cuCtxGetDevice", cuCtxGetDevice_v2, 13000, (CUdevice *, device, CUcontext, ctx))
{
    CALL_TRY(ctx == NULL ? context_current(&ctx) : context_validate(ctx));
    CALL_REFUSE(device == NULL, INVALID_VALUE);
    *device = ctx->device;
    return CUDA_SUCCESS;
}

FORM_IS("cuCtxGetDevice", cuCtxGetDevice, 2000, (CUdevice *, device), cuCtxGetDevice_v2(device, NULL))

DRIVER(cuCtxGetId, 12000, (CUcontext, ctx, unsigned long long *, ctxId))
{
    CALL_REFUSE(ctxId == NULL, INVALID_VALUE);
    CALL_TRY(ctx == NULL ? context_current(&ctx) : context_validate(ctx));
    *ctxId = ctx->id;
    return CUDA_SUCCESS;
}

/* Returns the place of a peer's id, or NULL. */
static unsigned long long *peer_locked(CUcontext context, unsigned long long id)
{
    unsigned i = 0;
    while (i < CONTEXT_PEERS && context->home->peers[i] != id)
        i++;
    return i == CONTEXT_PEERS ? NULL : &context->home->peers[i];
}

int context_reaches(CUcontext context, CUcontext owner)
{
    HOLD(&contexts_lock);
    return owner == NULL || owner->device == context->device || peer_locked(context, owner->home->id) != NULL;
}

DRIVER(cuCtxEnablePeerAccess, 4000, (CUcontext, peerContext, unsigned int, Flags))
{
    CONTEXT_CURRENT(context);
    CALL_TRY(context_validate(peerContext));
    CALL_REFUSE(Flags != 0 || context->device == peerContext->device, INVALID_VALUE);
    HOLD(&contexts_lock);
    CALL_REFUSE(peer_locked(context, peerContext->home->id) != NULL, PEER_ACCESS_ALREADY_ENABLED);
    context->home->peers[context->home->peer_count++ % CONTEXT_PEERS] = peerContext->home->id;
    return CUDA_SUCCESS;
}

DRIVER(cuCtxDisablePeerAccess, 4000, (CUcontext, peerContext))
{
    CONTEXT_CURRENT(context);
    CALL_TRY(context_validate(peerContext));
    HOLD(&contexts_lock);
    unsigned long long *place = peer_locked(context, peerContext->home->id);
    CALL_REFUSE(place == NULL, PEER_ACCESS_NOT_ENABLED);
    *place = 0;
    return CUDA_SUCCESS;
}

/* ---- green contexts, and the device resources that they are made of. context.h says what they share with their home ---- */

#define SM_ALIGNMENT 2 /* half of what an H100 requires, because the simulated device is small */

/* A CUgreenCtx is a handle of its own, so that it is not valid as a context without conversion. */
struct CUgreenCtx_st {
    CUcontext context;
};

/* A description is no object: it only says the device, whose multiprocessors make no difference. */
static CUdevResourceDesc description_of(int device)
{
    return (CUdevResourceDesc)(uintptr_t)(device + 1);
}

static CUdevResource describe(int device, unsigned multiprocessors)
{
    CUdevResource resource = {.type = CU_DEV_RESOURCE_TYPE_SM};
    resource._internal_padding[0] = (unsigned char)device;
    resource.sm = (CUdevSmResource){multiprocessors, SM_ALIGNMENT, SM_ALIGNMENT};
    return resource;
}

static CUresult check_green(CUgreenCtx green)
{
    CALL_REFUSE(!handle_is_valid(HANDLE_GREEN, green), INVALID_CONTEXT);
    return context_validate(green->context);
}

DRIVER(cuDeviceGetDevResource, 12040, (CUdevice, device, CUdevResource *, resource, CUdevResourceType, type))
{
    CALL_REFUSE(!config_has_device(device), INVALID_DEVICE);
    CALL_REFUSE(resource == NULL, INVALID_VALUE);
    CALL_REFUSE(type != CU_DEV_RESOURCE_TYPE_SM, INVALID_RESOURCE_TYPE);
    *resource = describe(device, SIM_MULTIPROCESSORS);
    return CUDA_SUCCESS;
}

DRIVER(cuDevSmResourceSplitByCount, 12040,
       (CUdevResource *, result, unsigned int *, nbGroups, const CUdevResource *, input, CUdevResource *, remaining,
        unsigned int, useFlags, unsigned int, minCount))
{
    CALL_REFUSE(nbGroups == NULL || input == NULL, INVALID_VALUE);
    CALL_REFUSE(remaining != NULL || useFlags != 0, NOT_SUPPORTED);
    CALL_REFUSE(input->type != CU_DEV_RESOURCE_TYPE_SM, INVALID_RESOURCE_TYPE);
    unsigned size = minCount < SM_ALIGNMENT ? SM_ALIGNMENT : (minCount + SM_ALIGNMENT - 1) / SM_ALIGNMENT * SM_ALIGNMENT;
    CALL_REFUSE(size > input->sm.smCount, INVALID_RESOURCE_CONFIGURATION);
    unsigned groups = input->sm.smCount / size;
    if (result != NULL && groups > *nbGroups)
        groups = *nbGroups;
    int device = input->_internal_padding[0];
    for (unsigned i = 0; result != NULL && i < groups; i++)
        result[i] = describe(device, size);
    *nbGroups = groups;
    return CUDA_SUCCESS;
}

DRIVER(cuDevResourceGenerateDesc, 12040, (CUdevResourceDesc *, phDesc, CUdevResource *, resources, unsigned int, nbResources))
{
    CALL_REFUSE(phDesc == NULL || resources == NULL || nbResources == 0, INVALID_VALUE);
    for (unsigned i = 0; i < nbResources; i++) {
        CALL_REFUSE(resources[i].type != CU_DEV_RESOURCE_TYPE_SM, INVALID_RESOURCE_TYPE);
        CALL_REFUSE(resources[i]._internal_padding[0] != resources[0]._internal_padding[0], INVALID_RESOURCE_CONFIGURATION);
    }
    *phDesc = description_of(resources[0]._internal_padding[0]);
    return CUDA_SUCCESS;
}

DRIVER(cuGreenCtxCreate, 12040, (CUgreenCtx *, phCtx, CUdevResourceDesc, desc, CUdevice, dev, unsigned int, flags))
{
    CALL_REFUSE(phCtx == NULL || desc == NULL || flags != CU_GREEN_CTX_DEFAULT_STREAM, INVALID_VALUE);
    CALL_REFUSE(!config_has_device(dev) || desc != description_of(dev), INVALID_DEVICE);
    HOLD(&contexts_lock);
    CALL_TRY(retain_primary_locked(dev));
    *phCtx = handle_create(HANDLE_GREEN, sizeof **phCtx, NULL);
    (*phCtx)->context = create_locked(dev, primaries[dev]);
    (*phCtx)->context->green = *phCtx;
    return CUDA_SUCCESS;
}

DRIVER(cuGreenCtxDestroy, 12040, (CUgreenCtx, hCtx))
{
    int expected = 1;
    CALL_REFUSE(!handle_remove(HANDLE_GREEN, hCtx), INVALID_CONTEXT);
    CUcontext context = hCtx->context;
    handle_free(HANDLE_GREEN, hCtx);
    CALL_REFUSE(!atomic_compare_exchange_strong(&context->is_alive, &expected, 0), CONTEXT_IS_DESTROYED);
    if (top() == context)
        current.depth--;
    int device = context->device;
    capture_end_all(context);
    stream_detach_all(context);
    retire(context);
    return primary_drop(device, 0);
}

DRIVER(cuCtxFromGreenCtx, 12040, (CUcontext *, pContext, CUgreenCtx, hCtx))
{
    CALL_REFUSE(pContext == NULL, INVALID_VALUE);
    CALL_TRY(check_green(hCtx));
    *pContext = hCtx->context;
    return CUDA_SUCCESS;
}

DRIVER(cuGreenCtxStreamCreate, 12050, (CUstream *, phStream, CUgreenCtx, greenCtx, unsigned int, flags, int, priority))
{
    CALL_TRY(check_green(greenCtx));
    CALL_REFUSE(phStream == NULL || flags != CU_STREAM_NON_BLOCKING, INVALID_VALUE);
    *phStream = stream_create(greenCtx->context, flags)->handle;
    return CUDA_SUCCESS;
}
