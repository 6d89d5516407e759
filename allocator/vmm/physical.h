/*
 * Physical memory: handles of cuMemCreate, and a bounded cache of them by device and size, because making one costs 9 us and
 * giving it back 11 us (2 MiB, H100), and because freed memory waits there when its mapping is gone for good.
 *
 * Units: bytes, multiples of the granularity. Thread safety: all functions, from any thread; the lock is a leaf and is not
 * held over driver calls.
 */
#ifndef CUFENCE_VMM_PHYSICAL_H
#define CUFENCE_VMM_PHYSICAL_H

#include "driver/driver.h"

/* How much a device's cache may hold, in bytes. */
void physical_configure(uint64_t cache_max);

/* A handle of `bytes` on `device`, out of the cache or new. The content is undefined.
 * Errors: OUT_OF_MEMORY (the device's memory is used up; what the cache holds is untouched), DRIVER. */
cufence_status physical_take(int device, uint64_t bytes, CUmemGenericAllocationHandle *handle);

/* Gives a handle back, to the cache or to the driver. */
void physical_give(int device, uint64_t bytes, CUmemGenericAllocationHandle handle);

/* Gives the whole cache of a device back to the driver. */
void physical_trim(int device);

/* What the cache of a device holds. */
uint64_t physical_cached_bytes(int device);

#endif
