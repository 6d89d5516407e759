/*
 * The CUDA driver as a program finds it, in one of three ways, chosen when it is compiled:
 *   LOOKUP_DLSYM     dlopen of libcuda.so.1, dlsym of each function
 *   LOOKUP_PROC      dlsym of cuGetProcAddress alone, which is asked for the rest. LOOKUP in the environment says how: v1 or v2
 *                    (the default), and v1-ptds or v2-ptds for per-thread default streams
 *   LOOKUP_LINKED    linked with libcuda.so.1
 * With CUDA_API_PER_THREAD_DEFAULT_STREAM the names are cuda.h's for per-thread default streams.
 */
#ifndef PROGRAMS_DRIVER_H
#define PROGRAMS_DRIVER_H

#pragma GCC diagnostic ignored "-Wunused-parameter" /* a callback has the parameters that its caller wants */

#include <cuda.h>
#include <sim/sim.h>

#define DRIVER_FUNCTIONS(X)                                                                                                    \
    X(cuInit)                                                                                                                  \
    X(cuGetErrorName)                                                                                                          \
    X(cuDeviceGetDefaultMemPool)                                                                                               \
    X(cuDeviceSetMemPool)                                                                                                      \
    X(cuDevicePrimaryCtxRetain)                                                                                                \
    X(cuDevicePrimaryCtxRelease)                                                                                               \
    X(cuDevicePrimaryCtxReset)                                                                                                 \
    X(cuCtxCreate)                                                                                                             \
    X(cuCtxDestroy)                                                                                                            \
    X(cuCtxSetCurrent)                                                                                                         \
    X(cuCtxSynchronize)                                                                                                        \
    X(cuCtxEnablePeerAccess)                                                                                                   \
    X(cuDeviceGetDevResource)                                                                                                  \
    X(cuDevSmResourceSplitByCount)                                                                                             \
    X(cuDevResourceGenerateDesc)                                                                                               \
    X(cuGreenCtxCreate)                                                                                                        \
    X(cuGreenCtxDestroy)                                                                                                       \
    X(cuGreenCtxStreamCreate)                                                                                                  \
    X(cuCtxFromGreenCtx)                                                                                                       \
    X(cuStreamCreate)                                                                                                          \
    X(cuStreamDestroy)                                                                                                         \
    X(cuStreamSynchronize)                                                                                                     \
    X(cuStreamQuery)                                                                                                           \
    X(cuStreamBeginCapture)                                                                                                    \
    X(cuStreamEndCapture)                                                                                                      \
    X(cuStreamBeginCaptureToGraph)                                                                                             \
    X(cuStreamGetCaptureInfo)                                                                                                  \
    X(cuStreamUpdateCaptureDependencies)                                                                                       \
    X(cuStreamWaitEvent)                                                                                                       \
    X(cuEventCreate)                                                                                                           \
    X(cuEventDestroy)                                                                                                          \
    X(cuEventRecord)                                                                                                           \
    X(cuEventSynchronize)                                                                                                      \
    X(cuEventElapsedTime)                                                                                                      \
    X(cuEventQuery)                                                                                                            \
    X(cuGraphCreate)                                                                                                           \
    X(cuGraphAddMemAllocNode)                                                                                                  \
    X(cuGraphAddMemFreeNode)                                                                                                   \
    X(cuGraphAddMemsetNode)                                                                                                    \
    X(cuGraphAddChildGraphNode)                                                                                                \
    X(cuGraphClone)                                                                                                            \
    X(cuGraphExecUpdate)                                                                                                       \
    X(cuGraphConditionalHandleCreate)                                                                                          \
    X(cuGraphInstantiateWithFlags)                                                                                             \
    X(cuGraphLaunch)                                                                                                           \
    X(cuGraphDestroy)                                                                                                          \
    X(cuGraphExecDestroy)                                                                                                      \
    X(cuLaunchHostFunc)                                                                                                        \
    X(cuMemAlloc)                                                                                                              \
    X(cuMemAllocPitch)                                                                                                         \
    X(cuMemAllocAsync)                                                                                                         \
    X(cuMemAllocFromPoolAsync)                                                                                                 \
    X(cuMemAllocManaged)                                                                                                       \
    X(cuMemAllocHost)                                                                                                          \
    X(cuMemHostAlloc)                                                                                                          \
    X(cuMemHostGetDevicePointer)                                                                                               \
    X(cuMemHostRegister)                                                                                                       \
    X(cuMemHostUnregister)                                                                                                     \
    X(cuMemFreeHost)                                                                                                           \
    X(cuMemFree)                                                                                                               \
    X(cuMemFreeAsync)                                                                                                          \
    X(cuMemGetInfo)                                                                                                            \
    X(cuMemGetAddressRange)                                                                                                    \
    X(cuPointerGetAttribute)                                                                                                   \
    X(cuPointerGetAttributes)                                                                                                  \
    X(cuIpcGetMemHandle)                                                                                                       \
    X(cuMemPoolCreate)                                                                                                         \
    X(cuMemPoolDestroy)                                                                                                        \
    X(cuMemPoolGetAttribute)                                                                                                   \
    X(cuMemPoolSetAttribute)                                                                                                   \
    X(cuMemPoolTrimTo)                                                                                                         \
    X(cuMemPoolSetAccess)                                                                                                      \
    X(cuMemGetAccess)                                                                                                          \
    X(cuMemcpy)                                                                                                                \
    X(cuMemcpyHtoD)                                                                                                            \
    X(cuMemcpyDtoH)                                                                                                            \
    X(cuMemcpyDtoD)                                                                                                            \
    X(cuMemcpyHtoDAsync)                                                                                                       \
    X(cuMemcpyDtoHAsync)                                                                                                       \
    X(cuMemcpyDtoDAsync)                                                                                                       \
    X(cuMemcpyAsync)                                                                                                           \
    X(cuMemcpy2D)                                                                                                              \
    X(cuMemcpy3D)                                                                                                              \
    X(cuMemsetD8)                                                                                                              \
    X(cuMemsetD16)                                                                                                             \
    X(cuMemsetD32)                                                                                                             \
    X(cuMemsetD8Async)                                                                                                         \
    X(cuMemsetD32Async)                                                                                                        \
    X(cuMemsetD2D8)                                                                                                            \
    X(cuModuleLoadData)                                                                                                        \
    X(cuModuleGetFunction)                                                                                                     \
    X(cuModuleUnload)                                                                                                          \
    X(cuLaunchKernel)                                                                                                          \
    X(cuLaunchKernelEx)                                                                                                        \
    X(cuLaunchCooperativeKernel)

/* A program that needs more names a header with those. */
#ifdef MORE_FUNCTIONS
#include MORE_FUNCTIONS
#else
#define MORE_DRIVER_FUNCTIONS(X)
#endif

/* The members' names are cuda.h's macros, expanded here and where they are used alike. */
struct driver {
#define MEMBER(name) __typeof__(&name) name;
    DRIVER_FUNCTIONS(MEMBER) MORE_DRIVER_FUNCTIONS(MEMBER)
#undef MEMBER
};

extern struct driver cu;

/* Finds all of it; ends the program with status 3 and a message where something is missing. */
void driver_find(void);

/* A function in the way that the program was compiled for. */
void *driver_function(const char *base_name, const char *abi_name, int version);

/* Of the simulated device. */
void driver_register_kernel(const cusim_kernel *kernel);
void *driver_of_sim(const char *name); /* a function of sim.h */

/* A function of the C API: in the process of a program that knows nothing of it. NULL without the preload library. */
void *driver_of_cufence(const char *name);

#endif
