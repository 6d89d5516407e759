/*
 * Puts libtorch's CUDA tensors under cufence from C++: the pluggable allocator, with functions that throw what the native
 * allocator throws. Header only; link libtorch and libcufence.
 */
#ifndef CUFENCE_TORCH_HPP
#define CUFENCE_TORCH_HPP

#include <cufence.h>

#include <c10/util/Exception.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include <cstdio>
#include <stdexcept>
#include <string>

namespace cufence_torch
{

/* PyTorch does not look at what an allocator returns, so a failure has to be an exception. */
inline void *allocate(std::size_t size, int device, cudaStream_t stream)
{
    void *pointer = nullptr;
    cufence_status status = cufence_malloc(&pointer, size, device, stream);
    TORCH_CHECK_WITH(OutOfMemoryError, status != CUFENCE_ERROR_OUT_OF_MEMORY && status != CUFENCE_ERROR_OUT_OF_ADDRESS_SPACE,
                     "CUDA out of memory. Tried to allocate ", size, " bytes on GPU ", device,
                     ". cufence: ", cufence_error_detail());
    TORCH_CHECK(status == CUFENCE_OK, "cufence: cannot allocate ", size, " bytes on GPU ", device, ": ",
                cufence_error_detail());
    return pointer;
}

/* Tensors are freed in destructors: an exception would end the program. */
inline void release(void *pointer, std::size_t size, int device, cudaStream_t stream)
{
    if (cufence_free(pointer, stream) != CUFENCE_OK)
        std::fprintf(stderr, "cannot free %p (%zu bytes on GPU %d): %s\n", pointer, size, device, cufence_error_detail());
}

/* Memory that is not cufence's may be named too; the native allocator passes it over. */
inline void record_stream(void *pointer, cudaStream_t stream)
{
    cufence_status status = pointer ? cufence_record_stream(pointer, stream) : CUFENCE_OK;
    TORCH_CHECK(status == CUFENCE_OK || status == CUFENCE_ERROR_NOT_FOUND,
                "cufence: record_stream failed: ", cufence_error_detail());
}

/*
 * Starts cufence and makes it libtorch's CUDA allocator. Call it before anything starts CUDA: core dumps must be armed
 * before the first context, and an allocator that is in use cannot be replaced. `options` as for cufence_init(), NULL for
 * those of CUFENCE_OPTIONS alone. Throws std::runtime_error with the reason, or c10::Error where libtorch refuses.
 */
inline void install(const char *options)
{
    if (cufence_init(options) != CUFENCE_OK)
        throw std::runtime_error(std::string("cufence_init: ") + cufence_error_detail());
    namespace pluggable = torch::cuda::CUDAPluggableAllocator;
    auto allocator = std::make_shared<pluggable::CUDAPluggableAllocator>(allocate, release);
    allocator->set_record_stream_fn(record_stream);
    allocator->set_reset_fn([] { (void)cufence_trim(-1); });
    pluggable::changeCurrentAllocator(allocator);
}

} // namespace cufence_torch

#endif
