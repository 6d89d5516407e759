/* Hooks that ask about memory: how much there is, what is at an address; and that give an address to another process. */
#include "preload_internal.h"

#include "base/output.h"

/* Free memory is what the next allocation could get. What pools keep because the program has told them to, counts as used, as
 * with the driver's own pools. */
CUresult hook_cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    CUresult result = real.cuMemGetInfo_v2(free_bytes, total);
    struct context *context = result == CUDA_SUCCESS && is_active() && free_bytes && total ? context_current() : NULL;
    if (!context)
        return result;
    uint64_t kept = heap_kept(context->device), wanted = pools_keep(context->device);
    *free_bytes += kept > wanted ? kept - wanted : 0;
    if (*free_bytes > *total)
        *free_bytes = *total;
    return result;
}

CUresult hook_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer)
{
    struct heap_range range;
    CUcontext current = NULL;
    if (!is_ours(pointer) || driver->cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current)
        return real.cuMemGetAddressRange_v2(base, size, pointer);
    if (!heap_range_of(pointer, &range))
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = range.address;
    if (size)
        *size = range.size;
    return CUDA_SUCCESS;
}

/* Answers attributes for which the driver's answer about the mapping would be wrong. Returns 0 for the others. */
static int answer(const struct heap_range *range, CUpointer_attribute attribute, void *data)
{
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: /* memory of pools belongs to none */
        *(CUcontext *)data = range->owner == OWNER_NO_POOL || !range->owner ? range->context->handle : NULL;
        return 1;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned *)data = heap_is_synchronous(range->address) != 0;
        return 1;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = range->address;
        return 1;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = range->size;
        return 1;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = range->id;
        return 1;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = pool_handle(range->owner);
        return 1;
    default:
        return 0;
    }
}

#define NOWHERE ((CUdeviceptr)0x1000) /* no CUDA memory can be there */

CUresult hook_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    struct heap_range range;
    if (!is_ours(pointer) || !data)
        return real.cuPointerGetAttribute(data, attribute, pointer);
    if (!heap_range_of(pointer, &range))
        return real.cuPointerGetAttribute(data, attribute, NOWHERE);
    return answer(&range, attribute, data) ? CUDA_SUCCESS : real.cuPointerGetAttribute(data, attribute, pointer);
}

/* A freed buffer's mapping may still be there, but what the driver says is what it says of any address without memory. */
static CUresult ask_of_nothing(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer)
{
    CUresult result = real.cuPointerGetAttributes(count, attributes, data, NOWHERE);
    for (unsigned i = 0; result == CUDA_SUCCESS && i < count; i++) {
        if (data[i] && attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER && *(CUdeviceptr *)data[i] == NOWHERE)
            *(CUdeviceptr *)data[i] = pointer;
    }
    return result;
}

CUresult hook_cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer)
{
    struct heap_range range;
    if (!is_ours(pointer) || !attributes || !data)
        return real.cuPointerGetAttributes(count, attributes, data, pointer);
    if (!heap_range_of(pointer, &range))
        return ask_of_nothing(count, attributes, data, pointer);
    CUresult result = real.cuPointerGetAttributes(count, attributes, data, pointer);
    for (unsigned i = 0; result == CUDA_SUCCESS && i < count; i++) {
        if (data[i])
            answer(&range, attributes[i], data[i]);
    }
    return result;
}

/* ---- other processes ---- */

static CUresult refuse_export(const char *call)
{
    static int has_said; /* atomic */
    if (!__atomic_exchange_n(&has_said, 1, __ATOMIC_RELAXED))
        output_say(
            "cufence: %s: a guarded buffer cannot be given to another process. The option ipc=driver leaves what cuMemAlloc "
            "allocates to the driver, unguarded, and it can be exported then\n",
            call);
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult hook_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer)
{
    return is_ours(pointer) ? refuse_export("cuIpcGetMemHandle") : real.cuIpcGetMemHandle(handle, pointer);
}

CUresult hook_cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr pointer)
{
    return is_ours(pointer) ? refuse_export("cuMemPoolExportPointer") : real.cuMemPoolExportPointer(data, pointer);
}
