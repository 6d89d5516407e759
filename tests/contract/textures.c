/* Textures on linear and pitched memory. */
#include "contract.h"

#define TEXTURES                                                                                                               \
    "cuda.h, cuTexObjectCreate: devPtr must be aligned to CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT; CUDA's own allocations are"

static const CUDA_TEXTURE_DESC description = {.addressMode = {CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_CLAMP}};

static void play_linear(CUdeviceptr pointer, unsigned floats)
{
    CUDA_RESOURCE_DESC linear = {.resType = CU_RESOURCE_TYPE_LINEAR};
    CUtexObject texture = 0;
    CUdeviceptr out;
    float got[2] = {0, 0};
    linear.res.linear.devPtr = pointer;
    linear.res.linear.format = CU_AD_FORMAT_FLOAT;
    linear.res.linear.numChannels = 1;
    linear.res.linear.sizeInBytes = floats * sizeof(float);
    MUST(cuMemAlloc(&out, floats * sizeof(float)));
    MUST(cuMemsetD32(pointer, 0x40e00000, floats)); /* 7.0 */
    if (ASK(cuTexObjectCreate(&texture, &linear, &description, NULL)) != CUDA_SUCCESS)
        return;
    MUST(cuLaunchKernel(kernel("contract_fetch"), 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&texture, &out, &floats}, NULL));
    MUST(cuMemcpyDtoH(&got[0], out, sizeof(float)));
    MUST(cuMemcpyDtoH(&got[1], out + (floats - 1) * sizeof(float), sizeof(float)));
    printf("%g %g\n", got[0], got[1]);
    ASK(cuTexObjectDestroy(texture));
}

PROMISE(texture_linear, 1, TEXTURES)
{
    CUdeviceptr pointer;
    MUST(cuMemAlloc(&pointer, 1024 * sizeof(float)));
    play_linear(pointer, 1024);
}

PROMISE(texture_pool, 1, TEXTURES)
{
    CUdeviceptr pointer;
    MUST(cuMemAllocAsync(&pointer, 2048 * sizeof(float), NULL));
    play_linear(pointer, 2048);
}

/* Its size is no multiple of what a texture needs: guarded with align=16 it fails, and says so. */
PROMISE(texture_odd, 1, TEXTURES)
{
    CUdeviceptr pointer;
    MUST(cuMemAlloc(&pointer, 1001 * sizeof(float)));
    play_linear(pointer, 1001);
}

static CUdeviceptr allocate_here(void)
{
    CUdeviceptr pointer;
    MUST(cuMemAlloc(&pointer, 1001 * sizeof(float)));
    return pointer;
}

PROMISE(texture_odd_again, 1, TEXTURES)
{
    for (int i = 0; i < 3; i++)
        play_linear(allocate_here(), 1001);
}

static CUDA_RESOURCE_DESC rows_of(CUdeviceptr pointer, size_t width, size_t pitch)
{
    return (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_PITCH2D,
                                .res.pitch2D = {pointer, CU_AD_FORMAT_FLOAT, 1, width, 33, pitch}};
}

PROMISE(texture_rows, 1, TEXTURES)
{
    CUtexObject texture = 0;
    CUdeviceptr pointer;
    size_t pitch;
    MUST(cuMemAllocPitch(&pointer, &pitch, 1001 * sizeof(float), 33, 4));
    const CUDA_RESOURCE_DESC rows = rows_of(pointer, 1001, pitch);
    ASK(cuTexObjectCreate(&texture, &rows, &description, NULL));
}

PROMISE(texture_own_rows, 1, TEXTURES)
{
    CUtexObject texture = 0;
    CUdeviceptr pointer;
    MUST(cuMemAlloc(&pointer, 1024 * 33));
    const CUDA_RESOURCE_DESC rows = rows_of(pointer, 200, 1024);
    ASK(cuTexObjectCreate(&texture, &rows, &description, NULL));
}

PROMISE(surface_array, 1, "cuda.h, cuSurfObjectCreate: on a CUDA array")
{
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
    CUarray array;
    CUsurfObject surface = 0;
    CUdeviceptr pointer;
    const CUDA_ARRAY3D_DESCRIPTOR wanted = {
        .Width = 1024, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 4, .Flags = CUDA_ARRAY3D_SURFACE_LDST};
    MUST(cuMemAlloc(&pointer, 4096));
    MUST(cuMemsetD8(pointer, 7, 4096));
    ASK(cuArray3DCreate(&array, &wanted));
    resource.res.array.hArray = array;
    ASK(cuSurfObjectCreate(&surface, &resource));
    ASK(cuMemcpyDtoA(array, 0, pointer, 4096));
    MUST(cuMemsetD8(pointer, 1, 4096));
    ASK(cuMemcpyAtoD(pointer, array, 0, 4096));
    printf("%s\n", ends_of(pointer, 4096));
    ASK(cuSurfObjectDestroy(surface));
    ASK(cuArrayDestroy(array));
}
