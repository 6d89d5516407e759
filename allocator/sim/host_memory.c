#include "virtual_memory.h"
#include "capture.h"

#include <unistd.h>

struct host_block {
    struct host_block *next, *prev;
    struct space_range range;
};

static pthread_mutex_t host_lock = PTHREAD_MUTEX_INITIALIZER;
static struct host_block *host_blocks; /* under host_lock */

static struct host_block *find_locked(CUdeviceptr address, size_t size)
{
    struct host_block *block = host_blocks;
    while (block != NULL && (block->range.start >= address + size || block->range.start + block->range.size <= address))
        block = block->next;
    return block;
}

int host_find(CUdeviceptr address, struct space_range *range)
{
    HOLD(&host_lock);
    const struct host_block *block = find_locked(address, 1);
    if (block != NULL)
        *range = block->range;
    return block != NULL;
}

static void release_locked(struct host_block *block)
{
    DL_DELETE(host_blocks, block); /* NOLINT(clang-analyzer-core.NullDereference): the block is in the list */
    if (block->range.kind != HOST_REGISTERED)
        free((void *)(uintptr_t)block->range.start);
    free(block);
}

CUresult host_drop(CUdeviceptr address, enum host_kind kind)
{
    HOLD(&host_lock);
    struct host_block *block = find_locked(address, 1);
    CALL_REFUSE(block == NULL || block->range.start != address || block->range.kind != kind, INVALID_VALUE);
    release_locked(block);
    return CUDA_SUCCESS;
}

void host_release_context(CUcontext context)
{
    struct host_block *block, *next;
    HOLD(&host_lock);
    DL_FOREACH_SAFE(host_blocks, block, next)
    {
        if (block->range.context == context)
            release_locked(block);
    }
}

static CUresult add(void *memory, size_t size, enum host_kind kind, CUcontext context)
{
    HOLD(&host_lock);
    CALL_REFUSE(find_locked((uintptr_t)memory, size) != NULL, HOST_MEMORY_ALREADY_REGISTERED);
    struct host_block *block = memory_new(sizeof *block);
    block->range = (struct space_range){.start = (uintptr_t)memory,
                                        .size = size,
                                        .device = context->device,
                                        .context = context,
                                        .kind = kind,
                                        .mapping_start = (uintptr_t)memory,
                                        .mapping_size = size,
                                        .id = space_new_id()};
    DL_PREPEND(host_blocks, block);
    return CUDA_SUCCESS;
}

static CUresult allocate(void **pointer, size_t size, enum host_kind kind)
{
    void *memory;
    CONTEXT_CURRENT(context);
    CALL_TRY(capture_check_unsafe());
    stream_await_submitters(context);
    CALL_REFUSE(pointer == NULL || size == 0, INVALID_VALUE);
    CALL_REFUSE(posix_memalign(&memory, (size_t)sysconf(_SC_PAGESIZE), size) != 0, OUT_OF_MEMORY);
    *pointer = memory;
    return add(memory, size, kind, context->home); /* memory that is registered is not free */
}

DRIVER_IS(cuMemAllocHost, 3020, (void **, pp, size_t, bytesize), allocate(pp, bytesize, HOST_PINNED))

DRIVER(cuMemHostAlloc, 2020, (void **, pp, size_t, bytesize, unsigned int, Flags))
{
    const unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    return (Flags & ~known) != 0 ? CUDA_ERROR_INVALID_VALUE : allocate(pp, bytesize, HOST_PINNED);
}

DRIVER(cuMemAllocManaged, 6000, (CUdeviceptr *, dptr, size_t, bytesize, unsigned int, flags))
{
    CALL_REFUSE(dptr == NULL || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST), INVALID_VALUE);
    void *memory;
    CALL_TRY(allocate(&memory, bytesize, HOST_MANAGED));
    *dptr = (CUdeviceptr)(uintptr_t)memory;
    return CUDA_SUCCESS;
}

DRIVER(cuMemHostRegister, 6050, (void *, p, size_t, bytesize, unsigned int, Flags))
{
    const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
    CONTEXT_CURRENT(context);
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)p;
    CALL_REFUSE(p == NULL || bytesize == 0 || (Flags & ~known) != 0 || space_is_device(address), INVALID_VALUE);
    return add(p, bytesize, HOST_REGISTERED, context->home);
}

DRIVER(cuMemHostUnregister, 4000, (void *, p))
{
    CUresult result = host_drop((CUdeviceptr)(uintptr_t)p, HOST_REGISTERED);
    return result == CUDA_ERROR_INVALID_VALUE && p != NULL ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : result;
}

DRIVER(cuMemHostGetDevicePointer, 3020, (CUdeviceptr *, pdptr, void *, p, unsigned int, Flags))
{
    struct space_range range;
    if (pdptr == NULL || Flags != 0 || !host_find((CUdeviceptr)(uintptr_t)p, &range) || range.kind == HOST_MANAGED)
        return CUDA_ERROR_INVALID_VALUE;
    *pdptr = (CUdeviceptr)(uintptr_t)p;
    return CUDA_SUCCESS;
}

DRIVER(cuMemFreeHost, 2000, (void *, p))
{
    struct space_range range;
    CONTEXT_CURRENT(context);
    if (host_find((CUdeviceptr)(uintptr_t)p, &range))
        context_wait(range.context);
    return host_drop((CUdeviceptr)(uintptr_t)p, HOST_PINNED);
}
