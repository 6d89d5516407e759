/*
 * Rows of hooks.h for what few programs call, or few calls of a program: what takes device memory beside allocations, or works
 * with memory in rarer ways.
 */
#pragma once

#include "newer_types.h"

/* As in hooks.h. */
#undef cuCtxCreate
#undef cuModuleGetGlobal
#undef cuGraphUpload
#undef cuIpcOpenMemHandle
#undef cuGraphicsMapResources
#undef cuGraphicsUnmapResources
#undef cuSignalExternalSemaphoresAsync
#undef cuMemBatchDecompressAsync
#undef cuFabricCpyBatchAsync
#undef cuStreamBeginCaptureToCig
#undef cuStreamEndCaptureToCig

/* Takes device memory for itself: gets what cufence keeps before it fails. */
#define HOOK_RELIEF(HOOK, name, version, parameters, arguments)                                                                \
    HOOK(name, #name, version, 0, BEFORE, (void)0, parameters, arguments)
/* Makes a stream, which may be asked for whether it works. */
#define HOOK_STREAM(HOOK, name, version, parameters, arguments)                                                                \
    HOOK(name, #name, version, 0, AFTER, is_active() ? stream_resolve(*stream) : NULL, parameters, arguments)

/* clang-format off */
#define RARE_HOOKS(HOOK)                                                                                                       \
    /* contexts and streams */                                                                                                 \
    HOOK_RENEWED(HOOK, cuCtxCreate, 2000, 3020, BEFORE, (void)0, (CUcontext *context, unsigned flags, CUdevice device),        \
                 (context, flags, device))                                                                                     \
    HOOK(cuCtxCreate_v3, "cuCtxCreate", 11040, 0, BEFORE, (void)0,                                                             \
         (CUcontext *context, CUexecAffinityParam *affinities, int count, unsigned flags, CUdevice device),                    \
         (context, affinities, count, flags, device))                                                                          \
    HOOK(cuCtxCreate_v4, "cuCtxCreate", 12050, 0, BEFORE, (void)0,                                                             \
         (CUcontext *context, CUctxCreateParams *wanted, unsigned flags, CUdevice device), (context, wanted, flags, device))   \
    HOOK_RELIEF(HOOK, cuCtxSetLimit, 3010, (CUlimit limit, size_t value), (limit, value))                                      \
    HOOK_STREAM(HOOK, cuStreamCreate, 2000, (CUstream *stream, unsigned flags), (stream, flags))                               \
    HOOK_STREAM(HOOK, cuStreamCreateWithPriority, 5050, (CUstream *stream, unsigned flags, int priority),                      \
                (stream, flags, priority))                                                                                     \
    HOOK_STREAM(HOOK, cuGreenCtxStreamCreate, 12050, (CUstream *stream, CUgreenCtx green, unsigned flags, int priority),       \
                (stream, green, flags, priority))                                                                              \
    /* code, which is loaded when it is first asked for */                                                                     \
    HOOK_RELIEF(HOOK, cuModuleGetFunction, 2000, (CUfunction *out, CUmodule module, const char *name),                         \
                (out, module, name))                                                                                           \
    HOOK(cuModuleGetGlobal_v2, "cuModuleGetGlobal", 3020, 0, BEFORE, (void)0,                                                  \
         (CUdeviceptr *out, size_t *size, CUmodule module, const char *name), (out, size, module, name))                       \
    HOOK_RELIEF(HOOK, cuLibraryGetKernel, 12000, (CUkernel *kernel, CUlibrary library, const char *name),                      \
                (kernel, library, name))                                                                                       \
    HOOK_RELIEF(HOOK, cuLibraryGetModule, 12000, (CUmodule *module, CUlibrary library), (module, library))                     \
    HOOK_RELIEF(HOOK, cuLibraryGetGlobal, 12000, (CUdeviceptr *out, size_t *size, CUlibrary library, const char *name),        \
                (out, size, library, name))                                                                                    \
    HOOK_RELIEF(HOOK, cuLibraryGetManaged, 12000, (CUdeviceptr *out, size_t *size, CUlibrary library, const char *name),       \
                (out, size, library, name))                                                                                    \
    HOOK_RELIEF(HOOK, cuLibraryGetUnifiedFunction, 12000, (void **out, CUlibrary library, const char *symbol),                 \
                (out, library, symbol))                                                                                        \
    HOOK_RELIEF(HOOK, cuKernelGetFunction, 12000, (CUfunction *out, CUkernel kernel), (out, kernel))                           \
    HOOK_RELIEF(HOOK, cuKernelSetAttribute, 12000, (CUfunction_attribute attribute, int value, CUkernel kernel,                \
                CUdevice device), (attribute, value, kernel, device))                                                          \
    HOOK_RELIEF(HOOK, cuKernelSetCacheConfig, 12000, (CUkernel kernel, CUfunc_cache config, CUdevice device),                  \
                (kernel, config, device))                                                                                      \
    HOOK_RELIEF(HOOK, cuFuncLoad, 12040, (CUfunction f), (f))                                                                  \
    HOOK_TWINS(HOOK, cuGraphUpload, "cuGraphUpload", 11010, _ptsz, 11010, BEFORE, graph_makes_room(graph),                     \
         (CUgraphExec graph, CUstream stream), (graph, stream))                                                                \
    /* graphs whose handles may have been those of captured ones, or will be those of child graphs */                           \
    HOOK(cuGraphCreate, "cuGraphCreate", 10000, 0, AFTER, graph_made(*graph), (CUgraph *graph, unsigned flags), (graph, flags))\
    HOOK(cuGraphDestroy, "cuGraphDestroy", 10000, 0, BEFORE, heap_graph_made(graph), (CUgraph graph), (graph))               \
    HOOK(cuGraphClone, "cuGraphClone", 10000, 0, AFTER, graph_made(*graph), (CUgraph *graph, CUgraph original),                \
         (graph, original))                                                                                                    \
    /* memory that the program maps itself. Addresses of ours are refused as those of cuMemAlloc are */                        \
    HOOK(cuMemMap, "cuMemMap", 10020, 0, NOT_OURS, address,                                                                    \
         (CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags),     \
         (address, size, offset, handle, flags))                                                                               \
    HOOK(cuMemUnmap, "cuMemUnmap", 10020, 0, NOT_OURS, address, (CUdeviceptr address, size_t size), (address, size))           \
    HOOK(cuMemSetAccess, "cuMemSetAccess", 10020, 0, NOT_OURS, address,                                                        \
         (CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count), (address, size, access, count))      \
    HOOK(cuMemAddressFree, "cuMemAddressFree", 10020, 0, NOT_OURS, address, (CUdeviceptr address, size_t size),                \
         (address, size))                                                                                                      \
    HOOK(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000, 0, NOT_OURS, (uintptr_t)address,                   \
         (CUmemGenericAllocationHandle *handle, void *address), (handle, address))                                             \
    HOOK_RELIEF(HOOK, cuMulticastCreate, 12010,                                                                                \
                (CUmemGenericAllocationHandle *multicast, const CUmulticastObjectProp *properties), (multicast, properties))   \
    HOOK_RELIEF(HOOK, cuMulticastAddDevice, 12010, (CUmemGenericAllocationHandle multicast, CUdevice device),                  \
                (multicast, device))                                                                                           \
    HOOK_RELIEF(HOOK, cuMulticastBindMem, 12010,                                                                               \
                (CUmemGenericAllocationHandle multicast, size_t at, CUmemGenericAllocationHandle memory, size_t offset,        \
                 size_t size, unsigned long long flags), (multicast, at, memory, offset, size, flags))                         \
    HOOK(cuMulticastBindMem_v2, "cuMulticastBindMem", 13010, 0, BEFORE, (void)0,                                               \
         (CUmemGenericAllocationHandle multicast, CUdevice device, size_t at, CUmemGenericAllocationHandle memory,             \
          size_t offset, size_t size, unsigned long long flags), (multicast, device, at, memory, offset, size, flags))         \
    HOOK_RELIEF(HOOK, cuMulticastBindAddr, 12010,                                                                              \
                (CUmemGenericAllocationHandle multicast, size_t at, CUdeviceptr address, size_t size, unsigned long long flags),\
                (multicast, at, address, size, flags))                                                                         \
    HOOK(cuMulticastBindAddr_v2, "cuMulticastBindAddr", 13010, 0, BEFORE, (void)0,                                             \
         (CUmemGenericAllocationHandle multicast, CUdevice device, size_t at, CUdeviceptr address, size_t size,                \
          unsigned long long flags), (multicast, device, at, address, size, flags))                                            \
    HOOK_RELIEF(HOOK, cuLogicalEndpointCreate, 13030, (endpoint_id id, const endpoint_properties *properties),                 \
                (id, properties))                                                                                              \
    HOOK_RELIEF(HOOK, cuLogicalEndpointImport, 13030, (endpoint_id id, const void *handle, endpoint_handle_type type),         \
                (id, handle, type))                                                                                            \
    HOOK_RELIEF(HOOK, cuLogicalEndpointBindAddr, 13030,                                                                        \
                (endpoint_id id, CUdevice device, cuuint64_t at, void *address, cuuint64_t size, unsigned long long flags),    \
                (id, device, at, address, size, flags))                                                                        \
    HOOK_RELIEF(HOOK, cuLogicalEndpointBindMem, 13030,                                                                         \
                (endpoint_id id, CUdevice device, cuuint64_t at, CUmemGenericAllocationHandle memory, cuuint64_t offset,       \
                 cuuint64_t size, unsigned long long flags), (id, device, at, memory, offset, size, flags))                    \
    /* memory of others: left to the driver, which maps it */                                                                  \
    HOOK_RENEWED(HOOK, cuIpcOpenMemHandle, 4010, 11000, BEFORE, (void)0,                                                       \
                 (CUdeviceptr *out, CUipcMemHandle handle, unsigned flags), (out, handle, flags))                              \
    HOOK_RELIEF(HOOK, cuMemPoolImportFromShareableHandle, 11020,                                                               \
                (CUmemoryPool *pool, void *handle, CUmemAllocationHandleType type, unsigned long long flags),                  \
                (pool, handle, type, flags))                                                                                   \
    HOOK_RELIEF(HOOK, cuMemPoolImportPointer, 11020, (CUdeviceptr *out, CUmemoryPool pool, CUmemPoolPtrExportData *data),      \
                (out, pool, data))                                                                                             \
    HOOK_RELIEF(HOOK, cuImportExternalMemory, 10000,                                                                           \
                (CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *wanted), (memory, wanted))                  \
    HOOK_RELIEF(HOOK, cuExternalMemoryGetMappedBuffer, 10000,                                                                  \
                (CUdeviceptr *out, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *wanted),                   \
                (out, memory, wanted))                                                                                         \
    HOOK_RELIEF(HOOK, cuExternalMemoryGetMappedMipmappedArray, 10000,                                                          \
                (CUmipmappedArray *array, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *wanted),   \
                (array, memory, wanted))                                                                                       \
    HOOK_RELIEF(HOOK, cuSurfObjectCreate, 5000, (CUsurfObject *object, const CUDA_RESOURCE_DESC *resource),                    \
                (object, resource))                                                                                            \
    /* what orders streams by way of another API */                                                                            \
    HOOK_TWINS(HOOK, cuGraphicsMapResources, "cuGraphicsMapResources", 3000, _ptsz, 7000, ORDERS,                              \
         order_stream_waits_unseen(meant(stream)), (unsigned count, CUgraphicsResource *resources, CUstream stream),           \
         (count, resources, stream))                                                                                           \
    HOOK_TWINS(HOOK, cuGraphicsUnmapResources, "cuGraphicsUnmapResources", 3000, _ptsz, 7000, ORDERS,                          \
         order_host_learns(meant(stream)), (unsigned count, CUgraphicsResource *resources, CUstream stream),                   \
         (count, resources, stream))                                                                                           \
    HOOK_TWINS(HOOK, cuSignalExternalSemaphoresAsync, "cuSignalExternalSemaphoresAsync", 10000, _ptsz, 10000, ORDERS,          \
         order_host_learns(meant(stream)),                                                                                     \
         (const CUexternalSemaphore *semaphores, const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *signals, unsigned count,         \
          CUstream stream), (semaphores, signals, count, stream))                                                              \
    HOOK_NODE(HOOK, cuGraphAddExternalSemaphoresSignalNode, "cuGraphAddExternalSemaphoresSignalNode", 11020, ORDERS,           \
         order_graph_tells(), const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *)                                                         \
    HOOK_TWINS(HOOK, cuStreamBeginCaptureToCig, "cuStreamBeginCaptureToCig", 13010, _ptsz, 13010, BEGINS, 1,                   \
         (CUstream stream, cig_parameters *parameters), (stream, parameters))                                                  \
    HOOK_TWINS(HOOK, cuStreamEndCaptureToCig, "cuStreamEndCaptureToCig", 13010, _ptsz, 13010, BY_HAND, 1, (CUstream stream),   \
         (stream))                                                                                                             \
    /* copies and sets */                                                                                                      \
    HOOK(cuPointerSetAttribute, "cuPointerSetAttribute", 6000, 0, INSTEAD, pointer_set,                                        \
         (const void *value, CUpointer_attribute attribute, CUdeviceptr pointer), (value, attribute, pointer))                 \
    HOOK_TWINS(HOOK, cuMemBatchDecompressAsync, "cuMemBatchDecompressAsync", 12060, _ptsz, 12060, COPIES,                      \
         bounds_decompression(parts, count),                                                                                   \
         (CUmemDecompressParams *parts, size_t count, unsigned flags, size_t *failed, CUstream stream),                        \
         (parts, count, flags, failed, stream))                                                                                \
    HOOK_TWINS(HOOK, cuFabricCpyBatchAsync, "cuFabricCpyBatchAsync", 13050, _ptsz, 13050, COPIES, bounds_fabric(copies, count),\
         (size_t count, fabric_copy *copies, unsigned long long flags, CUstream stream), (count, copies, flags, stream))       \
    HOOK(cuGraphAddMemsetNode, "cuGraphAddMemsetNode", 10000, 0, CHECKS, bounds_node_sets(set),                                \
         (CUgraphNode *node, CUgraph graph, const CUgraphNode *nodes, size_t count, const CUDA_MEMSET_NODE_PARAMS *set,        \
          CUcontext context), (node, graph, nodes, count, set, context))                                                       \
    HOOK(cuGraphExecChildGraphNodeSetParams, "cuGraphExecChildGraphNodeSetParams", 11010, 0, AFTER,                            \
         keepers_forget(executable, node, 0), (CUgraphExec executable, CUgraphNode node, CUgraph child),                       \
         (executable, node, child))                                                                                            \
    HOOK(cuGraphNodeSetEnabled, "cuGraphNodeSetEnabled", 11060, 0, AFTER,                                                      \
         is_active() ? keepers_enable(executable, node, is_on != 0) : (void)0,                                                 \
         (CUgraphExec executable, CUgraphNode node, unsigned is_on), (executable, node, is_on))                                \
    HOOK(cuGraphMemsetNodeSetParams, "cuGraphMemsetNodeSetParams", 10000, 0, CHECKS, bounds_node_sets(set),                    \
         (CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *set), (node, set))                                                  \
    HOOK(cuGraphExecMemsetNodeSetParams, "cuGraphExecMemsetNodeSetParams", 10020, 0, CHECKS,                                   \
         keepers_change(call, executable, node) && bounds_node_sets(set),                                                      \
         (CUgraphExec executable, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *set, CUcontext context),                    \
         (executable, node, set, context))

/* clang-format on */
