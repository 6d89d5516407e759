/* Kernels of the simulated device that write and read anywhere, for tests of what lies beside buffers. */
#pragma once

#include "heap_story.h"

/* poke(char *at, int64_t bytes, int value): writes `bytes` bytes from `at` on; sum(char *at, int64_t bytes, uint64_t *out):
 * adds them up. */
static void poke(const cusim_thread *thread, void *const *arguments)
{
    char *at = *(char *const *)arguments[0];
    if (thread->thread_index[0] == 0)
        memset(at, *(const int *)arguments[2], (size_t) * (const int64_t *)arguments[1]);
}

static void sum(const cusim_thread *thread, void *const *arguments)
{
    const unsigned char *at = *(const unsigned char *const *)arguments[0];
    uint64_t *out = *(uint64_t *const *)arguments[2];
    for (int64_t i = 0; thread->thread_index[0] == 0 && i < *(const int64_t *)arguments[1]; i++)
        *out += at[i];
}

static CUfunction function(const char *name)
{
    static const size_t poke_bytes[] = {8, 8, 4}, sum_bytes[] = {8, 8, 8};
    const cusim_kernel kernels[] = {
        {.name = "poke", .function = poke, .argument_bytes = poke_bytes, .argument_count = 3},
        {.name = "sum", .function = sum, .argument_bytes = sum_bytes, .argument_count = 3},
    };
    static CUmodule module;
    CUfunction found;
    if (!module) {
        cusim_register_kernel(&kernels[0]);
        cusim_register_kernel(&kernels[1]);
        CHECK_CU(cuModuleLoadData(&module, "any"));
    }
    CHECK_CU(cuModuleGetFunction(&found, module, name));
    return found;
}

static inline void release(char *pointer, CUstream stream)
{
    CHECK_OK(cufence_free(pointer, stream));
}

static inline void write_at(char *at, size_t bytes, int value, CUstream stream)
{
    int64_t count = (int64_t)bytes;
    void *arguments[] = {&at, &count, &value};
    CHECK_CU(cuLaunchKernel(function("poke"), 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
}

static inline uint64_t sum_at(char *at, size_t bytes, CUstream stream)
{
    uint64_t total = 0, *out = &total;
    int64_t count = (int64_t)bytes;
    void *arguments[] = {&at, &count, &out};
    CHECK_CU(cuLaunchKernel(function("sum"), 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
    CHECK_CU(cuStreamSynchronize(stream));
    return total;
}

static int is_told, was_told; /* atomic */

static inline void tell_slowly(const cufence_fault *fault, void *user)
{
    __atomic_store_n(&is_told, 1, __ATOMIC_RELEASE);
    usleep(300000);
    __atomic_store_n(&was_told, 1, __ATOMIC_RELEASE);
}

/* A check that begins while another thread is in tell_slowly() ends behind it. */
static inline void check_while_told(void)
{
    AWAIT(__atomic_load_n(&is_told, __ATOMIC_ACQUIRE));
    CHECK(found_by_check(0) == 0);
    CHECK(__atomic_load_n(&was_told, __ATOMIC_ACQUIRE));
}
