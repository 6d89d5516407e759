/*
 * A CUDA runtime for PyTorch on the simulated device: the functions that PyTorch needs without kernels, passed on to the
 * driver. The real runtime asks for more of a driver than the simulated one has. Preloaded, so that it comes before the real
 * one; test_torch.py compiles it.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *driver;
static __thread int device;
static __thread cudaError_t last;
static CUcontext contexts[8];

static void *function(const char *name)
{
    void *found = driver ? dlsym(driver, name) : NULL;
    if (found)
        return found;
    fprintf(stderr, "cudart.c: no %s\n", name);
    abort();
}

#define CALL(name, types, ...) ((CUresult(*) types)function(name))(__VA_ARGS__)

static void start(void)
{
    if (driver)
        return;
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    CALL("cuInit", (unsigned), 0);
}

static void enter(void)
{
    CUcontext current = NULL;
    start();
    if (!contexts[device])
        CALL("cuDevicePrimaryCtxRetain", (CUcontext *, CUdevice), &contexts[device], device);
    CALL("cuCtxGetCurrent", (CUcontext *), &current);
    if (current != contexts[device])
        CALL("cuCtxSetCurrent", (CUcontext), contexts[device]);
}

static cudaError_t keep(CUresult result)
{
    if (result != CUDA_SUCCESS)
        last = (cudaError_t)result;
    return (cudaError_t)result;
}

/* A function that is the driver's own: name, the driver's, parameter types of both, parameters, arguments. */
#define SAME(name, of_driver, types, parameters, ...)                                                                          \
    cudaError_t name parameters                                                                                                \
    {                                                                                                                          \
        enter();                                                                                                               \
        return keep(CALL(of_driver, types, __VA_ARGS__));                                                                      \
    }
#define FIXED(name, parameters, statement)                                                                                     \
    cudaError_t name parameters                                                                                                \
    {                                                                                                                          \
        statement;                                                                                                             \
        return cudaSuccess;                                                                                                    \
    }

FIXED(cudaGetDevice, (int *out), *out = device)
FIXED(cudaSetDevice, (int number), device = number; enter())
FIXED(cudaInitDevice, (int number, unsigned device_flags, unsigned flags), (void)number; (void)device_flags; (void)flags)
FIXED(cudaDriverGetVersion, (int *out), start(); *out = 13000) /* it starts the driver, as the real one does */
FIXED(cudaRuntimeGetVersion, (int *out), *out = 13000)
FIXED(cudaDeviceGetStreamPriorityRange, (int *least, int *most), *least = 0; *most = -1)
FIXED(cudaDeviceCanAccessPeer, (int *out, int one, int other), *out = one != other)
FIXED(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count), (void)graph; (void)nodes; *count = 1)
FIXED(cudaFreeHost, (void *pointer), free(pointer))
FIXED(cudaHostAlloc, (void **out, size_t size, unsigned flags), *out = aligned_alloc(4096, (size + 4095) & ~(size_t)4095);
      (void)flags)

SAME(cudaGetDeviceCount, "cuDeviceGetCount", (int *), (int *out), out)
SAME(cudaDeviceSynchronize, "cuCtxSynchronize", (void), (void), )
SAME(cudaMemGetInfo, "cuMemGetInfo_v2", (size_t *, size_t *), (size_t * left, size_t *all), left, all)
SAME(cudaStreamCreateWithPriority, "cuStreamCreate", (CUstream *, unsigned), (cudaStream_t * out, unsigned flags, int priority),
     ((void)priority, out), flags)
SAME(cudaStreamQuery, "cuStreamQuery", (CUstream), (cudaStream_t stream), stream)
SAME(cudaStreamSynchronize, "cuStreamSynchronize", (CUstream), (cudaStream_t stream), stream)
SAME(cudaStreamWaitEvent, "cuStreamWaitEvent", (CUstream, CUevent, unsigned),
     (cudaStream_t stream, cudaEvent_t event, unsigned flags), stream, event, flags)
SAME(cudaStreamIsCapturing, "cuStreamIsCapturing", (CUstream, void *), (cudaStream_t stream, enum cudaStreamCaptureStatus *out),
     stream, out)
SAME(cudaStreamGetCaptureInfo, "cuStreamGetCaptureInfo_v2", (CUstream, void *, void *, void *, const void *, size_t *),
     (cudaStream_t stream, enum cudaStreamCaptureStatus *out, unsigned long long *id, cudaGraph_t *graph,
      const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges, size_t *count),
     stream, out, id, graph, ((void)edges, (const void *)nodes), count)
SAME(cudaStreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream, int), (cudaStream_t stream, enum cudaStreamCaptureMode mode),
     stream, (int)mode)
SAME(cudaStreamEndCapture, "cuStreamEndCapture", (CUstream, void *), (cudaStream_t stream, cudaGraph_t *out), stream, out)
SAME(cudaThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", (void *), (enum cudaStreamCaptureMode * mode),
     mode)
SAME(cudaGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", (void *, void *, unsigned long long),
     (cudaGraphExec_t * out, cudaGraph_t graph, unsigned long long flags), out, graph, flags)
SAME(cudaGraphLaunch, "cuGraphLaunch", (void *, CUstream), (cudaGraphExec_t graph, cudaStream_t stream), graph, stream)
SAME(cudaGraphDestroy, "cuGraphDestroy", (void *), (cudaGraph_t graph), graph)
SAME(cudaGraphExecDestroy, "cuGraphExecDestroy", (void *), (cudaGraphExec_t graph), graph)
SAME(cudaEventCreateWithFlags, "cuEventCreate", (CUevent *, unsigned), (cudaEvent_t * out, unsigned flags), out, flags)
SAME(cudaEventRecord, "cuEventRecord", (CUevent, CUstream), (cudaEvent_t event, cudaStream_t stream), event, stream)
SAME(cudaEventRecordWithFlags, "cuEventRecord", (CUevent, CUstream), (cudaEvent_t event, cudaStream_t stream, unsigned flags),
     event, ((void)flags, stream))
SAME(cudaEventQuery, "cuEventQuery", (CUevent), (cudaEvent_t event), event)
SAME(cudaEventSynchronize, "cuEventSynchronize", (CUevent), (cudaEvent_t event), event)
SAME(cudaEventDestroy, "cuEventDestroy_v2", (CUevent), (cudaEvent_t event), event)
SAME(cudaMemcpy, "cuMemcpy", (CUdeviceptr, CUdeviceptr, size_t),
     (void *to, const void *from, size_t size, enum cudaMemcpyKind kind), (CUdeviceptr)to, ((void)kind, (CUdeviceptr)from),
     size)
SAME(cudaMemcpyAsync, "cuMemcpyAsync", (CUdeviceptr, CUdeviceptr, size_t, CUstream),
     (void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream), (CUdeviceptr)to,
     ((void)kind, (CUdeviceptr)from), size, stream)
SAME(cudaMemsetAsync, "cuMemsetD8Async", (CUdeviceptr, unsigned char, size_t, CUstream),
     (void *to, int value, size_t size, cudaStream_t stream), (CUdeviceptr)to, (unsigned char)value, size, stream)
SAME(cudaMalloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t), (void **out, size_t size), (CUdeviceptr *)out, size)
SAME(cudaFree, "cuMemFree_v2", (CUdeviceptr), (void *pointer), (CUdeviceptr)pointer)

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last;
    last = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : "an error of the simulated device";
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int number)
{
    enter();
    memset(out, 0, sizeof *out);
    strcpy(out->name, "simulated");
    out->major = 9;
    out->multiProcessorCount = 132;
    out->warpSize = 32;
    out->maxThreadsPerBlock = 1024;
    out->maxThreadsPerMultiProcessor = 2048;
    return keep(CALL("cuDeviceTotalMem_v2", (size_t *, CUdevice), &out->totalGlobalMem, number));
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *pointer)
{
    *out = (struct cudaPointerAttributes){
        .type = cudaMemoryTypeDevice, .device = device, .devicePointer = (void *)(size_t)pointer};
    return cudaSuccess;
}
