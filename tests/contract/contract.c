#include "contract.h"

#include "kernels.ptx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sim.h>
#include <time.h>

#define HELD_NS 1000000000l

static struct promise *promises;

void promise_add(struct promise *promise)
{
    struct promise **link = &promises;
    while (*link != NULL && strcmp((*link)->name, promise->name) < 0)
        link = &(*link)->next;
    promise->next = *link;
    *link = promise;
}

const char *result_name(CUresult result)
{
    static char text[32];
    const char *name = NULL;
    if (result == CUDA_SUCCESS)
        return "SUCCESS";
    if (cuGetErrorName(result, &name) == CUDA_SUCCESS && name != NULL && strncmp(name, "CUDA_ERROR_", 11) == 0)
        return name + 11;
    snprintf(text, sizeof text, "%d", (int)result);
    return text;
}

void must(CUresult result, const char *call, const char *file, int line)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("%s:%d: %s: %s\n", strrchr(file, '/') ? strrchr(file, '/') + 1 : file, line, call, result_name(result));
    exit(3);
}

CUresult ask(const char *text, CUresult result)
{
    printf("%s: %s\n", text, result_name(result));
    return result;
}

/* ---- kernels, as host functions of the simulated device ---- */

static void sim_hold(const cusim_thread *thread, void *const *arguments)
{
    const uint32_t *flag = (const uint32_t *)*(const uintptr_t *)arguments[0];
    (void)thread;
    for (unsigned us = 0; us < 10000000 && !__atomic_load_n(flag, __ATOMIC_ACQUIRE); us += 100)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static void sim_fill(const cusim_thread *thread, void *const *arguments)
{
    volatile uint8_t *to = (volatile uint8_t *)*(const uintptr_t *)arguments[0];
    (void)thread;
    for (uint64_t i = 0; i < *(const uint64_t *)arguments[1]; i++)
        to[i] = (uint8_t) * (const uint32_t *)arguments[2];
}

static void sim_fetch(const cusim_thread *thread, void *const *arguments)
{
    static void *(*find)(unsigned long long object); /* of the simulated device's library: sim.h */
    (void)thread;
    if (!find)
        *(void **)&find = dlsym(RTLD_DEFAULT, "cusim_texture");
    const float *from = find(*(const uint64_t *)arguments[0]);
    float *to = (float *)*(const uintptr_t *)arguments[1];
    for (uint32_t i = 0; i < *(const uint32_t *)arguments[2]; i++)
        to[i] = from[i];
}

void cusim_program_kernels(void (*add)(const cusim_kernel *kernel));
__attribute__((visibility("default"))) void cusim_program_kernels(void (*add)(const cusim_kernel *kernel))
{
    static const size_t bytes[] = {8, 8, 4};
    add(&(cusim_kernel){.name = "contract_hold", .function = sim_hold, .argument_bytes = bytes, .argument_count = 1});
    add(&(cusim_kernel){.name = "contract_fill", .function = sim_fill, .argument_bytes = bytes, .argument_count = 3});
    add(&(cusim_kernel){.name = "contract_fetch", .function = sim_fetch, .argument_bytes = bytes, .argument_count = 3});
}

CUfunction kernel(const char *name)
{
    CUmodule module;
    CUfunction function;
    MUST(cuModuleLoadData(&module, kernels_ptx));
    MUST(cuModuleGetFunction(&function, module, name));
    return function;
}

void fill(CUstream stream, CUdeviceptr to, uint64_t bytes, uint32_t value)
{
    MUST(cuLaunchKernel(kernel("contract_fill"), 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&to, &bytes, &value}, NULL));
}

/* ---- what waits ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t change;
    uint32_t *flag; /* of the kernel; atomic */
    CUstream stream;
    CUcontext context;
    int is_held, is_over; /* is_over: the call that is timed has returned */
    pthread_t thread;
} hold = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

void held(CUstream stream)
{
    CUfunction function = kernel("contract_hold");
    if (hold.flag == NULL)
        MUST(cuMemHostAlloc((void **)&hold.flag, sizeof *hold.flag, CU_MEMHOSTALLOC_PORTABLE));
    __atomic_store_n(hold.flag, 0, __ATOMIC_RELEASE);
    MUST(cuCtxGetCurrent(&hold.context));
    MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&hold.flag}, NULL));
    hold.stream = stream;
    hold.is_held = 1;
}

void let_go(void)
{
    if (!hold.is_held)
        return;
    __atomic_store_n(hold.flag, 1, __ATOMIC_RELEASE);
    hold.is_held = 0;
    CUcontext now;
    MUST(cuCtxPushCurrent(hold.context));
    MUST(cuStreamSynchronize(hold.stream));
    MUST(cuCtxPopCurrent(&now));
}

static void *release_late(void *unused)
{
    struct timespec until;
    int failed = 0;
    (void)unused;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += HELD_NS % 1000000000l;
    until.tv_sec += HELD_NS / 1000000000l + until.tv_nsec / 1000000000l;
    until.tv_nsec %= 1000000000l;
    pthread_mutex_lock(&hold.lock);
    while (!hold.is_over && !failed)
        failed = pthread_cond_timedwait(&hold.change, &hold.lock, &until);
    if (!hold.is_over)
        __atomic_store_n(hold.flag, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&hold.lock);
    return NULL;
}

void timed_begin(void)
{
    hold.is_over = 0;
    if (pthread_create(&hold.thread, NULL, release_late, NULL) != 0)
        exit(4);
}

CUresult timed_end(const char *text, CUresult result)
{
    pthread_mutex_lock(&hold.lock);
    int has_waited = __atomic_load_n(hold.flag, __ATOMIC_ACQUIRE) != 0;
    hold.is_over = 1;
    pthread_cond_signal(&hold.change);
    pthread_mutex_unlock(&hold.lock);
    pthread_join(hold.thread, NULL);
    printf("%s: %s, %s\n", text, result_name(result), has_waited ? "waits" : "at once");
    let_go();
    return result;
}

/* ---- the device ---- */

CUcontext primary(int number)
{
    CUdevice device;
    CUcontext context;
    MUST(cuDeviceGet(&device, number));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    return context;
}

#define MADE(type, name, parameters, ...)                                                                                      \
    type name parameters                                                                                                       \
    {                                                                                                                          \
        type made;                                                                                                             \
        MUST(__VA_ARGS__);                                                                                                     \
        return made;                                                                                                           \
    }
MADE(CUcontext, context_new, (void), cuCtxCreate(&made, NULL, 0, 0))
MADE(CUevent, event_new, (void), cuEventCreate(&made, CU_EVENT_DISABLE_TIMING))
MADE(CUstream, stream_new, (void), cuStreamCreate(&made, CU_STREAM_NON_BLOCKING))
MADE(CUdeviceptr, plain_memory, (size_t bytes), cuMemAlloc(&made, bytes))
MADE(CUdeviceptr, pool_memory, (size_t bytes, CUstream stream), cuMemAllocAsync(&made, bytes, stream))
MADE(CUmemoryPool, pool_of_device, (void), cuDeviceGetDefaultMemPool(&made, 0))
MADE(CUmemoryPool, pool_new, (int device, size_t most),
     cuMemPoolCreate(&made, &(CUmemPoolProps){.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .location = {CU_MEM_LOCATION_TYPE_DEVICE, device},
                                              .maxSize = most}))
MADE(CUgraph, graph_new, (void), cuGraphCreate(&made, 0))
MADE(CUgraph, capture_end, (CUstream stream), cuStreamEndCapture(stream, &made))
MADE(CUgraphExec, instantiated, (CUgraph graph, unsigned long long flags), cuGraphInstantiate(&made, graph, flags))

CUdeviceptr filled_memory(size_t bytes, unsigned char value)
{
    CUdeviceptr pointer = plain_memory(bytes);
    MUST(cuMemsetD8(pointer, value, bytes));
    return pointer;
}

CUdeviceptr ready_memory(size_t bytes, CUstream stream)
{
    CUdeviceptr pointer = pool_memory(bytes, stream);
    MUST(cuStreamSynchronize(stream));
    return pointer;
}

void free_and_await(CUdeviceptr pointer, CUstream stream)
{
    MUST(cuMemFreeAsync(pointer, stream));
    MUST(cuStreamSynchronize(stream));
}

void capture_begin(CUstream stream)
{
    MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
}

CUgreenCtx green_new(CUstream *stream)
{
    CUdevResource all;
    CUdevResourceDesc description;
    CUgreenCtx green;
    MUST(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    MUST(cuDevResourceGenerateDesc(&description, &all, 1));
    MUST(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    MUST(cuGreenCtxStreamCreate(stream, green, CU_STREAM_NON_BLOCKING, 0));
    return green;
}

const char *ends_of(CUdeviceptr from, size_t bytes)
{
    static char text[40];
    unsigned char first = 0, last = 0;
    CUresult result = cuMemcpyDtoH(&first, from, 1);
    if (result == CUDA_SUCCESS)
        result = cuMemcpyDtoH(&last, from + bytes - 1, 1);
    if (result != CUDA_SUCCESS)
        return result_name(result);
    snprintf(text, sizeof text, "%u %u", first, last);
    return text;
}

size_t share(unsigned per_cent)
{
    size_t total;
    MUST(cuDeviceTotalMem(&total, 0));
    return total / 100 * per_cent >> 21 << 21;
}

static size_t free_at_first;

unsigned free_per_cent(void)
{
    size_t free_bytes, total;
    MUST(cuMemGetInfo(&free_bytes, &total));
    return (unsigned)((double)(free_bytes + total - free_at_first) / (double)total * 20 + 0.5) * 5;
}

int main(int count, char **words)
{
    const struct promise *promise = promises;
    if (count == 2 && strcmp(words[1], "--list") == 0) {
        for (; promise != NULL; promise = promise->next)
            printf("%s %d %s\n", promise->name, promise->gpus, promise->sentence);
        return 0;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    MUST(cuInit(0));
    if (count == 3 && strcmp(words[1], "--take") == 0) { /* see memory.c */
        CUdeviceptr pointer;
        primary(0);
        return (int)cuMemAlloc(&pointer, strtoull(words[2], NULL, 10));
    }
    while (promise != NULL && (count != 2 || strcmp(promise->name, words[1]) != 0))
        promise = promise->next;
    if (promise == NULL) {
        fprintf(stderr, "usage: contract NAME | --list\n");
        return 2;
    }
    size_t total;
    primary(0);
    kernel("contract_fill"); /* code takes memory, too */
    MUST(cuMemGetInfo(&free_at_first, &total));
    promise->play();
    let_go();
    return 0;
}
