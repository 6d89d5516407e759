/*
 * A program that knows nothing of cufence: launches an empty kernel with four arguments, again and again, and prints what a
 * launch takes, in nanoseconds: the median of 101 batches of 200, between which it synchronises. bench/hooked.py runs it.
 */
#include "empty.ptx.h"

#include <cuda.h>

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCHES = 101, LAUNCHES = 200, WARM_UP = 20 };

static void *libcuda;

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

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double time_batch(__typeof__(&cuLaunchKernel) do_cuLaunchKernel, CUfunction empty, CUstream stream)
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

int main(void)
{
    static double samples[BATCHES];
    CUdevice device;
    CUcontext context;
    CUstream stream;
    CUmodule module;
    CUfunction empty;
    libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    LOAD(cuInit);
    LOAD(cuDeviceGet);
    LOAD(cuDevicePrimaryCtxRetain);
    LOAD(cuCtxSetCurrent);
    LOAD(cuStreamCreate);
    LOAD(cuModuleLoadData);
    LOAD(cuModuleGetFunction);
    LOAD(cuStreamSynchronize);
    LOAD(cuLaunchKernel);
    CALL(cuInit, 0);
    CALL(cuDeviceGet, &device, 0);
    CALL(cuDevicePrimaryCtxRetain, &context, device);
    CALL(cuCtxSetCurrent, context);
    CALL(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    CALL(cuModuleLoadData, &module, empty_ptx);
    CALL(cuModuleGetFunction, &empty, module, "empty");
    for (int i = -WARM_UP; i < BATCHES; i++) {
        samples[i < 0 ? 0 : i] = time_batch(do_cuLaunchKernel, empty, stream);
        CALL(cuStreamSynchronize, stream);
    }
    qsort(samples, BATCHES, sizeof *samples, compare);
    printf("%.1f\n", samples[BATCHES / 2]);
    return 0;
}
