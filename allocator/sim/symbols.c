#include "call.h"
#include "config.h"
#include "stream.h"

#include <string.h>

/* Original forms of functions whose names are macros in cuda.h. */
CUresult begin_capture_v1(CUstream hStream) __asm__("cuStreamBeginCapture");
CUresult begin_capture_v1_ptsz(CUstream hStream) __asm__("cuStreamBeginCapture_ptsz");
CUresult get_uuid_v1(CUuuid *uuid, CUdevice device) __asm__("cuDeviceGetUuid");
CUresult elapsed_time_v1(float *pMilliseconds, CUevent hStart, CUevent hEnd) __asm__("cuEventElapsedTime");
CUresult get_capture_info_v1(CUstream, CUstreamCaptureStatus *, cuuint64_t *) __asm__("cuStreamGetCaptureInfo");
CUresult get_capture_info_v1_ptsz(CUstream, CUstreamCaptureStatus *, cuuint64_t *) __asm__("cuStreamGetCaptureInfo_ptsz");
CUresult update_dependencies_v1(CUstream, CUgraphNode *, size_t, unsigned) __asm__("cuStreamUpdateCaptureDependencies");
CUresult update_dependencies_v1_ptsz(CUstream, CUgraphNode *, size_t,
                                     unsigned) __asm__("cuStreamUpdateCaptureDependencies_ptsz");
CUresult add_node_v1(CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraphNodeParams *) __asm__("cuGraphAddNode");
CUresult attach(CUcontext *, unsigned) __asm__("cuCtxAttach"); /* deprecated */
CUresult detach(CUcontext) __asm__("cuCtxDetach");
CUresult cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);
CUresult cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *, const CUgraphNode **, size_t *);

/*
 * Functions with a variant for programs compiled with per-thread default streams: the same function, with a different meaning
 * of the NULL stream while it runs. Name, what the variant's name ends with, CUDA version that introduced the form, parameters,
 * arguments. The versions in this file are those of cudaTypedefs.h.
 */
#define TWINS(T)                                                                                                               \
    T(cuMemcpy, _ptds, 4000, (CUdeviceptr a, CUdeviceptr b, size_t n), (a, b, n))                                              \
    T(cuMemcpyHtoD, _v2_ptds, 3020, (CUdeviceptr a, const void *b, size_t n), (a, b, n))                                       \
    T(cuMemcpyDtoH, _v2_ptds, 3020, (void *a, CUdeviceptr b, size_t n), (a, b, n))                                             \
    T(cuMemcpyDtoD, _v2_ptds, 3020, (CUdeviceptr a, CUdeviceptr b, size_t n), (a, b, n))                                       \
    T(cuMemsetD8, _v2_ptds, 3020, (CUdeviceptr a, unsigned char v, size_t n), (a, v, n))                                       \
    T(cuMemsetD16, _v2_ptds, 3020, (CUdeviceptr a, unsigned short v, size_t n), (a, v, n))                                     \
    T(cuMemsetD32, _v2_ptds, 3020, (CUdeviceptr a, unsigned int v, size_t n), (a, v, n))                                       \
    T(cuMemcpyAsync, _ptsz, 4000, (CUdeviceptr a, CUdeviceptr b, size_t n, CUstream s), (a, b, n, s))                          \
    T(cuMemcpyHtoDAsync, _v2_ptsz, 3020, (CUdeviceptr a, const void *b, size_t n, CUstream s), (a, b, n, s))                   \
    T(cuMemcpyDtoHAsync, _v2_ptsz, 3020, (void *a, CUdeviceptr b, size_t n, CUstream s), (a, b, n, s))                         \
    T(cuMemcpyDtoDAsync, _v2_ptsz, 3020, (CUdeviceptr a, CUdeviceptr b, size_t n, CUstream s), (a, b, n, s))                   \
    T(cuMemsetD8Async, _ptsz, 3020, (CUdeviceptr a, unsigned char v, size_t n, CUstream s), (a, v, n, s))                      \
    T(cuMemsetD16Async, _ptsz, 3020, (CUdeviceptr a, unsigned short v, size_t n, CUstream s), (a, v, n, s))                    \
    T(cuMemsetD32Async, _ptsz, 3020, (CUdeviceptr a, unsigned int v, size_t n, CUstream s), (a, v, n, s))                      \
    T(cuMemcpyPeer, _ptds, 4000, (CUdeviceptr a, CUcontext x, CUdeviceptr b, CUcontext y, size_t n), (a, x, b, y, n))          \
    T(cuMemcpyPeerAsync, _ptsz, 4000, (CUdeviceptr a, CUcontext x, CUdeviceptr b, CUcontext y, size_t n, CUstream s),          \
      (a, x, b, y, n, s))                                                                                                      \
    T(cuMemcpy3DPeer, _ptds, 4000, (const CUDA_MEMCPY3D_PEER *c), (c))                                                         \
    T(cuMemcpy3DPeerAsync, _ptsz, 4000, (const CUDA_MEMCPY3D_PEER *c, CUstream s), (c, s))                                     \
    T(cuMemcpyBatchAsync, _v2_ptsz, 13000,                                                                                     \
      (CUdeviceptr * a, CUdeviceptr * b, size_t * n, size_t c, CUmemcpyAttributes * t, size_t * i, size_t k, CUstream s),      \
      (a, b, n, c, t, i, k, s))                                                                                                \
    T(cuMemcpy3DBatchAsync, _v2_ptsz, 13000, (size_t n, CUDA_MEMCPY3D_BATCH_OP * o, unsigned long long f, CUstream s),         \
      (n, o, f, s))                                                                                                            \
    T(cuMemcpyDtoA, _v2_ptds, 3020, (CUarray a, size_t o, CUdeviceptr b, size_t n), (a, o, b, n))                              \
    T(cuMemcpyAtoD, _v2_ptds, 3020, (CUdeviceptr a, CUarray b, size_t o, size_t n), (a, b, o, n))                              \
    T(cuMemcpy2D, _v2_ptds, 3020, (const CUDA_MEMCPY2D *c), (c))                                                               \
    T(cuMemcpy2DUnaligned, _v2_ptds, 3020, (const CUDA_MEMCPY2D *c), (c))                                                      \
    T(cuMemcpy2DAsync, _v2_ptsz, 3020, (const CUDA_MEMCPY2D *c, CUstream s), (c, s))                                           \
    T(cuMemcpy3D, _v2_ptds, 3020, (const CUDA_MEMCPY3D *c), (c))                                                               \
    T(cuMemcpy3DAsync, _v2_ptsz, 3020, (const CUDA_MEMCPY3D *c, CUstream s), (c, s))                                           \
    T(cuMemsetD2D8, _v2_ptds, 3020, (CUdeviceptr a, size_t p, unsigned char v, size_t w, size_t h), (a, p, v, w, h))           \
    T(cuMemsetD2D16, _v2_ptds, 3020, (CUdeviceptr a, size_t p, unsigned short v, size_t w, size_t h), (a, p, v, w, h))         \
    T(cuMemsetD2D32, _v2_ptds, 3020, (CUdeviceptr a, size_t p, unsigned v, size_t w, size_t h), (a, p, v, w, h))               \
    T(cuMemsetD2D8Async, _ptsz, 3020, (CUdeviceptr a, size_t p, unsigned char v, size_t w, size_t h, CUstream s),              \
      (a, p, v, w, h, s))                                                                                                      \
    T(cuMemsetD2D16Async, _ptsz, 3020, (CUdeviceptr a, size_t p, unsigned short v, size_t w, size_t h, CUstream s),            \
      (a, p, v, w, h, s))                                                                                                      \
    T(cuMemsetD2D32Async, _ptsz, 3020, (CUdeviceptr a, size_t p, unsigned v, size_t w, size_t h, CUstream s),                  \
      (a, p, v, w, h, s))                                                                                                      \
    T(cuStreamBeginCaptureToGraph, _ptsz, 12030,                                                                               \
      (CUstream s, CUgraph g, const CUgraphNode *d, const CUgraphEdgeData *e, size_t n, CUstreamCaptureMode m),                \
      (s, g, d, e, n, m))                                                                                                      \
    T(cuMemAllocAsync, _ptsz, 11020, (CUdeviceptr * a, size_t n, CUstream s), (a, n, s))                                       \
    T(cuMemAllocFromPoolAsync, _ptsz, 11020, (CUdeviceptr * a, size_t n, CUmemoryPool p, CUstream s), (a, n, p, s))            \
    T(cuMemFreeAsync, _ptsz, 11020, (CUdeviceptr a, CUstream s), (a, s))                                                       \
    T(cuLaunchKernel, _ptsz, 4000,                                                                                             \
      (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned m, CUstream s,     \
       void **p, void **e),                                                                                                    \
      (f, gx, gy, gz, bx, by, bz, m, s, p, e))                                                                                 \
    T(cuLaunchKernelEx, _ptsz, 11060, (const CUlaunchConfig *c, CUfunction f, void **p, void **e), (c, f, p, e))               \
    T(cuLaunchCooperativeKernel, _ptsz, 9000,                                                                                  \
      (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned m, CUstream s,     \
       void **p),                                                                                                              \
      (f, gx, gy, gz, bx, by, bz, m, s, p))                                                                                    \
    T(cuLaunchHostFunc, _ptsz, 10000, (CUstream s, CUhostFn f, void *u), (s, f, u))                                            \
    T(cuStreamAddCallback, _ptsz, 5000, (CUstream s, CUstreamCallback f, void *u, unsigned flags), (s, f, u, flags))           \
    T(cuStreamSynchronize, _ptsz, 2000, (CUstream s), (s))                                                                     \
    T(cuStreamQuery, _ptsz, 2000, (CUstream s), (s))                                                                           \
    T(cuStreamWaitValue32, _v2_ptsz, 11070, (CUstream s, CUdeviceptr a, cuuint32_t v, unsigned f), (s, a, v, f))               \
    T(cuStreamWriteValue32, _v2_ptsz, 11070, (CUstream s, CUdeviceptr a, cuuint32_t v, unsigned f), (s, a, v, f))              \
    T(cuStreamWaitEvent, _ptsz, 3020, (CUstream s, CUevent e, unsigned flags), (s, e, flags))                                  \
    T(cuStreamBeginCapture, _v2_ptsz, 10010, (CUstream s, CUstreamCaptureMode m), (s, m))                                      \
    T(cuStreamEndCapture, _ptsz, 10000, (CUstream s, CUgraph * g), (s, g))                                                     \
    T(cuStreamIsCapturing, _ptsz, 10000, (CUstream s, CUstreamCaptureStatus * c), (s, c))                                      \
    T(cuStreamGetCaptureInfo, _v3_ptsz, 12030,                                                                                 \
      (CUstream s, CUstreamCaptureStatus * c, cuuint64_t * i, CUgraph * g, const CUgraphNode **d, const CUgraphEdgeData **e,   \
       size_t *n),                                                                                                             \
      (s, c, i, g, d, e, n))                                                                                                   \
    T(cuStreamUpdateCaptureDependencies, _v2_ptsz, 12030,                                                                      \
      (CUstream s, CUgraphNode * d, const CUgraphEdgeData *e, size_t n, unsigned f), (s, d, e, n, f))                          \
    T(cuStreamGetFlags, _ptsz, 5050, (CUstream s, unsigned *f), (s, f))                                                        \
    T(cuStreamGetId, _ptsz, 12000, (CUstream s, unsigned long long *i), (s, i))                                                \
    T(cuStreamGetCtx, _ptsz, 9020, (CUstream s, CUcontext * c), (s, c))                                                        \
    T(cuEventRecord, _ptsz, 2000, (CUevent e, CUstream s), (e, s))                                                             \
    T(cuGraphLaunch, _ptsz, 10000, (CUgraphExec g, CUstream s), (g, s))

/* Earlier and later forms of functions named above: base name, name of this form, and the same. */
#define FORMS(T)                                                                                                               \
    T("cuStreamGetCtx", "cuStreamGetCtx_v2", cuStreamGetCtx_v2, _ptsz, 12050, (CUstream s, CUcontext * c, CUgreenCtx * g),     \
      (s, c, g))                                                                                                               \
    T("cuStreamBeginCapture", "cuStreamBeginCapture", begin_capture_v1, _ptsz, 10000, (CUstream s), (s))                       \
    T("cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2", cuStreamGetCaptureInfo_v2, _ptsz, 11030,                          \
      (CUstream s, CUstreamCaptureStatus * c, cuuint64_t * i, CUgraph * g, const CUgraphNode **d, size_t *n),                  \
      (s, c, i, g, d, n))                                                                                                      \
    T("cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo", get_capture_info_v1, _ptsz, 10010,                                   \
      (CUstream s, CUstreamCaptureStatus * c, cuuint64_t * i), (s, c, i))                                                      \
    T("cuStreamUpdateCaptureDependencies", "cuStreamUpdateCaptureDependencies", update_dependencies_v1, _ptsz, 11030,          \
      (CUstream s, CUgraphNode * d, size_t n, unsigned f), (s, d, n, f))

#define DEFINE_TWIN(name, suffix, version, parameters, arguments)                                                              \
    CUresult name##suffix parameters;                                                                                          \
    SIM_API CUresult name##suffix parameters                                                                                   \
    {                                                                                                                          \
        stream_use_own_default(1);                                                                                             \
        CUresult result = name arguments;                                                                                      \
        stream_use_own_default(0);                                                                                             \
        return result;                                                                                                         \
    }
#define DEFINE_FORM(base, abi, ...) DEFINE_TWIN(__VA_ARGS__)
TWINS(DEFINE_TWIN)
FORMS(DEFINE_FORM)

typedef void (*symbol_function)(void);

struct symbol {
    const char *name;         /* the base name */
    const char *abi_name;     /* with its version, as the library exports it */
    int version;              /* CUDA version that introduced this form */
    symbol_function function; /* for the legacy default stream */
    symbol_function twin;     /* for per-thread default streams, or NULL */
};

SIM_API CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *symbolStatus);
static CUresult get_proc_address_v1(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags);

#define TEXT(name) TEXT_EXPANDED(name)
#define TEXT_EXPANDED(name) #name
#define FORM(base, abi, function, version)                                                                                     \
    {                                                                                                                          \
        base, abi, version, (symbol_function)(function), NULL                                                                  \
    }
#define PLAIN(name, version) FORM(#name, TEXT(name), name, version)
#define TWIN_ROW(name, suffix, version, parameters, arguments)                                                                 \
    {#name, TEXT(name), version, (symbol_function)(name), (symbol_function)(name##suffix)},
#define FORM_ROW(base, abi, name, suffix, version, parameters, arguments)                                                      \
    {base, abi, version, (symbol_function)(name), (symbol_function)(name##suffix)},

static const struct symbol symbols[] = {
    TWINS(TWIN_ROW) FORMS(FORM_ROW) FORM("cuGetProcAddress", "cuGetProcAddress", get_proc_address_v1, 11030),
    FORM("cuDeviceGetUuid", "cuDeviceGetUuid", get_uuid_v1, 9020),
    FORM("cuCtxCreate", "cuCtxCreate_v2", cuCtxCreate_v2, 3020),
    FORM("cuCtxGetDevice", "cuCtxGetDevice_v2", cuCtxGetDevice_v2, 13000),
    FORM("cuCtxSynchronize", "cuCtxSynchronize_v2", cuCtxSynchronize_v2, 13000),
    FORM("cuGraphAddNode", "cuGraphAddNode", add_node_v1, 12020),
    FORM("cuGraphInstantiate", "cuGraphInstantiateWithFlags", cuGraphInstantiate, 12000),
    FORM("cuGraphInstantiateWithFlags", "cuGraphInstantiateWithFlags", cuGraphInstantiate, 11040),
    FORM("cuEventElapsedTime", "cuEventElapsedTime", elapsed_time_v1, 2000),
    PLAIN(cuInit, 2000),
    PLAIN(cuDriverGetVersion, 2020),
    PLAIN(cuGetProcAddress, 12000),
    PLAIN(cuGetExportTable, 3000),
    PLAIN(cuGetErrorName, 6000),
    PLAIN(cuDeviceGet, 2000),
    PLAIN(cuDeviceGetCount, 2000),
    PLAIN(cuDeviceGetName, 2000),
    PLAIN(cuDeviceTotalMem, 3020),
    PLAIN(cuDeviceGetAttribute, 2000),
    PLAIN(cuDeviceGetUuid, 11040),
    PLAIN(cuDeviceCanAccessPeer, 4000),
    PLAIN(cuDeviceGetDefaultMemPool, 11020),
    PLAIN(cuDeviceGetMemPool, 11020),
    PLAIN(cuDeviceSetMemPool, 11020),
    PLAIN(cuDevicePrimaryCtxRetain, 7000),
    PLAIN(cuDevicePrimaryCtxRelease, 11000),
    PLAIN(cuDevicePrimaryCtxReset, 11000),
    PLAIN(cuDevicePrimaryCtxGetState, 7000),
    PLAIN(cuCtxCreate, 12050),
    PLAIN(cuCtxDestroy, 4000),
    PLAIN(cuCtxGetCurrent, 4000),
    PLAIN(cuCtxSetCurrent, 4000),
    PLAIN(cuCtxPushCurrent, 4000),
    PLAIN(cuCtxPopCurrent, 4000),
    PLAIN(cuCtxGetDevice, 2000),
    PLAIN(cuCtxGetId, 12000),
    PLAIN(cuCtxSynchronize, 2000),
    PLAIN(cuCtxEnablePeerAccess, 4000),
    PLAIN(cuCtxDisablePeerAccess, 4000),
    FORM("cuCtxAttach", "cuCtxAttach", attach, 2000),
    FORM("cuCtxDetach", "cuCtxDetach", detach, 2000),
    PLAIN(cuStreamCreate, 2000),
    PLAIN(cuStreamCreateWithPriority, 5050),
    PLAIN(cuStreamDestroy, 4000),
    PLAIN(cuDeviceGetDevResource, 12040),
    PLAIN(cuDevSmResourceSplitByCount, 12040),
    PLAIN(cuDevResourceGenerateDesc, 12040),
    PLAIN(cuGreenCtxCreate, 12040),
    PLAIN(cuGreenCtxDestroy, 12040),
    PLAIN(cuCtxFromGreenCtx, 12040),
    PLAIN(cuGreenCtxStreamCreate, 12050),
    PLAIN(cuGreenCtxRecordEvent, 12040),
    PLAIN(cuGreenCtxWaitEvent, 12040),
    PLAIN(cuThreadExchangeStreamCaptureMode, 10010),
    PLAIN(cuGraphCreate, 10000),
    PLAIN(cuGraphAddKernelNode, 12000),
    PLAIN(cuGraphExecKernelNodeSetParams, 12000),
    PLAIN(cuGraphAddMemsetNode, 10000),
    PLAIN(cuGraphAddMemcpyNode, 10000),
    PLAIN(cuGraphAddEmptyNode, 10000),
    PLAIN(cuGraphAddNode, 12030),
    PLAIN(cuGraphMemAllocNodeGetParams, 11040),
    PLAIN(cuGraphMemFreeNodeGetParams, 11040),
    PLAIN(cuGraphNodeGetType, 10000),
    PLAIN(cuDeviceGraphMemTrim, 11040),
    PLAIN(cuDeviceGetGraphMemAttribute, 11040),
    PLAIN(cuGraphAddMemAllocNode, 11040),
    PLAIN(cuGraphAddMemFreeNode, 11040),
    PLAIN(cuGraphAddChildGraphNode, 10000),
    PLAIN(cuGraphClone, 10000),
    PLAIN(cuGraphExecUpdate, 12000),
    PLAIN(cuGraphConditionalHandleCreate, 12030),
    PLAIN(cuGraphRetainUserObject, 11030),
    PLAIN(cuUserObjectCreate, 11030),
    PLAIN(cuUserObjectRelease, 11030),
    PLAIN(cuGraphGetNodes, 10000),
    PLAIN(cuGraphDestroy, 10000),
    PLAIN(cuGraphExecDestroy, 10000),
    PLAIN(cuEventCreate, 2000),
    PLAIN(cuEventQuery, 2000),
    PLAIN(cuEventSynchronize, 2000),
    PLAIN(cuEventDestroy, 4000),
    PLAIN(cuEventElapsedTime, 12080),
    PLAIN(cuMemAddressReserve, 10020),
    PLAIN(cuMemAddressFree, 10020),
    PLAIN(cuMemCreate, 10020),
    PLAIN(cuMemRelease, 10020),
    PLAIN(cuMemRetainAllocationHandle, 11000),
    PLAIN(cuMemExportToShareableHandle, 10020),
    PLAIN(cuMemImportFromShareableHandle, 10020),
    PLAIN(cuMemMap, 10020),
    PLAIN(cuMemUnmap, 10020),
    PLAIN(cuMemSetAccess, 10020),
    PLAIN(cuMemGetAccess, 10020),
    PLAIN(cuMemGetAllocationGranularity, 10020),
    PLAIN(cuMemGetInfo, 3020),
    PLAIN(cuMemAlloc, 3020),
    PLAIN(cuMemAllocPitch, 3020),
    PLAIN(cuMemFree, 3020),
    PLAIN(cuMemAllocHost, 3020),
    PLAIN(cuMemHostAlloc, 2020),
    PLAIN(cuMemHostGetDevicePointer, 3020),
    PLAIN(cuMemFreeHost, 2000),
    PLAIN(cuMemAllocManaged, 6000),
    PLAIN(cuMemHostRegister, 6050),
    PLAIN(cuMemHostUnregister, 4000),
    PLAIN(cuTensorMapEncodeTiled, 12000),
    PLAIN(cuTensorMapEncodeIm2col, 12000),
    PLAIN(cuTensorMapReplaceAddress, 12000),
    PLAIN(cuMemGetAddressRange, 3020),
    PLAIN(cuIpcGetMemHandle, 4010),
    PLAIN(cuPointerGetAttribute, 4000),
    PLAIN(cuPointerGetAttributes, 7000),
    PLAIN(cuPointerSetAttribute, 6000),
    PLAIN(cuMemGetHandleForAddressRange, 11070),
    PLAIN(cuArray3DCreate, 3020),
    PLAIN(cuArrayDestroy, 2000),
    PLAIN(cuTexObjectCreate, 5000),
    PLAIN(cuTexObjectDestroy, 5000),
    PLAIN(cuSurfObjectCreate, 5000),
    PLAIN(cuSurfObjectDestroy, 5000),
    PLAIN(cuMemPoolCreate, 11020),
    PLAIN(cuMemPoolDestroy, 11020),
    PLAIN(cuMemPoolSetAccess, 11020),
    PLAIN(cuMemPoolGetAccess, 11020),
    PLAIN(cuMemPoolTrimTo, 11020),
    PLAIN(cuMemPoolSetAttribute, 11020),
    PLAIN(cuMemPoolGetAttribute, 11020),
    PLAIN(cuModuleLoadData, 2000),
    PLAIN(cuModuleUnload, 2000),
    PLAIN(cuModuleGetFunction, 2000),
    PLAIN(cuLinkCreate, 6050),
    PLAIN(cuLinkAddData, 6050),
    PLAIN(cuLinkComplete, 5050),
    PLAIN(cuLinkDestroy, 5050),
    PLAIN(cuLibraryLoadData, 12000),
    PLAIN(cuLibraryUnload, 12000),
    PLAIN(cuLibraryGetKernel, 12000),
    PLAIN(cuKernelGetFunction, 12000),
    PLAIN(cuKernelGetName, 12030),
    PLAIN(cuKernelGetParamInfo, 12040),
    PLAIN(cuFuncGetModule, 11000),
    PLAIN(cuKernelGetLibrary, 12050),
    PLAIN(cuFuncGetAttribute, 2020),
    PLAIN(cuFuncSetAttribute, 9000),
    PLAIN(cuFuncGetName, 12030),
    PLAIN(cuFuncGetParamInfo, 12040),
    PLAIN(cuCoredumpGetAttribute, 12010),
    PLAIN(cuCoredumpSetAttribute, 12010),
    PLAIN(cuCoredumpGetAttributeGlobal, 12010),
    PLAIN(cuCoredumpSetAttributeGlobal, 12010)};

/* Of several forms, the newest one that the version knows. */
static const struct symbol *find_symbol(const char *name, int version, CUdriverProcAddressQueryResult *status)
{
    const struct symbol *found = NULL;
    *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    for (const struct symbol *symbol = symbols; symbol < symbols + sizeof symbols / sizeof symbols[0]; symbol++) {
        if (strcmp(symbol->name, name) != 0 && strcmp(symbol->abi_name, name) != 0)
            continue;
        if (symbol->version <= version && (found == NULL || found->version < symbol->version))
            found = symbol;
        *status = found == NULL ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT : CU_GET_PROC_ADDRESS_SUCCESS;
    }
    return found;
}

static CUresult look_up(const char *name, void **function, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status)
{
    CALL_REFUSE(name == NULL || function == NULL || (version > CUDA_VERSION && version > newer_version()), INVALID_VALUE);
    int is_own = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    *status = CU_GET_PROC_ADDRESS_SUCCESS;
    if (newer_find(name, version, is_own, function))
        return CUDA_SUCCESS;
    const struct symbol *symbol = find_symbol(name, version, status);
    *function = NULL;
    CALL_REFUSE(symbol == NULL, NOT_FOUND);
    int is_twin = is_own && symbol->twin != NULL;
    memcpy(function, is_twin ? &symbol->twin : &symbol->function, sizeof *function);
    return CUDA_SUCCESS;
}

/* If `symbolStatus` is given, a missing symbol succeeds with a NULL pointer, as cuda.h says; otherwise it is an error. */
SIM_API CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *symbolStatus)
{
    CALL_ENTER_UNINITIALIZED("cuGetProcAddress");
    CUdriverProcAddressQueryResult status;
    CUresult result = look_up(symbol, pfn, cudaVersion, flags, &status);
    if (symbolStatus == NULL || result == CUDA_ERROR_INVALID_VALUE)
        return result;
    *symbolStatus = status;
    return CUDA_SUCCESS;
}

#undef cuGetProcAddress
CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags);

static CUresult get_proc_address_v1(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult status;
    return look_up(symbol, pfn, cudaVersion, flags, &status);
}

SIM_API CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    CALL_ENTER_UNINITIALIZED("cuGetProcAddress");
    return get_proc_address_v1(symbol, pfn, cudaVersion, flags);
}

SIM_API CUresult begin_capture_v1(CUstream hStream)
{
    return cuStreamBeginCapture(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

SIM_API CUresult get_uuid_v1(CUuuid *uuid, CUdevice device)
{
    return cuDeviceGetUuid(uuid, device);
}

SIM_API CUresult elapsed_time_v1(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    return cuEventElapsedTime(pMilliseconds, hStart, hEnd);
}

SIM_API CUresult add_node_v1(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                             CUgraphNodeParams *params)
{
    return cuGraphAddNode(node, graph, dependencies, NULL, count, params);
}

SIM_API CUresult update_dependencies_v1(CUstream hStream, CUgraphNode *dependencies, size_t numDependencies, unsigned int flags)
{
    return cuStreamUpdateCaptureDependencies(hStream, dependencies, NULL, numDependencies, flags);
}

SIM_API CUresult get_capture_info_v1(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out)
{
    return cuStreamGetCaptureInfo(hStream, captureStatus_out, id_out, NULL, NULL, NULL, NULL);
}

SIM_API CUresult cuStreamGetCaptureInfo_v2(CUstream s, CUstreamCaptureStatus *c, cuuint64_t *i, CUgraph *g,
                                           const CUgraphNode **d, size_t *n)
{
    return cuStreamGetCaptureInfo(s, c, i, g, d, NULL, n);
}
