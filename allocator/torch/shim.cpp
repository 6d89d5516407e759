/*
 * The C++ part that PyTorch's CUDAPluggableAllocator needs: exceptions that become torch.OutOfMemoryError and
 * torch.AcceleratorError in Python, and the hooks for CUDA graph memory pools, whose arguments are C++ objects.
 *
 * cufence.enable() compiles this file against the installed PyTorch. It needs PyTorch's c10 headers and libc10, but no CUDA
 * headers. CUFENCE_TORCH_VERSION is major * 10000 + minor * 100 + patch of that PyTorch.
 *
 * Thread safety: as described in cufence.h.
 */
#include <cufence.h>

#include <c10/util/Exception.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>

#define SHIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace
{

/* c10::MempoolId_t. The header that defines it differs between versions of PyTorch, the type doesn't. */
using pool_id = std::pair<unsigned long long, unsigned long long>;
using stream_filter = std::function<bool(cufence_stream)>;

constexpr std::int32_t illegal_address = 700; /* cudaErrorIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS */

std::string readable(std::size_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    if (bytes < 1024)
        return std::to_string(bytes) + " bytes";
    double value = static_cast<double>(bytes) / 1024;
    std::size_t unit = 0;
    for (; value >= 1024 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        value /= 1024;
    char text[32];
    std::snprintf(text, sizeof text, "%.2f %s", value, units[unit]);
    return text;
}

[[noreturn]] void raise_faulted(const c10::SourceLocation &where)
{
    /* The first line is PyTorch's own message, which programs match. */
    std::string message = "CUDA error: an illegal memory access was encountered\n"
                          "cufence has reported it: see 'cufence:' in the output above.";
#if CUFENCE_TORCH_VERSION >= 20900
    throw c10::AcceleratorError(where, illegal_address, message);
#else
    throw c10::Error(where, message);
#endif
}

[[noreturn]] void raise(cufence_status status, const std::string &what, const c10::SourceLocation &where)
{
    if (status == CUFENCE_ERROR_FAULTED)
        raise_faulted(where);
    throw c10::Error(where, "cufence: " + what + ": " + cufence_error_detail());
}

[[noreturn]] void raise_allocation(cufence_status status, std::size_t size, int device, const c10::SourceLocation &where)
{
    /* The first sentence matches the native allocator's message, so programs that catch "CUDA out of memory." and halve
     * their batch still work. */
    if (status == CUFENCE_ERROR_OUT_OF_MEMORY || status == CUFENCE_ERROR_OUT_OF_ADDRESS_SPACE ||
        status == CUFENCE_ERROR_OVERFLOW)
        throw c10::OutOfMemoryError(where, "CUDA out of memory. Tried to allocate " + readable(size) + " on GPU " +
                                               std::to_string(device) + ". cufence: " + cufence_error_detail());
    raise(status, "cannot allocate " + std::to_string(size) + " bytes on GPU " + std::to_string(device), where);
}

int pool_contains(cufence_stream stream, void *user)
{
    return (*static_cast<stream_filter *>(user))(stream) ? 1 : 0;
}

void pool_forget(void *user)
{
    delete static_cast<stream_filter *>(user);
}

} // namespace

#define HERE (c10::SourceLocation{__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)})

SHIM_EXPORT void *cufence_shim_alloc(std::size_t size, int device, cufence_stream stream)
{
    void *pointer = nullptr;
    cufence_status status = cufence_malloc(&pointer, size, device, stream);
    if (status != CUFENCE_OK)
        raise_allocation(status, size, device, HERE);
    return pointer;
}

/* noexcept: PyTorch frees in destructors, where an exception would terminate the process. */
SHIM_EXPORT void cufence_shim_free(void *pointer, std::size_t size, int device, cufence_stream stream) noexcept
{
    if (cufence_free(pointer, stream) != CUFENCE_OK)
        std::fprintf(stderr, "cufence: PyTorch could not free %p (%zu bytes on GPU %d): %s\n", pointer, size, device,
                     cufence_error_detail());
}

/* Ignores memory that is not cufence's (imported, or of another library), as the native allocator does. */
SHIM_EXPORT void cufence_shim_record_stream(void *pointer, cufence_stream stream)
{
    if (!pointer)
        return;
    cufence_status status = cufence_record_stream(pointer, stream);
    if (status != CUFENCE_OK && status != CUFENCE_ERROR_NOT_FOUND)
        raise(status, "record_stream failed", HERE);
}

SHIM_EXPORT void cufence_shim_reset()
{
    cufence_status status = cufence_trim(-1);
    if (status != CUFENCE_OK)
        raise(status, "empty_cache failed", HERE);
}

SHIM_EXPORT void cufence_shim_pool_begin(int device, pool_id pool, stream_filter filter)
{
    const std::uint64_t id[2] = {pool.first, pool.second};
    auto owned = std::make_unique<stream_filter>(std::move(filter));
    cufence_status status = cufence_pool_begin(device, id, pool_contains, owned.get(), pool_forget);
    if (status != CUFENCE_OK)
        raise(status, "cannot begin a memory pool", HERE);
    (void)owned.release(); /* pool_forget() deletes it */
}

/* noexcept, like the release: PyTorch calls both from destructors. */
SHIM_EXPORT void cufence_shim_pool_end(int device, pool_id pool) noexcept
{
    const std::uint64_t id[2] = {pool.first, pool.second};
    if (cufence_pool_end(device, id) != CUFENCE_OK)
        std::fprintf(stderr, "cufence: cannot end a memory pool: %s\n", cufence_error_detail());
}

SHIM_EXPORT void cufence_shim_pool_release(int device, pool_id pool) noexcept
{
    const std::uint64_t id[2] = {pool.first, pool.second};
    if (cufence_pool_release(device, id) != CUFENCE_OK)
        std::fprintf(stderr, "cufence: cannot release a memory pool: %s\n", cufence_error_detail());
}
