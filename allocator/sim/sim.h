/*
 * The simulated CUDA device: libcufence_sim.so exports the driver API under its real names, on mmap, SIGSEGV and threads.
 * This header is what a test needs beside <cuda.h>: kernels, and a way to make driver calls fail, be slow, and be counted.
 *
 * Kernels are host functions. A touch of device address space that is not mapped (or not with that access), or of any
 * other address that the host has not mapped, is a fault of the GPU: it is caught on the stream's thread.
 *
 * Configuration, read by cuInit() from the environment, e.g. CUFENCE_SIM="devices=2,memory=8G,reserve=1T"
 *   devices=N           1 to 8, default 1
 *   memory=SIZE         physical memory of each device, default 8G; suffixes K, M, G, T
 *   reserve=SIZE        address space that cuMemAddressReserve gives out at most, default 1T (256G under AddressSanitizer,
 *                       16G under ThreadSanitizer)
 *   latency=US          every call of the virtual memory API takes that many microseconds more
 *   reuse=0|1           1 (default): the handle of a destroyed stream or context is the next one's at once, and that of
 *                       an event or graph may be, as with the driver. 0: no handle is given out twice
 *   strict=0|1          1: a call that gets a handle which is not valid, or no longer, names itself on stderr and aborts.
 *                       0 (default): it returns its error, and cusim_stale_handles() counts
 *   newer=VERSION       the driver is of that version, above the headers' (13020 for CUDA 13.2), and cuGetProcAddress
 *                       knows forms from then on that nobody else does, with other parameters than today's; flags are 0:
 *                         cuMemAlloc(size_t bytes, unsigned flags, CUdeviceptr *out)
 *                         cuMemFree(unsigned flags, CUdeviceptr address)
 *                         cuStreamSynchronize(unsigned flags, CUstream stream), and for per-thread default streams
 *   pci=D:B:D           domain, bus and device of the next GPU, in hexadecimal; once for each. 0:10:0, 0:11:0, ... without.
 *                       pci=1:0:0,pci=2:0:0 is how virtual machines have it. Core dumps tell bus and device alone
 *   late_dump=MS        a fault's error is there at once, and its dump begins so many milliseconds later
 *   fail=CALL:NTH:CODE  the NTH call of a driver function returns the CUresult CODE, once; may be given several times
 * A bad value: a message on stderr, and CUDA_ERROR_INVALID_VALUE from cuInit(). What the environment names wins over the
 * setters below.
 *
 * Several devices: each context has a default stream of its own, which orders with no other context, and each thread has one
 * in each context. A stream belongs to the context it was made in, whatever is current: a launch runs there, and wants a
 * CUfunction of that context or a CUkernel; cuMemAllocAsync takes memory of that device. An event is recorded on streams of
 * its own context, and waited for on any. cuMemFree waits for the context of the memory, and for none if it is a pool's.
 *
 * Green contexts: cuCtxFromGreenCtx gives each a CUcontext with an id and a default stream of its own; memory, modules, events
 * and errors are those of its device's primary context, which cuCtxSynchronize waits for with all of its green ones. It has no
 * per-thread default stream. Its end waits for nothing: queued work goes on, and a call on a stream that was left gets
 * CUDA_ERROR_CONTEXT_IS_DESTROYED.
 *
 * Limits: a process holds at most about 30,000 mappings (the kernel's vm.max_map_count); access rights are kept for each
 * device, but enforced as their union; what the host itself has mapped does not fault when a kernel touches it;
 * the branches of a graph run one after the other; cuCtxDestroy waits for the context's work; memory of a pool goes with the
 * context that allocated it; memory that another process exported cannot be opened; there are no arrays and no textures.
 *
 * Thread safety: every function may be called from any thread. Function names are those without version or _ptsz suffix
 * ("cuMemAlloc"), and the suffixed forms are understood as the same function.
 */
#ifndef CUFENCE_SIM_H
#define CUFENCE_SIM_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cusim_thread {
    uint32_t grid[3], block[3], block_index[3], thread_index[3];
} cusim_thread;

/* Called once for each CUDA thread, in order (x fastest), blocks in order too. arguments[i] points to the launch's copy of
 * argument i. It must hold no lock and no memory over an access that can fault: the access does not return then. */
typedef void (*cusim_kernel_function)(const cusim_thread *thread, void *const *arguments);

typedef struct cusim_kernel {
    const char *name; /* mangled or plain; cuModuleGetFunction finds it by this name */
    cusim_kernel_function function;
    const size_t *argument_bytes;
    size_t argument_count;
    const char *file; /* of the faulting access, for the dump's line information; NULL: none */
    int line;
    uint32_t access_bytes; /* width of the faulting access: 1, 2, 4, 8 or 16; 0 means 4 */
    int is_atomic;
    int exits_at_fault; /* the warp has exited when the dump is taken: the dump has an SM-level error PC only */
} cusim_kernel;

/* The struct, its strings and its array are copied. A second registration of a name is found by modules loaded and
 * functions looked up from then on. Before or after cuInit(). */
void cusim_register_kernel(const cusim_kernel *kernel);

/* The nth call from now of that driver function returns `result`, once, and does nothing. nth = 0 clears. */
void cusim_fail_call(const char *function, unsigned nth, CUresult result);

/* How often a driver function has been called by this process, calls that failed included. NULL: all of them together. */
uint64_t cusim_call_count(const char *function);

/* How many handles that are bogus, destroyed or of a destroyed context the driver functions have been given: streams, events,
 * contexts, graphs, modules, functions, pools, memory handles. NULL does not count. */
uint64_t cusim_stale_handles(void);

/* Makes calls of a driver function take that much longer; NULL means every call of the virtual memory API. */
void cusim_set_latency(const char *function, unsigned microseconds);

/* Before cuInit() only; 0 leaves a value as it is. Later calls are ignored. */
void cusim_configure(unsigned devices, size_t device_memory_bytes, size_t reserve_bytes);

/*
 * Kernels that are always there:
 *   cufence_fence()                              does nothing
 *   cufence_poison(uint64_t address)             loads 4 bytes at the address and stores them back, as the product's does
 *   cusim_spin(const volatile uint32_t *flag)    waits until *flag (host memory) is not 0, at most 10 s
 *   cusim_raise(uint32_t exception)              ends as an exception of that number does (CUDBGException_t)
 */

#ifdef __cplusplus
}
#endif

#endif
