/* Tensor maps. Of what a device reads in one, the base comes first, as on an H100; then rank, sizes and strides, in an order of
 * our own. */
#include "call.h"

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
    (void)boxDim, (void)elementStrides, (void)interleave, (void)swizzle, (void)l2Promotion, (void)oobFill;
    return encode(tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides);
}

DRIVER(cuTensorMapEncodeIm2col, 12000,
       (CUtensorMap *, tensorMap, CUtensorMapDataType, tensorDataType, cuuint32_t, tensorRank, void *, globalAddress,
        const cuuint64_t *, globalDim, const cuuint64_t *, globalStrides, const int *, pixelBoxLowerCorner, const int *,
        pixelBoxUpperCorner, cuuint32_t, channelsPerPixel, cuuint32_t, pixelsPerColumn, const cuuint32_t *, elementStrides,
        CUtensorMapInterleave, interleave, CUtensorMapSwizzle, swizzle, CUtensorMapL2promotion, l2Promotion,
        CUtensorMapFloatOOBfill, oobFill))
{
    (void)pixelBoxLowerCorner, (void)pixelBoxUpperCorner, (void)channelsPerPixel, (void)pixelsPerColumn, (void)elementStrides;
    (void)interleave, (void)swizzle, (void)l2Promotion, (void)oobFill;
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
