/* The end of contexts and streams, and what cufence learns from synchronisations. The registry itself is in contexts/. */
#include "internal.h"

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

CUresult synchronised(struct context *context, CUresult (*function)(void))
{
    struct order_clock seen;
    uint64_t since = context ? heap_sync_begins(context) : 0;
    if (order_is_wanted())
        order_sees_context(&seen, context);
    CUresult result = function();
    if (order_is_wanted() && result == CUDA_SUCCESS)
        order_host_knows(&seen), races_learned(HOST_CALL("cuCtxSynchronize"));
    if (since && result == CUDA_SUCCESS)
        heap_sync_ended(context, since);
    return settled(result, context != NULL);
}

static void after_end(CUcontext context)
{
    context_ended(context);
    pools_changed();
    heap_go_on();
}

/* ---- contexts created by the program ---- */

/* Programs and the CUDA runtime call both the old and the new forms. */

CUresult context_destroy(CUresult (*function)(CUcontext), CUcontext context)
{
    if (!is_active() || !context)
        return function(context);
    settle_before_end(context);
    CUresult result = function(context);
    if (result == CUDA_SUCCESS || driver_has_faulted(result))
        after_end(context);
    else
        heap_go_on();
    return result;
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

/* Bracket a call that may end a device's primary context. `primary`: that context if it is expected to end, else NULL. */
static void before_release(CUcontext primary)
{
    if (primary)
        settle_before_end(primary);
    else
        heap_hold(NULL);
}

static void after_release(CUdevice device, CUcontext primary)
{
    const struct context *context = primary ? NULL : context_next(NULL);
    while (context && !(context->is_primary && context->device == device))
        context = context_next(context);
    if (context) /* there was a retain that we did not see */
        primary = context->handle;
    if (primary && !is_active_primary(device))
        after_end(primary);
    else
        heap_go_on();
}

/* A release that ends nothing must not wait: running work may be waiting for the caller, and a wait would invalidate a
 * capture. */
CUresult primary_release(CUresult (*function)(CUdevice), CUdevice device)
{
    if (!is_active())
        return function(device);
    CUcontext primary = may_be_last(device) ? context_primary_of(device) : NULL;
    before_release(primary);
    CUresult result = function(device);
    if (result == CUDA_SUCCESS)
        count_hold(device, -1);
    after_release(device, primary);
    return result;
}

/* A reset ends the primary context even if it is retained. Whether it remains retained afterwards is undocumented. */
CUresult primary_reset(CUresult (*function)(CUdevice), CUdevice device)
{
    CUcontext context = is_active() ? context_primary_of(device) : NULL;
    if (context)
        settle_before_end(context);
    CUresult result = function(device);
    if (context)
        after_end(context);
    if (is_active() && device >= 0 && device < preload_devices)
        __atomic_store_n(&holds[device], 0, __ATOMIC_RELAXED);
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
    CUcontext primary = may_be_last(device) ? context_primary_of(device) : NULL;
    before_release(primary);
    context_green_ends(own);
    CUresult result = real.cuGreenCtxDestroy(green);
    if (result == CUDA_SUCCESS) {
        context_ended(own);
        count_hold(device, -1);
    }
    after_release(device, primary);
    return result;
}
