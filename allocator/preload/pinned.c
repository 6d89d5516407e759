/* Host memory that kernels can reach is the driver's. It is noted, because a second launch needs it (witness/hosted.h). */
#include "internal.h"

static CUresult noted(CUresult result, void *const *out, size_t size)
{
    if (result == CUDA_SUCCESS)
        note_pinned((CUdeviceptr)(uintptr_t)*out, size, PINNED_HOST);
    return result;
}

CUresult hook_cuMemAllocHost_v2(void **out, size_t size)
{
    return noted(real.cuMemAllocHost_v2(out, size), out, size);
}

CUresult hook_cuMemHostAlloc(void **out, size_t size, unsigned flags)
{
    return noted(real.cuMemHostAlloc(out, size, flags), out, size);
}

CUresult hook_cuMemHostRegister_v2(void *pointer, size_t size, unsigned flags)
{
    CUresult result = real.cuMemHostRegister_v2(pointer, size, flags);
    if (result == CUDA_SUCCESS)
        note_pinned((CUdeviceptr)(uintptr_t)pointer, size, flags & CU_MEMHOSTREGISTER_IOMEMORY ? PINNED_DEVICE : PINNED_HOST);
    return result;
}

#define FREE(symbol)                                                                                                           \
    CUresult hook_##symbol(void *pointer)                                                                                      \
    {                                                                                                                          \
        uint64_t number = is_active() ? pinned_number((uint64_t)(uintptr_t)pointer) : 0;                                       \
        CUresult result = real.symbol(pointer);                                                                                \
        if (result == CUDA_SUCCESS)                                                                                            \
            pinned_remove(number);                                                                                             \
        return result;                                                                                                         \
    }
FREE(cuMemFreeHost)
FREE(cuMemHostUnregister)

void note_pinned(CUdeviceptr address, size_t size, enum pinned_kind kind)
{
    struct context *context = is_active() ? context_current() : NULL;
    if (context)
        pinned_add(context, address, size, kind);
}
