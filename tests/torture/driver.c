#include "driver.h"

#include "kernels.ptx.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct driver cu;
struct simulation sim;
struct fence fence;

static void *need(void *library, const char *name)
{
    void *function = dlsym(library, name);
    if (function == NULL) {
        fprintf(stderr, "torture: %s\n", dlerror());
        exit(2);
    }
    return function;
}

/* ---- libraries ---- */

static void find_fence(const char *library)
{
    void *opened = dlopen(library ? library : "libcufence.so.0", library ? RTLD_NOW : RTLD_NOW | RTLD_NOLOAD);
    if (opened == NULL && library != NULL) {
        fprintf(stderr, "torture: %s\n", dlerror());
        exit(2);
    }
    if (opened == NULL)
        return;
#define X(name) *(void **)&fence.name = need(opened, "cufence_" #name);
    FENCE_FUNCTIONS(X)
#undef X
    fence.is_alone = library != NULL;
}

void driver_find(void)
{
    void *opened = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (opened == NULL) {
        fprintf(stderr, "torture: %s\n", dlerror());
        exit(2);
    }
#define TEXT(name) TEXT_EXPANDED(name)
#define TEXT_EXPANDED(name) #name
/* Those of green contexts are from CUDA 12.4, and NULL in older drivers. */
#define X(name)                                                                                                                \
    *(void **)&cu.name =                                                                                                       \
        strstr(#name, "Green") || strstr(#name, "DevRes") ? dlsym(opened, TEXT(name)) : need(opened, TEXT(name));
#include "driver_functions.h"
#undef X
    *(void **)&cu.create_context = need(opened, "cuCtxCreate_v2");
    *(void **)&sim.fail_malloc = dlsym(RTLD_DEFAULT, "fail_malloc");
    *(void **)&sim.fail_call = dlsym(opened, "cusim_fail_call");
    *(void **)&sim.set_latency = dlsym(opened, "cusim_set_latency");
}

void driver_start(const char *library)
{
    CUresult result = cu.cuInit(0); /* by then the preload library has opened libcufence.so */
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "torture: cuInit: %d\n", (int)result);
        exit(2);
    }
    find_fence(library);
    if (library != NULL && fence.init(NULL) != CUFENCE_OK) {
        fprintf(stderr, "torture: cufence_init: %s\n", fence.error_detail());
        exit(2);
    }
}

/* ---- launches ---- */

CUresult kernels_load(struct kernels *kernels)
{
    const struct {
        const char *name;
        CUfunction *function;
    } wanted[] = {{"torture_fill", &kernels->fill},
                  {"torture_check", &kernels->check},
                  {"torture_copy", &kernels->copy},
                  {"torture_hold", &kernels->hold}};
    /* The simulated device takes the stack of a compiler for PTX, and has every kernel in any other image. */
    CUresult result = cu.cuModuleLoadData(&kernels->module, sim.fail_call ? "an image" : kernels_ptx);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0] && result == CUDA_SUCCESS; i++)
        result = cu.cuModuleGetFunction(wanted[i].function, kernels->module, wanted[i].name);
    return result;
}

/* On the simulated device one CUDA thread suffices: each of them costs a call. */
static CUresult launch(CUfunction function, CUstream stream, size_t words, void **arguments)
{
    unsigned blocks = words > 65536 ? 32 : 1, threads = words > 1 ? 256 : 1;
    if (sim.fail_call != NULL)
        blocks = threads = 1;
    return cu.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, NULL);
}

CUresult launch_fill(const struct kernels *kernels, CUstream stream, CUdeviceptr to, size_t bytes, uint32_t value,
                     uint32_t step)
{
    uint64_t words = bytes / 4;
    return launch(kernels->fill, stream, words, (void *[]){&to, &words, &value, &step});
}

CUresult launch_check(const struct kernels *kernels, CUstream stream, CUdeviceptr from, size_t bytes, uint32_t value,
                      uint32_t step, struct result *result)
{
    uint64_t words = bytes / 4;
    return launch(kernels->check, stream, words, (void *[]){&from, &words, &value, &step, &result});
}

CUresult launch_copy(const struct kernels *kernels, CUstream stream, CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    uint64_t words = bytes / 4;
    return launch(kernels->copy, stream, words, (void *[]){&to, &from, &words});
}

CUresult launch_hold(const struct kernels *kernels, CUstream stream, struct latch *latch, uint32_t microseconds)
{
    uint32_t *flag = &latch->flag, *expired = &latch->expired;
    return launch(kernels->hold, stream, 1, (void *[]){&flag, &expired, &microseconds});
}

void *shared_memory(size_t bytes)
{
    void *memory = NULL;
    if (sim.fail_call != NULL)
        return calloc(1, bytes);
    if (cu.cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) != CUDA_SUCCESS)
        return NULL;
    memset(memory, 0, bytes);
    return memory;
}
