/*
 * The driver functions that the preload library hooks, one row per exported symbol. This list generates the stubs for programs
 * that link libcuda (interpose.c), the hooks (watch_hooks.c; hand-written ones are in memory_hooks.c, pool_hooks.c,
 * launch_hooks.c, capture_hooks.c, event_hooks.c), the table of real functions behind them, and the answers of cuGetProcAddress
 * (table.c). hooks_rare.h has more rows. tests/python/test_hook_table.py compares them with the toolkit's headers, and has the
 * forms that are not hooked, and why.
 *
 *   HOOK(symbol, base, version, thread, how, what, parameters, arguments)
 *     symbol      as the library exports it
 *     base        name for cuGetProcAddress, as in documentation and reports
 *     version     CUDA version that introduced this form, as in cudaTypedefs.h (PFN_<base>_v<version>)
 *     thread      1 for the per-thread default stream form (_ptsz or _ptds), else 0
 *     how, what   BY_HAND     hand-written in one of the files above
 *                 BEFORE      evaluates `what` before the call; (void)0: it needs RELIEVED (preload_internal.h) alone
 *                 AFTER       evaluates it after a call that succeeds; meant(stream) is the stream that the caller means
 *                 ORDERS      the same, for order/ alone
 *                 QUEUES      the same, of a function of the host on `stream`
 *                 INSTEAD     calls the function `what` instead, with the driver's function in front of the arguments
 *                 BEGINS      begins a capture of `stream`, into a graph of the program if `what`
 *                 ADDS_NODE   adds a node of any kind to `graph`; `what` are its parameters
 *                 CHANGES_NODE  gives one the parameters `what`
 *                 CHECKS      a node that copies or sets; fails if `what` is 0, as with COPIES
 *                 NOT_OURS    fails if the address `what` is ours
 *                 UNLOADS     unloads the code `what`, unless after a fault
 *                 COPIES      a copy or set on `stream`; returns at once; fails after an earlier fault, and if `what` is 0: the
 *                             call exceeds one of our buffers (bounds.h)
 *                 COPIES_TO   the same, and `to` may be memory of the host
 *                 SETS        the same on the default stream
 *                 COPIES_NOW  returns when the copy is done; also reports faults found by waiting
 */
#pragma once

#include "newer_types.h"

/* cuda.h defines these names as the newest forms, but here both forms are symbols. Include headers that use the names first. */
#undef cuGetProcAddress
#undef cuCtxDestroy
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
#undef cuStreamBeginCapture
#undef cuStreamBeginCaptureToGraph
#undef cuStreamBeginRecaptureToGraph
#undef cuStreamUpdateCaptureDependencies
#undef cuStreamWaitEvent
#undef cuStreamDestroy
#undef cuGraphAddKernelNode
#undef cuGraphKernelNodeSetParams
#undef cuGraphExecKernelNodeSetParams
#undef cuEventDestroy
#undef cuEventRecord
#undef cuEventRecordWithFlags
#undef cuEventElapsedTime
#undef cuLaunchHostFunc
#undef cuLaunchHostFunc_v2
#undef cuStreamAddCallback
#undef cuStreamWaitValue32
#undef cuStreamWaitValue64
#undef cuStreamWriteValue32
#undef cuStreamWriteValue64
#undef cuStreamBatchMemOp
#undef cuWaitExternalSemaphoresAsync
#undef cuGraphAddNode
#undef cuGraphExecUpdate
#undef cuGraphInstantiate
#undef cuMemcpyBatchAsync
#undef cuMemcpy3DBatchAsync
#undef cuMemcpyWithAttributesAsync
#undef cuMemcpy3DWithAttributesAsync
#undef cuGraphNodeSetParams

#include "hooks_rare.h"

/* Both forms of a function: for the legacy and for the per-thread default stream. */
#define HOOK_TWINS(HOOK, symbol, base, version, suffix, version_thread, how, what, parameters, arguments)                      \
    HOOK(symbol, base, version, 0, how, what, parameters, arguments)                                                           \
    HOOK(symbol##suffix, base, version_thread, 1, how, what, parameters, arguments)

/* A function whose second form, since version `then`, takes the same. */
#define HOOK_RENEWED(HOOK, name, version, then, how, what, parameters, arguments)                                              \
    HOOK(name, #name, version, 0, how, what, parameters, arguments)                                                            \
    HOOK(name##_v2, #name, then, 0, how, what, parameters, arguments)

/* Both forms of a copy, `name` and its tail (_v2 or nothing), and those on a stream, of which `how` says the kind. */
#define HOOK_TEXT(name) #name
#define HOOK_ON_STREAM(...) (__VA_ARGS__, CUstream stream)
#define HOOK_WITH_STREAM(...) (__VA_ARGS__, stream)
#define HOOK_COPIES(HOOK, name, tail, version, how, what, parameters, arguments)                                               \
    HOOK_TWINS(HOOK, name##tail, #name, version, _ptds, 7000, COPIES_NOW, what, parameters, arguments)                         \
    HOOK_TWINS(HOOK, name##Async##tail, HOOK_TEXT(name##Async), version, _ptsz, 7000, how, what, HOOK_ON_STREAM parameters,    \
               HOOK_WITH_STREAM arguments)

/* The same for sets: of device memory, they don't wait. */
#define HOOK_SETS(HOOK, name, what, parameters, arguments)                                                                     \
    HOOK_TWINS(HOOK, name##_v2, #name, 3020, _ptds, 7000, SETS, what, parameters, arguments)                                   \
    HOOK_TWINS(HOOK, name##Async, HOOK_TEXT(name##Async), 3020, _ptsz, 7000, COPIES, what, HOOK_ON_STREAM parameters,          \
               HOOK_WITH_STREAM arguments)

/* What a stream does to a value in memory: CUDA 11.7 gave it a second form that takes the same. */
#define HOOK_ON_MEMORY(HOOK, name, version, what, parameters, arguments)                                                       \
    HOOK_TWINS(HOOK, name, #name, version, _ptsz, version, ON_MEMORY, what, parameters, arguments)                             \
    HOOK_TWINS(HOOK, name##_v2, #name, 11070, _ptsz, 11070, ON_MEMORY, what, parameters, arguments)
#define HOOK_VALUE(HOOK, name, version, does, type)                                                                            \
    HOOK_ON_MEMORY(HOOK, name, version,                                                                                        \
                   (&(CUstreamBatchMemOpParams){.writeValue = {does, address, {.value64 = value}, 0, 0}}, 1),                  \
                   (CUstream stream, CUdeviceptr address, type value, unsigned flags), (stream, address, value, flags))

/* A tensor map is encoded; what differs between the kinds of maps stands between its strides and its swizzle. */
#define HOOK_MAP_FIRST                                                                                                         \
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *base, const cuuint64_t *size, const cuuint64_t *stride
#define HOOK_MAP_LAST CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill
#define HOOK_MAP(HOOK, name, version, box, between, ...)                                                                       \
    HOOK(name, #name, version, 0, AFTER,                                                                                       \
         map_encoded(                                                                                                          \
             #name, map,                                                                                                       \
             &(const struct map_shape){type, rank, base, size, stride, box, interleave != CU_TENSOR_MAP_INTERLEAVE_NONE}),     \
         (HOOK_MAP_FIRST, HOOK_BARE between, HOOK_MAP_LAST),                                                                   \
         (map, type, rank, base, size, stride, __VA_ARGS__, swizzle, promotion, fill))
#define HOOK_BARE(...) __VA_ARGS__

/* A node is added to a graph. */
#define HOOK_NODE(HOOK, symbol, base, version, how, what, type)                                                                \
    HOOK(symbol, base, version, 0, how, what,                                                                                  \
         (CUgraphNode * node, CUgraph graph, const CUgraphNode *nodes, size_t count, type added),                              \
         (node, graph, nodes, count, added))

/* What the program asks of core dumps, or wants to know. */
#define HOOK_COREDUMP(HOOK, name, what)                                                                                        \
    HOOK(name, #name, 12010, 0, INSTEAD, what, (CUcoredumpSettings attribute, void *value, size_t *size),                      \
         (attribute, value, size))

/* clang-format off */
#define PRELOAD_HOOKS(HOOK)                                                                                                    \
    HOOK(cuInit, "cuInit", 2000, 0, BY_HAND, 1, (unsigned flags), (flags))                                                     \
    HOOK(cuGetProcAddress, "cuGetProcAddress", 11030, 0, AFTER, give_hook(name, out, version),                                 \
         (const char *name, void **out, int version, cuuint64_t flags), (name, out, version, flags))                           \
    HOOK(cuGetProcAddress_v2, "cuGetProcAddress", 12000, 0, AFTER, give_hook(name, out, version),                              \
         (const char *name, void **out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status),                \
         (name, out, version, flags, status))                                                                                  \
    HOOK(cuGetProcAddress_v2_ptsz, "cuGetProcAddress", 12000, 1, AFTER, give_hook(name, out, version),                         \
         (const char *name, void **out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status),                \
         (name, out, version, flags, status))                                                                                  \
    /* core dumps */                                                                                                           \
    HOOK_COREDUMP(HOOK, cuCoredumpSetAttribute, coredump_set)                                                                  \
    HOOK_COREDUMP(HOOK, cuCoredumpSetAttributeGlobal, coredump_set_global)                                                     \
    HOOK_COREDUMP(HOOK, cuCoredumpGetAttribute, coredump_get)                                                                  \
    HOOK_COREDUMP(HOOK, cuCoredumpGetAttributeGlobal, coredump_get_global)                                                     \
    /* memory */                                                                                                               \
    HOOK(cuMemAlloc_v2, "cuMemAlloc", 3020, 0, BY_HAND, 1, (CUdeviceptr *out, size_t size), (out, size))                       \
    HOOK(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, 0, BY_HAND, 1,                                                           \
         (CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element),                                     \
         (out, pitch, width, height, element))                                                                                 \
    HOOK(cuMemFree_v2, "cuMemFree", 3020, 0, BY_HAND, 1, (CUdeviceptr pointer), (pointer))                                     \
    HOOK_TWINS(HOOK, cuMemAllocAsync, "cuMemAllocAsync", 11020, _ptsz, 11020, BY_HAND, 1,                                      \
         (CUdeviceptr *out, size_t size, CUstream stream), (out, size, stream))                                                \
    HOOK_TWINS(HOOK, cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, _ptsz, 11020, BY_HAND, 1,                      \
         (CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream stream), (out, size, pool, stream))                       \
    HOOK_TWINS(HOOK, cuMemFreeAsync, "cuMemFreeAsync", 11020, _ptsz, 11020, BY_HAND, 1,                                        \
         (CUdeviceptr pointer, CUstream stream), (pointer, stream))                                                            \
    HOOK(cuMemGetInfo_v2, "cuMemGetInfo", 3020, 0, BY_HAND, 1, (size_t *free_bytes, size_t *total), (free_bytes, total))       \
    HOOK(cuMemGetAddressRange_v2, "cuMemGetAddressRange", 3020, 0, BY_HAND, 1,                                                 \
         (CUdeviceptr *base, size_t *size, CUdeviceptr pointer), (base, size, pointer))                                        \
    HOOK(cuPointerGetAttribute, "cuPointerGetAttribute", 4000, 0, BY_HAND, 1,                                                  \
         (void *data, CUpointer_attribute attribute, CUdeviceptr pointer), (data, attribute, pointer))                         \
    HOOK(cuPointerGetAttributes, "cuPointerGetAttributes", 7000, 0, BY_HAND, 1,                                                \
         (unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer),                                  \
         (count, attributes, data, pointer))                                                                                   \
    HOOK(cuIpcGetMemHandle, "cuIpcGetMemHandle", 4010, 0, BY_HAND, 1, (CUipcMemHandle *handle, CUdeviceptr pointer),           \
         (handle, pointer))                                                                                                    \
    /* left to the driver, and counted */                                                                                      \
    HOOK(cuMemAllocManaged, "cuMemAllocManaged", 6000, 0, AFTER,                                                               \
         (closing_unguarded(UNGUARDED_MANAGED, size), note_pinned(*out, size, PINNED_MANAGED)),                                \
         (CUdeviceptr *out, size_t size, unsigned flags), (out, size, flags))                                                  \
    HOOK(cuMemCreate, "cuMemCreate", 10020, 0, AFTER, closing_unguarded(UNGUARDED_MAPPED, size),                               \
         (CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *properties, unsigned long long flags), \
         (handle, size, properties, flags))                                                                                    \
    /* host memory that kernels reach: left to the driver, and noted */                                                        \
    HOOK(cuMemAllocHost_v2, "cuMemAllocHost", 3020, 0, AFTER, note_pinned((CUdeviceptr)(uintptr_t)*out, size, PINNED_HOST),    \
         (void **out, size_t size), (out, size))                                                                               \
    HOOK(cuMemHostAlloc, "cuMemHostAlloc", 2020, 0, AFTER, note_pinned((CUdeviceptr)(uintptr_t)*out, size, PINNED_HOST),       \
         (void **out, size_t size, unsigned flags), (out, size, flags))                                                        \
    HOOK(cuMemFreeHost, "cuMemFreeHost", 2000, 0, INSTEAD, host_free, (void *pointer), (pointer))                              \
    HOOK(cuMemHostRegister_v2, "cuMemHostRegister", 6050, 0, AFTER,                                                            \
         note_pinned((CUdeviceptr)(uintptr_t)pointer, size,                                                                    \
          flags & CU_MEMHOSTREGISTER_IOMEMORY ? PINNED_DEVICE : PINNED_HOST), (void *pointer, size_t size, unsigned flags),    \
         (pointer, size, flags))                                                                                               \
    HOOK(cuMemHostUnregister, "cuMemHostUnregister", 4000, 0, INSTEAD, host_free, (void *pointer), (pointer))                  \
    /* pools */                                                                                                                \
    HOOK(cuMemPoolCreate, "cuMemPoolCreate", 11020, 0, AFTER, pool_created(*pool, properties),                                 \
         (CUmemoryPool *pool, const CUmemPoolProps *properties), (pool, properties))                                           \
    HOOK(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, 0, BY_HAND, 1, (CUmemoryPool pool), (pool))                              \
    HOOK(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", 11020, 0, BY_HAND, 1,                                                 \
         (CUmemoryPool pool, CUmemPool_attribute attribute, void *value), (pool, attribute, value))                            \
    HOOK(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", 11020, 0, BY_HAND, 1,                                                 \
         (CUmemoryPool pool, CUmemPool_attribute attribute, void *value), (pool, attribute, value))                            \
    HOOK(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, 0, BY_HAND, 1, (CUmemoryPool pool, size_t keep), (pool, keep))             \
    HOOK(cuMemPoolSetAccess, "cuMemPoolSetAccess", 11020, 0, AFTER, pool_shared(pool, map, count),                             \
         (CUmemoryPool pool, const CUmemAccessDesc *map, size_t count), (pool, map, count))                                    \
    HOOK(cuMemPoolExportPointer, "cuMemPoolExportPointer", 11020, 0, BY_HAND, 1,                                               \
         (CUmemPoolPtrExportData *data, CUdeviceptr pointer), (data, pointer))                                                 \
    HOOK(cuDeviceSetMemPool, "cuDeviceSetMemPool", 11020, 0, AFTER, pools_changed(), (CUdevice device, CUmemoryPool pool),     \
         (device, pool))                                                                                                       \
    HOOK(cuMemSetMemPool, "cuMemSetMemPool", 13000, 0, AFTER, pools_changed(),                                                 \
         (CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool), (location, type, pool))                       \
    /* launches */                                                                                                             \
    HOOK_TWINS(HOOK, cuLaunchKernel, "cuLaunchKernel", 4000, _ptsz, 7000, BY_HAND, 1,                                          \
         (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,         \
          CUstream stream, void **parameters, void **extra), (f, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra))   \
    HOOK_TWINS(HOOK, cuLaunchKernelEx, "cuLaunchKernelEx", 11060, _ptsz, 11060, BY_HAND, 1,                                    \
         (const CUlaunchConfig *config, CUfunction f, void **parameters, void **extra), (config, f, parameters, extra))        \
    HOOK_TWINS(HOOK, cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", 9000, _ptsz, 9000, BY_HAND, 1,                    \
         (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,         \
          CUstream stream, void **parameters), (f, gx, gy, gz, bx, by, bz, shared, stream, parameters))                        \
    HOOK_TWINS(HOOK, cuGraphLaunch, "cuGraphLaunch", 10000, _ptsz, 10000, BY_HAND, 1, (CUgraphExec graph, CUstream stream),    \
         (graph, stream))                                                                                                      \
    /* code: left to the driver, and noted where it is wanted */                                                               \
    HOOK(cuModuleLoad, "cuModuleLoad", 2000, 0, AFTER, LOADED_FILE(*module, 0, path), (CUmodule *module, const char *path),    \
         (module, path))                                                                                                       \
    HOOK(cuModuleLoadData, "cuModuleLoadData", 2000, 0, AFTER, LOADED(*module, 0, image),                                      \
         (CUmodule *module, const void *image), (module, image))                                                               \
    HOOK(cuModuleLoadDataEx, "cuModuleLoadDataEx", 2010, 0, AFTER, LOADED(*module, 0, image),                                  \
         (CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values),                          \
         (module, image, count, options, values))                                                                              \
    HOOK(cuModuleLoadFatBinary, "cuModuleLoadFatBinary", 2000, 0, AFTER, LOADED(*module, 0, image),                            \
         (CUmodule *module, const void *image), (module, image))                                                               \
    HOOK(cuLibraryLoadData, "cuLibraryLoadData", 12000, 0, AFTER, LOADED(*library, 1, image),                                  \
         (CUlibrary *library, const void *image, CUjit_option *jit, void **jit_values, unsigned jit_count,                     \
          CUlibraryOption *options, void **values, unsigned count),                                                            \
         (library, image, jit, jit_values, jit_count, options, values, count))                                                 \
    HOOK(cuLibraryLoadFromFile, "cuLibraryLoadFromFile", 12000, 0, AFTER, LOADED_FILE(*library, 1, path),                      \
         (CUlibrary *library, const char *path, CUjit_option *jit, void **jit_values, unsigned jit_count,                      \
          CUlibraryOption *options, void **values, unsigned count),                                                            \
         (library, path, jit, jit_values, jit_count, options, values, count))                                                  \
    HOOK(cuModuleUnload, "cuModuleUnload", 2000, 0, UNLOADS, module, (CUmodule module), (module))                              \
    HOOK(cuLibraryUnload, "cuLibraryUnload", 12000, 0, UNLOADS, library, (CUlibrary library), (library))                       \
    /* synchronisation */                                                                                                      \
    HOOK_TWINS(HOOK, cuStreamSynchronize, "cuStreamSynchronize", 2000, _ptsz, 7000, BY_HAND, 1, (CUstream stream), (stream))   \
    HOOK(cuEventSynchronize, "cuEventSynchronize", 2000, 0, BY_HAND, 1, (CUevent event), (event))                              \
    HOOK(cuCtxSynchronize, "cuCtxSynchronize", 2000, 0, BY_HAND, 1, (void), ())                                                \
    HOOK(cuCtxSynchronize_v2, "cuCtxSynchronize", 13000, 0, BY_HAND, 1, (CUcontext context), (context))                        \
    HOOK_TWINS(HOOK, cuStreamQuery, "cuStreamQuery", 2000, _ptsz, 7000, BY_HAND, 1, (CUstream stream), (stream))               \
    HOOK(cuEventQuery, "cuEventQuery", 2000, 0, BY_HAND, 1, (CUevent event), (event))                                          \
    /* lifetimes of streams, contexts, captures and graphs */                                                                  \
    HOOK_RENEWED(HOOK, cuStreamDestroy, 2000, 4000, BEFORE, stream_ended(stream), (CUstream stream), (stream))                 \
    HOOK_RENEWED(HOOK, cuCtxDestroy, 2000, 4000, INSTEAD, context_destroy, (CUcontext context), (context))                     \
    HOOK(cuCtxAttach, "cuCtxAttach", 2000, 0, AFTER, context_attached(*context), (CUcontext *context, unsigned flags),         \
         (context, flags))                                                                                                     \
    HOOK(cuCtxDetach, "cuCtxDetach", 2000, 0, INSTEAD, context_detach, (CUcontext context), (context))                         \
    HOOK_RENEWED(HOOK, cuDevicePrimaryCtxReset, 7000, 11000, INSTEAD, primary_reset, (CUdevice device), (device))              \
    HOOK_RENEWED(HOOK, cuDevicePrimaryCtxRelease, 7000, 11000, INSTEAD, primary_release, (CUdevice device), (device))          \
    HOOK_TWINS(HOOK, cuStreamBeginCapture, "cuStreamBeginCapture", 10000, _ptsz, 10000, BEGINS, 0, (CUstream stream),          \
         (stream))                                                                                                             \
    HOOK(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", 4000, 0, AFTER, peer_changed(context, 1),                             \
         (CUcontext context, unsigned flags), (context, flags))                                                                \
    HOOK_TWINS(HOOK, cuStreamBeginCapture_v2, "cuStreamBeginCapture", 10010, _ptsz, 10010, BEGINS, 0,                          \
         (CUstream stream, CUstreamCaptureMode mode), (stream, mode))                                                          \
    HOOK(cuCtxDisablePeerAccess, "cuCtxDisablePeerAccess", 4000, 0, AFTER, peer_changed(context, 0), (CUcontext context),      \
         (context))                                                                                                            \
    HOOK(cuGreenCtxCreate, "cuGreenCtxCreate", 12040, 0, AFTER, green_created(*green, device),                                 \
         (CUgreenCtx *green, CUdevResourceDesc resources, CUdevice device, unsigned flags), (green, resources, device, flags)) \
    HOOK(cuGreenCtxDestroy, "cuGreenCtxDestroy", 12040, 0, BY_HAND, 1, (CUgreenCtx green), (green))                            \
    HOOK(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, 0, AFTER, primary_retained(device),                       \
         (CUcontext *context, CUdevice device), (context, device))                                                             \
    HOOK_TWINS(HOOK, cuStreamBeginCaptureToGraph, "cuStreamBeginCaptureToGraph", 12030, _ptsz, 12030, BEGINS, 1,               \
         (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count,                \
          CUstreamCaptureMode mode), (stream, graph, nodes, edges, count, mode))                                               \
    HOOK_TWINS(HOOK, cuStreamBeginRecaptureToGraph, "cuStreamBeginRecaptureToGraph", 13030, _ptsz, 13030, BEGINS, 1,           \
         (CUstream stream, CUstreamCaptureMode mode, CUgraph graph, recapture_callback callback, void *user),                  \
         (stream, mode, graph, callback, user))                                                                                \
    HOOK_TWINS(HOOK, cuStreamWaitEvent, "cuStreamWaitEvent", 3020, _ptsz, 7000, BY_HAND, 1,                                    \
         (CUstream stream, CUevent event, unsigned flags), (stream, event, flags))                                             \
    HOOK_TWINS(HOOK, cuStreamUpdateCaptureDependencies, "cuStreamUpdateCaptureDependencies", 11030, _ptsz, 11030, AFTER,       \
         capture_reordered(meant(stream), flags), (CUstream stream, CUgraphNode *nodes, size_t count, unsigned flags),         \
         (stream, nodes, count, flags))                                                                                        \
    HOOK_TWINS(HOOK, cuStreamUpdateCaptureDependencies_v2, "cuStreamUpdateCaptureDependencies", 12030, _ptsz, 12030, AFTER,    \
         capture_reordered(meant(stream), flags),                                                                              \
         (CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count, unsigned flags),                    \
         (stream, nodes, edges, count, flags))                                                                                 \
    HOOK_TWINS(HOOK, cuStreamEndCapture, "cuStreamEndCapture", 10000, _ptsz, 10000, BY_HAND, 1,                                \
         (CUstream stream, CUgraph *graph), (stream, graph))                                                                   \
    HOOK(cuGraphInstantiate, "cuGraphInstantiate", 10000, 0, AFTER, graph_instantiated(*executable, graph),                    \
         (CUgraphExec *executable, CUgraph graph, CUgraphNode *node, char *log, size_t size),                                  \
         (executable, graph, node, log, size))                                                                                 \
    HOOK(cuGraphInstantiate_v2, "cuGraphInstantiate", 11000, 0, AFTER, graph_instantiated(*executable, graph),                 \
         (CUgraphExec *executable, CUgraph graph, CUgraphNode *node, char *log, size_t size),                                  \
         (executable, graph, node, log, size))                                                                                 \
    HOOK(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11040, 0, AFTER,                                          \
         graph_instantiated(*executable, graph), (CUgraphExec *executable, CUgraph graph, unsigned long long flags),           \
         (executable, graph, flags))                                                                                           \
    HOOK_TWINS(HOOK, cuGraphInstantiateWithParams, "cuGraphInstantiateWithParams", 12000, _ptsz, 12000, AFTER,                 \
         graph_instantiated(*executable, graph),                                                                               \
         (CUgraphExec *executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters), (executable, graph, parameters)) \
    HOOK(cuGraphExecUpdate, "cuGraphExecUpdate", 10020, 0, INSTEAD, executable_updated,                                        \
         (CUgraphExec executable, CUgraph graph, CUgraphNode *node, CUgraphExecUpdateResult *why),                             \
         (executable, graph, node, why))                                                                                       \
    HOOK(cuGraphExecUpdate_v2, "cuGraphExecUpdate", 12000, 0, INSTEAD, executable_updated_v2,                                  \
         (CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo *why), (executable, graph, why))                  \
    HOOK(cuDeviceGraphMemTrim, "cuDeviceGraphMemTrim", 11040, 0, AFTER, graph_memory_trimmed(device), (CUdevice device),       \
         (device))                                                                                                             \
    HOOK(cuGraphExecDestroy, "cuGraphExecDestroy", 10000, 0, BEFORE, executable_ends(executable), (CUgraphExec executable),    \
         (executable))                                                                                                         \
    /* what programs put into graphs themselves */                                                                           \
    HOOK_NODE(HOOK, cuGraphAddKernelNode, "cuGraphAddKernelNode", 10000, AFTER, KERNEL_NODE(added, NULL),                      \
         const CUDA_KERNEL_NODE_PARAMS_v1 *)                                                                                   \
    HOOK_NODE(HOOK, cuGraphAddKernelNode_v2, "cuGraphAddKernelNode", 12000, AFTER, KERNEL_NODE(added, added->kern),            \
         const CUDA_KERNEL_NODE_PARAMS_v2 *)                                                                                   \
    HOOK(cuGraphKernelNodeSetParams, "cuGraphKernelNodeSetParams", 10000, 0, AFTER, KERNEL_NODE(kernel, NULL),                 \
         (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *kernel), (node, kernel))                                         \
    HOOK(cuGraphKernelNodeSetParams_v2, "cuGraphKernelNodeSetParams", 12000, 0, AFTER, KERNEL_NODE(kernel, kernel->kern),      \
         (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *kernel), (node, kernel))                                         \
    HOOK(cuGraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams", 10010, 0, AFTER, KERNEL_NODE(kernel, NULL),         \
         (CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *kernel), (executable, node, kernel))     \
    HOOK(cuGraphExecKernelNodeSetParams_v2, "cuGraphExecKernelNodeSetParams", 12000, 0, AFTER,                                 \
         KERNEL_NODE(kernel, kernel->kern),                                                                                    \
         (CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *kernel), (executable, node, kernel))     \
    HOOK_NODE(HOOK, cuGraphAddNode, "cuGraphAddNode", 12020, ADDS_NODE, added, CUgraphNodeParams *)                            \
    HOOK(cuGraphAddNode_v2, "cuGraphAddNode", 12030, 0, ADDS_NODE, parameters,                                                 \
         (CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count,              \
          CUgraphNodeParams *parameters), (node, graph, nodes, edges, count, parameters))                                      \
    HOOK(cuGraphAddNode_v3, "cuGraphAddNode", 13040, 0, ADDS_NODE, parameters,                                                 \
         (CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count,              \
          CUgraphNodeParams *parameters), (node, graph, nodes, edges, count, parameters))                                      \
    HOOK_RENEWED(HOOK, cuGraphNodeSetParams, 12020, 13040, CHANGES_NODE, parameters,                                           \
                 (CUgraphNode node, CUgraphNodeParams *parameters), (node, parameters))                                        \
    HOOK(cuGraphExecNodeSetParams, "cuGraphExecNodeSetParams", 12020, 0, CHANGES_NODE,                                         \
         (keepers_forget(executable, node, 0), parameters),                                                                    \
         (CUgraphExec executable, CUgraphNode node, CUgraphNodeParams *parameters), (executable, node, parameters))            \
    HOOK(cuGraphAddMemcpyNode, "cuGraphAddMemcpyNode", 10000, 0, CHECKS, bounds_node_copies(copy, context),                    \
         (CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count, const CUDA_MEMCPY3D *copy,                 \
          CUcontext context), (node, graph, nodes, count, copy, context))                                                      \
    HOOK(cuGraphMemcpyNodeSetParams, "cuGraphMemcpyNodeSetParams", 10000, 0, CHECKS, bounds_node_copies(copy, NULL),           \
         (CUgraphNode node, const CUDA_MEMCPY3D *copy), (node, copy))                                                          \
    HOOK(cuGraphExecMemcpyNodeSetParams, "cuGraphExecMemcpyNodeSetParams", 10020, 0, CHECKS,                                   \
         keepers_change(call, executable, node) && bounds_node_copies(copy, context),                                          \
         (CUgraphExec executable, CUgraphNode node, const CUDA_MEMCPY3D *copy, CUcontext context),                             \
         (executable, node, copy, context))                                                                                    \
    HOOK(cuGraphAddMemAllocNode, "cuGraphAddMemAllocNode", 11040, 0, AFTER,                                                    \
         node_allocates(wanted->bytesize),                                                                                     \
         (CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *wanted),       \
         (node, graph, nodes, count, wanted))                                                                                  \
    HOOK(cuGraphAddMemFreeNode, "cuGraphAddMemFreeNode", 11040, 0, INSTEAD, free_node_added,                                   \
         (CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count, CUdeviceptr pointer),                      \
         (node, graph, nodes, count, pointer))                                                                                 \
    HOOK(cuGraphMemFreeNodeGetParams, "cuGraphMemFreeNodeGetParams", 11040, 0, AFTER, freed_by_node(pointer),                  \
         (CUgraphNode node, CUdeviceptr *pointer), (node, pointer))                                                            \
    HOOK(cuGraphMemAllocNodeGetParams, "cuGraphMemAllocNodeGetParams", 11040, 0, AFTER,                                        \
         allocated_by_node(&wanted->dptr, &wanted->bytesize), (CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *wanted),          \
         (node, wanted))                                                                                                       \
    HOOK(cuGraphNodeGetParams, "cuGraphNodeGetParams", 13020, 0, AFTER, node_is_told(parameters),                              \
         (CUgraphNode node, CUgraphNodeParams *parameters), (node, parameters))                                                \
    /* events, and what else orders streams; followed with streams=on */                                                       \
    HOOK(cuEventCreate, "cuEventCreate", 2000, 0, ORDERS, order_event_made(*event, flags), (CUevent *event, unsigned flags),   \
         (event, flags))                                                                                                       \
    HOOK_RENEWED(HOOK, cuEventDestroy, 2000, 4000, BEFORE, WHERE_WANTED(order_event_gone(event)), (CUevent event), (event))    \
    HOOK_TWINS(HOOK, cuEventRecord, "cuEventRecord", 2000, _ptsz, 7000, ORDERS, order_event_recorded(event, meant(stream), 0), \
         (CUevent event, CUstream stream), (event, stream))                                                                    \
    HOOK_TWINS(HOOK, cuEventRecordWithFlags, "cuEventRecordWithFlags", 11010, _ptsz, 11010, ORDERS,                            \
         order_event_recorded(event, meant(stream), flags), (CUevent event, CUstream stream, unsigned flags),                  \
         (event, stream, flags))                                                                                               \
    HOOK_RENEWED(HOOK, cuEventElapsedTime, 2000, 12080, ORDERS,                                                                \
                 (order_event_has_passed(start), order_event_has_passed(end)),                                                 \
                 (float *milliseconds, CUevent start, CUevent end), (milliseconds, start, end))                                \
    HOOK(cuCtxRecordEvent, "cuCtxRecordEvent", 12050, 0, ORDERS, order_event_records_all(event),                               \
         (CUcontext context, CUevent event), (context, event))                                                                 \
    HOOK(cuCtxWaitEvent, "cuCtxWaitEvent", 12050, 0, ORDERS, order_event_has_passed(event),                                    \
         (CUcontext context, CUevent event), (context, event))                                                                 \
    HOOK(cuGreenCtxRecordEvent, "cuGreenCtxRecordEvent", 12040, 0, ORDERS, order_event_records_all(event),                     \
         (CUgreenCtx green, CUevent event), (green, event))                                                                    \
    HOOK(cuGreenCtxWaitEvent, "cuGreenCtxWaitEvent", 12040, 0, ORDERS, order_event_has_passed(event),                          \
         (CUgreenCtx green, CUevent event), (green, event))                                                                    \
    HOOK_TWINS(HOOK, cuLaunchHostFunc, "cuLaunchHostFunc", 10000, _ptsz, 10000, QUEUES, order_host_learns(meant(stream)),      \
         (CUstream stream, CUhostFn called, void *user), (stream, called, user))                                               \
    HOOK_TWINS(HOOK, cuLaunchHostFunc_v2, "cuLaunchHostFunc", 13010, _ptsz, 13010, QUEUES,                                     \
         order_host_learns(meant(stream)), (CUstream stream, CUhostFn called, void *user, unsigned mode),                      \
         (stream, called, user, mode))                                                                                         \
    HOOK_TWINS(HOOK, cuStreamAddCallback, "cuStreamAddCallback", 5000, _ptsz, 7000, QUEUES, order_host_learns(meant(stream)),  \
         (CUstream stream, CUstreamCallback called, void *user, unsigned flags), (stream, called, user, flags))                \
    HOOK_VALUE(HOOK, cuStreamWaitValue32, 8000, CU_STREAM_MEM_OP_WAIT_VALUE_32, cuuint32_t)                                    \
    HOOK_VALUE(HOOK, cuStreamWriteValue32, 8000, CU_STREAM_MEM_OP_WRITE_VALUE_32, cuuint32_t)                                  \
    HOOK_VALUE(HOOK, cuStreamWaitValue64, 9000, CU_STREAM_MEM_OP_WAIT_VALUE_64, cuuint64_t)                                    \
    HOOK_VALUE(HOOK, cuStreamWriteValue64, 9000, CU_STREAM_MEM_OP_WRITE_VALUE_64, cuuint64_t)                                  \
    HOOK_ON_MEMORY(HOOK, cuStreamBatchMemOp, 8000, (operations, count),                                                        \
                   (CUstream stream, unsigned count, CUstreamBatchMemOpParams *operations, unsigned flags),                    \
                   (stream, count, operations, flags))                                                                         \
    HOOK_TWINS(HOOK, cuWaitExternalSemaphoresAsync, "cuWaitExternalSemaphoresAsync", 10000, _ptsz, 10000, ORDERS,              \
         order_stream_waits_unseen(meant(stream)),                                                                             \
         (const CUexternalSemaphore *semaphores, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *waits, unsigned count,             \
          CUstream stream), (semaphores, waits, count, stream))                                                                \
    HOOK_NODE(HOOK, cuGraphAddEventRecordNode, "cuGraphAddEventRecordNode", 11010, ORDERS, order_event_hidden(added), CUevent) \
    HOOK_NODE(HOOK, cuGraphAddEventWaitNode, "cuGraphAddEventWaitNode", 11010, ORDERS, order_graph_waits(), CUevent)           \
    HOOK_NODE(HOOK, cuGraphAddHostNode, "cuGraphAddHostNode", 10000, ORDERS, order_graph_tells(),                              \
         const CUDA_HOST_NODE_PARAMS *)                                                                                        \
    HOOK_NODE(HOOK, cuGraphAddExternalSemaphoresWaitNode, "cuGraphAddExternalSemaphoresWaitNode", 11020, ORDERS,               \
         order_graph_waits(), const CUDA_EXT_SEM_WAIT_NODE_PARAMS *)                                                           \
    HOOK_NODE(HOOK, cuGraphAddBatchMemOpNode, "cuGraphAddBatchMemOpNode", 11070, ORDERS,                                       \
         (order_graph_waits(), order_graph_tells()), const CUDA_BATCH_MEM_OP_NODE_PARAMS *)                                    \
    HOOK(cuGraphEventRecordNodeSetEvent, "cuGraphEventRecordNodeSetEvent", 11010, 0, ORDERS, order_event_hidden(event),        \
         (CUgraphNode node, CUevent event), (node, event))                                                                     \
    HOOK(cuGraphExecEventRecordNodeSetEvent, "cuGraphExecEventRecordNodeSetEvent", 11010, 0, ORDERS,                           \
         order_event_hidden(event), (CUgraphExec graph, CUgraphNode node, CUevent event), (graph, node, event))                \
    /* textures */                                                                                                             \
    HOOK(cuTexObjectCreate, "cuTexObjectCreate", 5000, 0, INSTEAD, texture_created,                                            \
         (CUtexObject *object, const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *texture,                           \
          const CUDA_RESOURCE_VIEW_DESC *view), (object, resource, texture, view))                                             \
    HOOK(cuTexObjectDestroy, "cuTexObjectDestroy", 5000, 0, AFTER, keepers_forget_texture(object), (CUtexObject object), (object))\
    HOOK(cuTexRefSetAddress_v2, "cuTexRefSetAddress", 3020, 0, INSTEAD, texture_bound,                                         \
         (size_t *offset, CUtexref texture, CUdeviceptr pointer, size_t size), (offset, texture, pointer, size))               \
    HOOK(cuTexRefSetAddress2D_v2, "cuTexRefSetAddress2D", 3020, 0, INSTEAD, texture_bound_2d,                                  \
         (CUtexref texture, const CUDA_ARRAY_DESCRIPTOR *shape, CUdeviceptr pointer, size_t pitch),                            \
         (texture, shape, pointer, pitch))                                                                                     \
    HOOK(cuTexRefSetAddress2D_v3, "cuTexRefSetAddress2D", 4010, 0, INSTEAD, texture_bound_2d,                                  \
         (CUtexref texture, const CUDA_ARRAY_DESCRIPTOR *shape, CUdeviceptr pointer, size_t pitch),                            \
         (texture, shape, pointer, pitch))                                                                                     \
    /* arrays: left to the driver */                                                                                           \
    HOOK(cuArrayCreate_v2, "cuArrayCreate", 3020, 0, BEFORE, (void)0,                                                          \
         (CUarray *array, const CUDA_ARRAY_DESCRIPTOR *wanted), (array, wanted))                                               \
    HOOK(cuArray3DCreate_v2, "cuArray3DCreate", 3020, 0, BEFORE, (void)0,                                                      \
         (CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *wanted), (array, wanted))                                             \
    HOOK(cuMipmappedArrayCreate, "cuMipmappedArrayCreate", 5000, 0, BEFORE, (void)0,                                           \
         (CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *wanted, unsigned levels), (array, wanted, levels))           \
    /* tensor maps */                                                                                                          \
    HOOK_MAP(HOOK, cuTensorMapEncodeTiled, 12000, box,                                                                         \
             (const cuuint32_t *box, const cuuint32_t *steps, CUtensorMapInterleave interleave), box, steps, interleave)       \
    HOOK_MAP(HOOK, cuTensorMapEncodeIm2col, 12000, NULL,                                                                       \
             (const int *lower, const int *upper, cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *steps,             \
              CUtensorMapInterleave interleave), lower, upper, channels, pixels, steps, interleave)                            \
    HOOK_MAP(HOOK, cuTensorMapEncodeIm2colWide, 12080, NULL,                                                                   \
             (int lower, int upper, cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *steps,                           \
              CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode), lower, upper, channels, pixels, steps,        \
             interleave, mode)                                                                                                 \
    HOOK(cuTensorMapReplaceAddress, "cuTensorMapReplaceAddress", 12000, 0, INSTEAD, map_moved,                                 \
         (CUtensorMap *map, void *base), (map, base))                                                                          \
    HOOK(cuTensorMapSetAllocationClass, "cuTensorMapSetAllocationClass", 13050, 0, INSTEAD, map_reencoded,                     \
         (CUtensorMap *map, map_class wanted, map_class *effective), (map, wanted, effective))                                 \
    /* copies: the twins of synchronous ones end in _ptds */                                                                   \
    HOOK_COPIES(HOOK, cuMemcpy, , 4000, COPIES_TO, bounds_copy(to, from, size),                                                \
         (CUdeviceptr to, CUdeviceptr from, size_t size), (to, from, size))                                                    \
    HOOK_COPIES(HOOK, cuMemcpyPeer, , 4000, COPIES, bounds_copy(to, from, size),                                               \
         (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size),                        \
         (to, to_context, from, from_context, size))                                                                           \
    HOOK_COPIES(HOOK, cuMemcpyHtoD, _v2, 3020, COPIES, bounds_upload(to, from, size),                                               \
         (CUdeviceptr to, const void *from, size_t size), (to, from, size))                                                    \
    HOOK_COPIES(HOOK, cuMemcpyDtoH, _v2, 3020, COPIES_TO, bounds_download(to, from, size), (void *to, CUdeviceptr from, size_t size),  \
         (to, from, size))                                                                                                     \
    HOOK_COPIES(HOOK, cuMemcpyDtoD, _v2, 3020, COPIES, bounds_copy(to, from, size),                                            \
         (CUdeviceptr to, CUdeviceptr from, size_t size), (to, from, size))                                                    \
    HOOK_TWINS(HOOK, cuMemcpyDtoA_v2, "cuMemcpyDtoA", 3020, _ptds, 7000, COPIES_NOW, bounds_read(from, size),                  \
         (CUarray to, size_t offset, CUdeviceptr from, size_t size), (to, offset, from, size))                                 \
    HOOK_TWINS(HOOK, cuMemcpyAtoD_v2, "cuMemcpyAtoD", 3020, _ptds, 7000, COPIES_NOW, bounds_write(to, size),                   \
         (CUdeviceptr to, CUarray from, size_t offset, size_t size), (to, from, offset, size))                                 \
    HOOK_COPIES(HOOK, cuMemcpyAtoH, _v2, 3020, COPIES, 1, (void *to, CUarray from, size_t offset, size_t size),                \
         (to, from, offset, size))                                                                                             \
    HOOK_COPIES(HOOK, cuMemcpyHtoA, _v2, 3020, COPIES, 1, (CUarray to, size_t offset, const void *from, size_t size),          \
         (to, offset, from, size))                                                                                             \
    HOOK_TWINS(HOOK, cuMemcpyAtoA_v2, "cuMemcpyAtoA", 3020, _ptds, 7000, COPIES_NOW, 1,                                        \
         (CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t size),                                        \
         (to, to_offset, from, from_offset, size))                                                                             \
    HOOK_COPIES(HOOK, cuMemcpy2D, _v2, 3020, COPIES, bounds_copy_2d(copy), (const CUDA_MEMCPY2D *copy), (copy))                \
    HOOK_TWINS(HOOK, cuMemcpy2DUnaligned_v2, "cuMemcpy2DUnaligned", 3020, _ptds, 7000, COPIES_NOW, bounds_copy_2d(copy),       \
         (const CUDA_MEMCPY2D *copy), (copy))                                                                                  \
    HOOK_COPIES(HOOK, cuMemcpy3D, _v2, 3020, COPIES, bounds_copy_3d(copy), (const CUDA_MEMCPY3D *copy), (copy))                \
    HOOK_COPIES(HOOK, cuMemcpy3DPeer, , 4000, COPIES, bounds_copy_3d_peer(copy), (const CUDA_MEMCPY3D_PEER *copy), (copy))     \
    HOOK_TWINS(HOOK, cuMemcpyBatchAsync, "cuMemcpyBatchAsync", 12080, _ptsz, 12080, COPIES,                                    \
         bounds_batch(to, from, sizes, count),                                                                                 \
         (CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *attributes, size_t *indexes,    \
          size_t attribute_count, size_t *failed, CUstream stream),                                                            \
         (to, from, sizes, count, attributes, indexes, attribute_count, failed, stream))                                       \
    HOOK_TWINS(HOOK, cuMemcpyBatchAsync_v2, "cuMemcpyBatchAsync", 13000, _ptsz, 13000, COPIES,                                 \
         bounds_batch(to, from, sizes, count),                                                                                 \
         (CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *attributes, size_t *indexes,    \
          size_t attribute_count, CUstream stream),                                                                            \
         (to, from, sizes, count, attributes, indexes, attribute_count, stream))                                               \
    HOOK_TWINS(HOOK, cuMemcpy3DBatchAsync, "cuMemcpy3DBatchAsync", 12080, _ptsz, 12080, COPIES, bounds_batch_3d(copies, count),\
         (size_t count, CUDA_MEMCPY3D_BATCH_OP *copies, size_t *failed, unsigned long long flags, CUstream stream),            \
         (count, copies, failed, flags, stream))                                                                               \
    HOOK_TWINS(HOOK, cuMemcpy3DBatchAsync_v2, "cuMemcpy3DBatchAsync", 13000, _ptsz, 13000, COPIES,                             \
         bounds_batch_3d(copies, count),                                                                                       \
         (size_t count, CUDA_MEMCPY3D_BATCH_OP *copies, unsigned long long flags, CUstream stream),                            \
         (count, copies, flags, stream))                                                                                       \
    HOOK_TWINS(HOOK, cuMemcpyWithAttributesAsync, "cuMemcpyWithAttributesAsync", 13020, _ptsz, 13020, COPIES,                  \
         bounds_copy(to, from, size),                                                                                          \
         (CUdeviceptr to, CUdeviceptr from, size_t size, CUmemcpyAttributes *attributes, CUstream stream),                     \
         (to, from, size, attributes, stream))                                                                                 \
    HOOK_TWINS(HOOK, cuMemcpy3DWithAttributesAsync, "cuMemcpy3DWithAttributesAsync", 13020, _ptsz, 13020, COPIES,              \
         bounds_batch_3d(copy, 1), (CUDA_MEMCPY3D_BATCH_OP *copy, unsigned long long flags, CUstream stream),                  \
         (copy, flags, stream))                                                                                                \
    /* sets: of device memory, they don't wait */                                                                              \
    HOOK_SETS(HOOK, cuMemsetD8, bounds_set(to, 1, count), (CUdeviceptr to, unsigned char value, size_t count),                 \
         (to, value, count))                                                                                                   \
    HOOK_SETS(HOOK, cuMemsetD16, bounds_set(to, 2, count), (CUdeviceptr to, unsigned short value, size_t count),               \
         (to, value, count))                                                                                                   \
    HOOK_SETS(HOOK, cuMemsetD32, bounds_set(to, 4, count), (CUdeviceptr to, unsigned value, size_t count), (to, value, count)) \
    HOOK_SETS(HOOK, cuMemsetD2D8, bounds_set_2d(to, pitch, 1, width, height),                                                  \
         (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height), (to, pitch, value, width, height))  \
    HOOK_SETS(HOOK, cuMemsetD2D16, bounds_set_2d(to, pitch, 2, width, height),                                                 \
         (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height), (to, pitch, value, width, height)) \
    HOOK_SETS(HOOK, cuMemsetD2D32, bounds_set_2d(to, pitch, 4, width, height),                                                 \
         (CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height), (to, pitch, value, width, height)) \
    RARE_HOOKS(HOOK)

/* clang-format on */
