// A custom call for JAX: y = x + 1 over `count` floats, and with count = the buffer's length + 1 it leaves both buffers.
#include <cuda_runtime.h>
#include <xla/ffi/api/ffi.h>

namespace ffi = xla::ffi;

__global__ void k_oob(const float *x, float *y, long count)
{
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < count) {
        float v = x[i]; // FAULT
        y[i] = v + 1.0f;
    }
}

static ffi::Error add_one(cudaStream_t stream, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y, int64_t surplus)
{
    long count = (long)(x.element_count() + surplus);
    k_oob<<<(unsigned)((count + 127) / 128), 128, 0, stream>>>(x.typed_data(), y->typed_data(), count);
    return cudaGetLastError() == cudaSuccess ? ffi::Error::Success() : ffi::Error::Internal("the launch failed");
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(AddOne, add_one,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<cudaStream_t>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<int64_t>("surplus"));
