/*
 * A program that knows nothing of cufence: allocates, frees, launches and faults as it is asked to, for `./dev bench`.
 *
 *   bench_micro async|driver|cufence     where memory comes from: cuMemAllocAsync, cuMemAlloc, or cufence's C API
 *
 * Each line on stdin is a request, each answer a line on stdout: "bench> SECONDS", or "bench> {"error": "..."}".
 *   allocate THREADS MS    one allocation of 4 KiB and its free, the memory warm, each thread with a stream of its own
 *   fresh BYTES 0          one allocation that has to get its memory from the driver
 *   live COUNT MS          one free and one allocation of 4 KiB among COUNT live buffers
 *   launch THREADS MS      one launch of an empty kernel with four arguments, two of them pointers to buffers
 *   wait THREADS MS        one wait for a stream without work
 *   fault BLOCKS 0         not answered: one thread of a full grid stores 32 MiB past the end of its buffer, half-way through
 *                          its kernel. "launch TIME" and, when CUDA returns an error, "error TIME" are printed
 * Figures are the mean of MS milliseconds, as one thread sees it. Runs on libcuda.so.1.
 */
#include "kernels.ptx.h"

#include <cuda.h>
#include <cufence.h>

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MAX_THREADS = 64,
    MAX_LIVE = 1000000,
    FRESH = 8,
    MOST_FRESH = 40,
    PAIRS = 16,
    LAUNCHES = 200,
    SMALL = 4096,
    BLOCK = 1024
};
#define PAST_THE_END ((int64_t)32 << 20) /* in a guard of cufence's, and in nothing that the driver has mapped */

#define FUNCTIONS(X)                                                                                                           \
    X(cuInit, "cuInit")                                                                                                        \
    X(cuDeviceGet, "cuDeviceGet")                                                                                              \
    X(cuDeviceGetName, "cuDeviceGetName")                                                                                      \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")                                                                    \
    X(cuCtxSetCurrent, "cuCtxSetCurrent")                                                                                      \
    X(cuCtxSynchronize, "cuCtxSynchronize")                                                                                    \
    X(cuStreamCreate, "cuStreamCreate")                                                                                        \
    X(cuStreamSynchronize, "cuStreamSynchronize")                                                                              \
    X(cuMemAlloc, "cuMemAlloc_v2")                                                                                             \
    X(cuMemFree, "cuMemFree_v2")                                                                                               \
    X(cuMemsetD8, "cuMemsetD8_v2")                                                                                             \
    X(cuMemAllocAsync, "cuMemAllocAsync")                                                                                      \
    X(cuMemFreeAsync, "cuMemFreeAsync")                                                                                        \
    X(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool")                                                                  \
    X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute")                                                                          \
    X(cuMemPoolTrimTo, "cuMemPoolTrimTo")                                                                                      \
    X(cuModuleLoadData, "cuModuleLoadData")                                                                                    \
    X(cuModuleGetFunction, "cuModuleGetFunction")                                                                              \
    X(cuLaunchKernel, "cuLaunchKernel")

#define X(function, symbol) __typeof__(&(function)) do_##function;
static struct {
    FUNCTIONS(X)
} cuda;
#undef X

static struct {
    __typeof__(&cufence_malloc) malloc;
    __typeof__(&cufence_free) free;
    __typeof__(&cufence_trim) trim;
    __typeof__(&cufence_get_stats) stats;
} fence;

static CUcontext context;
static CUmemoryPool pool;
static CUstream streams[MAX_THREADS];
static CUfunction empty;     /* once a launch is asked for, ... */
static CUdeviceptr given[2]; /* ... with the buffers that its kernel is given */

static _Noreturn void die(const char *what, const char *why)
{
    printf("bench> {\"error\": \"%s: %s\"}\n", what, why);
    exit(1);
}

static void must(CUresult result, const char *call)
{
    char number[32];
    snprintf(number, sizeof number, "CUresult %d", (int)result);
    if (result != CUDA_SUCCESS)
        die(call, number);
}
#define MUST(function, ...) must(cuda.do_##function(__VA_ARGS__), #function)

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* ---- allocators ---- */

static CUdeviceptr async_allocate(size_t size, CUstream stream)
{
    CUdeviceptr address = 0;
    return cuda.do_cuMemAllocAsync(&address, size, stream) == CUDA_SUCCESS ? address : 0;
}

static void async_free(CUdeviceptr address, CUstream stream)
{
    cuda.do_cuMemFreeAsync(address, stream);
}

static void async_drop(void)
{
    cuda.do_cuMemPoolTrimTo(pool, 0);
}

static CUdeviceptr driver_allocate(size_t size, CUstream stream)
{
    CUdeviceptr address = 0;
    (void)stream;
    return cuda.do_cuMemAlloc(&address, size) == CUDA_SUCCESS ? address : 0;
}

static void driver_free(CUdeviceptr address, CUstream stream)
{
    (void)stream;
    cuda.do_cuMemFree(address);
}

static void driver_drop(void)
{
}

static CUdeviceptr fence_allocate(size_t size, CUstream stream)
{
    void *pointer = NULL;
    return fence.malloc(&pointer, size, 0, stream) == CUFENCE_OK ? (CUdeviceptr)(uintptr_t)pointer : 0;
}

static void fence_free(CUdeviceptr address, CUstream stream)
{
    fence.free((void *)(uintptr_t)address, stream);
}

static void fence_drop(void)
{
    fence.trim(0);
}

static const struct allocator {
    const char *name;
    CUdeviceptr (*allocate)(size_t size, CUstream stream);
    void (*free)(CUdeviceptr address, CUstream stream);
    void (*drop)(void); /* gives kept memory back to the driver; the device is idle */
} allocators[] = {{"async", async_allocate, async_free, async_drop},
                  {"driver", driver_allocate, driver_free, driver_drop},
                  {"cufence", fence_allocate, fence_free, fence_drop}};
static const struct allocator *memory;

static CUdeviceptr allocate(size_t size, CUstream stream)
{
    CUdeviceptr address = memory->allocate(size, stream);
    if (!address)
        die(memory->name, "no memory");
    return address;
}

/* ---- on threads ---- */

struct task {
    uint64_t (*work)(CUstream stream); /* returns how many operations it has done */
    CUstream stream;
    pthread_barrier_t *barrier;
    uint64_t duration;
    double seconds; /* out: of one operation */
};

static uint64_t work_allocate(CUstream stream)
{
    for (int i = 0; i < PAIRS; i++)
        memory->free(allocate(SMALL, stream), stream);
    return PAIRS;
}

static void launch_empty(CUstream stream, uint64_t i)
{
    float a = 2;
    int n = (int)i;
    void *parameters[] = {&given[0], &given[1], &a, &n};
    MUST(cuLaunchKernel, empty, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}

static uint64_t work_launch(CUstream stream)
{
    for (uint64_t i = 0; i < LAUNCHES; i++)
        launch_empty(stream, i);
    return LAUNCHES;
}

static uint64_t work_wait(CUstream stream)
{
    for (uint64_t i = 0; i < LAUNCHES; i++)
        MUST(cuStreamSynchronize, stream);
    return LAUNCHES;
}

static void *take(void *argument)
{
    struct task *task = argument;
    uint64_t spent = 0, done = 0;
    MUST(cuCtxSetCurrent, context);
    task->work(task->stream);
    MUST(cuStreamSynchronize, task->stream);
    pthread_barrier_wait(task->barrier);
    while (spent < task->duration) {
        uint64_t start = now();
        done += task->work(task->stream);
        spent += now() - start;
        if (task->work == work_launch)
            MUST(cuStreamSynchronize, task->stream); /* not timed: the queue never is full */
    }
    task->seconds = (double)spent / 1e9 / (double)done;
    return NULL;
}

static double on_threads(uint64_t (*work)(CUstream), uint64_t count, uint64_t duration)
{
    struct task tasks[MAX_THREADS];
    pthread_t threads[MAX_THREADS];
    pthread_barrier_t barrier;
    double sum = 0;
    if (!count || count > MAX_THREADS)
        die("threads", "1 to 64");
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    for (uint64_t i = 0; i < count; i++) {
        tasks[i] = (struct task){work, streams[i], &barrier, duration, 0};
        if (pthread_create(&threads[i], NULL, take, &tasks[i]) != 0)
            die("pthread_create", "no thread to be had");
    }
    for (uint64_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        sum += tasks[i].seconds;
    }
    pthread_barrier_destroy(&barrier);
    return sum / (double)count;
}

static double take_allocate(uint64_t threads, uint64_t duration)
{
    return on_threads(work_allocate, threads, duration);
}

static CUfunction kernel(const char *name)
{
    CUmodule module;
    CUfunction function;
    MUST(cuModuleLoadData, &module, kernels_ptx);
    MUST(cuModuleGetFunction, &function, module, name);
    return function;
}

static double take_launch(uint64_t threads, uint64_t duration)
{
    for (int i = 0; !empty && i < 2; i++)
        given[i] = allocate(SMALL, streams[0]);
    if (!empty)
        empty = kernel("empty");
    return on_threads(work_launch, threads, duration);
}

static double take_wait(uint64_t threads, uint64_t duration)
{
    return on_threads(work_wait, threads, duration);
}

/* ---- on one thread ---- */

/* Counts up with each mapping that cufence makes, and otherwise at every call. */
static uint64_t mappings(void)
{
    static uint64_t calls;
    cufence_stats stats = {.struct_size = sizeof stats, .fresh_mappings = ++calls};
    if (fence.stats)
        fence.stats(0, &stats);
    return stats.fresh_mappings;
}

static double take_fresh(uint64_t bytes, uint64_t duration)
{
    CUdeviceptr got[MOST_FRESH];
    uint64_t spent = 0, fresh = 0;
    int count = 0;
    (void)duration;
    while (fresh < FRESH && count < MOST_FRESH) { /* what was freed a moment ago, cufence may hand out again */
        uint64_t before = mappings(), start = now();
        got[count++] = allocate(bytes, streams[0]);
        uint64_t took = now() - start;
        if (mappings() > before) {
            spent += took;
            fresh++;
        }
    }
    while (count > 0)
        memory->free(got[--count], streams[0]);
    MUST(cuCtxSynchronize, );
    memory->drop();
    if (!fresh)
        die(memory->name, "nothing needed memory from the driver");
    return (double)spent / 1e9 / (double)fresh;
}

static double take_live(uint64_t count, uint64_t duration)
{
    static CUdeviceptr live[MAX_LIVE];
    static uint64_t has;
    static uint32_t random = 1;
    uint64_t spent = 0, done = 0;
    if (!count || count > MAX_LIVE)
        die("live", "1 to 1000000");
    for (; has < count; has++)
        live[has] = allocate(SMALL, streams[0]);
    while (has > count)
        memory->free(live[--has], streams[0]);
    while (spent < duration) {
        uint64_t start = now();
        for (int i = 0; i < PAIRS; i++) {
            random = random * 1664525u + 1013904223u; /* any generator that picks buffers all over */
            CUdeviceptr *one = &live[(random >> 8) % count];
            memory->free(*one, streams[0]);
            *one = allocate(SMALL, streams[0]);
        }
        spent += now() - start;
        done += PAIRS;
    }
    return (double)spent / 1e9 / (double)done;
}

static double wall(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double take_fault(uint64_t blocks, uint64_t duration)
{
    const uint64_t bytes = blocks * BLOCK * sizeof(float);
    const CUfunction store = kernel("store");
    CUdeviceptr x = allocate(bytes, streams[0]);
    int64_t past = (int64_t)bytes + PAST_THE_END;
    uint32_t rounds = 20000;
    void *parameters[] = {&x, &past, &rounds};
    (void)duration;
    MUST(cuStreamSynchronize, streams[0]);
    printf("launch %.6f\n", wall());
    MUST(cuLaunchKernel, store, (unsigned)blocks, 1, 1, BLOCK, 1, 1, 0, streams[0], parameters, NULL);
    CUresult result = cuda.do_cuStreamSynchronize(streams[0]);
    printf("%s %.6f %d\n", result == CUDA_SUCCESS ? "silent" : "error", wall(), (int)result);
    exit(0);
}

/* ---- main ---- */

static const struct {
    const char *name;
    double (*take)(uint64_t argument, uint64_t duration);
} requests[] = {{"allocate", take_allocate}, {"fresh", take_fresh}, {"live", take_live},
                {"launch", take_launch},     {"wait", take_wait},   {"fault", take_fault}};

static void answer(const char *name, uint64_t argument, uint64_t milliseconds)
{
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        if (strcmp(name, requests[i].name) == 0) {
            printf("bench> %.12f\n", requests[i].take(argument, milliseconds * 1000000));
            return;
        }
    }
    die(name, "no such request");
}

static void *symbol(void *library, const char *name)
{
    void *address = library ? dlsym(library, name) : NULL;
    if (!address)
        die(name, library ? "is not there" : "its library cannot be loaded");
    return address;
}

static void open_fence(void)
{
    const char *path = getenv("CUFENCE_LIBRARY");
    void *library = dlopen(path ? path : "libcufence.so", RTLD_NOW);
    __typeof__(&cufence_init) init = (__typeof__(init))symbol(library, "cufence_init");
    fence.malloc = (__typeof__(fence.malloc))symbol(library, "cufence_malloc");
    fence.free = (__typeof__(fence.free))symbol(library, "cufence_free");
    fence.trim = (__typeof__(fence.trim))symbol(library, "cufence_trim");
    fence.stats = (__typeof__(fence.stats))symbol(library, "cufence_get_stats");
    if (init(NULL) != CUFENCE_OK)
        die("cufence_init", "failed");
}

static void open_device(void)
{
    CUdevice device;
    char name[128] = "";
    uint64_t keep = UINT64_MAX;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
#define X(function, exported) cuda.do_##function = (__typeof__(cuda.do_##function))symbol(library, exported);
    FUNCTIONS(X)
#undef X
    MUST(cuInit, 0);
    MUST(cuDeviceGet, &device, 0);
    MUST(cuDeviceGetName, name, sizeof name, device);
    MUST(cuDevicePrimaryCtxRetain, &context, device);
    MUST(cuCtxSetCurrent, context);
    /* By default the driver's pool gives its memory back at each synchronisation; keep it warm, as PyTorch does. */
    MUST(cuDeviceGetDefaultMemPool, &pool, device);
    MUST(cuMemPoolSetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
    for (int i = 0; i < MAX_THREADS; i++)
        MUST(cuStreamCreate, &streams[i], CU_STREAM_NON_BLOCKING);
    printf("bench> {\"gpu\": \"%s\"}\n", name);
}

int main(int argc, char **argv)
{
    char line[64], name[16];
    uint64_t argument, milliseconds;
    for (size_t i = 0; argc == 2 && i < sizeof allocators / sizeof *allocators; i++)
        if (strcmp(argv[1], allocators[i].name) == 0)
            memory = &allocators[i];
    if (!memory) {
        fprintf(stderr, "usage: bench_micro async|driver|cufence\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(memory->name, "cufence") == 0)
        open_fence();
    open_device();
    while (fgets(line, sizeof line, stdin))
        if (sscanf(line, "%15s %" SCNu64 " %" SCNu64, name, &argument, &milliseconds) == 3)
            answer(name, argument, milliseconds);
    return 0;
}
