/* For the tests of launch/: a driver that knows kernels, and launches of them. */
#pragma once

#include "driver/driver.h"
#include "launch/launch.h"

/* ---- a driver that knows kernels ---- */

struct kernel {
    const char *name;
    size_t count;
    struct launch_argument arguments[4];
    int is_kernel; /* the functions for a CUfunction refuse it */
};

/* A handle is the address of a place that says what it stands for today. */
static const struct kernel saxpy = {"saxpy", 4, {{0, 8}, {8, 8}, {16, 4}, {20, 4}}, 0};
static const struct kernel fill = {"fill", 2, {{0, 8}, {8, 8}}, 0};
static const struct kernel runtime_fill = {"runtime_fill", 2, {{0, 8}, {8, 4}}, 1};
static const struct kernel wide = {"wide", 3, {{0, 8}, {8, 244}, {252, 16}}, 0};
static const struct kernel widest = {"widest", 4, {{0, 8}, {8, 492}, {504, 8}, {512, 32252}}, 0}; /* the driver's limit */
static const struct kernel *handles[8] = {&saxpy, &fill, &runtime_fill, &wide, &widest};
static size_t questions;

#define HANDLE(index) ((CUfunction)(void *)&handles[index])
/* Those up to 0xf are of device 0, the others of device 1. */
static struct context contexts[0x200];
#define CONTEXT(number) (&contexts[number])
#define STREAM ((CUstream)(uintptr_t)0x5581c0)

static const struct kernel *kernel_of(void *handle, int is_kernel)
{
    const struct kernel *kernel = *(const struct kernel **)handle;
    __atomic_add_fetch(&questions, 1, __ATOMIC_RELAXED);
    return kernel->is_kernel == is_kernel ? kernel : NULL;
}

static CUresult name_of(const char **name, void *handle, int is_kernel)
{
    const struct kernel *kernel = kernel_of(handle, is_kernel);
    *name = kernel ? kernel->name : NULL;
    return kernel ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult argument_of(void *handle, size_t index, size_t *offset, size_t *size, int is_kernel)
{
    const struct kernel *kernel = kernel_of(handle, is_kernel);
    if (!kernel)
        return CUDA_ERROR_INVALID_HANDLE;
    if (index >= kernel->count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = kernel->arguments[index].offset;
    *size = kernel->arguments[index].size;
    return CUDA_SUCCESS;
}

static CUresult function_name(const char **name, CUfunction handle)
{
    return name_of(name, handle, 0);
}

static CUresult kernel_name(const char **name, CUkernel handle)
{
    return name_of(name, handle, 1);
}

static CUresult function_argument(CUfunction handle, size_t index, size_t *offset, size_t *size)
{
    return argument_of(handle, index, offset, size, 0);
}

static CUresult kernel_argument(CUkernel handle, size_t index, size_t *offset, size_t *size)
{
    return argument_of(handle, index, offset, size, 1);
}

static const struct driver full = {.cuFuncGetName = function_name,
                                   .cuKernelGetName = kernel_name,
                                   .cuFuncGetParamInfo = function_argument,
                                   .cuKernelGetParamInfo = kernel_argument};
static const struct driver old;

/* ---- launches ---- */

enum { SIZE = 8 };

static inline struct context *fresh(void)
{
    static uintptr_t number;
    driver = &full;
    for (size_t i = 0x10; i < sizeof contexts / sizeof *contexts; i++)
        contexts[i].device = 1;
    launch_open(SIZE);
    launch_forget_context(CONTEXT(number)); /* the ring of the test before */
    return CONTEXT(++number);
}

static inline void record(struct context *context, size_t handle, void **parameters)
{
    const struct launch_call call = {.function = HANDLE(handle),
                                     .grid = {8, 2, 1},
                                     .block = {128, 1, 3},
                                     .cluster = {2, 1, 1},
                                     .shared_bytes = 48,
                                     .stream = STREAM,
                                     .parameters = parameters};
    launch_record(context, &call);
}

static inline size_t read_all(struct context *context, const char *kernel, struct launch_entry *out, size_t max)
{
    const struct launch_query query = {.context = context, .device = -1, .kernel = kernel};
    return launch_read(&query, out, NULL, max);
}
