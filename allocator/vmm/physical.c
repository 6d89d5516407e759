#include "physical.h"

#include "base/lock.h"
#include "base/tunables.h"

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
static uint64_t cached_bytes[64]; /* by device */

/* What the driver said about a device when it was asked, at the first need. */
static struct traits {
    int is_known, has_rdma, is_shareable;
} traits_of[64]; /* by device */

static unsigned slot_of(int device)
{
    return (unsigned)device % (sizeof cached_bytes / sizeof *cached_bytes);
}

static int attribute(CUdevice_attribute which, int device)
{
    int value = 0;
    return driver->cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS && value;
}

/* Two threads may both ask the driver: they get the same answers. */
static struct traits traits(int device)
{
    lock_take(&lock);
    struct traits found = traits_of[slot_of(device)];
    lock_release(&lock);
    if (found.is_known)
        return found;
    found.is_known = 1;
    found.has_rdma = attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device);
    found.is_shareable = attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device);
    HOLD(&lock);
    if (!traits_of[slot_of(device)].is_known)
        traits_of[slot_of(device)] = found;
    found = traits_of[slot_of(device)];
    return found;
}

static void set_unshareable(int device)
{
    HOLD(&lock);
    traits_of[slot_of(device)].is_shareable = 0;
}

int physical_is_shareable(int device)
{
    return traits(device).is_shareable;
}

static CUresult create(CUmemGenericAllocationHandle *handle, uint64_t bytes, int device, int is_shareable)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    prop.allocFlags.gpuDirectRDMACapable = traits(device).has_rdma ? 1 : 0;
    if (is_shareable)
        prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return driver->cuMemCreate(handle, bytes, &prop, 0);
}

/* A driver may say that it can export a device's memory and then refuse to, as in some containers and virtual machines. */
static CUresult create_any(CUmemGenericAllocationHandle *handle, uint64_t bytes, int device)
{
    int is_shareable = physical_is_shareable(device);
    CUresult result = create(handle, bytes, device, is_shareable);
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY || !is_shareable)
        return result;
    result = create(handle, bytes, device, 0);
    if (result == CUDA_SUCCESS)
        set_unshareable(device);
    return result;
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
    return driver_check(create_any(handle, bytes, device), "cuMemCreate");
}

uint64_t physical_returns;
static unsigned returning; /* atomic: threads that have memory in hand */

int physical_is_returning(void)
{
    __atomic_add_fetch(&returning, 1, __ATOMIC_SEQ_CST);
    return 1;
}

void physical_returned(const int *unused)
{
    (void)unused;
    __atomic_sub_fetch(&returning, 1, __ATOMIC_SEQ_CST);
}

/* In this order: who has it in hand counts it before letting go. */
int physical_is_moving(uint64_t since)
{
    return __atomic_load_n(&returning, __ATOMIC_SEQ_CST) || __atomic_load_n(&physical_returns, __ATOMIC_SEQ_CST) != since;
}

static void release(CUmemGenericAllocationHandle handle)
{
    driver->cuMemRelease(handle);
    __atomic_add_fetch(&physical_returns, 1, __ATOMIC_RELAXED);
}

void physical_give(int device, uint64_t bytes, CUmemGenericAllocationHandle handle)
{
    struct cached *entry = malloc(sizeof *entry);
    if (entry) {
        *entry = (struct cached){.device = device, .bytes = bytes, .handle = handle};
        lock_take(&lock);
        int fits = cached_bytes[slot_of(device)] + bytes <= tunables.cache_max;
        if (fits) {
            LL_PREPEND(cache, entry);
            cached_bytes[slot_of(device)] += bytes;
            __atomic_add_fetch(&physical_returns, 1, __ATOMIC_RELAXED);
        }
        lock_release(&lock);
        if (fits)
            return;
        free(entry);
    }
    release(handle);
}

void physical_trim(int device)
{
    struct cached *entry, *next, *mine = NULL;
    RETURNS_MEMORY;
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
        release(entry->handle);
        free(entry);
    }
}

uint64_t physical_cached_bytes(int device)
{
    HOLD(&lock);
    return cached_bytes[slot_of(device)];
}
