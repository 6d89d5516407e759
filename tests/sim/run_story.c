/* A program that knows nothing of cufence: a kernel of 33 threads fills a buffer for 32 floats. It looks at no error. Or, with
 * an argument: "clean": a kernel of 32; "init": only cuInit; "leave": as clean, and ends by _exit; "managed": only memory that
 * cufence leaves to the driver; "forget": without CUFENCE_TALLY from here on, itself as clean in a child. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>
#include <sim.h>

static void fill(const cusim_thread *thread, void *const *arguments)
{
    volatile float *out = *(volatile float *const *)arguments[0];
    out[thread->thread_index[0]] = 1.0f;
}

#define NAME_OF(function) #function
#define FIND(function) __typeof__(&(function)) p_##function = (__typeof__(&(function)))dlsym(library, NAME_OF(function))

__attribute__((noinline)) static void overrun(void *library, const char *story)
{
    FIND(cuInit);
    FIND(cuDevicePrimaryCtxRetain);
    FIND(cuCtxSetCurrent);
    FIND(cuModuleLoadData);
    FIND(cuModuleGetFunction);
    FIND(cuMemAlloc_v2);
    FIND(cuLaunchKernel);
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUdeviceptr buffer = 0;

    FIND(cuMemAllocManaged);
    p_cuInit(0);
    if (!strcmp(story, "init"))
        return;
    p_cuDevicePrimaryCtxRetain(&context, 0);
    p_cuCtxSetCurrent(context);
    if (!strcmp(story, "managed")) {
        p_cuMemAllocManaged(&buffer, 4096, CU_MEM_ATTACH_GLOBAL);
        return;
    }
    p_cuModuleLoadData(&module, "any");
    p_cuModuleGetFunction(&function, module, "fill");
    p_cuMemAlloc_v2(&buffer, 32 * sizeof(float));
    p_cuLaunchKernel(function, 1, 1, 1, *story ? 32 : 33, 1, 1, 0, NULL, (void *[]){&buffer}, NULL);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {sizeof(uint64_t)};
    static const cusim_kernel kernel = {.name = "fill",
                                        .function = fill,
                                        .argument_bytes = sizes,
                                        .argument_count = 1,
                                        .file = "model.cu",
                                        .line = 12,
                                        .access_bytes = 4};
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    FIND(cusim_register_kernel);
    p_cusim_register_kernel(&kernel);
    const char *story = argc > 1 ? argv[1] : "";
    if (!strcmp(story, "forget"))
        return unsetenv("CUFENCE_TALLY") || system("\"$STORY\" clean");
    overrun(library, story);
    if (!strcmp(story, "leave"))
        _exit(0);
    return 0;
}
