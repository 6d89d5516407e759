#include "call.h"
#include "capture.h"
#include "space.h"

#include <stdlib.h>
#include <unistd.h>

SIM_API CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                                     unsigned long long flags)
{
    CALL_ENTER("cuMemAddressReserve");
    CALL_TRY(context_check());
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
    CALL_TRY(context_check());
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
    CALL_TRY(context_check());
    if (desc == NULL || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            return CUDA_ERROR_NOT_SUPPORTED;
        CALL_TRY(space_set_access(ptr, size, desc[i].location.id, desc[i].flags));
    }
    return CUDA_SUCCESS;
}

SIM_API CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
    CALL_ENTER("cuMemGetAccess");
    if (flags == NULL || location == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    return space_get_access(ptr, location->id, flags);
}

SIM_API CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                               CUmemAllocationGranularity_flags option)
{
    CALL_ENTER("cuMemGetAllocationGranularity");
    if (granularity == NULL || prop == NULL || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
        (prop->location.id < 0 || (unsigned)prop->location.id >= config_get()->devices))
        return CUDA_ERROR_INVALID_DEVICE;
    *granularity = SIM_GRANULARITY;
    return CUDA_SUCCESS;
}

SIM_API CUresult cuMemGetInfo(size_t *free, size_t *total)
{
    CALL_ENTER("cuMemGetInfo");
    CUcontext context;
    CALL_TRY(context_current(&context));
    if (free == NULL || total == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    space_memory_info(context->device, free, total);
    return CUDA_SUCCESS;
}

SIM_API CUresult cuMemAlloc(CUdeviceptr *dptr, size_t bytesize)
{
    CALL_ENTER("cuMemAlloc");
    CUcontext context;
    CALL_TRY(context_current(&context));
    CALL_TRY(capture_check_unsafe());
    return space_allocate(dptr, bytesize, context, context->device);
}

SIM_API CUresult cuMemAllocPitch(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                                 unsigned int ElementSizeBytes)
{
    CALL_ENTER("cuMemAllocPitch");
    CUcontext context;
    CALL_TRY(context_current(&context));
    CALL_TRY(capture_check_unsafe());
    size_t pitch, size;
    if (pPitch == NULL || (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16) ||
        __builtin_add_overflow(WidthInBytes, 511, &pitch) || __builtin_mul_overflow(pitch / 512 * 512, Height, &size))
        return CUDA_ERROR_INVALID_VALUE;
    *pPitch = pitch / 512 * 512; /* measured on current devices: rows start at multiples of 512 bytes */
    return space_allocate(dptr, size, context, context->device);
}

SIM_API CUresult cuMemFree(CUdeviceptr dptr)
{
    CALL_ENTER("cuMemFree");
    CUcontext context;
    CALL_TRY(context_current(&context));
    if (dptr == 0)
        return CUDA_SUCCESS;
    CALL_TRY(capture_check_unsafe());
    queue_lock();
    context_wait_locked(context);
    queue_unlock();
    CALL_TRY((CUresult)atomic_load(&context->error));
    return space_free(dptr);
}

SIM_API CUresult cuMemGetAddressRange(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    CALL_ENTER("cuMemGetAddressRange");
    struct space_range range;
    CALL_TRY(space_find(dptr, &range));
    if (pbase != NULL)
        *pbase = range.start;
    if (psize != NULL)
        *psize = range.size;
    return CUDA_SUCCESS;
}

SIM_API CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    CALL_ENTER("cuPointerGetAttribute");
    struct space_range range;
    if (data == NULL || space_find(ptr, &range) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = range.context;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = ptr;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = range.device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = range.start;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = range.size;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned *)data = 1;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

SIM_API CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    CALL_ENTER("cuIpcGetMemHandle");
    struct space_range range;
    if (pHandle == NULL || space_find(dptr, &range) != CUDA_SUCCESS || range.context == NULL)
        return CUDA_ERROR_INVALID_VALUE; /* measured for mapped memory */
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult allocate_host(void **pointer, size_t size)
{
    CUcontext context;
    CALL_TRY(context_current(&context));
    CALL_TRY(capture_check_unsafe());
    if (pointer == NULL || size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    return posix_memalign(pointer, (size_t)sysconf(_SC_PAGESIZE), size) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

SIM_API CUresult cuMemAllocHost(void **pp, size_t bytesize)
{
    CALL_ENTER("cuMemAllocHost");
    return allocate_host(pp, bytesize);
}

SIM_API CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    CALL_ENTER("cuMemHostAlloc");
    const unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    return (Flags & ~known) != 0 ? CUDA_ERROR_INVALID_VALUE : allocate_host(pp, bytesize);
}

SIM_API CUresult cuMemHostGetDevicePointer(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    CALL_ENTER("cuMemHostGetDevicePointer");
    if (pdptr == NULL || p == NULL || Flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *pdptr = (CUdeviceptr)(uintptr_t)p;
    return CUDA_SUCCESS;
}

SIM_API CUresult cuMemFreeHost(void *p)
{
    CALL_ENTER("cuMemFreeHost");
    CUcontext context;
    CALL_TRY(context_current(&context));
    queue_lock();
    context_wait_locked(context);
    queue_unlock();
    free(p);
    return CUDA_SUCCESS;
}
