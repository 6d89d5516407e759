/*
 * Puts libtorch's CUDA tensors under cufence from C++: the allocator that Python programs get (allocator.cpp), compiled into
 * the program against its own libtorch. Include it in one source; link libtorch and libcufence.
 */
#ifndef CUFENCE_TORCH_HPP
#define CUFENCE_TORCH_HPP

#include <torch/version.h>

#define CUFENCE_TORCH_VERSION (TORCH_VERSION_MAJOR * 10000 + TORCH_VERSION_MINOR * 100 + TORCH_VERSION_PATCH)
#include <allocator.cpp>

#include <stdexcept>
#include <string>

namespace cufence_torch
{

/*
 * Starts cufence and makes it libtorch's CUDA allocator. Call it before anything starts CUDA: core dumps must be armed
 * before the first context, and an allocator that is in use cannot be replaced. `options` as for cufence_init(), NULL for
 * those of CUFENCE_OPTIONS alone. Throws std::runtime_error with the reason.
 */
inline void install(const char *options)
{
    if (cufence_init(options) != CUFENCE_OK)
        throw std::runtime_error(std::string("cufence_init: ") + cufence_error_detail());
    if (const char *why = cufence_torch_install(0))
        throw std::runtime_error(std::string("cufence cannot be libtorch's allocator: ") + why);
}

} // namespace cufence_torch

#endif
