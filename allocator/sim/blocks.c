/* The memory of cuMemAlloc and of pools: a reservation, a handle and a mapping in one. */
#include "space_locked.h"
#include "call.h"
#include "capture.h"
#include "host.h"
#include "space.h"

#include <stdlib.h>

static struct block *blocks; /* under space_lock */

static void count(uint64_t *sum, uint64_t *high, uint64_t bytes)
{
    *sum += bytes;
    if (*sum > *high)
        *high = *sum;
}

/* One granule of address space behind each allocation stays unmapped, so that an overrun doesn't reach host memory. */
static CUresult create_block_locked(struct block **out, size_t bytes, int device)
{
    CUdeviceptr start;
    struct physical *physical;
    struct mapping *mapping;
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    struct block *block = calloc(1, sizeof *block);
    CALL_REFUSE(block == NULL, OUT_OF_MEMORY);
    CUresult result = space_reserve_locked(&start, bytes + SIM_GRANULARITY, SIM_GRANULARITY, 0, 0);
    if (result != CUDA_SUCCESS)
        goto fail_block;
    result = space_create_locked(&physical, bytes, device, &properties);
    if (result != CUDA_SUCCESS)
        goto fail_reservation;
    result = space_map_locked(&mapping, start, physical);
    physical->references = 0;
    if (result != CUDA_SUCCESS)
        goto fail_physical;
    mapping->block = block;
    for (unsigned i = 0; i < config_get()->devices; i++)
        space_protect_locked(mapping, (int)i, PAGES_READ_WRITE);
    *block = (struct block){.next = blocks, .reserved_start = start};
    if (blocks != NULL)
        blocks->previous = block;
    blocks = block;
    *out = block;
    return CUDA_SUCCESS;

fail_physical:
    space_drop_locked(physical);
fail_reservation:
    space_unreserve_locked(start, bytes + SIM_GRANULARITY);
fail_block:
    free(block);
    return result;
}

static struct mapping *mapping_of(const struct block *block)
{
    return space_mapping_locked(block->reserved_start);
}

static size_t block_bytes(const struct block *block)
{
    const struct mapping *mapping = mapping_of(block);
    return mapping->range.end - mapping->range.start;
}

static void free_block_locked(struct block *block)
{
    size_t bytes = block_bytes(block);
    if (block->pool != NULL) {
        block->pool->reserved -= bytes;
        if (block->state == BLOCK_LIVE)
            block->pool->used -= block->requested;
    }
    space_unmap_locked(mapping_of(block));
    space_unreserve_locked(block->reserved_start, bytes + SIM_GRANULARITY);
    if (block->next != NULL)
        block->next->previous = block->previous;
    if (block->previous != NULL)
        block->previous->next = block->next;
    else
        blocks = block->next;
    free(block);
}

static void trim_locked(struct space_pool *pool, uint64_t reserved_bytes)
{
    for (struct block *block = blocks, *next; block != NULL && pool->reserved > reserved_bytes; block = next) {
        next = block->next;
        if (block->pool == pool && block->state == BLOCK_PARKED)
            free_block_locked(block);
    }
}

static struct block *find_parked_locked(const struct space_pool *pool, size_t bytes, CUcontext context)
{
    struct block *block = pool == NULL ? NULL : blocks;
    while (block != NULL &&
           (block->pool != pool || block->state != BLOCK_PARKED || block->context != context || block_bytes(block) != bytes))
        block = block->next;
    return block;
}

static CUresult allocate_locked(CUdeviceptr *address, size_t size, CUcontext context, int device, struct space_pool *pool)
{
    size_t bytes = (size + SIM_GRANULARITY - 1) / SIM_GRANULARITY * SIM_GRANULARITY;
    struct block *block = find_parked_locked(pool, bytes, context);
    if (block == NULL) {
        CUresult result = create_block_locked(&block, bytes, device);
        if (result == CUDA_ERROR_OUT_OF_MEMORY && pool != NULL) {
            trim_locked(pool, 0);
            result = create_block_locked(&block, bytes, device);
        }
        CALL_TRY(result);
        if (pool != NULL)
            count(&pool->reserved, &pool->reserved_high, bytes);
    }
    block->context = context;
    block->pool = pool;
    block->requested = size;
    block->state = BLOCK_LIVE;
    block->id = space_new_id();
    if (pool != NULL)
        count(&pool->used, &pool->used_high, size);
    *address = block->reserved_start;
    return CUDA_SUCCESS;
}

CUresult space_allocate(CUdeviceptr *address, size_t size, CUcontext context, int device, struct space_pool *pool)
{
    CALL_REFUSE(address == NULL || size == 0, INVALID_VALUE);
    CALL_REFUSE(size > config_get()->memory, OUT_OF_MEMORY);
    HOLD(&space_lock);
    return allocate_locked(address, size, context, device, pool);
}

/* Returns the block that starts at an address, or NULL. */
static struct block *find_block_locked(CUdeviceptr address)
{
    struct mapping *mapping = space_mapping_locked(address);
    return mapping != NULL && mapping->range.start == address ? mapping->block : NULL;
}

/* Parks freed memory of a pool for its next allocation, up to the pool's threshold. */
static void release_block_locked(struct block *block)
{
    if (block->pool == NULL || block->pool->reserved > block->pool->threshold)
        free_block_locked(block);
    else
        block->state = BLOCK_PARKED;
}

static CUresult retire_locked(struct block *block)
{
    CALL_REFUSE(block == NULL || block->state != BLOCK_LIVE, INVALID_VALUE);
    if (block->is_of_graph)
        return CUDA_SUCCESS;
    block->state = BLOCK_RETIRED;
    if (block->pool != NULL)
        block->pool->used -= block->requested;
    return CUDA_SUCCESS;
}

static void collect_locked(struct block *block)
{
    if (block != NULL && block->state == BLOCK_RETIRED)
        release_block_locked(block);
}

CUresult space_free(CUdeviceptr address)
{
    HOLD(&space_lock);
    struct block *block = find_block_locked(address);
    CALL_TRY(retire_locked(block));
    collect_locked(block);
    return CUDA_SUCCESS;
}

CUresult space_retire(CUdeviceptr address)
{
    HOLD(&space_lock);
    return retire_locked(find_block_locked(address));
}

void space_collect(CUdeviceptr address)
{
    HOLD(&space_lock);
    collect_locked(find_block_locked(address));
}

uint64_t space_give_to_graph(CUdeviceptr address)
{
    HOLD(&space_lock);
    struct block *block = find_block_locked(address);
    if (block == NULL)
        return 0;
    block->is_of_graph = 1;
    return block->id;
}

void space_free_of_graph(CUdeviceptr address, uint64_t id)
{
    HOLD(&space_lock);
    struct block *block = find_block_locked(address);
    /* The end of the context may have freed the memory, and the address may have been reused. */
    if (block != NULL && block->is_of_graph && block->id == id)
        free_block_locked(block);
}

void space_trim(struct space_pool *pool, uint64_t reserved_bytes)
{
    HOLD(&space_lock);
    trim_locked(pool, reserved_bytes);
}

void space_release_context(CUcontext context)
{
    HOLD(&space_lock);
    for (struct block *block = blocks, *next; block != NULL; block = next) {
        next = block->next;
        if (block->context == context)
            free_block_locked(block);
    }
}

SIM_API CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                               CUmemAllocationGranularity_flags option)
{
    CALL_ENTER("cuMemGetAllocationGranularity");
    CALL_REFUSE(granularity == NULL || prop == NULL || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, INVALID_VALUE);
    CALL_REFUSE(prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE && !config_has_device(prop->location.id), INVALID_DEVICE);
    *granularity = SIM_GRANULARITY;
    return CUDA_SUCCESS;
}

SIM_API CUresult cuMemAlloc(CUdeviceptr *dptr, size_t bytesize)
{
    CALL_ENTER("cuMemAlloc");
    CONTEXT_CURRENT(context);
    CALL_TRY(capture_check_unsafe());
    return space_allocate(dptr, bytesize, context->home, context->device, NULL);
}

SIM_API CUresult cuMemAllocPitch(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                                 unsigned int ElementSizeBytes)
{
    CALL_ENTER("cuMemAllocPitch");
    CONTEXT_CURRENT(context);
    CALL_TRY(capture_check_unsafe());
    size_t pitch, size;
    if (pPitch == NULL || (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16) ||
        __builtin_add_overflow(WidthInBytes, 511, &pitch) || __builtin_mul_overflow(pitch / 512 * 512, Height, &size))
        return CUDA_ERROR_INVALID_VALUE;
    *pPitch = pitch / 512 * 512; /* measured on current devices: rows are aligned to 512 bytes */
    return space_allocate(dptr, size, context->home, context->device, NULL);
}

/* Returns the context that a free waits for: the owner of the memory, whatever is current (measured: not a peer that uses it).
 * NULL for none: pool memory is freed at once, as cuda.h says. */
static CUcontext owner_of(CUdeviceptr address)
{
    struct space_range range;
    struct host_range host;
    if (space_find(address, &range) == CUDA_SUCCESS)
        return range.pool == NULL ? range.context : NULL;
    return host_find(address, &host) ? host.context : NULL;
}

SIM_API CUresult cuMemFree(CUdeviceptr dptr)
{
    CALL_ENTER("cuMemFree");
    CONTEXT_CURRENT(context);
    if (dptr == 0)
        return CUDA_SUCCESS;
    CALL_TRY(capture_check_unsafe());
    CUcontext owner = owner_of(dptr);
    if (owner != NULL) {
        HOLD(&queue_lock);
        context_wait_locked(owner);
        CALL_TRY(context_error(owner));
    }
    return space_is_device(dptr) ? space_free(dptr) : host_drop(dptr, HOST_MANAGED);
}
