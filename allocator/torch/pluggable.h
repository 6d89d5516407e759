/*
 * Plain C entry points for PyTorch's CUDAPluggableAllocator, so that
 * `torch.cuda.memory.CUDAPluggableAllocator("libcufence.so", "cufence_torch_alloc", "cufence_torch_free")` works directly, and
 * the call that makes PyTorch's synchronisations report a fault. shim.cpp can throw PyTorch's exceptions, so it calls the
 * public API itself instead of the first two.
 *
 * Thread safety: any thread, at any time after cufence_init().
 */
#ifndef CUFENCE_TORCH_PLUGGABLE_H
#define CUFENCE_TORCH_PLUGGABLE_H

#include <cufence.h>

#define CUFENCE_TORCH_EXPORT __attribute__((visibility("default")))

/*
 * Allocates like cufence_malloc(). On failure, prints the request and the reason to stderr in one line and returns NULL.
 * PyTorch does not check for NULL: the tensor has no memory, and its first use fails. A C function can't do better; shim.cpp
 * (cufence.enable()) raises torch.OutOfMemoryError.
 */
CUFENCE_TORCH_EXPORT void *cufence_torch_alloc(size_t size, int device, cufence_stream stream);

/* Frees like cufence_free(). Prints one line to stderr on failure, because PyTorch frees in destructors. */
CUFENCE_TORCH_EXPORT void cufence_torch_free(void *pointer, size_t size, int device, cufence_stream stream);

/* Like cufence_record_stream(), but silently ignores memory that is not cufence's (imported, or of another library):
 * Tensor.record_stream() is allowed on it. */
CUFENCE_TORCH_EXPORT void cufence_torch_record_stream(void *pointer, cufence_stream stream);

/* torch.cuda.empty_cache(): calls cufence_trim() for every device. */
CUFENCE_TORCH_EXPORT void cufence_torch_reset(void);

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

#endif
