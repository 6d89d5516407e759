/*
 * Entry points for PyTorch's CUDAPluggableAllocator with plain C signatures, so that
 * `torch.cuda.memory.CUDAPluggableAllocator("libcufence.so", "cufence_torch_alloc", "cufence_torch_free")` works as it is,
 * and the call by which PyTorch's synchronisations learn of a fault. shim.cpp, which knows PyTorch's exceptions, goes to
 * the public API itself and does not use the first two.
 *
 * Thread safety: any thread, at any time after cufence_init().
 */
#ifndef CUFENCE_TORCH_PLUGGABLE_H
#define CUFENCE_TORCH_PLUGGABLE_H

#include <cufence.h>

#define CUFENCE_TORCH_EXPORT __attribute__((visibility("default")))

/*
 * Allocates as cufence_malloc() does. On failure one line on stderr says what was asked for and why it failed, and NULL
 * is returned. PyTorch does not check for that: the tensor it makes then has no memory, and its first use fails. A C
 * function cannot do better; use shim.cpp (cufence.enable()) for torch.OutOfMemoryError.
 */
CUFENCE_TORCH_EXPORT void *cufence_torch_alloc(size_t size, int device, cufence_stream stream);

/* Frees as cufence_free() does; a failure is one line on stderr, because PyTorch frees in destructors. */
CUFENCE_TORCH_EXPORT void cufence_torch_free(void *pointer, size_t size, int device, cufence_stream stream);

/* As cufence_record_stream(), but memory that is not cufence's (imported, or of another library) is passed over in silence:
 * Tensor.record_stream() is allowed on it. */
CUFENCE_TORCH_EXPORT void cufence_torch_record_stream(void *pointer, cufence_stream stream);

/* torch.cuda.empty_cache(): cufence_trim() on every device. */
CUFENCE_TORCH_EXPORT void cufence_torch_reset(void);

/* What PyTorch is about to wait for: `scope` of cufence_torch_before_sync(). */
enum {
    CUFENCE_TORCH_SYNC_DEVICE = 0, /* the device of the calling thread's current context; the handle is ignored */
    CUFENCE_TORCH_SYNC_STREAM = 1, /* the handle is a CUstream */
    CUFENCE_TORCH_SYNC_EVENT = 2   /* the handle is a CUevent */
};

/*
 * To be called right before PyTorch synchronises. The synchronisation during which a core dump is taken still returns
 * success, so that PyTorch's own would not raise at the line that waits for the faulting kernel. This waits for the same
 * work first and then until a fault that it met is reported and, with on_fault=error, real: PyTorch's call then fails.
 * It does nothing on a stream that is being captured, where waiting is an error that PyTorch reports itself. The results
 * of the waiting calls are ignored for the same reason: PyTorch's call comes next and gets them again.
 * Returns 1 if the process has had a fault and on_fault=error, else 0. Waits as long as the work takes.
 */
CUFENCE_TORCH_EXPORT int cufence_torch_before_sync(int scope, uint64_t handle);

#endif
