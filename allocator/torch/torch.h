/*
 * What PyTorch's allocator class (allocator.cpp) and the Python package call: C functions of libcufence.so that only they use.
 * The class translates; what happens to memory is decided here: (1) allocations and frees go to the heap, (2) figures are kept
 * as torch.cuda.memory_stats() has them, (3) what Python knows of tensors reaches the reports. Nothing here calls Python or
 * knows a type of PyTorch's.
 *
 * Thread safety: any thread, at any time after cufence_init(). Errors: as in cufence.h, cufence_error_detail() says more.
 */
#pragma once

#include <cufence.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUFENCE_TORCH_EXPORT __attribute__((visibility("default")))

/* ---- tensor_memory.c ---- */

/* From now on PyTorch allocates through the class, as the closing line says. Called once PyTorch is loaded. */
CUFENCE_TORCH_EXPORT void cufence_torch_installed(void);

/* After CUFENCE_ERROR_FAULTED: the error that CUDA returns for the current context. */
CUFENCE_TORCH_EXPORT int32_t cufence_torch_fault(void);

struct cufence_torch_buffer {
    uint64_t address, size; /* size: as requested */
    uint64_t stream;        /* it was allocated on */
    uint64_t pool[2];       /* see cufence_pool_begin(); zeros: none */
    int32_t device;
};

/* Allocates like cufence_malloc(), and counts it. caller: the code that asked PyTorch for memory, NULL if unknown: what its
 * CUDA library wants for itself, such as cuDNN's workspaces, begins at a multiple of 512 bytes, as natively, or cuDNN's kernels
 * are slower. Also OUT_OF_MEMORY where the device's limit would be exceeded. */
CUFENCE_TORCH_EXPORT cufence_status cufence_torch_malloc(void **pointer, size_t size, int device, cufence_stream stream,
                                                         const void *caller);

/* Frees in the order of the stream that the buffer was allocated on, and of those recorded for it. freed: receives what it was;
 * `pool` is not set. Errors: NOT_INITIALIZED, INVALID_FREE, DOUBLE_FREE. */
CUFENCE_TORCH_EXPORT cufence_status cufence_torch_free(void *pointer, struct cufence_torch_buffer *freed);

/* Counts memory of PyTorch's that another allocator gives (change: 1) or takes (-1). */
CUFENCE_TORCH_EXPORT void cufence_torch_count(int device, uint64_t size, int change);

/* Finds the live buffer that contains an address. Returns 0 if there is none. */
CUFENCE_TORCH_EXPORT int cufence_torch_find(const void *address, struct cufence_torch_buffer *out);

/* The most memory that PyTorch's buffers may take on a device with their pages, as a part of the whole; 1: no limit. Device -1:
 * those that have no limit yet, from their first buffer; it may be called before CUDA starts, and no device is used for it. */
CUFENCE_TORCH_EXPORT cufence_status cufence_torch_set_limit(int device, double part);
CUFENCE_TORCH_EXPORT double cufence_torch_limit(int device);

/* Returns how large an allocation on a device may be, without a synchronisation. */
CUFENCE_TORCH_EXPORT size_t cufence_torch_largest(int device);

/* Gives back all memory of freed tensors, also what kernels still use: waits for those, as PyTorch's own allocator does, unless
 * a stream is capturing. */
CUFENCE_TORCH_EXPORT cufence_status cufence_torch_empty_cache(void);

/* Lets kernels of `peer` use the buffers of `device`, if the hardware can. */
CUFENCE_TORCH_EXPORT void cufence_torch_share(int device, int peer);

/* A figure as torch.cuda.memory_stats() has it. `allocated` and `freed` are sums since cufence_torch_reset(). */
struct cufence_torch_figure {
    int64_t current, peak, allocated, freed;
};

/* By size, as PyTorch groups them: up to 1 MiB, larger. */
enum { CUFENCE_TORCH_ALL, CUFENCE_TORCH_SMALL, CUFENCE_TORCH_LARGE, CUFENCE_TORCH_SIZES };

struct cufence_torch_figures {
    struct cufence_torch_figure buffers[CUFENCE_TORCH_SIZES], bytes[CUFENCE_TORCH_SIZES]; /* of PyTorch's, as requested */
    struct cufence_torch_figure mappings, mapped; /* the device's mappings, whoever uses them, and their bytes */
    struct cufence_torch_figure slack;            /* bytes in the pages of live buffers, beside them */
    int64_t failures;                             /* allocations that had no memory */
};
CUFENCE_TORCH_EXPORT cufence_status cufence_torch_get_figures(int device, struct cufence_torch_figures *out);

/* Begins the sums anew, or the peaks. */
CUFENCE_TORCH_EXPORT cufence_status cufence_torch_reset(int device, int is_peak);

/* ---- memory pools, beyond cufence_pool_begin() ---- */

/* Counts one more user of a pool, as cufence_pool_begin() does; creates it if it is new. */
CUFENCE_TORCH_EXPORT cufence_status cufence_torch_pool_retain(int device, const uint64_t id[2]);
CUFENCE_TORCH_EXPORT int cufence_torch_pool_users(int device, const uint64_t id[2]);
/* What the pool keeps for reuse may be given to others when the device is full. */
CUFENCE_TORCH_EXPORT cufence_status cufence_torch_pool_lend(int device, const uint64_t id[2], int may_lend);

/*
 * Gets the mappings of a device (-1: all), in the order of their addresses; pool: only those of one pool, NULL: all; is_live:
 * only those with a live buffer. Returns their number; free(*out). NULL if out of host memory.
 */
CUFENCE_TORCH_EXPORT size_t cufence_torch_mappings(int device, const uint64_t pool[2], int is_live, cufence_mapping **out);

/*
 * Makes the live buffers of a pool those that cufence_torch_mappings() gave earlier: frees the others, and makes those live
 * again that have been freed since, at the same addresses. The pool has kept their memory. Errors: NOT_FOUND (no such pool, or
 * it no longer has the memory), OUT_OF_MEMORY.
 */
CUFENCE_TORCH_EXPORT cufence_status cufence_torch_pool_restore(int device, const uint64_t id[2], const cufence_mapping *wanted,
                                                               size_t count);

/* ---- adopt.c ---- */

/* The minor releases of PyTorch 2 that there are classes for (cmake/torch_headers.py). */
enum { CUFENCE_TORCH_FIRST = 11, CUFENCE_TORCH_LAST = 15 };

/* Makes the class for this version of PyTorch (torch.__version__; NULL: of the PyTorch that the program is linked with) its
 * CUDA allocator, before it starts CUDA. is_traced: it tells torch.cuda._gpu_trace of tensors. Returns NULL, or why not; valid
 * until the next call. Not at the same time. */
CUFENCE_TORCH_EXPORT const char *cufence_torch_adopt(const char *version, int is_traced);

/* As that; if there is no class and PyTorch's cudaMallocAsync back end serves instead, says so on stderr. Returns whether the
 * class is the allocator. Called by the preload library before main(). */
CUFENCE_TORCH_EXPORT int cufence_torch_adopt_or_say(const char *version);

/* ---- python_events.c ---- */

/* `scope` of cufence_torch_before_sync(): what PyTorch is about to wait for. */
enum {
    CUFENCE_TORCH_SYNC_DEVICE = 0, /* the device of the calling thread's current context; the handle is ignored */
    CUFENCE_TORCH_SYNC_STREAM = 1, /* the handle is a CUstream */
    CUFENCE_TORCH_SYNC_EVENT = 2   /* the handle is a CUevent */
};

/*
 * Call this right before PyTorch synchronises. The synchronisation during which a core dump is taken still returns success, so
 * PyTorch would not raise at the line that waits for the faulting kernel. This function waits for the same work, then until a
 * fault in it is reported and, with on_fault=error, sticky, so that PyTorch's call fails. Does nothing on a stream that is
 * being captured, where PyTorch itself reports that waiting is an error. Ignores the results of the waits, because PyTorch's
 * call gets them again.
 * Blocks as long as the work takes. Returns 1 if the process has had a fault and on_fault=error, else 0.
 */
CUFENCE_TORCH_EXPORT int cufence_torch_before_sync(int scope, uint64_t handle);

/* Adds what Python knows of a reported fault (_names.py) to the report's destinations: `text`, whole lines, to stderr and log=,
 * and `json`, one line, to json=. */
CUFENCE_TORCH_EXPORT void cufence_torch_add(const char *text, const char *json);

/* Tells what Triton knows of a kernel that was loaded: its CUfunction, its name, and "NAME TYPE" of each argument, one a line
 * (_signatures.py). Does nothing unless --values, --nan or another tool that shows launches is on. */
CUFENCE_TORCH_EXPORT void cufence_torch_kernel(uint64_t function, const char *symbol, const char *arguments);

#ifdef __cplusplus
}
#endif
