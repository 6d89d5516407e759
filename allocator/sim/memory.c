#include "call.h"
#include "capture.h"
#include "host.h"
#include "space.h"

/* Measured: cuMemAddressReserve, cuMemMap and cuMemSetAccess work after the context's sticky error. */
SIM_API CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                                     unsigned long long flags)
{
    CALL_ENTER("cuMemAddressReserve");
    return flags != 0 ? CUDA_ERROR_INVALID_VALUE : space_reserve(ptr, size, alignment, addr);
}

SIM_API CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    CALL_ENTER("cuMemAddressFree");
    CALL_TRY(context_check());
    return space_unreserve(ptr, size);
}

SIM_API CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                             unsigned long long flags)
{
    CALL_ENTER("cuMemCreate");
    CALL_TRY(context_check());
    return flags != 0 ? CUDA_ERROR_INVALID_VALUE : space_create(handle, size, prop);
}

SIM_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    CALL_ENTER("cuMemRelease");
    CALL_TRY(context_check());
    return space_release(handle);
}

SIM_API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    CALL_ENTER("cuMemRetainAllocationHandle");
    return handle == NULL ? CUDA_ERROR_INVALID_VALUE : space_retain(handle, (CUdeviceptr)(uintptr_t)addr);
}

SIM_API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
    CALL_ENTER("cuMemGetAllocationPropertiesFromHandle");
    return prop == NULL ? CUDA_ERROR_INVALID_VALUE : space_properties(prop, handle);
}

SIM_API CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                          unsigned long long flags)
{
    CALL_ENTER("cuMemMap");
    return flags != 0 ? CUDA_ERROR_INVALID_VALUE : space_map(ptr, size, offset, handle);
}

SIM_API CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    CALL_ENTER("cuMemUnmap");
    CALL_TRY(context_check());
    return space_unmap(ptr, size);
}

SIM_API CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    CALL_ENTER("cuMemSetAccess");
    CALL_REFUSE(desc == NULL || count == 0, INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        CALL_REFUSE(desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE, NOT_SUPPORTED);
        CALL_TRY(space_set_access(ptr, size, desc[i].location.id, desc[i].flags));
    }
    return CUDA_SUCCESS;
}

SIM_API CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
    CALL_ENTER("cuMemGetAccess");
    CALL_REFUSE(flags == NULL || location == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE, INVALID_VALUE);
    return space_get_access(ptr, location->id, flags);
}

SIM_API CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                               CUmemAllocationGranularity_flags option)
{
    CALL_ENTER("cuMemGetAllocationGranularity");
    CALL_REFUSE(granularity == NULL || prop == NULL || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, INVALID_VALUE);
    CALL_REFUSE(prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE && !config_has_device(prop->location.id), INVALID_DEVICE);
    *granularity = SIM_GRANULARITY;
    return CUDA_SUCCESS;
}

SIM_API CUresult cuMemGetInfo(size_t *free, size_t *total)
{
    CALL_ENTER("cuMemGetInfo");
    CONTEXT_CURRENT(context);
    CALL_REFUSE(free == NULL || total == NULL, INVALID_VALUE);
    space_memory_info(context->device, free, total);
    return CUDA_SUCCESS;
}

SIM_API CUresult cuMemAlloc(CUdeviceptr *dptr, size_t bytesize)
{
    CALL_ENTER("cuMemAlloc");
    CONTEXT_CURRENT(context);
    CALL_TRY(capture_check_unsafe());
    return space_allocate(dptr, bytesize, context->home, context->device, NULL);
}

SIM_API CUresult cuMemAllocPitch(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                                 unsigned int ElementSizeBytes)
{
    CALL_ENTER("cuMemAllocPitch");
    CONTEXT_CURRENT(context);
    CALL_TRY(capture_check_unsafe());
    size_t pitch, size;
    if (pPitch == NULL || (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16) ||
        __builtin_add_overflow(WidthInBytes, 511, &pitch) || __builtin_mul_overflow(pitch / 512 * 512, Height, &size))
        return CUDA_ERROR_INVALID_VALUE;
    *pPitch = pitch / 512 * 512; /* measured on current devices: rows are aligned to 512 bytes */
    return space_allocate(dptr, size, context->home, context->device, NULL);
}

/* Returns the context that a free waits for: the owner of the memory, whatever is current (measured: not a peer that uses it).
 * NULL for none: pool memory is freed at once, as cuda.h says. */
static CUcontext owner_of(CUdeviceptr address)
{
    struct space_range range;
    struct host_range host;
    if (space_find(address, &range) == CUDA_SUCCESS)
        return range.pool == NULL ? range.context : NULL;
    return host_find(address, &host) ? host.context : NULL;
}

SIM_API CUresult cuMemFree(CUdeviceptr dptr)
{
    CALL_ENTER("cuMemFree");
    CONTEXT_CURRENT(context);
    if (dptr == 0)
        return CUDA_SUCCESS;
    CALL_TRY(capture_check_unsafe());
    CUcontext owner = owner_of(dptr);
    if (owner != NULL) {
        HOLD(&queue_lock);
        context_wait_locked(owner);
        CALL_TRY(context_error(owner));
    }
    return space_is_device(dptr) ? space_free(dptr) : host_drop(dptr, HOST_MANAGED);
}
