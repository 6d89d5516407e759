/*
 * Arrays, textures and surfaces. An array is memory with rows one after the other, which copies of bytes reach; a
 * texture or surface is a value by which a kernel finds its memory: cusim_texture().
 */
#include "capture.h"
#include "virtual_memory.h"

#define TEXTURE_ALIGNMENT 512 /* CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT and _PITCH_ALIGNMENT of an H200 */
#define TEXTURE_PITCH_ALIGNMENT 32

/* Also a texture or surface. */
struct CUarray_st {
    CUdeviceptr memory;
    CUcontext context;
};

/* Returns the bytes of an element, 0 if there is no such format. */
static size_t element_bytes(CUarray_format format, unsigned channels)
{
    static const unsigned char sizes[] = {
        [CU_AD_FORMAT_UNSIGNED_INT8] = 1, [CU_AD_FORMAT_SIGNED_INT8] = 1, [CU_AD_FORMAT_UNSIGNED_INT16] = 2,
        [CU_AD_FORMAT_SIGNED_INT16] = 2,  [CU_AD_FORMAT_HALF] = 2,        [CU_AD_FORMAT_UNSIGNED_INT32] = 4,
        [CU_AD_FORMAT_SIGNED_INT32] = 4,  [CU_AD_FORMAT_FLOAT] = 4};
    int is_known = (unsigned)format < sizeof sizes && (channels == 1 || channels == 2 || channels == 4);
    return is_known ? (size_t)channels * sizes[format] : 0;
}

DRIVER(cuArray3DCreate, 3020, (CUarray *, pHandle, const CUDA_ARRAY3D_DESCRIPTOR *, wanted))
{
    CONTEXT_CURRENT(context);
    CALL_REFUSE(pHandle == NULL || wanted == NULL || wanted->Width == 0, INVALID_VALUE);
    CALL_TRY(capture_check_unsafe());
    size_t size = element_bytes(wanted->Format, wanted->NumChannels);
    const size_t extents[] = {wanted->Width, wanted->Height, wanted->Depth};
    CALL_REFUSE(size == 0, INVALID_VALUE);
    for (size_t i = 0; i < 3; i++)
        CALL_REFUSE(extents[i] != 0 && __builtin_mul_overflow(size, extents[i], &size), INVALID_VALUE);
    CUdeviceptr memory;
    CALL_TRY(space_allocate(&memory, size, context->home, context->device));
    *pHandle = handle_create(HANDLE_ARRAY, sizeof **pHandle, context->home);
    **pHandle = (struct CUarray_st){memory, context->home};
    return CUDA_SUCCESS;
}

DRIVER(cuArrayDestroy, 2000, (CUarray, hArray))
{
    CALL_REFUSE(!handle_is_valid(HANDLE_ARRAY, hArray), INVALID_HANDLE);
    CALL_TRY(capture_check_unsafe());
    CALL_REFUSE(!handle_remove(HANDLE_ARRAY, hArray), INVALID_HANDLE);
    context_wait(hArray->context);
    space_free(hArray->memory, NULL, NULL);
    handle_free(HANDLE_ARRAY, hArray);
    return CUDA_SUCCESS;
}

static CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return transfer_row(to, CU_MEMORYTYPE_DEVICE, from, CU_MEMORYTYPE_DEVICE, bytes, NULL, 1);
}
#define IF_ARRAY(array, result) handle_is_valid(HANDLE_ARRAY, array) ? (result) : CUDA_ERROR_INVALID_HANDLE

DRIVER_TWIN_IS(cuMemcpyDtoA, ptds, 3020, (CUarray, to, size_t, offset, CUdeviceptr, from, size_t, bytes),
               IF_ARRAY(to, copy(to->memory + offset, from, bytes)))

DRIVER_TWIN_IS(cuMemcpyAtoD, ptds, 3020, (CUdeviceptr, to, CUarray, from, size_t, offset, size_t, bytes),
               IF_ARRAY(from, copy(to, from->memory + offset, bytes)))

static CUresult find_memory(const CUDA_RESOURCE_DESC *resource, CUdeviceptr *memory)
{
    const size_t linear = element_bytes(resource->res.linear.format, resource->res.linear.numChannels);
    switch (resource->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
        CALL_REFUSE(!handle_is_valid(HANDLE_ARRAY, resource->res.array.hArray), INVALID_HANDLE);
        *memory = resource->res.array.hArray->memory;
        return CUDA_SUCCESS;
    case CU_RESOURCE_TYPE_PITCH2D: /* begins as a linear one */
        CALL_REFUSE(resource->res.pitch2D.pitchInBytes % TEXTURE_PITCH_ALIGNMENT != 0, INVALID_VALUE);
        CALL_REFUSE(resource->res.pitch2D.pitchInBytes < resource->res.pitch2D.width * linear, INVALID_VALUE);
        break;
    case CU_RESOURCE_TYPE_LINEAR:
        CALL_REFUSE(resource->res.linear.sizeInBytes < linear, INVALID_VALUE);
        break;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    *memory = resource->res.linear.devPtr;
    return linear == 0 || *memory == 0 || *memory % TEXTURE_ALIGNMENT != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult create(unsigned long long *out, const CUDA_RESOURCE_DESC *resource)
{
    CUdeviceptr memory;
    CONTEXT_CURRENT(context);
    CALL_REFUSE(out == NULL || resource == NULL || resource->flags != 0, INVALID_VALUE);
    CALL_TRY(find_memory(resource, &memory));
    CUarray texture = handle_create(HANDLE_TEXTURE, sizeof *texture, context->home);
    texture->memory = memory;
    *out = (uintptr_t)texture;
    return CUDA_SUCCESS;
}

static CUresult destroy(unsigned long long object)
{
    return handle_destroy(HANDLE_TEXTURE, (void *)(uintptr_t)object) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

DRIVER(cuTexObjectCreate, 5000,
       (CUtexObject *, pTexObject, const CUDA_RESOURCE_DESC *, pResDesc, const CUDA_TEXTURE_DESC *, pTexDesc,
        const CUDA_RESOURCE_VIEW_DESC *, pResViewDesc))
{
    return pTexDesc == NULL ? CUDA_ERROR_INVALID_VALUE : create(pTexObject, pResDesc);
}

DRIVER_IS(cuTexObjectDestroy, 5000, (CUtexObject, texObject), destroy(texObject))

DRIVER(cuSurfObjectCreate, 5000, (CUsurfObject *, pSurfObject, const CUDA_RESOURCE_DESC *, pResDesc))
{
    CALL_REFUSE(pResDesc == NULL || pResDesc->resType != CU_RESOURCE_TYPE_ARRAY, INVALID_VALUE);
    return create(pSurfObject, pResDesc);
}

DRIVER_IS(cuSurfObjectDestroy, 5000, (CUsurfObject, surfObject), destroy(surfObject))

SIM_API void *cusim_texture(unsigned long long object)
{
    CUarray texture = (CUarray)(uintptr_t)object;
    return handle_is_valid(HANDLE_TEXTURE, texture) ? (void *)(uintptr_t)texture->memory : NULL;
}

/* ---- tensor maps. Of what a device reads in one, the base comes first, as on an H100; then rank, sizes and strides, in an
 * order of our own ---- */

struct encoded {
    uint64_t base;
    uint32_t rank, type;
    uint64_t size[5], stride[4];
};
_Static_assert(sizeof(struct encoded) <= sizeof(CUtensorMap), "it fits");

static CUresult encode(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, const void *base, const cuuint64_t *size,
                       const cuuint64_t *stride)
{
    struct encoded encoded = {.base = (uint64_t)(uintptr_t)base, .rank = rank, .type = type};
    CALL_REFUSE(map == NULL || rank < 1 || rank > 5 || encoded.base % 16 != 0 || (unsigned)type > 15, INVALID_VALUE);
    for (cuuint32_t i = 0; i < rank; i++) {
        CALL_REFUSE(size[i] == 0 || size[i] > (UINT64_C(1) << 32), INVALID_VALUE);
        CALL_REFUSE(i > 0 && (stride[i - 1] % 16 != 0 || stride[i - 1] >= (UINT64_C(1) << 40)), INVALID_VALUE);
        encoded.size[i] = size[i];
        if (i > 0)
            encoded.stride[i - 1] = stride[i - 1];
    }
    memset(map, 0, sizeof *map);
    memcpy(map, &encoded, sizeof encoded);
    return CUDA_SUCCESS;
}

DRIVER(cuTensorMapEncodeTiled, 12000,
       (CUtensorMap *, tensorMap, CUtensorMapDataType, tensorDataType, cuuint32_t, tensorRank, void *, globalAddress,
        const cuuint64_t *, globalDim, const cuuint64_t *, globalStrides, const cuuint32_t *, boxDim, const cuuint32_t *,
        elementStrides, CUtensorMapInterleave, interleave, CUtensorMapSwizzle, swizzle, CUtensorMapL2promotion, l2Promotion,
        CUtensorMapFloatOOBfill, oobFill))
{
    return encode(tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides);
}

DRIVER(cuTensorMapEncodeIm2col, 12000,
       (CUtensorMap *, tensorMap, CUtensorMapDataType, tensorDataType, cuuint32_t, tensorRank, void *, globalAddress,
        const cuuint64_t *, globalDim, const cuuint64_t *, globalStrides, const int *, pixelBoxLowerCorner, const int *,
        pixelBoxUpperCorner, cuuint32_t, channelsPerPixel, cuuint32_t, pixelsPerColumn, const cuuint32_t *, elementStrides,
        CUtensorMapInterleave, interleave, CUtensorMapSwizzle, swizzle, CUtensorMapL2promotion, l2Promotion,
        CUtensorMapFloatOOBfill, oobFill))
{
    CALL_REFUSE(tensorRank < 3, INVALID_VALUE);
    return encode(tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides);
}

DRIVER(cuTensorMapReplaceAddress, 12000, (CUtensorMap *, tensorMap, void *, globalAddress))
{
    uint64_t base = (uint64_t)(uintptr_t)globalAddress;
    CALL_REFUSE(tensorMap == NULL || base % 16 != 0, INVALID_VALUE);
    memcpy(tensorMap, &base, sizeof base);
    return CUDA_SUCCESS;
}

/* Since CUDA 13.5, whose header may not be here. */
SIM_API CUresult set_allocation_class(CUtensorMap *tensorMap, int allocClass,
                                      int *outAllocClass) __asm__("cuTensorMapSetAllocationClass");

CUresult set_allocation_class(CUtensorMap *tensorMap, int allocClass, int *outAllocClass)
{
    static struct call *_Atomic site;
    CALL_TRY(call_enter(&site, "cuTensorMapSetAllocationClass", 1));
    CALL_REFUSE(tensorMap == NULL, INVALID_VALUE);
    ((char *)tensorMap)[sizeof *tensorMap - 1] = (char)allocClass;
    if (outAllocClass)
        *outAllocClass = allocClass;
    return CUDA_SUCCESS;
}
