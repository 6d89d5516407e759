#include "physical.h"

#include "base/error.h"
#include "base/lock.h"

#include <stdlib.h>
#include <utlist.h>

struct cached {
    int device;
    uint64_t bytes;
    CUmemGenericAllocationHandle handle;
    struct cached *next;
};

/* A short list: the sizes of recently retired mappings. */
static struct lock lock = LOCK(RANK_PHYSICAL); /* guards everything below */
static struct cached *cache;
static uint64_t cache_limit;
static uint64_t cached_bytes[64]; /* by device */

void physical_configure(uint64_t cache_max)
{
    cache_limit = cache_max;
}

static unsigned slot_of(int device)
{
    return (unsigned)device % (sizeof cached_bytes / sizeof *cached_bytes);
}

static CUmemAllocationProp properties(int device)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    int has_rdma = 0;
    if (driver->cuDeviceGetAttribute(&has_rdma, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device) ==
        CUDA_SUCCESS)
        prop.allocFlags.gpuDirectRDMACapable = has_rdma ? 1 : 0;
    return prop;
}

cufence_status physical_take(int device, uint64_t bytes, CUmemGenericAllocationHandle *handle)
{
    struct cached *found;
    lock_take(&lock);
    LL_FOREACH(cache, found)
    {
        if (found->device == device && found->bytes == bytes)
            break;
    }
    if (found) {
        LL_DELETE(cache, found);
        cached_bytes[slot_of(device)] -= bytes;
    }
    lock_release(&lock);
    if (found) {
        *handle = found->handle;
        free(found);
        return CUFENCE_OK;
    }
    CUmemAllocationProp prop = properties(device);
    return driver_check(driver->cuMemCreate(handle, bytes, &prop, 0), "cuMemCreate");
}

void physical_give(int device, uint64_t bytes, CUmemGenericAllocationHandle handle)
{
    struct cached *entry = malloc(sizeof *entry);
    if (entry) {
        *entry = (struct cached){.device = device, .bytes = bytes, .handle = handle};
        lock_take(&lock);
        int fits = cached_bytes[slot_of(device)] + bytes <= cache_limit;
        if (fits) {
            LL_PREPEND(cache, entry);
            cached_bytes[slot_of(device)] += bytes;
        }
        lock_release(&lock);
        if (fits)
            return;
        free(entry);
    }
    driver->cuMemRelease(handle);
}

void physical_trim(int device)
{
    struct cached *entry, *next, *mine = NULL;
    lock_take(&lock);
    LL_FOREACH_SAFE(cache, entry, next)
    {
        if (entry->device == device) {
            LL_DELETE(cache, entry);
            LL_PREPEND(mine, entry);
            cached_bytes[slot_of(device)] -= entry->bytes;
        }
    }
    lock_release(&lock);
    LL_FOREACH_SAFE(mine, entry, next)
    {
        driver->cuMemRelease(entry->handle);
        free(entry);
    }
}

uint64_t physical_cached_bytes(int device)
{
    lock_take(&lock);
    uint64_t bytes = cached_bytes[slot_of(device)];
    lock_release(&lock);
    return bytes;
}
