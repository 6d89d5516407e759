#include "poison.h"

#include <pthread.h>

#define CONTEXTS 64

/*
 * PTX of the oldest kind that the driver still compiles for every device. A load whose value is needed keeps its warp alive
 * when it faults, and that ends the context for good; a fault of a warp that has exited by then (a store as the last
 * instruction) does not (H100, driver 580.159.04).
 */
static const char image[] = ".version 6.0\n"
                            ".target sm_50\n"
                            ".address_size 64\n"
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
    CUfunction kernel;
    CUstream stream;
} prepared[CONTEXTS];
static unsigned prepared_count;                          /* atomic; entries are constant once they are counted */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for adding one */

void poison_prepare(CUcontext context, int device)
{
    struct prepared entry = {.context = context, .device = device};
    CUmodule module = NULL;
    if (driver->cuModuleLoadData(&module, image) != CUDA_SUCCESS ||
        driver->cuModuleGetFunction(&entry.kernel, module, POISON_KERNEL) != CUDA_SUCCESS ||
        driver->cuStreamCreate(&entry.stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return;
    pthread_mutex_lock(&lock);
    if (prepared_count < CONTEXTS) {
        prepared[prepared_count] = entry;
        __atomic_store_n(&prepared_count, prepared_count + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
}

void poison_inject(int device, uint64_t unmapped_address)
{
    void *arguments[] = {&unmapped_address};
    CUcontext popped;
    for (unsigned i = 0; i < __atomic_load_n(&prepared_count, __ATOMIC_ACQUIRE); i++) {
        if ((device >= 0 && prepared[i].device != device) || driver->cuCtxPushCurrent(prepared[i].context) != CUDA_SUCCESS)
            continue;
        driver->cuLaunchKernel(prepared[i].kernel, 1, 1, 1, 1, 1, 1, 0, prepared[i].stream, arguments, NULL);
        driver->cuCtxPopCurrent(&popped);
    }
}

int poison_has_taken(int device)
{
    CUcontext popped;
    for (unsigned i = 0; i < __atomic_load_n(&prepared_count, __ATOMIC_ACQUIRE); i++) {
        if ((device >= 0 && prepared[i].device != device) || driver->cuCtxPushCurrent(prepared[i].context) != CUDA_SUCCESS)
            continue;
        CUresult result = driver->cuStreamQuery(prepared[i].stream);
        driver->cuCtxPopCurrent(&popped);
        if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY)
            return 0;
    }
    return 1;
}
