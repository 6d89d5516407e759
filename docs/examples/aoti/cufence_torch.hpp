/* Puts libtorch's CUDA tensors under cufence from C++, with the allocator that Python programs get. Link libtorch and
 * libcufence. */
#ifndef CUFENCE_TORCH_HPP
#define CUFENCE_TORCH_HPP

#include <cufence.h>

#include <stdexcept>
#include <string>

/* Of libcufence: makes the class for this version of PyTorch (null: found above libtorch) its allocator. Returns null, or why
 * not. */
extern "C" const char *cufence_torch_adopt(const char *version, int is_traced);

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
    if (const char *why = cufence_torch_adopt(nullptr, 0))
        throw std::runtime_error(std::string("cufence cannot be libtorch's allocator: ") + why);
}

} // namespace cufence_torch

#endif
