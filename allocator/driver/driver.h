/*
 * The CUDA driver as a table of functions. No other file names a CUDA entry point, and nothing links libcuda.
 *
 * The library is libcuda.so.1, or what CUFENCE_DRIVER names: "sim" for the simulated device installed beside libcufence.so,
 * anything else is a path. Functions are looked up with cuGetProcAddress at the version in the table, which fixes their
 * signature, or with dlsym if the driver is older than cuGetProcAddress (CUDA 11.3).
 *
 * Lookups bypass an interposed dlsym: under the preload library, dlsym returns hooks.
 *
 * Thread safety: driver_load() may be called by any thread at any time; `driver` is constant once it has returned OK.
 */
#pragma once

#include <cuda.h>
#include <cufence.h>
#include <stddef.h>
#include <stdint.h>

/* X(function, CUDA version that introduced this signature, REQUIRED or OPTIONAL: newer than CUDA 11.3, may be NULL). */
#define DRIVER_FUNCTIONS(X)                                                                                                    \
    X(cuInit, 2000, REQUIRED)                                                                                                  \
    X(cuDriverGetVersion, 2020, REQUIRED)                                                                                      \
    X(cuGetErrorName, 6000, REQUIRED)                                                                                          \
    X(cuDeviceGet, 2000, REQUIRED)                                                                                             \
    X(cuDeviceGetCount, 2000, REQUIRED)                                                                                        \
    X(cuDeviceGetName, 2000, REQUIRED)                                                                                         \
    X(cuDeviceGetAttribute, 2000, REQUIRED)                                                                                    \
    X(cuDeviceTotalMem, 3020, REQUIRED)                                                                                        \
    X(cuDevicePrimaryCtxRetain, 7000, REQUIRED)                                                                                \
    X(cuDevicePrimaryCtxRelease, 11000, REQUIRED)                                                                              \
    X(cuDevicePrimaryCtxGetState, 7000, REQUIRED)                                                                              \
    X(cuCtxGetCurrent, 4000, REQUIRED)                                                                                         \
    X(cuCtxSetCurrent, 4000, REQUIRED)                                                                                         \
    X(cuCtxPushCurrent, 4000, REQUIRED)                                                                                        \
    X(cuCtxPopCurrent, 4000, REQUIRED)                                                                                         \
    X(cuCtxGetDevice, 2000, REQUIRED)                                                                                          \
    X(cuCtxSynchronize, 2000, REQUIRED)                                                                                        \
    X(cuThreadExchangeStreamCaptureMode, 10010, REQUIRED)                                                                      \
    X(cuStreamIsCapturing, 10000, REQUIRED)                                                                                    \
    X(cuStreamCreate, 2000, REQUIRED)                                                                                          \
    X(cuStreamDestroy, 4000, REQUIRED)                                                                                         \
    X(cuStreamSynchronize, 2000, REQUIRED)                                                                                     \
    X(cuStreamQuery, 2000, REQUIRED)                                                                                           \
    X(cuEventCreate, 2000, REQUIRED)                                                                                           \
    X(cuEventDestroy, 4000, REQUIRED)                                                                                          \
    X(cuEventRecord, 2000, REQUIRED)                                                                                           \
    X(cuEventQuery, 2000, REQUIRED)                                                                                            \
    X(cuEventSynchronize, 2000, REQUIRED)                                                                                      \
    X(cuMemAddressReserve, 10020, REQUIRED)                                                                                    \
    X(cuMemAddressFree, 10020, REQUIRED)                                                                                       \
    X(cuMemCreate, 10020, REQUIRED)                                                                                            \
    X(cuMemRelease, 10020, REQUIRED)                                                                                           \
    X(cuMemMap, 10020, REQUIRED)                                                                                               \
    X(cuMemUnmap, 10020, REQUIRED)                                                                                             \
    X(cuMemSetAccess, 10020, REQUIRED)                                                                                         \
    X(cuMemGetAllocationGranularity, 10020, REQUIRED)                                                                          \
    X(cuMemGetInfo, 3020, REQUIRED)                                                                                            \
    X(cuMemcpyHtoD, 3020, REQUIRED)                                                                                            \
    X(cuMemcpyDtoH, 3020, REQUIRED)                                                                                            \
    X(cuMemcpyDtoHAsync, 3020, REQUIRED)                                                                                       \
    X(cuMemHostAlloc, 2020, REQUIRED)                                                                                          \
    X(cuMemsetD8Async, 3020, REQUIRED)                                                                                         \
    X(cuModuleLoadData, 2000, REQUIRED)                                                                                        \
    X(cuModuleGetFunction, 2000, REQUIRED)                                                                                     \
    X(cuLaunchKernel, 4000, REQUIRED)                                                                                          \
    X(cuMemHostRegister, 6050, REQUIRED)                                                                                       \
    X(cuMemHostGetDevicePointer, 3020, REQUIRED)                                                                               \
    X(cuMemAlloc, 3020, REQUIRED)                                                                                              \
    X(cuMemFree, 3020, REQUIRED)                                                                                               \
    X(cuMemAllocAsync, 11020, REQUIRED)                                                                                        \
    X(cuMemFreeAsync, 11020, REQUIRED)                                                                                         \
    X(cuMemPoolTrimTo, 11020, REQUIRED)                                                                                        \
    X(cuStreamWaitEvent, 3020, REQUIRED)                                                                                       \
    X(cuDeviceCanAccessPeer, 4000, REQUIRED)                                                                                   \
    X(cuDeviceGetUuid, 11040, OPTIONAL)                                                                                        \
    X(cuMemRetainAllocationHandle, 11000, REQUIRED)                                                                            \
    X(cuMemExportToShareableHandle, 10020, REQUIRED)                                                                           \
    X(cuMemImportFromShareableHandle, 10020, REQUIRED)                                                                         \
    X(cuModuleGetGlobal, 3020, REQUIRED)                                                                                       \
    X(cuMemcpyDtoD, 3020, REQUIRED)                                                                                            \
    X(cuFuncSetAttribute, 9000, REQUIRED)                                                                                      \
    X(cuLaunchKernelEx, 11060, OPTIONAL)                                                                                       \
    X(cuDeviceGetMemPool, 11020, REQUIRED)                                                                                     \
    X(cuDeviceGetDefaultMemPool, 11020, REQUIRED)                                                                              \
    X(cuStreamGetCtx, 9020, REQUIRED)                                                                                          \
    X(cuStreamGetFlags, 5050, REQUIRED)                                                                                        \
    X(cuPointerGetAttribute, 4000, REQUIRED)                                                                                   \
    X(cuCtxFromGreenCtx, 12040, OPTIONAL)                                                                                      \
    X(cuCtxGetId, 12000, OPTIONAL)                                                                                             \
    X(cuFuncGetName, 12030, OPTIONAL)                                                                                          \
    X(cuFuncGetParamInfo, 12040, OPTIONAL)                                                                                     \
    X(cuKernelGetName, 12030, OPTIONAL)                                                                                        \
    X(cuKernelGetParamInfo, 12040, OPTIONAL)                                                                                   \
    X(cuLibraryGetKernel, 12000, OPTIONAL)                                                                                     \
    X(cuKernelGetFunction, 12000, OPTIONAL)                                                                                    \
    X(cuFuncGetModule, 11000, REQUIRED)                                                                                        \
    X(cuKernelGetLibrary, 12050, OPTIONAL)                                                                                     \
    X(cuUserObjectCreate, 11030, REQUIRED)                                                                                     \
    X(cuUserObjectRelease, 11030, REQUIRED)                                                                                    \
    X(cuDeviceGetGraphMemAttribute, 11040, OPTIONAL)                                                                           \
    X(cuGraphRetainUserObject, 11030, REQUIRED)                                                                                \
    X(cuGraphGetNodes, 10000, REQUIRED)                                                                                        \
    X(cuGraphNodeGetType, 10000, REQUIRED)                                                                                     \
    X(cuGraphChildGraphNodeGetGraph, 10000, REQUIRED)                                                                          \
    X(cuGraphMemcpyNodeGetParams, 10000, REQUIRED)                                                                             \
    X(cuGraphMemsetNodeGetParams, 10000, REQUIRED)                                                                             \
    X(cuCoredumpSetAttributeGlobal, 12010, OPTIONAL)                                                                           \
    X(cuCoredumpGetAttributeGlobal, 12010, OPTIONAL)

struct driver {
    void *library;                                                  /* from dlopen */
    int version;                                                    /* from cuDriverGetVersion: 13000 = CUDA 13.0 */
    int is_sim;                                                     /* the simulated device */
    char path[512];                                                 /* path that was opened */
#define X(function, version_, need) __typeof__(function) *function; /* NOLINT(bugprone-macro-parentheses): a declaration */
    DRIVER_FUNCTIONS(X)
#undef X
    /* cuStreamGetCaptureInfo with the signature of CUDA 11.3, not the newest: only the status, id and graph of a capture are
     * needed, the other outputs may be NULL. */
    CUresult (*stream_capture_info)(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                    const CUgraphNode **dependencies, size_t *dependency_count);
};

/* NULL until driver_load() has returned CUFENCE_OK. */
extern const struct driver *driver;

/*
 * Opens the library, looks up the functions and calls cuInit. Returns at once if already loaded. May be retried after a
 * failure.
 * Errors: DRIVER_NOT_FOUND (no library, or not a CUDA driver), DRIVER_TOO_OLD (the message names the missing function and the
 * CUDA version that introduced it), UNSUPPORTED (no device), DRIVER (cuInit failed).
 */
cufence_status driver_load(void);

/* Returns the driver library's exported symbol `name`, or NULL. Opens the library if needed, but calls nothing in it. */
void *driver_symbol(const char *name);

/* Whether an address lies in the driver's library. Opens no library that the program has not: without it, nothing does. */
int driver_contains(const void *address);

/* Returns OK for CUDA_SUCCESS. Otherwise sets "call: NAME (number)" as the thread's error and returns OUT_OF_MEMORY for
 * CUDA_ERROR_OUT_OF_MEMORY, FAULTED for errors for which driver_has_faulted() is true, and DRIVER for all others. */
cufence_status driver_check(CUresult result, const char *call);

/* Whether `result` is a sticky error left by a kernel exception: every later call in the context returns it. */
int driver_has_faulted(CUresult result);

/* Writes the name of a device, by its ordinal, and returns its compute capability, 90 for 9.0. "" and 0 if there is none. */
uint32_t driver_describe(int number, char *name, size_t room);
