#include "call.h"
#include "config.h"
#include "stream.h"

#include <string.h>

/*
 * Variants for programs compiled with per-thread default streams: the same functions, with a different meaning of the NULL
 * stream while they run.
 */
#define TWIN(name, suffix, parameters, arguments)                                                                              \
    CUresult name##suffix parameters;                                                                                          \
    SIM_API CUresult name##suffix parameters                                                                                   \
    {                                                                                                                          \
        stream_use_own_default(1);                                                                                             \
        CUresult result = name arguments;                                                                                      \
        stream_use_own_default(0);                                                                                             \
        return result;                                                                                                         \
    }

TWIN(cuMemcpy, _ptds, (CUdeviceptr a, CUdeviceptr b, size_t n), (a, b, n))
TWIN(cuMemcpyHtoD, _v2_ptds, (CUdeviceptr a, const void *b, size_t n), (a, b, n))
TWIN(cuMemcpyDtoH, _v2_ptds, (void *a, CUdeviceptr b, size_t n), (a, b, n))
TWIN(cuMemcpyDtoD, _v2_ptds, (CUdeviceptr a, CUdeviceptr b, size_t n), (a, b, n))
TWIN(cuMemsetD8, _v2_ptds, (CUdeviceptr a, unsigned char v, size_t n), (a, v, n))
TWIN(cuMemsetD16, _v2_ptds, (CUdeviceptr a, unsigned short v, size_t n), (a, v, n))
TWIN(cuMemsetD32, _v2_ptds, (CUdeviceptr a, unsigned int v, size_t n), (a, v, n))
TWIN(cuMemcpyAsync, _ptsz, (CUdeviceptr a, CUdeviceptr b, size_t n, CUstream s), (a, b, n, s))
TWIN(cuMemcpyHtoDAsync, _v2_ptsz, (CUdeviceptr a, const void *b, size_t n, CUstream s), (a, b, n, s))
TWIN(cuMemcpyDtoHAsync, _v2_ptsz, (void *a, CUdeviceptr b, size_t n, CUstream s), (a, b, n, s))
TWIN(cuMemcpyDtoDAsync, _v2_ptsz, (CUdeviceptr a, CUdeviceptr b, size_t n, CUstream s), (a, b, n, s))
TWIN(cuMemsetD8Async, _ptsz, (CUdeviceptr a, unsigned char v, size_t n, CUstream s), (a, v, n, s))
TWIN(cuMemsetD16Async, _ptsz, (CUdeviceptr a, unsigned short v, size_t n, CUstream s), (a, v, n, s))
TWIN(cuMemsetD32Async, _ptsz, (CUdeviceptr a, unsigned int v, size_t n, CUstream s), (a, v, n, s))
TWIN(cuMemcpyPeer, _ptds, (CUdeviceptr a, CUcontext x, CUdeviceptr b, CUcontext y, size_t n), (a, x, b, y, n))
TWIN(cuMemcpyPeerAsync, _ptsz, (CUdeviceptr a, CUcontext x, CUdeviceptr b, CUcontext y, size_t n, CUstream s),
     (a, x, b, y, n, s))
TWIN(cuMemcpy2D, _v2_ptds, (const CUDA_MEMCPY2D *c), (c))
TWIN(cuMemcpy2DUnaligned, _v2_ptds, (const CUDA_MEMCPY2D *c), (c))
TWIN(cuMemcpy2DAsync, _v2_ptsz, (const CUDA_MEMCPY2D *c, CUstream s), (c, s))
TWIN(cuMemcpy3D, _v2_ptds, (const CUDA_MEMCPY3D *c), (c))
TWIN(cuMemcpy3DAsync, _v2_ptsz, (const CUDA_MEMCPY3D *c, CUstream s), (c, s))
TWIN(cuMemsetD2D8, _v2_ptds, (CUdeviceptr a, size_t p, unsigned char v, size_t w, size_t h), (a, p, v, w, h))
TWIN(cuMemsetD2D16, _v2_ptds, (CUdeviceptr a, size_t p, unsigned short v, size_t w, size_t h), (a, p, v, w, h))
TWIN(cuMemsetD2D32, _v2_ptds, (CUdeviceptr a, size_t p, unsigned v, size_t w, size_t h), (a, p, v, w, h))
TWIN(cuMemsetD2D8Async, _ptsz, (CUdeviceptr a, size_t p, unsigned char v, size_t w, size_t h, CUstream s), (a, p, v, w, h, s))
TWIN(cuMemsetD2D16Async, _ptsz, (CUdeviceptr a, size_t p, unsigned short v, size_t w, size_t h, CUstream s), (a, p, v, w, h, s))
TWIN(cuMemsetD2D32Async, _ptsz, (CUdeviceptr a, size_t p, unsigned v, size_t w, size_t h, CUstream s), (a, p, v, w, h, s))
TWIN(cuStreamBeginCaptureToGraph, _ptsz,
     (CUstream s, CUgraph g, const CUgraphNode *d, const CUgraphEdgeData *e, size_t n, CUstreamCaptureMode m),
     (s, g, d, e, n, m))
TWIN(cuMemAllocAsync, _ptsz, (CUdeviceptr * a, size_t n, CUstream s), (a, n, s))
TWIN(cuMemAllocFromPoolAsync, _ptsz, (CUdeviceptr * a, size_t n, CUmemoryPool p, CUstream s), (a, n, p, s))
TWIN(cuMemFreeAsync, _ptsz, (CUdeviceptr a, CUstream s), (a, s))
TWIN(cuLaunchKernel, _ptsz,
     (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned m, CUstream s,
      void **p, void **e),
     (f, gx, gy, gz, bx, by, bz, m, s, p, e))
TWIN(cuLaunchKernelEx, _ptsz, (const CUlaunchConfig *c, CUfunction f, void **p, void **e), (c, f, p, e))
TWIN(cuLaunchCooperativeKernel, _ptsz,
     (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned m, CUstream s,
      void **p),
     (f, gx, gy, gz, bx, by, bz, m, s, p))
TWIN(cuLaunchHostFunc, _ptsz, (CUstream s, CUhostFn f, void *u), (s, f, u))
TWIN(cuStreamAddCallback, _ptsz, (CUstream s, CUstreamCallback f, void *u, unsigned flags), (s, f, u, flags))
TWIN(cuStreamSynchronize, _ptsz, (CUstream s), (s))
TWIN(cuStreamQuery, _ptsz, (CUstream s), (s))
TWIN(cuStreamWaitValue32, _v2_ptsz, (CUstream s, CUdeviceptr a, cuuint32_t v, unsigned f), (s, a, v, f))
TWIN(cuStreamWriteValue32, _v2_ptsz, (CUstream s, CUdeviceptr a, cuuint32_t v, unsigned f), (s, a, v, f))
TWIN(cuStreamWaitEvent, _ptsz, (CUstream s, CUevent e, unsigned flags), (s, e, flags))
TWIN(cuStreamBeginCapture, _v2_ptsz, (CUstream s, CUstreamCaptureMode m), (s, m))
TWIN(cuStreamEndCapture, _ptsz, (CUstream s, CUgraph *g), (s, g))
TWIN(cuStreamIsCapturing, _ptsz, (CUstream s, CUstreamCaptureStatus *c), (s, c))
TWIN(cuStreamGetCaptureInfo, _v3_ptsz,
     (CUstream s, CUstreamCaptureStatus *c, cuuint64_t *i, CUgraph *g, const CUgraphNode **d, const CUgraphEdgeData **e,
      size_t *n),
     (s, c, i, g, d, e, n))
TWIN(cuStreamUpdateCaptureDependencies, _v2_ptsz, (CUstream s, CUgraphNode *d, const CUgraphEdgeData *e, size_t n, unsigned f),
     (s, d, e, n, f))
TWIN(cuStreamGetFlags, _ptsz, (CUstream s, unsigned *f), (s, f))
TWIN(cuStreamGetId, _ptsz, (CUstream s, unsigned long long *i), (s, i))
TWIN(cuStreamGetCtx, _ptsz, (CUstream s, CUcontext *c), (s, c))
TWIN(cuEventRecord, _ptsz, (CUevent e, CUstream s), (e, s))
TWIN(cuEventRecordWithFlags, _ptsz, (CUevent e, CUstream s, unsigned f), (e, s, f))
TWIN(cuGraphLaunch, _ptsz, (CUgraphExec g, CUstream s), (g, s))
TWIN(cuGraphInstantiateWithParams, _ptsz, (CUgraphExec * e, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p), (e, g, p))

CUresult cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);
TWIN(cuStreamGetCtx_v2, _ptsz, (CUstream s, CUcontext *c, CUgreenCtx *g), (s, c, g))
CUresult cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *, const CUgraphNode **, size_t *);
CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *, const CUgraphNode **,
                                        size_t *);

SIM_API CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream s, CUstreamCaptureStatus *c, cuuint64_t *i, CUgraph *g,
                                                const CUgraphNode **d, size_t *n)
{
    stream_use_own_default(1);
    CUresult result = cuStreamGetCaptureInfo_v2(s, c, i, g, d, n);
    stream_use_own_default(0);
    return result;
}

typedef void (*symbol_function)(void);

struct symbol {
    const char *name;         /* the base name */
    const char *abi_name;     /* with its version, as the library exports it */
    int version;              /* CUDA version that introduced this form */
    symbol_function function; /* for the legacy default stream */
    symbol_function twin;     /* for per-thread default streams, or NULL */
};

#define TEXT(name) TEXT_EXPANDED(name)
#define TEXT_EXPANDED(name) #name
#define PLAIN(name, version)                                                                                                   \
    {                                                                                                                          \
#name, TEXT(name), version, (symbol_function)(name), NULL                                                              \
    }
#define WITH_TWIN(name, suffix, version)                                                                                       \
    {                                                                                                                          \
#name, TEXT(name), version, (symbol_function)(name), (symbol_function)(name##suffix)                                   \
    }

SIM_API CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *symbolStatus);
static CUresult get_proc_address_v1(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags);

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

/* Forms of the same name: newest first. Versions are those of cudaTypedefs.h. */
static const struct symbol symbols[] = {
    PLAIN(cuInit, 2000),
    PLAIN(cuDriverGetVersion, 2020),
    PLAIN(cuGetProcAddress, 12000),
    {"cuGetProcAddress", "cuGetProcAddress", 11030, (symbol_function)get_proc_address_v1, NULL},
    PLAIN(cuGetExportTable, 3000),
    PLAIN(cuGetErrorName, 6000),
    PLAIN(cuDeviceGet, 2000),
    PLAIN(cuDeviceGetCount, 2000),
    PLAIN(cuDeviceGetName, 2000),
    PLAIN(cuDeviceTotalMem, 3020),
    PLAIN(cuDeviceGetAttribute, 2000),
    PLAIN(cuDeviceGetUuid, 11040),
    {"cuDeviceGetUuid", "cuDeviceGetUuid", 9020, (symbol_function)get_uuid_v1, NULL},
    PLAIN(cuDeviceGetPCIBusId, 4010),
    PLAIN(cuDeviceCanAccessPeer, 4000),
    PLAIN(cuDeviceGetDefaultMemPool, 11020),
    PLAIN(cuDeviceGetMemPool, 11020),
    PLAIN(cuDeviceSetMemPool, 11020),
    PLAIN(cuDevicePrimaryCtxRetain, 7000),
    PLAIN(cuDevicePrimaryCtxRelease, 11000),
    PLAIN(cuDevicePrimaryCtxReset, 11000),
    PLAIN(cuDevicePrimaryCtxGetState, 7000),
    PLAIN(cuDevicePrimaryCtxSetFlags, 11000),
    PLAIN(cuCtxCreate, 12050),
    {"cuCtxCreate", "cuCtxCreate_v2", 3020, (symbol_function)cuCtxCreate_v2, NULL},
    PLAIN(cuCtxDestroy, 4000),
    PLAIN(cuCtxGetCurrent, 4000),
    PLAIN(cuCtxSetCurrent, 4000),
    PLAIN(cuCtxPushCurrent, 4000),
    PLAIN(cuCtxPopCurrent, 4000),
    {"cuCtxGetDevice", "cuCtxGetDevice_v2", 13000, (symbol_function)cuCtxGetDevice_v2, NULL},
    PLAIN(cuCtxGetDevice, 2000),
    PLAIN(cuCtxGetId, 12000),
    {"cuCtxSynchronize", "cuCtxSynchronize_v2", 13000, (symbol_function)cuCtxSynchronize_v2, NULL},
    PLAIN(cuCtxSynchronize, 2000),
    PLAIN(cuCtxEnablePeerAccess, 4000),
    PLAIN(cuStreamCreate, 2000),
    PLAIN(cuStreamCreateWithPriority, 5050),
    PLAIN(cuStreamDestroy, 4000),
    WITH_TWIN(cuStreamSynchronize, _ptsz, 2000),
    WITH_TWIN(cuStreamQuery, _ptsz, 2000),
    WITH_TWIN(cuStreamWaitEvent, _ptsz, 3020),
    WITH_TWIN(cuStreamWaitValue32, _v2_ptsz, 11070),
    WITH_TWIN(cuStreamWriteValue32, _v2_ptsz, 11070),
    WITH_TWIN(cuStreamAddCallback, _ptsz, 5000),
    WITH_TWIN(cuStreamGetFlags, _ptsz, 5050),
    WITH_TWIN(cuStreamGetId, _ptsz, 12000),
    {"cuStreamGetCtx", "cuStreamGetCtx_v2", 12050, (symbol_function)cuStreamGetCtx_v2, (symbol_function)cuStreamGetCtx_v2_ptsz},
    WITH_TWIN(cuStreamGetCtx, _ptsz, 9020),
    PLAIN(cuStreamGetGreenCtx, 12040),
    PLAIN(cuDeviceGetDevResource, 12040),
    PLAIN(cuDevSmResourceSplitByCount, 12040),
    PLAIN(cuDevResourceGenerateDesc, 12040),
    PLAIN(cuGreenCtxCreate, 12040),
    PLAIN(cuGreenCtxDestroy, 12040),
    PLAIN(cuCtxFromGreenCtx, 12040),
    PLAIN(cuGreenCtxStreamCreate, 12050),
    PLAIN(cuGreenCtxRecordEvent, 12040),
    PLAIN(cuGreenCtxWaitEvent, 12040),
    WITH_TWIN(cuStreamBeginCapture, _v2_ptsz, 10010),
    {"cuStreamBeginCapture", "cuStreamBeginCapture", 10000, (symbol_function)begin_capture_v1,
     (symbol_function)begin_capture_v1_ptsz},
    WITH_TWIN(cuStreamBeginCaptureToGraph, _ptsz, 12030),
    WITH_TWIN(cuStreamEndCapture, _ptsz, 10000),
    WITH_TWIN(cuStreamIsCapturing, _ptsz, 10000),
    WITH_TWIN(cuStreamGetCaptureInfo, _v3_ptsz, 12030),
    {"cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2", 11030, (symbol_function)cuStreamGetCaptureInfo_v2,
     (symbol_function)cuStreamGetCaptureInfo_v2_ptsz},
    {"cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo", 10010, (symbol_function)get_capture_info_v1,
     (symbol_function)get_capture_info_v1_ptsz},
    WITH_TWIN(cuStreamUpdateCaptureDependencies, _v2_ptsz, 12030),
    {"cuStreamUpdateCaptureDependencies", "cuStreamUpdateCaptureDependencies", 11030, (symbol_function)update_dependencies_v1,
     (symbol_function)update_dependencies_v1_ptsz},
    PLAIN(cuThreadExchangeStreamCaptureMode, 10010),
    {"cuGraphInstantiate", "cuGraphInstantiateWithFlags", 12000, (symbol_function)cuGraphInstantiate, NULL},
    {"cuGraphInstantiateWithFlags", "cuGraphInstantiateWithFlags", 11040, (symbol_function)cuGraphInstantiate, NULL},
    WITH_TWIN(cuGraphInstantiateWithParams, _ptsz, 12000),
    PLAIN(cuGraphCreate, 10000),
    PLAIN(cuGraphAddKernelNode, 12000),
    PLAIN(cuGraphExecKernelNodeSetParams, 12000),
    PLAIN(cuGraphAddMemsetNode, 10000),
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
    WITH_TWIN(cuGraphLaunch, _ptsz, 10000),
    PLAIN(cuGraphDestroy, 10000),
    PLAIN(cuGraphExecDestroy, 10000),
    PLAIN(cuEventCreate, 2000),
    WITH_TWIN(cuEventRecord, _ptsz, 2000),
    WITH_TWIN(cuEventRecordWithFlags, _ptsz, 11010),
    PLAIN(cuEventQuery, 2000),
    PLAIN(cuEventSynchronize, 2000),
    PLAIN(cuEventDestroy, 4000),
    PLAIN(cuEventElapsedTime, 12080),
    {"cuEventElapsedTime", "cuEventElapsedTime", 2000, (symbol_function)elapsed_time_v1, NULL},
    PLAIN(cuMemAddressReserve, 10020),
    PLAIN(cuMemAddressFree, 10020),
    PLAIN(cuMemCreate, 10020),
    PLAIN(cuMemRelease, 10020),
    PLAIN(cuMemRetainAllocationHandle, 11000),
    PLAIN(cuMemGetAllocationPropertiesFromHandle, 10020),
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
    PLAIN(cuMemGetAddressRange, 3020),
    PLAIN(cuIpcGetMemHandle, 4010),
    PLAIN(cuIpcOpenMemHandle, 11000),
    PLAIN(cuPointerGetAttribute, 4000),
    PLAIN(cuPointerGetAttributes, 7000),
    WITH_TWIN(cuMemAllocAsync, _ptsz, 11020),
    WITH_TWIN(cuMemAllocFromPoolAsync, _ptsz, 11020),
    WITH_TWIN(cuMemFreeAsync, _ptsz, 11020),
    PLAIN(cuMemPoolCreate, 11020),
    PLAIN(cuMemPoolDestroy, 11020),
    PLAIN(cuMemPoolSetAccess, 11020),
    PLAIN(cuMemPoolGetAccess, 11020),
    PLAIN(cuMemPoolTrimTo, 11020),
    PLAIN(cuMemPoolSetAttribute, 11020),
    PLAIN(cuMemPoolGetAttribute, 11020),
    WITH_TWIN(cuMemcpy, _ptds, 4000),
    WITH_TWIN(cuMemcpyAsync, _ptsz, 4000),
    WITH_TWIN(cuMemcpyPeer, _ptds, 4000),
    WITH_TWIN(cuMemcpyPeerAsync, _ptsz, 4000),
    WITH_TWIN(cuMemcpy2D, _v2_ptds, 3020),
    WITH_TWIN(cuMemcpy2DUnaligned, _v2_ptds, 3020),
    WITH_TWIN(cuMemcpy2DAsync, _v2_ptsz, 3020),
    WITH_TWIN(cuMemcpy3D, _v2_ptds, 3020),
    WITH_TWIN(cuMemcpy3DAsync, _v2_ptsz, 3020),
    WITH_TWIN(cuMemsetD2D8, _v2_ptds, 3020),
    WITH_TWIN(cuMemsetD2D16, _v2_ptds, 3020),
    WITH_TWIN(cuMemsetD2D32, _v2_ptds, 3020),
    WITH_TWIN(cuMemsetD2D8Async, _ptsz, 3020),
    WITH_TWIN(cuMemsetD2D16Async, _ptsz, 3020),
    WITH_TWIN(cuMemsetD2D32Async, _ptsz, 3020),
    WITH_TWIN(cuMemcpyHtoD, _v2_ptds, 3020),
    WITH_TWIN(cuMemcpyDtoH, _v2_ptds, 3020),
    WITH_TWIN(cuMemcpyDtoD, _v2_ptds, 3020),
    WITH_TWIN(cuMemcpyHtoDAsync, _v2_ptsz, 3020),
    WITH_TWIN(cuMemcpyDtoHAsync, _v2_ptsz, 3020),
    WITH_TWIN(cuMemcpyDtoDAsync, _v2_ptsz, 3020),
    WITH_TWIN(cuMemsetD8, _v2_ptds, 3020),
    WITH_TWIN(cuMemsetD16, _v2_ptds, 3020),
    WITH_TWIN(cuMemsetD32, _v2_ptds, 3020),
    WITH_TWIN(cuMemsetD8Async, _ptsz, 3020),
    WITH_TWIN(cuMemsetD16Async, _ptsz, 3020),
    WITH_TWIN(cuMemsetD32Async, _ptsz, 3020),
    PLAIN(cuModuleLoadData, 2000),
    PLAIN(cuModuleLoadDataEx, 2010),
    PLAIN(cuModuleLoadFatBinary, 2000),
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
    WITH_TWIN(cuLaunchKernel, _ptsz, 4000),
    WITH_TWIN(cuLaunchKernelEx, _ptsz, 11060),
    WITH_TWIN(cuLaunchCooperativeKernel, _ptsz, 9000),
    WITH_TWIN(cuLaunchHostFunc, _ptsz, 10000),
    PLAIN(cuCoredumpGetAttributeGlobal, 12010),
    PLAIN(cuCoredumpSetAttribute, 12010),
    PLAIN(cuCoredumpSetAttributeGlobal, 12010),
};

static const struct symbol *find_symbol(const char *name, int version, CUdriverProcAddressQueryResult *status)
{
    *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        if (strcmp(symbols[i].name, name) != 0 && strcmp(symbols[i].abi_name, name) != 0)
            continue;
        if (symbols[i].version <= version) {
            *status = CU_GET_PROC_ADDRESS_SUCCESS;
            return &symbols[i];
        }
        *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    }
    return NULL;
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

TWIN(begin_capture_v1, _ptsz, (CUstream s), (s))
SIM_API CUresult get_uuid_v1(CUuuid *uuid, CUdevice device)
{
    return cuDeviceGetUuid(uuid, device);
}

SIM_API CUresult elapsed_time_v1(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    return cuEventElapsedTime(pMilliseconds, hStart, hEnd);
}

TWIN(get_capture_info_v1, _ptsz, (CUstream s, CUstreamCaptureStatus *c, cuuint64_t *i), (s, c, i))
TWIN(update_dependencies_v1, _ptsz, (CUstream s, CUgraphNode *d, size_t n, unsigned f), (s, d, n, f))
