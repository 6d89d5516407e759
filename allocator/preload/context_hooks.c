/* The end of contexts and streams, and what cufence learns from synchronisations. The registry itself is in contexts/. */
#include "preload_internal.h"

#include "api/lifecycle.h"

#include <stdlib.h>

CUresult settled(CUresult result, int is_context_idle)
{
    if (!is_active() || (result != CUDA_SUCCESS && !driver_has_faulted(result)))
        return result;
    settle_learn(result, is_context_idle);
    CUresult fault = failure();
    return fault != CUDA_SUCCESS ? fault : result;
}

CUresult synchronised(const char *call, struct context *context, CUresult (*function)(void))
{
    struct order_clock seen;
    uint64_t since = context ? heap_sync_begins(context) : 0;
    if (order_is_wanted())
        order_sees_context(&seen, context);
    unsigned wait = wait_begins(call, __builtin_frame_address(0));
    CUresult result = function();
    wait_ends(wait);
    if (order_is_wanted() && result == CUDA_SUCCESS)
        order_host_knows(&seen), races_learned(HOST_CALL(call));
    if (since && result == CUDA_SUCCESS)
        heap_sync_ended(context, since, pools_keep(context->device));
    return settled(result, context != NULL);
}

static void after_end(struct context_end end, int may_be_there, struct books *held)
{
    context_ended(end, may_be_there);
    pools_changed();
    heap_go_on(held);
}

/* ---- contexts created by the program ---- */

/* Calls a function that destroys the context, unless it fails. */
static CUresult end(CUresult (*function)(CUcontext), CUcontext context)
{
    struct books *held;
    settle_before_end(context, &held);
    struct context_end end = context_ends(context);
    CUresult result = function(context);
    after_end(end, result != CUDA_SUCCESS && !driver_has_faulted(result), held);
    return result;
}

/* A primary or green context is not destroyed so: the call fails, and must not wait. One that the program has never used may be
 * unknown; there is nothing to wait for in it. */
static struct context *destroyable(CUcontext context)
{
    struct context *known = is_active() && context ? context_known(context) : NULL;
    return known && !known->is_primary && known->handle == context ? known : NULL;
}

/* Programs and the CUDA runtime call both the old and the new forms. */
CUresult context_destroy(CUresult (*function)(CUcontext), CUcontext context)
{
    return destroyable(context) ? end(function, context) : function(context);
}

void context_attached(CUcontext context)
{
    struct context *known = is_active() ? context_of(context) : NULL;
    if (known)
        __atomic_add_fetch(&known->attached, 1, __ATOMIC_RELAXED);
}

/* Destroys a context that nobody else has attached to. */
CUresult context_detach(CUresult (*function)(CUcontext), CUcontext context)
{
    struct context *known = destroyable(context);
    if (known && __atomic_fetch_sub(&known->attached, 1, __ATOMIC_RELAXED) <= 0) {
        __atomic_store_n(&known->attached, 0, __ATOMIC_RELAXED);
        return end(function, context);
    }
    return function(context);
}

/* ---- primary contexts: they end when nobody retains them any more ---- */

static int *holds; /* atomic; by device: how often the program retains its primary context, as far as seen */

int contexts_count_devices(int devices)
{
    holds = calloc((size_t)devices + 1, sizeof *holds);
    return holds != NULL;
}

static void count_hold(CUdevice device, int change)
{
    if (is_active() && device >= 0 && device < preload_devices)
        __atomic_add_fetch(&holds[device], change, __ATOMIC_RELAXED);
}

static int may_be_last(CUdevice device)
{
    return device < 0 || device >= preload_devices || __atomic_load_n(&holds[device], __ATOMIC_RELAXED) <= 1;
}

static int is_active_primary(CUdevice device)
{
    unsigned flags;
    int is_on = 0;
    return driver->cuDevicePrimaryCtxGetState(device, &flags, &is_on) == CUDA_SUCCESS && is_on;
}

void primary_retained(CUdevice device)
{
    count_hold(device, 1);
}

/* A call that may end the primary context of a device. */
struct release {
    CUdevice device;
    struct context_end end;
    struct books *held;
};

/* One that another thread is ending may already be none. */
static struct context *known_primary(CUdevice device)
{
    struct context *context = context_next(NULL);
    while (context && !(context->is_primary && context->device == device && context_known(context->handle) == context))
        context = context_next(context);
    return context;
}

/* A release that ends nothing must not wait: running work may be waiting for the caller, and a wait would invalidate a
 * capture. */
static struct release before_release(CUdevice device, int may_end)
{
    struct release release = {.device = device};
    struct context *known = may_end ? NULL : known_primary(device);
    CUcontext primary = may_end ? context_primary_of(device) : known ? known->handle : NULL;
    if (may_end && primary)
        settle_before_end(primary, &release.held);
    else
        release.held = heap_hold(known, 0);
    release.end = context_ends(primary);
    return release;
}

/* The primary context that is active now may be another one, retained meanwhile. */
static void after_release(struct release release)
{
    after_end(release.end, is_active_primary(release.device), release.held);
}

CUresult primary_release(CUresult (*function)(CUdevice), CUdevice device)
{
    if (!is_active())
        return function(device);
    struct release release = before_release(device, may_be_last(device));
    CUresult result = function(device);
    if (result == CUDA_SUCCESS)
        count_hold(device, -1);
    after_release(release);
    return result;
}

/* A reset ends the primary context even if it is retained, as it remains. */
CUresult primary_reset(CUresult (*function)(CUdevice), CUdevice device)
{
    if (!is_active())
        return function(device);
    struct release release = before_release(device, 1);
    CUresult result = function(device);
    after_release(release);
    return result;
}

/* ---- green contexts: each retains its device's primary context, and stands for it ---- */

void green_created(CUgreenCtx green, CUdevice device)
{
    CUcontext context;
    count_hold(device, 1);
    if (is_active() && driver->cuCtxFromGreenCtx && driver->cuCtxFromGreenCtx(&context, green) == CUDA_SUCCESS)
        context_is_green(context, device); /* before the first use of one of its streams */
}

CUresult hook_cuGreenCtxDestroy(CUgreenCtx green)
{
    CUcontext own = NULL;
    if (!is_active() || !driver->cuCtxFromGreenCtx || driver->cuCtxFromGreenCtx(&own, green) != CUDA_SUCCESS)
        return real.cuGreenCtxDestroy(green);
    CUdevice device = context_device_of(own);
    struct release release = before_release(device, may_be_last(device));
    struct context_end end = context_ends(own);
    CUresult result = real.cuGreenCtxDestroy(green);
    context_ended(end, result != CUDA_SUCCESS);
    if (result == CUDA_SUCCESS)
        count_hold(device, -1);
    after_release(release);
    return result;
}
