/* Kernels with bugs on the simulated device, and how processes that launch them end. */
#pragma once

#include "child.h"

#include <sim.h>

#define COUNT 1000

static inline unsigned number(const cusim_thread *t)
{
    return t->block_index[0] * t->block[0] + t->thread_index[0];
}

static inline void write_past(const cusim_thread *t, void *const *arguments)
{
    volatile float *out = *(volatile float *const *)arguments[0];
    int n = *(const int *)arguments[1];
    if ((int)number(t) <= n)
        out[number(t)] = 1.0f;
}

static const size_t pointer_and_count[] = {8, 4};

static inline void register_kernels(void)
{
    static const cusim_kernel kernels[] = {
        {"_Z10write_pastPfi", write_past, pointer_and_count, 2, "model.cu", 12, 4, 0, 0},
    };
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        cusim_register_kernel(&kernels[i]);
}

static CUmodule module;

static inline void start(const char *options)
{
    register_kernels();
    CHECK_OK(cufence_init(options));
    use_device(0);
    CHECK_CU(cuModuleLoadData(&module, "any"));
}

static inline void *allocate(size_t size, const char *label)
{
    void *pointer = NULL;
    CHECK_OK(cufence_label_push(label));
    CHECK_OK(cufence_malloc(&pointer, size, 0, NULL));
    CHECK_OK(cufence_label_pop());
    CHECK_CU(cuMemsetD8((CUdeviceptr)(uintptr_t)pointer, 0, size));
    CHECK_CU(cuStreamSynchronize(NULL)); /* the set is asynchronous, and streams of the tests do not wait for the default one */
    return pointer;
}

static inline CUresult launch(const char *kernel, void *pointer, CUstream stream)
{
    CUfunction function;
    void *arguments[] = {&pointer, &(int){COUNT}};
    CUresult found = cuModuleGetFunction(&function, module, kernel);
    return found != CUDA_SUCCESS ? found : cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, stream, arguments, NULL);
}

/* Writes past a buffer of the current context, and waits for the driver's word of it. */
static inline void fault_here(void)
{
    void *pointer = NULL;
    CHECK_OK(cufence_malloc(&pointer, COUNT * 4, -1, NULL));
    CHECK_CU(cuModuleLoadData(&module, "any"));
    CHECK_CU(launch("_Z10write_pastPfi", pointer, NULL));
    cuCtxSynchronize();
}

/* Waits for the report of what has been launched. */
static inline void settle(void)
{
    cuCtxSynchronize();
    CHECK_OK(cufence_wait_reports(REPORT_MS));
}

static inline void ends_without_a_look(void)
{
    start(NULL);
    CHECK_CU(launch("_Z10write_pastPfi", allocate(COUNT * 4, "a"), NULL));
}

/* ---- what the parent sees ---- */

static inline void expect_status(void (*story)(void), int status, size_t reports, const char *says)
{
    struct outcome outcome = run_child(story);
    size_t told = count_in(outcome.err, "out-of-bounds WRITE");
    int is_right = outcome.status == status && told == reports && (!says || strstr(outcome.err, says));
    if (!is_right)
        print_error("status %d, %zu reports, said:\n%s\n", outcome.status, told, outcome.err);
    free(outcome.err);
    assert_true(is_right);
}
