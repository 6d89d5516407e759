/*
 * Textures on memory of ours: they need more than the 16 bytes that align=16 gives (512, as CUDA's own allocations have). Where
 * that makes the call fail, it is said, and the place of allocation gets more from then on.
 */
#include "preload_internal.h"

#include "base/output.h"

static void tell(const char *call, CUdeviceptr pointer)
{
    struct heap_range range;
    int needed = 0;
    if (!is_ours(pointer) || !heap_range_of(pointer, &range) ||
        driver->cuDeviceGetAttribute(&needed, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, range.device) != CUDA_SUCCESS ||
        needed <= 0 || pointer % (unsigned)needed == 0 || !heap_wants_alignment(pointer, (uint32_t)needed))
        return;
    output_say(
        "cufence: %s fails because 0x%llx, in buffer #%llu of %llu bytes, is no multiple of %d bytes, which a texture needs "
        "and CUDA's own allocations are: align=%d gives that to every buffer. From now on those allocated at the same place "
        "have it\n",
        call, (unsigned long long)pointer, (unsigned long long)range.id, (unsigned long long)range.size, needed, needed);
}

CUresult texture_created(CUresult (*function)(CUtexObject *, const CUDA_RESOURCE_DESC *, const CUDA_TEXTURE_DESC *,
                                              const CUDA_RESOURCE_VIEW_DESC *),
                         CUtexObject *object, const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *texture,
                         const CUDA_RESOURCE_VIEW_DESC *view)
{
    struct tried tried;
    CUresult result = RELIEVED(function(object, resource, texture, view));
    if (result != CUDA_ERROR_INVALID_VALUE || !resource)
        return result;
    if (resource->resType == CU_RESOURCE_TYPE_LINEAR)
        tell("cuTexObjectCreate", resource->res.linear.devPtr);
    else if (resource->resType == CU_RESOURCE_TYPE_PITCH2D)
        tell("cuTexObjectCreate", resource->res.pitch2D.devPtr);
    return result;
}

CUresult texture_bound(CUresult (*function)(size_t *, CUtexref, CUdeviceptr, size_t), size_t *offset, CUtexref texture,
                       CUdeviceptr pointer, size_t size)
{
    CUresult result = function(offset, texture, pointer, size);
    if (result == CUDA_ERROR_INVALID_VALUE)
        tell("cuTexRefSetAddress", pointer);
    return result;
}

CUresult texture_bound_2d(CUresult (*function)(CUtexref, const CUDA_ARRAY_DESCRIPTOR *, CUdeviceptr, size_t), CUtexref texture,
                          const CUDA_ARRAY_DESCRIPTOR *shape, CUdeviceptr pointer, size_t pitch)
{
    CUresult result = function(texture, shape, pointer, pitch);
    if (result == CUDA_ERROR_INVALID_VALUE)
        tell("cuTexRefSetAddress2D", pointer);
    return result;
}
