/*
 * The simulated CUDA device: libcufence_sim.so exports the driver API under its real names, implemented with mmap, SIGSEGV and
 * threads. This header is what tests need besides <cuda.h>: kernels, and a way to let driver calls fail, slow them down and
 * count them.
 *
 * Kernels are host functions. Accessing device address space that is not mapped (or not with that access), or any other address
 * that the host has not mapped, is a GPU fault. It is caught on the stream's thread.
 *
 * Configuration, read by cuInit() from the environment, e.g. CUFENCE_SIM="devices=2,memory=8G,reserve=1T". For a bad value it
 * prints a message to stderr and returns CUDA_ERROR_INVALID_VALUE.
 *   devices=N           1 to 8, default 1
 *   memory=SIZE         physical memory of each device, default 8G; suffixes K, M, G, T
 *   reserve=SIZE        limit of the address space from cuMemAddressReserve, default 1536G (less under sanitizers)
 *   space=SIZE          address space that the first context of each device takes for good, default none. 13G as on an H100
 *   latency=CALL:US     microseconds added to every call of a driver function; may be given several times
 *   fail=CALL:NTH:CODE  the NTH call of a driver function returns the CUresult CODE, once; with NTH 0 every call does. Likewise
 *   reuse=0|1           0: handles are never reused. 1 (default): at once
 *   strict=0|1          1: a call with a handle that is not or no longer valid aborts. 0 (default): it is counted
 *   shareable=0|1       0: memory cannot be exported as a file descriptor
 *   newer=VERSION       the driver has this version, above that of the headers (13020 for CUDA 13.2). For programs of that
 *                       version, cuGetProcAddress returns invented forms with other parameters than today's (entry_points.c)
 *   pci=D:B:D           domain, bus and device of the next GPU, in hexadecimal. Default 0:10:0, 0:11:0, ...
 *   depth=COUNT         how many launches, copies and so on a stream's queue has room for, default 1024 as on an H200. A call
 *                       that submits more waits for room. So do the calls that wait for it on an H200: cuStreamQuery() of that
 *                       stream, and in its context cuMemAlloc() of 2 MiB or more, cuMemHostAlloc(), cuStreamBeginCapture(), and
 *                       whatever creates or destroys streams and events
 *   slow=US             some of cufence's own kernels begin up to so many microseconds late, as on a full GPU
 *   swallow=MS          a fault's dump begins this much later. Meanwhile the device runs nothing, and whoever asks for work
 *                       that was submitted before hears that it is done, as on a busy GPU (driver 580.159)
 *   late_dump=MS        a fault's error is set at once, and its dump begins this much later
 *
 * CUSIM_KERNELS=PATH names a library that cuInit() opens, whose constructor calls cusim_register_kernel(), and nothing else of
 * the driver. A program may also export `void cusim_program_kernels(void (*add)(const cusim_kernel *))`: cuInit() calls it.
 *
 * Modules: an image that is no ELF file contains every kernel. A cubin, such as a core dump of this device contains, has the
 * kernels of its symbol table, whatever its addresses are, and a fault in one of them is found at the access in the loaded
 * code. If each EXIT in that code has a MEMBAR at most five instructions before it, the faulting warp is still alive in the
 * dump, exits_at_fault or not.
 *
 * Reservations without a wanted address begin at 32 TiB in every process, so that another process can reserve the same range.
 *
 * Several devices: a stream belongs to the context it was created in, whatever is current: a launch runs there and needs a
 * CUfunction of that context or a CUkernel. An event is recorded on streams of its own context. cuMemFree waits for the context
 * that owns the memory; memory of pools and graphs belongs to none, and is freed at once. Copies reach all memory of
 * cuMemAlloc, sets that of their own device and of peers; mapped memory needs access rights of the device that executes.
 *
 * Pools: a freed allocation stays in its pool until the next synchronisation, or for good up to the pool's threshold, unless
 * any allocation finds no room without it. It is allocated again whole: to its own stream at once, to another behind its free
 * if there is no room otherwise. Graphs: memory has an address from the capture or node on, and physical memory from a launch
 * to its free; then it serves other graphs in the order of the stream, or any allocation that finds no room.
 *
 * Limits: a process can have about 30,000 mappings (the kernel's vm.max_map_count); a kernel may touch what any device may, and
 * what the host has mapped; the branches of a graph run one after the other, and conditional nodes don't exist; each allocation
 * has pages of its own, 2 MiB at least; IPC handles cannot be opened, nor a dma_buf mapped; other processes have devices of
 * their own; a texture or surface is a value by which a kernel finds memory (cusim_texture), nothing fetches from it.
 *
 * Thread safety: every function may be called from any thread. Function names are given without version or _ptsz suffix
 * ("cuMemAlloc"); names with a suffix mean the same function.
 */
#pragma once

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cusim_thread {
    uint32_t grid[3], block[3], block_index[3], thread_index[3];
} cusim_thread;

/* Called once per CUDA thread, in order (x fastest), block by block. arguments[i] points to the launch's copy of argument i.
 * The function must not hold a lock or memory across an access that can fault, because that access never returns. */
typedef void (*cusim_kernel_function)(const cusim_thread *thread, void *const *arguments);

typedef struct cusim_kernel {
    const char *name; /* mangled or plain; cuModuleGetFunction finds it by this name */
    cusim_kernel_function function;
    const size_t *argument_bytes;
    size_t argument_count;
    const char *file; /* source file of the faulting access, for the dump's line information; NULL: none */
    int line;
    uint32_t access_bytes; /* width of the faulting access: 1, 2, 4, 8 or 16; 0 means 4 */
    int is_atomic;
    int exits_at_fault; /* the warp has exited when the dump is written: only the SM has an error PC; see Modules */
} cusim_kernel;

/* Registers a kernel; the struct, its strings and its array are copied. If the name is registered again, modules loaded and
 * functions looked up later find the new kernel. May be called before or after cuInit(). */
void cusim_register_kernel(const cusim_kernel *kernel);

/* Called by a kernel: ends its thread with the exception of that number (CUDBGException_t). Does not return. */
void cusim_raise(uint32_t exception);

/* From now on each module has a variable of 8 bytes, zeros at first, that all kernels use: cuModuleGetGlobal() finds it, and
 * core dumps have its address. All modules of a process share it. */
void cusim_declare_variable(const char *name);
void *cusim_variable(void); /* for kernels: where it is */

/* For kernels: where the memory of a texture or surface (CUtexObject, CUsurfObject) begins; NULL: it is none, or no longer. */
void *cusim_texture(unsigned long long object);

/* Makes the nth call from now of a driver function do nothing and return `result`, once. nth = 0 clears. */
void cusim_fail_call(const char *function, unsigned nth, CUresult result);

/* Lets every call of a driver function return `result` from now on; CUDA_SUCCESS: it works again. */
void cusim_fail_calls(const char *function, CUresult result);

/* Returns how often this process has called a driver function, failed calls included. NULL: all functions together. */
uint64_t cusim_call_count(const char *function);

/* Returns how often driver functions were given an invalid handle, a destroyed one or one of a destroyed context: streams,
 * events, contexts, graphs, modules, functions, pools, memory handles. NULL does not count. */
uint64_t cusim_stale_handles(void);

/* Makes calls of a driver function take this much longer. */
void cusim_set_latency(const char *function, unsigned microseconds);

/* Cufence's own kernels begin only once *room is nonzero, or after 10 s, as on a device whose every slot the program's kernels
 * have taken. NULL: at once. */
void cusim_hold_own(const uint32_t *room);

/*
 * Built-in kernels:
 *   cufence_fence()                              does nothing
 *   cufence_poison(uint64_t address)             loads 4 bytes at the address and stores them back, like cufence's own kernel
 *   cusim_spin(const volatile uint32_t *flag)    waits until *flag (host memory) is nonzero, at most 10 s
 *   cusim_raise(uint32_t exception)              ends with the exception of that number (CUDBGException_t)
 */

#ifdef __cplusplus
}
#endif
