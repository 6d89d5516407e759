/*
 * The CUDA driver as the torture program finds it: dlopen of libcuda.so.1, dlsym of each function. On the simulated device the
 * library has extra functions (allocator/sim/sim.h), and in a process with cufence there is its C API; both are NULL elsewhere.
 *
 * Thread safety: driver_find() and driver_start() run once, before any thread; the tables are read-only afterwards.
 */
#pragma once

#pragma GCC diagnostic ignored "-Wunused-parameter" /* a callback has the parameters that its caller wants */

#include <cuda.h>
#include <cufence.h>
#include <sim/sim.h>

struct driver {
#define X(name) __typeof__(name) *name;
#include "driver_functions.h" /* made by the build: each that is called as cu.NAME */
#undef X
    CUresult (*create_context)(CUcontext *context, unsigned flags, CUdevice device); /* cuCtxCreate_v2 */
};

extern struct driver cu;

/* All NULL on a real GPU. */
struct simulation {
    __typeof__(cusim_fail_call) *fail_call;
    __typeof__(cusim_set_latency) *set_latency;
    void (*fail_malloc)(unsigned nth); /* tests/support/failing_malloc.h, if it is preloaded */
};

extern struct simulation sim;

/* clang-format off */
#define FENCE_FUNCTIONS(X) X(init) X(malloc) X(free) X(stream_gone) X(context_gone) X(record_stream) X(get_stats) \
    X(get_unguarded) X(trim) X(describe) X(fault_count) X(error_detail)
/* clang-format on */

/* All NULL in a process without cufence. */
struct fence {
#define X(name) __typeof__(cufence_##name) *name;
    FENCE_FUNCTIONS(X)
#undef X
    int is_alone; /* without the preload library: nothing hooks the driver's functions */
};

extern struct fence fence;

/* Exits with status 2 if something is missing. */
void driver_find(void);
/* cuInit(), and cufence's C API. `library` is the path of libcufence.so for use without the preload library; with NULL, finds
 * the one already loaded. Exits with status 2 if that fails. */
void driver_start(const char *library);

/* Requires a current context. */
struct kernels {
    CUmodule module;
    CUfunction fill, check, copy, hold;
};
CUresult kernels_load(struct kernels *kernels);

/* Output of a check: how often it has run, how many words were wrong, and one of those. */
struct result {
    uint32_t wrong, done, index, got;
};

/* What a hold waits for, in memory shared by host and devices. */
struct latch {
    uint32_t flag, expired;
};

/* What the kernel store_hosted is given, in memory of the host. */
struct hosted {
    CUdeviceptr to;
    uint32_t words;
};

CUresult launch_fill(const struct kernels *kernels, CUstream stream, CUdeviceptr to, size_t bytes, uint32_t value,
                     uint32_t step);
CUresult launch_check(const struct kernels *kernels, CUstream stream, CUdeviceptr from, size_t bytes, uint32_t value,
                      uint32_t step, struct result *result);
CUresult launch_copy(const struct kernels *kernels, CUstream stream, CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult launch_hold(const struct kernels *kernels, CUstream stream, struct latch *latch, uint32_t microseconds);

/* Returns zeroed memory that kernels can write and the host can read, or NULL. On a real GPU, requires a current context. */
void *shared_memory(size_t bytes);
