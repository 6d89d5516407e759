/*
 * The driver functions that the preload library hooks, one row per exported symbol. This list generates the stubs for programs
 * that link libcuda (interpose.c), the hooks (watch.c; hand-written ones are in memory.c,
 * pools.c, launches.c, modules.c, captures.c, events.c), the
 * table of real functions behind them, and the answers of cuGetProcAddress (table.c). tests/python/test_hook_table.py compares
 * it with the toolkit's headers.
 *
 *   HOOK(symbol, base, version, thread, how, check, parameters, arguments)
 *     symbol      as the library exports it
 *     base        name for cuGetProcAddress, as in documentation and reports
 *     version     CUDA version that introduced this form, as in cudaTypedefs.h (PFN_<base>_v<version>)
 *     thread      1 for the per-thread default stream form (_ptsz or _ptds), else 0
 *     how         BY_HAND  hand-written in one of the files above
 *                 COPIES      a copy or set on `stream`; returns at once; fails after an earlier fault
 *                 COPIES_TO   the same, and `to` may be memory of the host
 *                 SETS        the same on the default stream
 *                 COPIES_NOW  returns when the copy is done; also reports faults found by waiting
 *                 ORDERS      only order/ wants to know about it
 *     check       for copies and sets: an expression that is 0 if the call exceeds one of our buffers (bounds.h). For ORDERS:
 *                 the call of order/ that follows a success; meant(stream) is the stream that the caller means
 *
 *   PASSED(base, version, thread, reason)      a form of such a function that is not hooked, and why
 */
#ifndef CUFENCE_PRELOAD_HOOKS_H
#define CUFENCE_PRELOAD_HOOKS_H

#include <cuda.h>

/* cuda.h defines these names as the newest forms, but here both forms are symbols. Include headers that use the names first. */
#undef cuGetProcAddress
#undef cuCtxDestroy
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
#undef cuStreamBeginCapture
#undef cuStreamBeginCaptureToGraph
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
#undef cuStreamAddCallback
#undef cuStreamWaitValue32
#undef cuStreamWaitValue64
#undef cuStreamWriteValue32
#undef cuStreamWriteValue64
#undef cuStreamBatchMemOp
#undef cuWaitExternalSemaphoresAsync
#undef cuGraphAddNode

/* Both forms of a function: for the legacy and for the per-thread default stream. */
#define HOOK_TWINS(HOOK, symbol, base, version, suffix, version_thread, how, check, parameters, arguments)                     \
    HOOK(symbol, base, version, 0, how, check, parameters, arguments)                                                          \
    HOOK(symbol##suffix, base, version_thread, 1, how, check, parameters, arguments)

/* clang-format off */
#define PRELOAD_HOOKS(HOOK)                                                                                                    \
    HOOK(cuInit, "cuInit", 2000, 0, BY_HAND, 1, (unsigned flags), (flags))                                                     \
    HOOK(cuGetProcAddress, "cuGetProcAddress", 11030, 0, BY_HAND, 1,                                                           \
         (const char *name, void **out, int version, cuuint64_t flags), (name, out, version, flags))                           \
    HOOK(cuGetProcAddress_v2, "cuGetProcAddress", 12000, 0, BY_HAND, 1,                                                        \
         (const char *name, void **out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status),                \
         (name, out, version, flags, status))                                                                                  \
    HOOK(cuGetProcAddress_v2_ptsz, "cuGetProcAddress", 12000, 1, BY_HAND, 1,                                                   \
         (const char *name, void **out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status),                \
         (name, out, version, flags, status))                                                                                  \
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
    HOOK(cuMemAllocManaged, "cuMemAllocManaged", 6000, 0, BY_HAND, 1,                                                          \
         (CUdeviceptr *out, size_t size, unsigned flags), (out, size, flags))                                                  \
    HOOK(cuMemCreate, "cuMemCreate", 10020, 0, BY_HAND, 1,                                                                     \
         (CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *properties, unsigned long long flags), \
         (handle, size, properties, flags))                                                                                    \
    /* host memory that kernels reach: left to the driver, and noted */                                                        \
    HOOK(cuMemAllocHost_v2, "cuMemAllocHost", 3020, 0, BY_HAND, 1, (void **out, size_t size), (out, size))                     \
    HOOK(cuMemHostAlloc, "cuMemHostAlloc", 2020, 0, BY_HAND, 1, (void **out, size_t size, unsigned flags), (out, size, flags)) \
    HOOK(cuMemFreeHost, "cuMemFreeHost", 2000, 0, BY_HAND, 1, (void *pointer), (pointer))                                      \
    HOOK(cuMemHostRegister_v2, "cuMemHostRegister", 6050, 0, BY_HAND, 1, (void *pointer, size_t size, unsigned flags),         \
         (pointer, size, flags))                                                                                               \
    HOOK(cuMemHostUnregister, "cuMemHostUnregister", 4000, 0, BY_HAND, 1, (void *pointer), (pointer))                          \
    /* pools */                                                                                                                \
    HOOK(cuMemPoolCreate, "cuMemPoolCreate", 11020, 0, BY_HAND, 1, (CUmemoryPool *pool, const CUmemPoolProps *properties),     \
         (pool, properties))                                                                                                   \
    HOOK(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, 0, BY_HAND, 1, (CUmemoryPool pool), (pool))                              \
    HOOK(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", 11020, 0, BY_HAND, 1,                                                 \
         (CUmemoryPool pool, CUmemPool_attribute attribute, void *value), (pool, attribute, value))                            \
    HOOK(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", 11020, 0, BY_HAND, 1,                                                 \
         (CUmemoryPool pool, CUmemPool_attribute attribute, void *value), (pool, attribute, value))                            \
    HOOK(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, 0, BY_HAND, 1, (CUmemoryPool pool, size_t keep), (pool, keep))             \
    HOOK(cuMemPoolSetAccess, "cuMemPoolSetAccess", 11020, 0, BY_HAND, 1,                                                       \
         (CUmemoryPool pool, const CUmemAccessDesc *map, size_t count), (pool, map, count))                                    \
    HOOK(cuMemPoolExportPointer, "cuMemPoolExportPointer", 11020, 0, BY_HAND, 1,                                               \
         (CUmemPoolPtrExportData *data, CUdeviceptr pointer), (data, pointer))                                                 \
    HOOK(cuDeviceSetMemPool, "cuDeviceSetMemPool", 11020, 0, BY_HAND, 1, (CUdevice device, CUmemoryPool pool), (device, pool)) \
    HOOK(cuMemSetMemPool, "cuMemSetMemPool", 13000, 0, BY_HAND, 1,                                                             \
         (CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool), (location, type, pool))                       \
    /* launches */                                                                                                             \
    HOOK_TWINS(HOOK, cuLaunchKernel, "cuLaunchKernel", 4000, _ptsz, 7000, BY_HAND, 1,                                          \
         (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,         \
          CUstream stream, void **parameters, void **extra),                                                                   \
         (f, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra))                                                       \
    HOOK_TWINS(HOOK, cuLaunchKernelEx, "cuLaunchKernelEx", 11060, _ptsz, 11060, BY_HAND, 1,                                    \
         (const CUlaunchConfig *config, CUfunction f, void **parameters, void **extra), (config, f, parameters, extra))        \
    HOOK_TWINS(HOOK, cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", 9000, _ptsz, 9000, BY_HAND, 1,                    \
         (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,         \
          CUstream stream, void **parameters),                                                                                 \
         (f, gx, gy, gz, bx, by, bz, shared, stream, parameters))                                                              \
    HOOK_TWINS(HOOK, cuGraphLaunch, "cuGraphLaunch", 10000, _ptsz, 10000, BY_HAND, 1, (CUgraphExec graph, CUstream stream),    \
         (graph, stream))                                                                                                      \
    /* modules */                                                                                                              \
    HOOK(cuModuleLoad, "cuModuleLoad", 2000, 0, BY_HAND, 1, (CUmodule *module, const char *path), (module, path))              \
    HOOK(cuModuleLoadData, "cuModuleLoadData", 2000, 0, BY_HAND, 1, (CUmodule *module, const void *image), (module, image))    \
    HOOK(cuModuleLoadDataEx, "cuModuleLoadDataEx", 2010, 0, BY_HAND, 1,                                                        \
         (CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values),                          \
         (module, image, count, options, values))                                                                              \
    HOOK(cuModuleLoadFatBinary, "cuModuleLoadFatBinary", 2000, 0, BY_HAND, 1, (CUmodule *module, const void *image),           \
         (module, image))                                                                                                      \
    HOOK(cuLibraryLoadData, "cuLibraryLoadData", 12000, 0, BY_HAND, 1,                                                         \
         (CUlibrary *library, const void *image, CUjit_option *jit_options, void **jit_values, unsigned jit_count,             \
          CUlibraryOption *options, void **values, unsigned count),                                                            \
         (library, image, jit_options, jit_values, jit_count, options, values, count))                                         \
    HOOK(cuLibraryLoadFromFile, "cuLibraryLoadFromFile", 12000, 0, BY_HAND, 1,                                                 \
         (CUlibrary *library, const char *path, CUjit_option *jit_options, void **jit_values, unsigned jit_count,              \
          CUlibraryOption *options, void **values, unsigned count),                                                            \
         (library, path, jit_options, jit_values, jit_count, options, values, count))                                          \
    HOOK(cuModuleUnload, "cuModuleUnload", 2000, 0, BY_HAND, 1, (CUmodule module), (module))                                   \
    HOOK(cuLibraryUnload, "cuLibraryUnload", 12000, 0, BY_HAND, 1, (CUlibrary library), (library))                             \
    /* synchronisation */                                                                                                      \
    HOOK_TWINS(HOOK, cuStreamSynchronize, "cuStreamSynchronize", 2000, _ptsz, 7000, BY_HAND, 1, (CUstream stream), (stream))   \
    HOOK(cuEventSynchronize, "cuEventSynchronize", 2000, 0, BY_HAND, 1, (CUevent event), (event))                              \
    HOOK(cuCtxSynchronize, "cuCtxSynchronize", 2000, 0, BY_HAND, 1, (void), ())                                                \
    HOOK(cuCtxSynchronize_v2, "cuCtxSynchronize", 13000, 0, BY_HAND, 1, (CUcontext context), (context))                        \
    HOOK_TWINS(HOOK, cuStreamQuery, "cuStreamQuery", 2000, _ptsz, 7000, BY_HAND, 1, (CUstream stream), (stream))               \
    HOOK(cuEventQuery, "cuEventQuery", 2000, 0, BY_HAND, 1, (CUevent event), (event))                                          \
    /* lifetimes of streams, contexts, captures and graphs */                                                                  \
    HOOK(cuStreamDestroy, "cuStreamDestroy", 2000, 0, BY_HAND, 1, (CUstream stream), (stream))                                 \
    HOOK(cuCtxDestroy, "cuCtxDestroy", 2000, 0, BY_HAND, 1, (CUcontext context), (context))                                    \
    HOOK(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7000, 0, BY_HAND, 1, (CUdevice device), (device))                 \
    HOOK(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 7000, 0, BY_HAND, 1, (CUdevice device), (device))             \
    HOOK_TWINS(HOOK, cuStreamBeginCapture, "cuStreamBeginCapture", 10000, _ptsz, 10000, BY_HAND, 1, (CUstream stream),         \
         (stream))                                                                                                             \
    HOOK(cuStreamDestroy_v2, "cuStreamDestroy", 4000, 0, BY_HAND, 1, (CUstream stream), (stream))                              \
    HOOK(cuCtxDestroy_v2, "cuCtxDestroy", 4000, 0, BY_HAND, 1, (CUcontext context), (context))                                 \
    HOOK(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", 4000, 0, BY_HAND, 1, (CUcontext context, unsigned flags),             \
         (context, flags))                                                                                                     \
    HOOK(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, 0, BY_HAND, 1, (CUdevice device), (device))             \
    HOOK(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, 0, BY_HAND, 1, (CUdevice device), (device))         \
    HOOK_TWINS(HOOK, cuStreamBeginCapture_v2, "cuStreamBeginCapture", 10010, _ptsz, 10010, BY_HAND, 1,                         \
         (CUstream stream, CUstreamCaptureMode mode), (stream, mode))                                                          \
    HOOK(cuGreenCtxCreate, "cuGreenCtxCreate", 12040, 0, BY_HAND, 1,                                                           \
         (CUgreenCtx *green, CUdevResourceDesc resources, CUdevice device, unsigned flags), (green, resources, device, flags)) \
    HOOK(cuGreenCtxDestroy, "cuGreenCtxDestroy", 12040, 0, BY_HAND, 1, (CUgreenCtx green), (green))                            \
    HOOK(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, 0, BY_HAND, 1, (CUcontext *context, CUdevice device),     \
         (context, device))                                                                                                    \
    HOOK_TWINS(HOOK, cuStreamBeginCaptureToGraph, "cuStreamBeginCaptureToGraph", 12030, _ptsz, 12030, BY_HAND, 1,              \
         (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count,                \
          CUstreamCaptureMode mode),                                                                                           \
         (stream, graph, nodes, edges, count, mode))                                                                           \
    HOOK_TWINS(HOOK, cuStreamWaitEvent, "cuStreamWaitEvent", 3020, _ptsz, 7000, BY_HAND, 1,                                    \
         (CUstream stream, CUevent event, unsigned flags), (stream, event, flags))                                             \
    HOOK_TWINS(HOOK, cuStreamUpdateCaptureDependencies, "cuStreamUpdateCaptureDependencies", 11030, _ptsz, 11030, BY_HAND, 1,  \
         (CUstream stream, CUgraphNode *nodes, size_t count, unsigned flags), (stream, nodes, count, flags))                   \
    HOOK_TWINS(HOOK, cuStreamUpdateCaptureDependencies_v2, "cuStreamUpdateCaptureDependencies", 12030, _ptsz, 12030, BY_HAND, 1, \
         (CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count, unsigned flags),                    \
         (stream, nodes, edges, count, flags))                                                                                 \
    HOOK_TWINS(HOOK, cuStreamEndCapture, "cuStreamEndCapture", 10000, _ptsz, 10000, BY_HAND, 1,                                \
         (CUstream stream, CUgraph *graph), (stream, graph))                                                                   \
    HOOK(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11040, 0, BY_HAND, 1,                                     \
         (CUgraphExec *executable, CUgraph graph, unsigned long long flags), (executable, graph, flags))                       \
    HOOK_TWINS(HOOK, cuGraphInstantiateWithParams, "cuGraphInstantiateWithParams", 12000, _ptsz, 12000, BY_HAND, 1,            \
         (CUgraphExec *executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters), (executable, graph, parameters)) \
    HOOK(cuGraphExecDestroy, "cuGraphExecDestroy", 10000, 0, BY_HAND, 1, (CUgraphExec executable), (executable))               \
    HOOK(cuGraphConditionalHandleCreate, "cuGraphConditionalHandleCreate", 12030, 0, BY_HAND, 1,                               \
         (CUgraphConditionalHandle *handle, CUgraph graph, CUcontext context, unsigned initial, unsigned flags),               \
         (handle, graph, context, initial, flags))                                                                             \
    /* kernels in graphs */                                                                                                    \
    HOOK(cuGraphAddKernelNode, "cuGraphAddKernelNode", 10000, 0, BY_HAND, 1,                                                   \
         (CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *kernel), \
         (node, graph, nodes, count, kernel))                                                                                  \
    HOOK(cuGraphAddKernelNode_v2, "cuGraphAddKernelNode", 12000, 0, BY_HAND, 1,                                                \
         (CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count, const CUDA_KERNEL_NODE_PARAMS_v2 *kernel), \
         (node, graph, nodes, count, kernel))                                                                                  \
    HOOK(cuGraphKernelNodeSetParams, "cuGraphKernelNodeSetParams", 10000, 0, BY_HAND, 1,                                       \
         (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *kernel), (node, kernel))                                         \
    HOOK(cuGraphKernelNodeSetParams_v2, "cuGraphKernelNodeSetParams", 12000, 0, BY_HAND, 1,                                    \
         (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *kernel), (node, kernel))                                         \
    HOOK(cuGraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams", 10010, 0, BY_HAND, 1,                               \
         (CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *kernel), (executable, node, kernel))     \
    HOOK(cuGraphExecKernelNodeSetParams_v2, "cuGraphExecKernelNodeSetParams", 12000, 0, BY_HAND, 1,                            \
         (CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *kernel), (executable, node, kernel))     \
    HOOK(cuGraphAddNode, "cuGraphAddNode", 12020, 0, BY_HAND, 1,                                                               \
         (CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count, CUgraphNodeParams *parameters),            \
         (node, graph, nodes, count, parameters))                                                                              \
    HOOK(cuGraphAddNode_v2, "cuGraphAddNode", 12030, 0, BY_HAND, 1,                                                            \
         (CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count,              \
          CUgraphNodeParams *parameters),                                                                                      \
         (node, graph, nodes, edges, count, parameters))                                                                       \
    HOOK(cuGraphNodeSetParams, "cuGraphNodeSetParams", 12020, 0, BY_HAND, 1,                                                   \
         (CUgraphNode node, CUgraphNodeParams *parameters), (node, parameters))                                                \
    HOOK(cuGraphExecNodeSetParams, "cuGraphExecNodeSetParams", 12020, 0, BY_HAND, 1,                                           \
         (CUgraphExec executable, CUgraphNode node, CUgraphNodeParams *parameters), (executable, node, parameters))            \
    /* events, and what else orders streams; followed with streams=on */                                                       \
    HOOK(cuEventCreate, "cuEventCreate", 2000, 0, ORDERS, order_event_made(*event, flags), (CUevent *event, unsigned flags),   \
         (event, flags))                                                                                                       \
    HOOK(cuEventDestroy, "cuEventDestroy", 2000, 0, BY_HAND, 1, (CUevent event), (event))                                      \
    HOOK(cuEventDestroy_v2, "cuEventDestroy", 4000, 0, BY_HAND, 1, (CUevent event), (event))                                   \
    HOOK_TWINS(HOOK, cuEventRecord, "cuEventRecord", 2000, _ptsz, 7000, ORDERS, order_event_recorded(event, meant(stream), 0), \
         (CUevent event, CUstream stream), (event, stream))                                                                    \
    HOOK_TWINS(HOOK, cuEventRecordWithFlags, "cuEventRecordWithFlags", 11010, _ptsz, 11010, ORDERS,                            \
         order_event_recorded(event, meant(stream), flags), (CUevent event, CUstream stream, unsigned flags),                  \
         (event, stream, flags))                                                                                               \
    HOOK(cuEventElapsedTime, "cuEventElapsedTime", 2000, 0, ORDERS,                                                            \
         (order_event_has_passed(start), order_event_has_passed(end)),                                                         \
         (float *milliseconds, CUevent start, CUevent end), (milliseconds, start, end))                                        \
    HOOK(cuEventElapsedTime_v2, "cuEventElapsedTime", 12080, 0, ORDERS,                                                        \
         (order_event_has_passed(start), order_event_has_passed(end)), (float *milliseconds, CUevent start, CUevent end),      \
         (milliseconds, start, end))                                                                                           \
    HOOK(cuCtxRecordEvent, "cuCtxRecordEvent", 12050, 0, ORDERS, order_event_records_all(event),                               \
         (CUcontext context, CUevent event), (context, event))                                                                 \
    HOOK(cuCtxWaitEvent, "cuCtxWaitEvent", 12050, 0, ORDERS, order_event_has_passed(event),                                    \
         (CUcontext context, CUevent event), (context, event))                                                                 \
    HOOK(cuGreenCtxRecordEvent, "cuGreenCtxRecordEvent", 12040, 0, ORDERS, order_event_records_all(event),                     \
         (CUgreenCtx green, CUevent event), (green, event))                                                                    \
    HOOK(cuGreenCtxWaitEvent, "cuGreenCtxWaitEvent", 12040, 0, ORDERS, order_event_has_passed(event),                          \
         (CUgreenCtx green, CUevent event), (green, event))                                                                    \
    HOOK_TWINS(HOOK, cuLaunchHostFunc, "cuLaunchHostFunc", 10000, _ptsz, 10000, ORDERS, order_host_is_told(meant(stream)),     \
         (CUstream stream, CUhostFn called, void *user), (stream, called, user))                                               \
    HOOK_TWINS(HOOK, cuStreamAddCallback, "cuStreamAddCallback", 5000, _ptsz, 7000, ORDERS, order_host_is_told(meant(stream)), \
         (CUstream stream, CUstreamCallback called, void *user, unsigned flags), (stream, called, user, flags))                \
    HOOK_TWINS(HOOK, cuStreamWaitValue32, "cuStreamWaitValue32", 8000, _ptsz, 8000, ORDERS,                                    \
         order_stream_waits_unseen(meant(stream)),                                                                             \
         (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags), (stream, address, value, flags))            \
    HOOK_TWINS(HOOK, cuStreamWriteValue32, "cuStreamWriteValue32", 8000, _ptsz, 8000, ORDERS,                                  \
         order_host_is_told(meant(stream)),                                                                                    \
         (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags), (stream, address, value, flags))            \
    HOOK_TWINS(HOOK, cuStreamWaitValue32_v2, "cuStreamWaitValue32", 11070, _ptsz, 11070, ORDERS,                               \
         order_stream_waits_unseen(meant(stream)),                                                                             \
         (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags), (stream, address, value, flags))            \
    HOOK_TWINS(HOOK, cuStreamWriteValue32_v2, "cuStreamWriteValue32", 11070, _ptsz, 11070, ORDERS,                             \
         order_host_is_told(meant(stream)),                                                                                    \
         (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags), (stream, address, value, flags))            \
    HOOK_TWINS(HOOK, cuStreamWaitValue64, "cuStreamWaitValue64", 9000, _ptsz, 9000, ORDERS,                                    \
         order_stream_waits_unseen(meant(stream)),                                                                             \
         (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags), (stream, address, value, flags))            \
    HOOK_TWINS(HOOK, cuStreamWriteValue64, "cuStreamWriteValue64", 9000, _ptsz, 9000, ORDERS,                                  \
         order_host_is_told(meant(stream)),                                                                                    \
         (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags), (stream, address, value, flags))            \
    HOOK_TWINS(HOOK, cuStreamWaitValue64_v2, "cuStreamWaitValue64", 11070, _ptsz, 11070, ORDERS,                               \
         order_stream_waits_unseen(meant(stream)),                                                                             \
         (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags), (stream, address, value, flags))            \
    HOOK_TWINS(HOOK, cuStreamWriteValue64_v2, "cuStreamWriteValue64", 11070, _ptsz, 11070, ORDERS,                             \
         order_host_is_told(meant(stream)),                                                                                    \
         (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags), (stream, address, value, flags))            \
    HOOK_TWINS(HOOK, cuStreamBatchMemOp, "cuStreamBatchMemOp", 8000, _ptsz, 8000, ORDERS,                                      \
         (order_stream_waits_unseen(meant(stream)), order_host_is_told(meant(stream))),                                        \
         (CUstream stream, unsigned count, CUstreamBatchMemOpParams *operations, unsigned flags),                              \
         (stream, count, operations, flags))                                                                                   \
    HOOK_TWINS(HOOK, cuStreamBatchMemOp_v2, "cuStreamBatchMemOp", 11070, _ptsz, 11070, ORDERS,                                 \
         (order_stream_waits_unseen(meant(stream)), order_host_is_told(meant(stream))),                                        \
         (CUstream stream, unsigned count, CUstreamBatchMemOpParams *operations, unsigned flags),                              \
         (stream, count, operations, flags))                                                                                   \
    HOOK_TWINS(HOOK, cuWaitExternalSemaphoresAsync, "cuWaitExternalSemaphoresAsync", 10000, _ptsz, 10000, ORDERS,              \
         order_stream_waits_unseen(meant(stream)),                                                                             \
         (const CUexternalSemaphore *semaphores, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *waits, unsigned count,             \
          CUstream stream),                                                                                                    \
         (semaphores, waits, count, stream))                                                                                   \
    HOOK(cuGraphAddEventRecordNode, "cuGraphAddEventRecordNode", 11010, 0, ORDERS, order_event_hidden(event),                  \
         (CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count, CUevent event),                            \
         (node, graph, nodes, count, event))                                                                                   \
    HOOK(cuGraphAddEventWaitNode, "cuGraphAddEventWaitNode", 11010, 0, ORDERS, order_graph_waits(),                            \
         (CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count, CUevent event),                            \
         (node, graph, nodes, count, event))                                                                                   \
    HOOK(cuGraphAddHostNode, "cuGraphAddHostNode", 10000, 0, ORDERS, order_graph_tells(),                                      \
         (CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count, const CUDA_HOST_NODE_PARAMS *what),        \
         (node, graph, nodes, count, what))                                                                                    \
    HOOK(cuGraphAddExternalSemaphoresWaitNode, "cuGraphAddExternalSemaphoresWaitNode", 11020, 0, ORDERS, order_graph_waits(),  \
         (CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count,                                            \
          const CUDA_EXT_SEM_WAIT_NODE_PARAMS *what),                                                                          \
         (node, graph, nodes, count, what))                                                                                    \
    HOOK(cuGraphAddBatchMemOpNode, "cuGraphAddBatchMemOpNode", 11070, 0, ORDERS, (order_graph_waits(), order_graph_tells()),   \
         (CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count,                                            \
          const CUDA_BATCH_MEM_OP_NODE_PARAMS *what),                                                                          \
         (node, graph, nodes, count, what))                                                                                    \
    HOOK(cuGraphEventRecordNodeSetEvent, "cuGraphEventRecordNodeSetEvent", 11010, 0, ORDERS, order_event_hidden(event),        \
         (CUgraphNode node, CUevent event), (node, event))                                                                     \
    HOOK(cuGraphExecEventRecordNodeSetEvent, "cuGraphExecEventRecordNodeSetEvent", 11010, 0, ORDERS,                           \
         order_event_hidden(event),                                                                                            \
         (CUgraphExec graph, CUgraphNode node, CUevent event), (graph, node, event))                                           \
    /* copies: the twins of synchronous ones end in _ptds */                                                                   \
    HOOK_TWINS(HOOK, cuMemcpy, "cuMemcpy", 4000, _ptds, 7000, COPIES_NOW, bounds_copy(to, from, size),                         \
         (CUdeviceptr to, CUdeviceptr from, size_t size), (to, from, size))                                                    \
    HOOK_TWINS(HOOK, cuMemcpyPeer, "cuMemcpyPeer", 4000, _ptds, 7000, COPIES_NOW, bounds_copy(to, from, size),                 \
         (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size),                        \
         (to, to_context, from, from_context, size))                                                                           \
    HOOK_TWINS(HOOK, cuMemcpyHtoD_v2, "cuMemcpyHtoD", 3020, _ptds, 7000, COPIES_NOW, bounds_write(to, size),                   \
         (CUdeviceptr to, const void *from, size_t size), (to, from, size))                                                    \
    HOOK_TWINS(HOOK, cuMemcpyDtoH_v2, "cuMemcpyDtoH", 3020, _ptds, 7000, COPIES_NOW, bounds_read(from, size),                  \
         (void *to, CUdeviceptr from, size_t size), (to, from, size))                                                          \
    HOOK_TWINS(HOOK, cuMemcpyDtoD_v2, "cuMemcpyDtoD", 3020, _ptds, 7000, COPIES_NOW, bounds_copy(to, from, size),              \
         (CUdeviceptr to, CUdeviceptr from, size_t size), (to, from, size))                                                    \
    HOOK_TWINS(HOOK, cuMemcpyDtoA_v2, "cuMemcpyDtoA", 3020, _ptds, 7000, COPIES_NOW, bounds_read(from, size),                  \
         (CUarray to, size_t offset, CUdeviceptr from, size_t size), (to, offset, from, size))                                 \
    HOOK_TWINS(HOOK, cuMemcpyAtoD_v2, "cuMemcpyAtoD", 3020, _ptds, 7000, COPIES_NOW, bounds_write(to, size),                   \
         (CUdeviceptr to, CUarray from, size_t offset, size_t size), (to, from, offset, size))                                 \
    HOOK_TWINS(HOOK, cuMemcpyAtoH_v2, "cuMemcpyAtoH", 3020, _ptds, 7000, COPIES_NOW, 1,                                        \
         (void *to, CUarray from, size_t offset, size_t size), (to, from, offset, size))                                       \
    HOOK_TWINS(HOOK, cuMemcpyHtoA_v2, "cuMemcpyHtoA", 3020, _ptds, 7000, COPIES_NOW, 1,                                        \
         (CUarray to, size_t offset, const void *from, size_t size), (to, offset, from, size))                                 \
    HOOK_TWINS(HOOK, cuMemcpyAtoA_v2, "cuMemcpyAtoA", 3020, _ptds, 7000, COPIES_NOW, 1,                                        \
         (CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t size),                                        \
         (to, to_offset, from, from_offset, size))                                                                             \
    HOOK_TWINS(HOOK, cuMemcpy2D_v2, "cuMemcpy2D", 3020, _ptds, 7000, COPIES_NOW, bounds_copy_2d(copy),                         \
         (const CUDA_MEMCPY2D *copy),                                                                                          \
         (copy))                                                                                                               \
    HOOK_TWINS(HOOK, cuMemcpy2DUnaligned_v2, "cuMemcpy2DUnaligned", 3020, _ptds, 7000, COPIES_NOW, bounds_copy_2d(copy),       \
         (const CUDA_MEMCPY2D *copy), (copy))                                                                                  \
    HOOK_TWINS(HOOK, cuMemcpy3D_v2, "cuMemcpy3D", 3020, _ptds, 7000, COPIES_NOW, bounds_copy_3d(copy),                         \
         (const CUDA_MEMCPY3D *copy),                                                                                          \
         (copy))                                                                                                               \
    HOOK_TWINS(HOOK, cuMemcpy3DPeer, "cuMemcpy3DPeer", 4000, _ptds, 7000, COPIES_NOW, 1, (const CUDA_MEMCPY3D_PEER *copy),     \
         (copy))                                                                                                               \
    HOOK_TWINS(HOOK, cuMemcpyAsync, "cuMemcpyAsync", 4000, _ptsz, 7000, COPIES_TO, bounds_copy(to, from, size),                \
         (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream), (to, from, size, stream))                           \
    HOOK_TWINS(HOOK, cuMemcpyPeerAsync, "cuMemcpyPeerAsync", 4000, _ptsz, 7000, COPIES, bounds_copy(to, from, size),           \
         (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size, CUstream stream),       \
         (to, to_context, from, from_context, size, stream))                                                                   \
    HOOK_TWINS(HOOK, cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync", 3020, _ptsz, 7000, COPIES, bounds_write(to, size),             \
         (CUdeviceptr to, const void *from, size_t size, CUstream stream), (to, from, size, stream))                           \
    HOOK_TWINS(HOOK, cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync", 3020, _ptsz, 7000, COPIES_TO, bounds_read(from, size),         \
         (void *to, CUdeviceptr from, size_t size, CUstream stream), (to, from, size, stream))                                 \
    HOOK_TWINS(HOOK, cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync", 3020, _ptsz, 7000, COPIES, bounds_copy(to, from, size),        \
         (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream), (to, from, size, stream))                           \
    HOOK_TWINS(HOOK, cuMemcpyAtoHAsync_v2, "cuMemcpyAtoHAsync", 3020, _ptsz, 7000, COPIES, 1,                                  \
         (void *to, CUarray from, size_t offset, size_t size, CUstream stream), (to, from, offset, size, stream))              \
    HOOK_TWINS(HOOK, cuMemcpyHtoAAsync_v2, "cuMemcpyHtoAAsync", 3020, _ptsz, 7000, COPIES, 1,                                  \
         (CUarray to, size_t offset, const void *from, size_t size, CUstream stream), (to, offset, from, size, stream))        \
    HOOK_TWINS(HOOK, cuMemcpy2DAsync_v2, "cuMemcpy2DAsync", 3020, _ptsz, 7000, COPIES, bounds_copy_2d(copy),                   \
         (const CUDA_MEMCPY2D *copy, CUstream stream), (copy, stream))                                                         \
    HOOK_TWINS(HOOK, cuMemcpy3DAsync_v2, "cuMemcpy3DAsync", 3020, _ptsz, 7000, COPIES, bounds_copy_3d(copy),                   \
         (const CUDA_MEMCPY3D *copy, CUstream stream), (copy, stream))                                                         \
    HOOK_TWINS(HOOK, cuMemcpy3DPeerAsync, "cuMemcpy3DPeerAsync", 4000, _ptsz, 7000, COPIES, 1,                                 \
         (const CUDA_MEMCPY3D_PEER *copy, CUstream stream), (copy, stream))                                                    \
    /* sets: of device memory, they don't wait */                                                                              \
    HOOK_TWINS(HOOK, cuMemsetD8_v2, "cuMemsetD8", 3020, _ptds, 7000, SETS, bounds_set(to, 1, count),                           \
         (CUdeviceptr to, unsigned char value, size_t count), (to, value, count))                                              \
    HOOK_TWINS(HOOK, cuMemsetD16_v2, "cuMemsetD16", 3020, _ptds, 7000, SETS, bounds_set(to, 2, count),                         \
         (CUdeviceptr to, unsigned short value, size_t count), (to, value, count))                                             \
    HOOK_TWINS(HOOK, cuMemsetD32_v2, "cuMemsetD32", 3020, _ptds, 7000, SETS, bounds_set(to, 4, count),                         \
         (CUdeviceptr to, unsigned value, size_t count), (to, value, count))                                                   \
    HOOK_TWINS(HOOK, cuMemsetD2D8_v2, "cuMemsetD2D8", 3020, _ptds, 7000, SETS, bounds_set_2d(to, pitch, 1, width, height),     \
         (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height), (to, pitch, value, width, height))  \
    HOOK_TWINS(HOOK, cuMemsetD2D16_v2, "cuMemsetD2D16", 3020, _ptds, 7000, SETS, bounds_set_2d(to, pitch, 2, width, height),   \
         (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height), (to, pitch, value, width, height)) \
    HOOK_TWINS(HOOK, cuMemsetD2D32_v2, "cuMemsetD2D32", 3020, _ptds, 7000, SETS, bounds_set_2d(to, pitch, 4, width, height),   \
         (CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height), (to, pitch, value, width, height))       \
    HOOK_TWINS(HOOK, cuMemsetD8Async, "cuMemsetD8Async", 3020, _ptsz, 7000, COPIES, bounds_set(to, 1, count),                  \
         (CUdeviceptr to, unsigned char value, size_t count, CUstream stream), (to, value, count, stream))                     \
    HOOK_TWINS(HOOK, cuMemsetD16Async, "cuMemsetD16Async", 3020, _ptsz, 7000, COPIES, bounds_set(to, 2, count),                \
         (CUdeviceptr to, unsigned short value, size_t count, CUstream stream), (to, value, count, stream))                    \
    HOOK_TWINS(HOOK, cuMemsetD32Async, "cuMemsetD32Async", 3020, _ptsz, 7000, COPIES, bounds_set(to, 4, count),                \
         (CUdeviceptr to, unsigned value, size_t count, CUstream stream), (to, value, count, stream))                          \
    HOOK_TWINS(HOOK, cuMemsetD2D8Async, "cuMemsetD2D8Async", 3020, _ptsz, 7000, COPIES,                                        \
         bounds_set_2d(to, pitch, 1, width, height),                                                                           \
         (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream),                    \
         (to, pitch, value, width, height, stream))                                                                            \
    HOOK_TWINS(HOOK, cuMemsetD2D16Async, "cuMemsetD2D16Async", 3020, _ptsz, 7000, COPIES,                                      \
         bounds_set_2d(to, pitch, 2, width, height),                                                                           \
         (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream),                   \
         (to, pitch, value, width, height, stream))                                                                            \
    HOOK_TWINS(HOOK, cuMemsetD2D32Async, "cuMemsetD2D32Async", 3020, _ptsz, 7000, COPIES,                                      \
         bounds_set_2d(to, pitch, 4, width, height),                                                                           \
         (CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height, CUstream stream),                         \
         (to, pitch, value, width, height, stream))

#define PRELOAD_PASSED(PASSED)                                                                                                 \
    PASSED("cuMemAlloc", 2000, 0, "32-bit addresses")                                                                          \
    PASSED("cuMemAllocPitch", 2000, 0, "32-bit addresses")                                                                     \
    PASSED("cuMemFree", 2000, 0, "32-bit addresses")                                                                           \
    PASSED("cuMemGetInfo", 2000, 0, "32-bit sizes")                                                                            \
    PASSED("cuMemGetAddressRange", 2000, 0, "32-bit addresses")                                                                \
    PASSED("cuMemAllocHost", 2000, 0, "32-bit sizes")                                                                          \
    PASSED("cuMemHostRegister", 4000, 0, "obsolete since CUDA 6.5: kernels may not know it by its host address")               \
    PASSED("cuMemPoolExportToShareableHandle", 11020, 0, "pools for other processes are left to the driver as a whole")        \
    PASSED("cuMemPoolImportFromShareableHandle", 11020, 0, "imported memory")                                                  \
    PASSED("cuMemPoolImportPointer", 11020, 0, "imported memory")                                                              \
    PASSED("cuMemPoolGetAccess", 11020, 0, "the driver keeps what cuMemPoolSetAccess told it")                                 \
    PASSED("cuDeviceGetDefaultMemPool", 11020, 0, "the driver's own handle names our pool too")                                \
    PASSED("cuDeviceGetMemPool", 11020, 0, "the driver's own handle names our pool too")                                       \
    PASSED("cuMemGetDefaultMemPool", 13000, 0, "the driver's own handle names our pool too")                                   \
    PASSED("cuMemGetMemPool", 13000, 0, "the driver's own handle names our pool too")                                          \
    PASSED("cuLaunch", 2000, 0, "its arguments are set by cuParamSet*, obsolete since CUDA 4")                                 \
    PASSED("cuLaunchGrid", 2000, 0, "its arguments are set by cuParamSet*, obsolete since CUDA 4")                             \
    PASSED("cuLaunchGridAsync", 2000, 0, "its arguments are set by cuParamSet*, obsolete since CUDA 4")                        \
    PASSED("cuLaunchCooperativeKernelMultiDevice", 9000, 0, "deprecated; a fault in it is reported without its launch")        \
    PASSED("cuDevicePrimaryCtxGetState", 7000, 0, "only asks")                                                                 \
    PASSED("cuDevicePrimaryCtxSetFlags", 7000, 0, "scheduling only")                                                           \
    PASSED("cuDevicePrimaryCtxSetFlags", 11000, 0, "scheduling only")                                                          \
    PASSED("cuStreamBeginRecaptureToGraph", 13010, 0, "noticed at each allocation; its memory stays")                          \
    PASSED("cuMemcpyBatchAsync", 12080, 0, "a copy that leaves a mapping is refused by the driver")                            \
    PASSED("cuMemcpyBatchAsync", 12080, 1, "a copy that leaves a mapping is refused by the driver")                            \
    PASSED("cuMemcpyBatchAsync", 13000, 0, "a copy that leaves a mapping is refused by the driver")                            \
    PASSED("cuMemcpyBatchAsync", 13000, 1, "a copy that leaves a mapping is refused by the driver")                            \
    PASSED("cuMemcpy3DBatchAsync", 12080, 0, "a copy that leaves a mapping is refused by the driver")                          \
    PASSED("cuMemcpy3DBatchAsync", 12080, 1, "a copy that leaves a mapping is refused by the driver")                          \
    PASSED("cuMemcpy3DBatchAsync", 13000, 0, "a copy that leaves a mapping is refused by the driver")                          \
    PASSED("cuMemcpy3DBatchAsync", 13000, 1, "a copy that leaves a mapping is refused by the driver")                          \
    PASSED("cuMemcpyHtoD", 2000, 0, "32-bit addresses")                                                                        \
    PASSED("cuMemcpyDtoH", 2000, 0, "32-bit addresses")                                                                        \
    PASSED("cuMemcpyDtoD", 2000, 0, "32-bit addresses")                                                                        \
    PASSED("cuMemcpyDtoA", 2000, 0, "32-bit addresses")                                                                        \
    PASSED("cuMemcpyAtoD", 2000, 0, "32-bit addresses")                                                                        \
    PASSED("cuMemcpyAtoH", 2000, 0, "32-bit sizes")                                                                            \
    PASSED("cuMemcpyHtoA", 2000, 0, "32-bit sizes")                                                                            \
    PASSED("cuMemcpyAtoA", 2000, 0, "32-bit sizes")                                                                            \
    PASSED("cuMemcpy2D", 2000, 0, "32-bit addresses")                                                                          \
    PASSED("cuMemcpy2DUnaligned", 2000, 0, "32-bit addresses")                                                                 \
    PASSED("cuMemcpy3D", 2000, 0, "32-bit addresses")                                                                          \
    PASSED("cuMemcpyHtoDAsync", 2000, 0, "32-bit addresses")                                                                   \
    PASSED("cuMemcpyDtoHAsync", 2000, 0, "32-bit addresses")                                                                   \
    PASSED("cuMemcpyDtoDAsync", 3000, 0, "32-bit addresses")                                                                   \
    PASSED("cuMemcpyHtoAAsync", 2000, 0, "32-bit sizes")                                                                       \
    PASSED("cuMemcpyAtoHAsync", 2000, 0, "32-bit sizes")                                                                       \
    PASSED("cuMemcpy2DAsync", 2000, 0, "32-bit addresses")                                                                     \
    PASSED("cuMemcpy3DAsync", 2000, 0, "32-bit addresses")                                                                     \
    PASSED("cuMemsetD8", 2000, 0, "32-bit addresses")                                                                          \
    PASSED("cuMemsetD16", 2000, 0, "32-bit addresses")                                                                         \
    PASSED("cuMemsetD32", 2000, 0, "32-bit addresses")                                                                         \
    PASSED("cuMemsetD2D8", 2000, 0, "32-bit addresses")                                                                        \
    PASSED("cuMemsetD2D16", 2000, 0, "32-bit addresses")                                                                       \
    PASSED("cuMemsetD2D32", 2000, 0, "32-bit addresses")
/* clang-format on */

#endif
