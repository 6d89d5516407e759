/*
 * A program that knows nothing about cufence: launches an empty kernel with four arguments over and over, and prints the
 * nanoseconds per launch: the median of 101 batches of 200, with a synchronisation between batches.
 *
 *   plain_launches [THREADS]   number of threads that launch at once, each on its own stream; the median of all batches
 *
 * bench/hooked.py runs it.
 */
#include "empty.ptx.h"

#include <cuda.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCHES = 101, LAUNCHES = 200, WARM_UP = 20, MAX_THREADS = 64 };

static void *libcuda;
static CUcontext context;
static CUfunction empty;
static pthread_barrier_t barrier;
static double samples[MAX_THREADS * BATCHES];

static void must(CUresult result, const char *call)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "plain_launches: %s: error %d\n", call, (int)result);
    exit(1);
}

static void *function(const char *symbol)
{
    void *address = libcuda ? dlsym(libcuda, symbol) : NULL;
    if (address)
        return address;
    fprintf(stderr, "plain_launches: %s\n", dlerror());
    exit(1);
}
#define LOAD(name) const __typeof__(&(name)) do_##name = (__typeof__(&(name)))function(#name)
#define CALL(name, ...) must(do_##name(__VA_ARGS__), #name)

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static double time_batch(__typeof__(&cuLaunchKernel) do_cuLaunchKernel, CUstream stream)
{
    uint64_t start = now();
    for (uint64_t i = 0; i < LAUNCHES; i++) {
        uint64_t x = i, y = ~i;
        float a = 2;
        int n = 1000;
        void *parameters[] = {&x, &y, &a, &n};
        CALL(cuLaunchKernel, empty, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
    }
    return (double)(now() - start) / LAUNCHES;
}

static void *launch(void *own)
{
    double *times = own;
    CUstream stream;
    LOAD(cuCtxSetCurrent);
    LOAD(cuStreamCreate);
    LOAD(cuStreamSynchronize);
    LOAD(cuLaunchKernel);
    CALL(cuCtxSetCurrent, context);
    CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    pthread_barrier_wait(&barrier);
    for (int i = -WARM_UP; i < BATCHES; i++) {
        times[i < 0 ? 0 : i] = time_batch(do_cuLaunchKernel, stream);
        CALL(cuStreamSynchronize, stream);
    }
    return NULL;
}

static void load_kernel(void)
{
    CUdevice device;
    CUmodule module;
    LOAD(cuInit);
    LOAD(cuDeviceGet);
    LOAD(cuDevicePrimaryCtxRetain);
    LOAD(cuCtxSetCurrent);
    LOAD(cuModuleLoadData);
    LOAD(cuModuleGetFunction);
    CALL(cuInit, 0);
    CALL(cuDeviceGet, &device, 0);
    CALL(cuDevicePrimaryCtxRetain, &context, device);
    CALL(cuCtxSetCurrent, context);
    CALL(cuModuleLoadData, &module, empty_ptx);
    CALL(cuModuleGetFunction, &empty, module, "empty");
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

int main(int argc, char **argv)
{
    pthread_t threads[MAX_THREADS];
    long count = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
    if (argc > 2 || count < 1 || count > MAX_THREADS) {
        fprintf(stderr, "usage: plain_launches [THREADS], at most %d\n", MAX_THREADS);
        return 2;
    }
    libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    load_kernel();
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    for (long i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, launch, samples + i * BATCHES) != 0)
            return 1;
    }
    for (long i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    size_t all = (size_t)count * BATCHES;
    qsort(samples, all, sizeof *samples, compare);
    printf("%.1f\n", samples[all / 2]);
    return 0;
}
