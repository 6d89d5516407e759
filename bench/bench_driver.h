/*
 * What benchmarks in C share: the CUDA driver that CUFENCE_DRIVER names ("sim", a file, or by default libcuda.so.1), found
 * beside cufence, and its first device's primary context.
 */
#pragma once

#include <cuda.h>
#include <cufence.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FUNCTIONS(X)                                                                                                           \
    X(cuInit)                                                                                                                  \
    X(cuDriverGetVersion)                                                                                                      \
    X(cuDeviceGet)                                                                                                             \
    X(cuDeviceGetName)                                                                                                         \
    X(cuDevicePrimaryCtxRetain)                                                                                                \
    X(cuCtxSetCurrent)                                                                                                         \
    X(cuCtxSynchronize)                                                                                                        \
    X(cuStreamCreate)                                                                                                          \
    X(cuStreamDestroy)                                                                                                         \
    X(cuStreamSynchronize)                                                                                                     \
    X(cuMemGetInfo)                                                                                                            \
    X(cuMemAlloc)                                                                                                              \
    X(cuMemFree)                                                                                                               \
    X(cuMemAllocAsync)                                                                                                         \
    X(cuMemsetD8Async)                                                                                                         \
    X(cuMemFreeAsync)                                                                                                          \
    X(cuDeviceGetDefaultMemPool)                                                                                               \
    X(cuMemPoolSetAttribute)                                                                                                   \
    X(cuMemPoolTrimTo)                                                                                                         \
    X(cuMemAddressReserve)                                                                                                     \
    X(cuMemAddressFree)                                                                                                        \
    X(cuMemCreate)                                                                                                             \
    X(cuMemRelease)                                                                                                            \
    X(cuMemMap)                                                                                                                \
    X(cuMemUnmap)                                                                                                              \
    X(cuMemSetAccess)

#define X(function) __typeof__(function) *(function);
static struct {
    FUNCTIONS(X)
} cuda; /* what the driver does not have is NULL */
#undef X

static CUcontext context;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
    exit(1);
}

static void must(CUresult result, const char *call)
{
    char number[32];
    snprintf(number, sizeof number, "CUresult %d", (int)result);
    if (result != CUDA_SUCCESS)
        die(call, number);
}
#define MUST(call) must(cuda.call, #call)

static void *open_driver(void)
{
    char path[1024];
    const char *wanted = getenv("CUFENCE_DRIVER");
    Dl_info info;
    if (!wanted || !*wanted)
        return dlopen("libcuda.so.1", RTLD_NOW);
    if (strcmp(wanted, "sim") != 0)
        return dlopen(wanted, RTLD_NOW);
    /* beside libcufence.so, where cufence itself looks for it */
    if (!dladdr(__extension__(void *) cufence_version, &info) || !info.dli_fname)
        return NULL;
    const char *slash = strrchr(info.dli_fname, '/');
    snprintf(path, sizeof path, "%.*slibcufence_sim.so", slash ? (int)(slash + 1 - info.dli_fname) : 0, info.dli_fname);
    return dlopen(path, RTLD_NOW);
}

/* Makes the primary context current and prints what runs on what. Returns the device. */
static CUdevice open_device(void)
{
    CUdevice device;
    char name[128] = "";
    int version = 0;
    void *library = open_driver();
    if (!library)
        die("the CUDA driver", dlerror());
#define NAME_(text) #text
#define NAME(text) NAME_(text)
#define X(function) cuda.function = (__typeof__(cuda.function))dlsym(library, NAME(function));
    FUNCTIONS(X)
#undef X
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    cuda.cuDeviceGetName(name, sizeof name, device);
    cuda.cuDriverGetVersion(&version);
    const char *options = getenv("CUFENCE_OPTIONS");
    printf("cufence %s (options: %s) on %s, CUDA %d.%d, %ld processors\n", cufence_version_string(),
           options && *options ? options : "default", name, version / 1000, version % 1000 / 10, sysconf(_SC_NPROCESSORS_ONLN));
    return device;
}
