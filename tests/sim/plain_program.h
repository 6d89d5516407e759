/* What programs share that know nothing of cufence, find the driver by dlopen() and play the stories that their arguments name.
 */
#pragma once

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>
#include <sim.h>

#define COUNT 1000

static void *library;
static CUmodule module;

#define NAME_OF(function) #function
#define CALL(function, ...) check(((__typeof__(&(function)))dlsym(library, NAME_OF(function)))(__VA_ARGS__), #function)

static inline void check(CUresult result, const char *call)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("%s: error %d\n", call, (int)result);
    exit(3);
}

/* Returns 0 if there is no driver. */
static inline int open_driver(void)
{
    return (library = dlopen("libcuda.so.1", RTLD_NOW)) != NULL;
}

static inline void register_kernels(const cusim_kernel *kernels, size_t count)
{
    __typeof__(&cusim_register_kernel) add = (__typeof__(add))dlsym(library, "cusim_register_kernel");
    for (size_t i = 0; i < count; i++)
        add(&kernels[i]);
}

static inline void open_device(void)
{
    CUcontext context;
    CALL(cuInit, 0);
    CALL(cuDevicePrimaryCtxRetain, &context, 0);
    CALL(cuCtxSetCurrent, context);
    CALL(cuModuleLoadData, &module, "any");
}

static struct {
    const char *name;
    void (*tell)(void);
} stories[64];
static size_t story_count;

#define STORY(word)                                                                                                            \
    static void tell_##word(void);                                                                                             \
    __attribute__((constructor)) static void word##_is_a_story(void)                                                           \
    {                                                                                                                          \
        stories[story_count].name = #word;                                                                                     \
        stories[story_count++].tell = tell_##word;                                                                             \
    }                                                                                                                          \
    static void tell_##word(void)

/* Each story that the arguments name, in their order. */
static inline void tell_all(int argc, char **argv)
{
    for (int k = 1; k < argc; k++) {
        for (size_t i = 0; i < story_count; i++) {
            if (strcmp(stories[i].name, argv[k]) == 0)
                stories[i].tell();
        }
        CALL(cuCtxSynchronize);
    }
}
