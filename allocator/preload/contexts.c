/* The contexts: what each has been given to do since it was last waited for, and its end. */
#include "internal.h"

#include "fault/monitor.h"
#include "launch/launch.h"

#include <pthread.h>

#define CONTEXTS 256
#define REPORT_MS 5000

struct seen {
    CUcontext handle; /* atomic; NULL: destroyed */
    uint64_t settled; /* atomic: launch_count() at the last synchronisation of the whole context */
};

static struct seen contexts[CONTEXTS];
static unsigned context_count; /* atomic; entries are never removed */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct seen *find(CUcontext handle)
{
    unsigned count = __atomic_load_n(&context_count, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < count; i++) {
        if (__atomic_load_n(&contexts[i].handle, __ATOMIC_RELAXED) == handle)
            return &contexts[i];
    }
    return NULL;
}

/* The current context's entry; made at its first launch. NULL without a context. */
static struct seen *current(void)
{
    static _Thread_local struct seen *latest;
    CUcontext handle = NULL;
    driver->cuCtxGetCurrent(&handle);
    if (!handle)
        return NULL;
    if (latest && __atomic_load_n(&latest->handle, __ATOMIC_RELAXED) == handle)
        return latest;
    struct seen *seen = find(handle);
    if (!seen) {
        heap_enter_context(); /* its fences and the exit handler have to be there before a kernel can fault */
        pthread_mutex_lock(&lock);
        seen = find(handle);
        if (!seen && context_count < CONTEXTS) {
            seen = &contexts[context_count];
            seen->handle = handle;
            __atomic_store_n(&context_count, context_count + 1, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&lock);
    }
    return latest = seen;
}

CUcontext launch_context(void)
{
    struct seen *seen = current();
    return seen ? seen->handle : NULL;
}

CUresult settled(CUresult result, int is_context_idle)
{
    if (!is_active() || (result != CUDA_SUCCESS && result != CUDA_ERROR_ILLEGAL_ADDRESS))
        return result;
    if (result == CUDA_ERROR_ILLEGAL_ADDRESS && !has_failed())
        monitor_await_dump();
    struct seen *seen = current();
    uint64_t launches = seen ? launch_count(seen->handle) : 0;
    if (seen && launches != __atomic_load_n(&seen->settled, __ATOMIC_RELAXED)) {
        fault_learn(is_context_idle);
        if (is_context_idle)
            __atomic_store_n(&seen->settled, launches, __ATOMIC_RELAXED);
    }
    return has_failed() ? CUDA_ERROR_ILLEGAL_ADDRESS : result;
}

/* A context's last moment: its faults are still to be reported, and from then on no thread of ours goes near it. */
static void before_end(CUcontext context)
{
    CUcontext popped;
    if (driver->cuCtxPushCurrent(context) == CUDA_SUCCESS) {
        if (!has_failed())
            settled(driver->cuCtxSynchronize(), 1);
        driver->cuCtxPopCurrent(&popped);
    }
    monitor_wait(REPORT_MS);
    heap_hold();
}

static void after_end(CUcontext context)
{
    monitor_forget_context(context);
    heap_context_gone(context);
    pools_forget_context();
    launch_forget_context(context);
    struct seen *seen = find(context);
    if (seen)
        __atomic_store_n(&seen->handle, NULL, __ATOMIC_RELAXED);
}

/* 0 where it is not known either. */
static int is_primary(CUdevice device, int wanted)
{
    unsigned flags;
    int is_on;
    return driver->cuDevicePrimaryCtxGetState(device, &flags, &is_on) == CUDA_SUCCESS && !is_on == !wanted;
}

/* The primary context of a device, NULL if it is not active. Asking for it makes none, and the program holds it still. */
static CUcontext primary_of(CUdevice device)
{
    CUcontext context = NULL;
    if (!is_primary(device, 1) || driver->cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
        return NULL;
    (real.cuDevicePrimaryCtxRelease_v2 ? real.cuDevicePrimaryCtxRelease_v2 : real.cuDevicePrimaryCtxRelease)(device);
    return context;
}

/* Programs and the CUDA runtime call the old and the new forms of these. */

static CUresult destroy(CUresult (*function)(CUcontext), CUcontext context)
{
    if (!is_active() || !context)
        return function(context);
    before_end(context);
    CUresult result = function(context);
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_ILLEGAL_ADDRESS)
        after_end(context);
    heap_go_on();
    return result;
}

CUresult hook_cuCtxDestroy(CUcontext context)
{
    return destroy(real.cuCtxDestroy, context);
}

CUresult hook_cuCtxDestroy_v2(CUcontext context)
{
    return destroy(real.cuCtxDestroy_v2, context);
}

/* A reset ends the primary context whoever holds it, a release only if nobody does. */
static CUresult end_primary(CUresult (*function)(CUdevice), CUdevice device, int is_reset)
{
    CUcontext context = is_active() ? primary_of(device) : NULL;
    if (!context)
        return function(device);
    before_end(context);
    CUresult result = function(device);
    if (is_reset || is_primary(device, 0))
        after_end(context);
    heap_go_on();
    return result;
}

CUresult hook_cuDevicePrimaryCtxReset(CUdevice device)
{
    return end_primary(real.cuDevicePrimaryCtxReset, device, 1);
}

CUresult hook_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    return end_primary(real.cuDevicePrimaryCtxReset_v2, device, 1);
}

CUresult hook_cuDevicePrimaryCtxRelease(CUdevice device)
{
    return end_primary(real.cuDevicePrimaryCtxRelease, device, 0);
}

CUresult hook_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    return end_primary(real.cuDevicePrimaryCtxRelease_v2, device, 0);
}

static CUresult destroy_stream(CUresult (*function)(CUstream), CUstream stream)
{
    if (is_active())
        heap_stream_gone(stream);
    return function(stream);
}

CUresult hook_cuStreamDestroy(CUstream stream)
{
    return destroy_stream(real.cuStreamDestroy, stream);
}

CUresult hook_cuStreamDestroy_v2(CUstream stream)
{
    return destroy_stream(real.cuStreamDestroy_v2, stream);
}
