#include "kernels.h"

#include <pthread.h>
#include <unistd.h>

#define CONTEXTS 256

/*
 * PTX of the oldest kind that the driver still compiles for every device. The poison loads, because a warp that waits for a
 * value is alive when it faults.
 */
static const char image[] = ".version 6.0\n"
                            ".target sm_50\n"
                            ".address_size 64\n"
                            ".visible .entry " FENCE_KERNEL "()\n"
                            "{\n"
                            "    ret;\n"
                            "}\n"
                            ".visible .entry " POISON_KERNEL "(.param .u64 address)\n"
                            "{\n"
                            "    .reg .b64 %to;\n"
                            "    .reg .b32 %value;\n"
                            "    ld.param.u64 %to, [address];\n"
                            "    ld.volatile.global.u32 %value, [%to];\n"
                            "    st.volatile.global.u32 [%to], %value;\n"
                            "    ret;\n"
                            "}\n";

static struct prepared {
    CUcontext context;
    int device;
    CUfunction fence, poison;
    CUstream stream;
} prepared[CONTEXTS];
static unsigned prepared_count; /* atomic; entries are constant once they are counted, but contexts go */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for adding one */

void kernels_prepare(CUcontext context, int device)
{
    struct prepared entry = {.context = context, .device = device};
    CUmodule module = NULL;
    if (driver->cuModuleLoadData(&module, image) != CUDA_SUCCESS ||
        driver->cuModuleGetFunction(&entry.fence, module, FENCE_KERNEL) != CUDA_SUCCESS ||
        driver->cuModuleGetFunction(&entry.poison, module, POISON_KERNEL) != CUDA_SUCCESS ||
        driver->cuStreamCreate(&entry.stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return;
    /* Modules are loaded lazily: once now, so that no fence has to load code into a device that is stopped. */
    driver->cuLaunchKernel(entry.fence, 1, 1, 1, 1, 1, 1, 0, entry.stream, NULL, NULL);
    pthread_mutex_lock(&lock);
    if (prepared_count < CONTEXTS) {
        prepared[prepared_count] = entry;
        __atomic_store_n(&prepared_count, prepared_count + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
}

/* Makes an entry's context current, if it is of the device or context that is meant. */
static int enter(const struct prepared *entry, CUcontext context, int device)
{
    CUcontext own = __atomic_load_n(&entry->context, __ATOMIC_RELAXED);
    return own && (!context || own == context) && (device < 0 || entry->device == device) &&
           driver->cuCtxPushCurrent(own) == CUDA_SUCCESS;
}

static void leave(void)
{
    CUcontext popped;
    driver->cuCtxPopCurrent(&popped);
}

static unsigned count(void)
{
    return __atomic_load_n(&prepared_count, __ATOMIC_ACQUIRE);
}

static int wait_for(CUstream stream, int (*give_up)(void *user), void *user)
{
    for (unsigned asked = 0; driver->cuStreamQuery(stream) == CUDA_ERROR_NOT_READY; asked++) {
        if (asked < 100)
            continue;
        if (give_up(user))
            return 0;
        usleep(asked < 200 ? 20 : 1000);
    }
    return 1;
}

int kernels_fence(CUcontext context, int (*is_left_out)(int device), int (*give_up)(void *user), void *user)
{
    int is_passed = 1;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    driver->cuThreadExchangeStreamCaptureMode(&mode);
    for (unsigned i = 0; i < count() && is_passed; i++) {
        const struct prepared *entry = &prepared[i];
        if (is_left_out(entry->device) || !enter(entry, context, -1))
            continue;
        if (driver->cuLaunchKernel(entry->fence, 1, 1, 1, 1, 1, 1, 0, entry->stream, NULL, NULL) == CUDA_SUCCESS)
            is_passed = wait_for(entry->stream, give_up, user);
        leave();
    }
    driver->cuThreadExchangeStreamCaptureMode(&mode);
    return is_passed;
}

unsigned kernels_poison(int device, uint64_t unmapped_address)
{
    void *arguments[] = {&unmapped_address};
    unsigned launched = 0;
    for (unsigned i = 0; i < count(); i++) {
        if (!enter(&prepared[i], NULL, device))
            continue;
        launched += driver->cuLaunchKernel(prepared[i].poison, 1, 1, 1, 1, 1, 1, 0, prepared[i].stream, arguments, NULL) ==
                    CUDA_SUCCESS;
        leave();
    }
    return launched;
}

int kernels_current_device(void)
{
    CUcontext context = NULL;
    if (driver->cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
        return -1;
    for (unsigned i = 0; i < count(); i++) {
        if (__atomic_load_n(&prepared[i].context, __ATOMIC_RELAXED) == context)
            return prepared[i].device;
    }
    return -1;
}

int kernels_only_device(void)
{
    int device = -1;
    for (unsigned i = 0; i < count(); i++) {
        if (!__atomic_load_n(&prepared[i].context, __ATOMIC_RELAXED) || prepared[i].device == device)
            continue;
        if (device >= 0)
            return -1;
        device = prepared[i].device;
    }
    return device;
}

void kernels_forget(CUcontext context)
{
    for (unsigned i = 0; i < count(); i++) {
        if (__atomic_load_n(&prepared[i].context, __ATOMIC_RELAXED) == context)
            __atomic_store_n(&prepared[i].context, NULL, __ATOMIC_RELAXED);
    }
}

int kernels_have_failed(int device)
{
    for (unsigned i = 0; i < count(); i++) {
        if (!enter(&prepared[i], NULL, device))
            continue;
        CUresult result = driver->cuStreamQuery(prepared[i].stream);
        leave();
        if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY)
            return 0;
    }
    return 1;
}
