/* Physical memory of device 0 of the simulated device, and how it is mapped. */
#pragma once

#include <cuda.h>

#define GRANULE ((size_t)2 << 20)

static const CUmemAllocationProp device_memory = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
static const CUmemAccessDesc read_write = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                           .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

/* Reserves 64 granules, of which the first is mapped. Returns its address, or 0. */
static inline CUdeviceptr map_granule(void)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr base;
    int is_well = cuMemAddressReserve(&base, 64 * GRANULE, 0, 0, 0) == CUDA_SUCCESS &&
                  cuMemCreate(&handle, GRANULE, &device_memory, 0) == CUDA_SUCCESS &&
                  cuMemMap(base, GRANULE, 0, handle, 0) == CUDA_SUCCESS &&
                  cuMemSetAccess(base, GRANULE, &read_write, 1) == CUDA_SUCCESS;
    return is_well ? base : 0;
}
