/* Stories about contexts: hundreds of them, and a fault that only the end of the process meets. */
#include "program.h"

#include <pthread.h>

#define BYTES 4096

/* A test suite that resets the device behind each of its tests. */
STORY(resets)
{
    int resets = count > 2 ? atoi(arguments[2]) : 1, refused = 0;
    CUdeviceptr buffer;
    start();
    for (int i = 0; i < resets; i++) {
        CUcontext primary;
        CUstream stream;
        MUST(cu.cuDevicePrimaryCtxRetain(&primary, 0));
        MUST(cu.cuCtxSetCurrent(primary));
        stream = new_stream();
        refused += cu.cuMemAlloc(&buffer, BYTES) != CUDA_SUCCESS;
        refused += cu.cuMemAllocAsync(&buffer, BYTES, stream) != CUDA_SUCCESS;
        refused += cu.cuMemFreeAsync(buffer, stream) != CUDA_SUCCESS;
        MUST(cu.cuDevicePrimaryCtxReset(0));
    }
    printf("refused %d\n", refused);
    return 0;
}

STORY(many_contexts)
{
    enum { MOST = 1000 };
    static CUcontext contexts[MOST];
    static CUdeviceptr buffers[MOST];
    int wanted = count > 2 ? atoi(arguments[2]) : 1, refused = 0, wrong = 0;
    start();
    for (int i = 0; i < wanted && i < MOST; i++) {
        MUST(cu.cuCtxCreate(&contexts[i], NULL, 0, 0));
        refused += cu.cuMemAlloc(&buffers[i], 64) != CUDA_SUCCESS;
        MUST(cu.cuCtxSetCurrent(NULL)); /* off the thread's stack, which has an end */
    }
    for (int i = 0; i < wanted && i < MOST; i++) {
        CUcontext owner = NULL;
        MUST(cu.cuCtxSetCurrent(contexts[i]));
        wrong +=
            cu.cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, buffers[i]) != CUDA_SUCCESS || owner != contexts[i];
        if (i % 2) /* the other half goes with its context */
            refused += cu.cuMemFree(buffers[i]) != CUDA_SUCCESS;
        MUST(cu.cuCtxDestroy(contexts[i]));
    }
    printf("refused %d, of another context %d\n", refused, wrong);
    return 0;
}

static CUcontext first_context;
static int is_over; /* atomic */

/* Asks for more than there is, which gives up what every context of the device keeps, and for what other contexts have freed.
 */
static void *ask_for_much(void *unused)
{
    CUdeviceptr buffer;
    MUST(cu.cuCtxSetCurrent(first_context));
    for (size_t pages = 1; !__atomic_load_n(&is_over, __ATOMIC_ACQUIRE); pages = pages % 8 + 1) {
        if (cu.cuMemAlloc(&buffer, (size_t)1 << 40) == CUDA_SUCCESS)
            exit(3);
        MUST(cu.cuMemAlloc(&buffer, pages << 21));
        MUST(cu.cuMemFree(buffer));
    }
    return unused;
}

/* Contexts that end while another thread looks for memory: what they keep, and what waits for their work. */
STORY(ending_contexts)
{
    int many = count > 2 ? atoi(arguments[2]) : 1;
    CUdeviceptr own, others;
    pthread_t thread;
    start();
    MUST(cu.cuDevicePrimaryCtxRetain(&first_context, 0));
    pthread_create(&thread, NULL, ask_for_much, NULL);
    for (int i = 0; i < many; i++) {
        CUcontext context;
        MUST(cu.cuCtxSetCurrent(first_context));
        MUST(cu.cuMemAlloc(&others, BYTES));
        MUST(cu.cuCtxCreate(&context, NULL, 0, 0));
        MUST(cu.cuMemAlloc(&own, BYTES));
        CUstream stream = new_stream();
        MUST(cu.cuMemFreeAsync(own, stream));
        MUST(cu.cuMemFreeAsync(others, stream));
        MUST(cu.cuCtxDestroy(context));
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    puts("all have ended");
    return 0;
}

static void *end_the_process(void *unused)
{
    exit(0);
}

/* Two devices, on both of which a kernel faults; the program never asks, and ends from another thread than the first one: its
 * devices are waited for once then. */
STORY(silent_fault)
{
    CUdeviceptr buffer;
    start();
    for (int device = 0; device < 2; device++) {
        use_device(device);
        MUST(cu.cuMemAlloc(&buffer, BYTES));
        MUST(store(buffer + BYTES, 1, NULL));
    }
    pthread_t thread;
    pthread_create(&thread, NULL, end_the_process, NULL);
    pthread_join(thread, NULL);
    return 1;
}
