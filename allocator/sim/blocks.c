/*
 * The memory of cuMemAlloc and of pools: a reservation, a handle and a mapping in one.
 *
 * A freed block of a pool stays mapped, and waits for the work that it was freed behind. Then it is idle, until it is allocated
 * again or released: by a synchronisation beyond the pool's threshold, by a trim, or because the device is full.
 */
#include "capture.h"
#include "virtual_memory.h"

struct block *blocks;

static void count(uint64_t *sum, uint64_t *high, uint64_t bytes)
{
    *sum += bytes;
    if (*sum > *high)
        *high = *sum;
}

static size_t whole_pages(size_t size)
{
    return (size + SIM_GRANULARITY - 1) / SIM_GRANULARITY * SIM_GRANULARITY;
}

CUresult block_reserve_locked(struct block **out, size_t requested, int device)
{
    size_t bytes = whole_pages(requested);
    CUdeviceptr start;
    struct block *block = memory_new(sizeof *block);
    CUresult result = space_reserve_locked(&start, bytes + SIM_GRANULARITY, SIM_GRANULARITY, 0, block);
    if (result != CUDA_SUCCESS) {
        free(block);
        return result;
    }
    *block = (struct block){.start = start, .bytes = bytes, .requested = requested, .device = device, .id = space_new_id()};
    DL_PREPEND(blocks, block);
    *out = block;
    return CUDA_SUCCESS;
}

CUresult block_map_locked(struct block *block, struct physical *physical)
{
    struct mapping *mapping;
    CALL_TRY(space_map_locked(&mapping, block->start, block->bytes, physical));
    mapping->block = block;
    for (unsigned i = 0; i < config_get()->devices; i++)
        space_protect_locked(mapping, (int)i, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    return CUDA_SUCCESS;
}

void block_drop_locked(struct block *block)
{
    struct mapping *mapping = space_mapping_locked(block->start);
    if (mapping != NULL)
        space_unmap_locked(mapping);
    space_unreserve_locked(block->start, block->bytes + SIM_GRANULARITY);
    DL_DELETE(blocks, block);
    free(block);
}

static CUresult create_block_locked(struct block **out, size_t size, int device, int is_for_graphs)
{
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    struct physical *physical;
    space_make_room_locked(device, whole_pages(size), is_for_graphs); /* takes what is idle, as the new block is at first */
    CALL_TRY(block_reserve_locked(out, size, device));
    CUresult result = space_create_locked(&physical, (*out)->bytes, device, &properties);
    if (result == CUDA_SUCCESS) {
        result = block_map_locked(*out, physical);
        physical->references = 0; /* its mapping holds it */
        space_drop_locked(physical);
    }
    if (result != CUDA_SUCCESS)
        block_drop_locked(*out);
    return result;
}

static void free_block_locked(struct block *block)
{
    if (block->pool != NULL)
        block->pool->reserved -= block->bytes;
    if (block->pool != NULL && block->pool->is_of_graphs)
        graph_memory_unbind_locked(block);
    block_drop_locked(block);
}

/* Freed, and nothing uses it any more. */
static int is_idle(const struct block *block)
{
    return block->references == 0 && !block->is_live && block->pending == 0;
}

static void trim_locked(CUmemoryPool pool, uint64_t reserved_bytes)
{
    struct block *block, *next;
    DL_FOREACH_SAFE(blocks, block, next)
    {
        if (pool->reserved > reserved_bytes && block->pool == pool && is_idle(block))
            free_block_locked(block);
    }
}

void space_make_room_locked(int device, size_t size, int is_for_graphs)
{
    struct block *block, *next;
    DL_FOREACH_SAFE(blocks, block, next)
    {
        if (!space_has_room_locked(device, size) && block->device == device && is_idle(block) &&
            (!is_for_graphs || block->pool->is_of_graphs))
            free_block_locked(block);
    }
}

static CUresult check(const CUdeviceptr *address, size_t size)
{
    CALL_REFUSE(address == NULL || size == 0, INVALID_VALUE);
    CALL_REFUSE(size > config_get()->memory, OUT_OF_MEMORY);
    return CUDA_SUCCESS;
}

CUresult space_allocate(CUdeviceptr *address, size_t size, CUcontext context, int device)
{
    struct block *block;
    CALL_TRY(check(address, size));
    HOLD(&space_lock);
    CALL_TRY(create_block_locked(&block, size, device, 0));
    block->context = context;
    block->is_live = 1;
    *address = block->start;
    return CUDA_SUCCESS;
}

/* Finds freed memory for the stream's next work: of exactly that size if it is free by then, or (is_short) the smallest that is
 * large enough, whose stream can be waited for. */
static struct block *find_freed_locked(CUmemoryPool pool, size_t size, CUstream stream, int is_short)
{
    size_t bytes = whole_pages(size);
    struct block *found = NULL;
    for (struct block *block = blocks; block != NULL; block = block->next) {
        if (block->pool != pool || block->is_live || (is_short ? block->bytes < bytes : block->bytes != bytes))
            continue;
        int is_ours = is_idle(block) || block->last.stream == stream;
        if ((is_ours || is_short) && (found == NULL || block->bytes < found->bytes))
            found = block;
    }
    return found;
}

void block_set_live_locked(struct block *block, int is_live)
{
    block->is_live = is_live;
    if (block->pool != NULL && is_live)
        count(&block->pool->used, &block->pool->used_high, block->requested);
    else if (block->pool != NULL)
        block->pool->used -= block->requested;
}

void block_use_locked(struct block *block, CUstream stream)
{
    block->pending++;
    block->last = (struct ticket){stream, stream->submitted + 1};
}

CUresult block_take_locked(struct block **out, size_t size, CUmemoryPool pool, CUstream stream, struct ticket *after)
{
    struct block *block = find_freed_locked(pool, size, stream, 0);
    CUresult result = CUDA_SUCCESS;
    if (block == NULL) {
        result = create_block_locked(&block, size, pool->device, pool->is_of_graphs);
        if (result == CUDA_SUCCESS) {
            block->pool = pool;
            count(&pool->reserved, &pool->reserved_high, block->bytes);
        } else {
            block = find_freed_locked(pool, size, stream, 1);
        }
    }
    if (block == NULL)
        return result;
    if (!is_idle(block) && block->last.stream != stream)
        *after = block->last;
    block->requested = size;
    block->id = space_new_id();
    block_set_live_locked(block, 1);
    *out = block;
    return CUDA_SUCCESS;
}

CUresult space_allocate_ordered(CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream, struct ticket *after)
{
    struct block *block;
    CALL_TRY(check(address, size));
    HOLD(&space_lock);
    CALL_TRY(block_take_locked(&block, size, pool, stream, after));
    *address = block->start;
    return CUDA_SUCCESS;
}

/* Returns the live allocation that starts at an address, or NULL. */
static struct block *find_live_locked(CUdeviceptr address)
{
    struct block *block = space_block_locked(address);
    return block != NULL && block->start == address && block->is_live ? block : NULL;
}

/* Only a pool keeps freed memory. */
static void collect_locked(struct block *block)
{
    if (block->pool == NULL && is_idle(block))
        free_block_locked(block);
}

CUresult space_free(CUdeviceptr address, CUstream stream, struct operation *operation)
{
    HOLD(&space_lock);
    struct block *block = find_live_locked(address);
    CALL_REFUSE(block == NULL, INVALID_VALUE);
    CUmemoryPool pool = block->pool;
    if (block->references != 0) {
        graph_memory_free_locked(block, stream, operation);
        return CUDA_SUCCESS;
    }
    block_set_live_locked(block, 0);
    if (stream != NULL) {
        block_use_locked(block, stream);
        operation->freed.block = block;
        return CUDA_SUCCESS;
    }
    collect_locked(block);
    if (pool != NULL)
        trim_locked(pool, pool->threshold);
    return CUDA_SUCCESS;
}

void space_pass(const struct operation *operation)
{
    HOLD(&space_lock);
    operation->freed.block->pending--;
    collect_locked(operation->freed.block);
    if (operation->freed.address != NULL)
        graph_memory_release_locked(operation->freed.address);
}

void space_trim(CUmemoryPool pool, uint64_t reserved_bytes)
{
    HOLD(&space_lock);
    trim_locked(pool, reserved_bytes);
}

void space_settle(void)
{
    HOLD(&space_lock);
    struct block *block, *next;
    DL_FOREACH_SAFE(blocks, block, next)
    {
        if (block->pool != NULL && block->pool->reserved > block->pool->threshold && is_idle(block))
            free_block_locked(block);
    }
}

void space_release_context(CUcontext context)
{
    HOLD(&space_lock);
    struct block *block, *next;
    DL_FOREACH_SAFE(blocks, block, next)
    {
        if (block->context != context)
            continue;
        block->context = NULL;
        block->is_live = 0;
        collect_locked(block);
    }
}

DRIVER(cuMemGetAllocationGranularity, 10020,
       (size_t *, granularity, const CUmemAllocationProp *, prop, CUmemAllocationGranularity_flags, option))
{
    CALL_REFUSE(granularity == NULL || prop == NULL || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, INVALID_VALUE);
    CALL_REFUSE(prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE && !config_has_device(prop->location.id), INVALID_DEVICE);
    *granularity = SIM_GRANULARITY;
    return CUDA_SUCCESS;
}

static CUresult allocate(CUdeviceptr *address, size_t size)
{
    CONTEXT_CURRENT(context);
    CALL_TRY(capture_check_unsafe());
    if (size >= SIM_GRANULARITY)
        stream_await_submitters(context);
    return space_allocate(address, size, context->home, context->device);
}

DRIVER_IS(cuMemAlloc, 3020, (CUdeviceptr *, dptr, size_t, bytesize), allocate(dptr, bytesize))

DRIVER(cuMemAllocPitch, 3020,
       (CUdeviceptr *, dptr, size_t *, pPitch, size_t, WidthInBytes, size_t, Height, unsigned int, ElementSizeBytes))
{
    size_t pitch, size;
    CONTEXT_CURRENT(context);
    if (pPitch == NULL || (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16) ||
        __builtin_add_overflow(WidthInBytes, 511, &pitch) || __builtin_mul_overflow(pitch / 512 * 512, Height, &size))
        return CUDA_ERROR_INVALID_VALUE;
    *pPitch = pitch / 512 * 512; /* measured on current devices: rows are aligned to 512 bytes */
    return allocate(dptr, size);
}

/* Returns the context that a free waits for: the owner of the memory, whatever is current (measured: not a peer that uses it).
 * NULL for none: memory of pools and graphs is freed at once. */
static CUcontext owner_of(CUdeviceptr address)
{
    struct space_range range;
    return space_find(address, &range) == CUDA_SUCCESS || host_find(address, &range) ? range.context : NULL;
}

DRIVER(cuMemFree, 3020, (CUdeviceptr, dptr))
{
    CALL_TRY(context_check()); /* none need be current */
    CALL_TRY(capture_check_unsafe());
    if (dptr == 0)
        return CUDA_SUCCESS;
    CUcontext owner = owner_of(dptr);
    if (owner != NULL) {
        context_wait(owner);
        CALL_TRY(context_error(owner));
    }
    return space_is_device(dptr) ? space_free(dptr, NULL, NULL) : host_drop(dptr, HOST_MANAGED);
}
