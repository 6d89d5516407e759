/*
 * Physical memory: handles from cuMemCreate, and a bounded cache of them by device and size. Creating a handle costs 9 us and
 * releasing it 11 us (2 MiB, H100). Freed memory also stays in the cache after its slot was unmapped for good.
 *
 * Where the device can, handles are made so that another process can be given them (arena_export()). That costs no time.
 *
 * Units: bytes, multiples of the granularity. Thread safety: all functions, from any thread; the lock is a leaf and is not held
 * across driver calls.
 */
#pragma once

#include "driver/driver.h"

/* Gets a handle of `bytes` on `device`, from the cache or newly created. The content is undefined. Errors: OUT_OF_MEMORY (the
 * device is out of memory; the cache is unchanged), DRIVER. */
cufence_status physical_take(int device, uint64_t bytes, CUmemGenericAllocationHandle *handle);

/* Whether the handles of `device` can be given to another process, as far as is known: the device says so, and no handle has
 * been refused on that account. Asks the driver at the first call for a device. */
int physical_is_shareable(int device);

/* Returns a handle to the cache, or releases it if the cache is full. */
void physical_give(int device, uint64_t bytes, CUmemGenericAllocationHandle handle);

/* Releases the whole cache of a device. */
void physical_trim(int device);

/* How often memory was given back, to the driver or the cache: handles, and second mappings. */
extern uint64_t physical_returns; /* atomic */

/* Memory that a thread takes out of a list to unmap it is in none until it is given back. RETURNS_MEMORY stands before it is
 * taken, and holds until the end of the block. physical_is_moving() is for one who found none: whether memory was given back
 * after `since`, which was physical_returns before the driver refused, or soon will be. */
#define RETURNS_MEMORY const int returns_memory __attribute__((cleanup(physical_returned), unused)) = physical_is_returning()
int physical_is_returning(void);
void physical_returned(const int *unused);
int physical_is_moving(uint64_t since);

uint64_t physical_cached_bytes(int device);
