/* The hooks that take and give memory, and those that are asked about it. */
#include "internal.h"

#include "options.h"

#include <stdio.h>
#include <string.h>

#define PITCH 512u /* bytes: what cuMemAllocPitch aligns rows to on every device since compute capability 5.0 */

static CUresult result_of(cufence_status status)
{
    static int has_said; /* atomic */
    switch (status) {
    case CUFENCE_OK:
        return CUDA_SUCCESS;
    case CUFENCE_ERROR_FAULTED:
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    case CUFENCE_ERROR_OUT_OF_MEMORY:
    case CUFENCE_ERROR_OVERFLOW:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case CUFENCE_ERROR_INVALID_ARGUMENT:
        return CUDA_ERROR_INVALID_VALUE;
    default:
        if (!__atomic_exchange_n(&has_said, 1, __ATOMIC_RELAXED))
            fprintf(stderr, "cufence: %s\n", cufence_error_detail());
        return status == CUFENCE_ERROR_OUT_OF_ADDRESS_SPACE ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
    }
}

/* What an allocation is wanted for. */
struct purpose {
    CUstream stream;
    unsigned owner;
    struct needs needs;
};

#define CALLERS_NEEDS caller_needs(__builtin_return_address(0)) /* in a hook */

/* In the current context. */
static CUresult allocate(CUdeviceptr *out, size_t size, const struct purpose *purpose)
{
    const struct heap_request wanted = {.size = size,
                                        .device = -1,
                                        .stream = purpose->stream,
                                        .owner = (uint8_t)purpose->owner,
                                        .align = purpose->needs.alignment};
    void *pointer = NULL;
    uint64_t mapped = 0;
    if (!pool_reserve(purpose->owner, size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    cufence_status status = heap_allocate(&pointer, &wanted, &mapped);
    if (status != CUFENCE_OK) {
        pool_cancel(purpose->owner, size);
        return result_of(status);
    }
    *out = (CUdeviceptr)(uintptr_t)pointer;
    pool_mapped(purpose->owner, mapped);
    return CUDA_SUCCESS;
}

static int has_context(void)
{
    CUcontext context = NULL;
    return driver->cuCtxGetCurrent(&context) == CUDA_SUCCESS && context;
}

/* ---- allocations that are good for every stream at once ---- */

static int leaves_to_driver(const void *out, size_t size, struct needs needs)
{
    return !is_active() || !out || !size || preload_options->ipc == IPC_DRIVER || needs.exports || !has_context();
}

CUresult hook_cuMemAlloc_v2(CUdeviceptr *out, size_t size)
{
    const struct purpose purpose = {HEAP_SYNCHRONISED, OWNER_NO_POOL, CALLERS_NEEDS};
    return leaves_to_driver(out, size, purpose.needs) ? real.cuMemAlloc_v2(out, size) : allocate(out, size, &purpose);
}

CUresult hook_cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element)
{
    size_t size, row;
    const struct purpose purpose = {HEAP_SYNCHRONISED, OWNER_NO_POOL, CALLERS_NEEDS};
    if (leaves_to_driver(out, width, purpose.needs) || !pitch || !height || (element != 4 && element != 8 && element != 16) ||
        __builtin_add_overflow(width, PITCH - 1, &row) || __builtin_mul_overflow(row / PITCH * PITCH, height, &size))
        return real.cuMemAllocPitch_v2(out, pitch, width, height, element);
    CUresult result = allocate(out, size, &purpose);
    if (result == CUDA_SUCCESS)
        *pitch = row / PITCH * PITCH;
    return result;
}

/* ---- stream-ordered ones ---- */

/* The memory is that of the stream's device; a program with one device need not be asked. */
static int enter_context_of(CUstream stream)
{
    CUcontext current = NULL, wanted = NULL;
    if (preload_devices < 2 || !driver->cuStreamGetCtx || !stream || stream == CU_STREAM_LEGACY ||
        stream == CU_STREAM_PER_THREAD || driver->cuCtxGetCurrent(&current) != CUDA_SUCCESS ||
        driver->cuStreamGetCtx(stream, &wanted) != CUDA_SUCCESS || current == wanted)
        return 0;
    return driver->cuCtxPushCurrent(wanted) == CUDA_SUCCESS;
}

/* Without an owner it is the device's current pool. Returns 0 where the driver is to do it. */
static int allocate_on(CUdeviceptr *out, size_t size, struct purpose purpose, CUresult *result)
{
    CUcontext popped;
    if (!is_active() || !out || !size || !has_context())
        return 0;
    int is_pushed = enter_context_of(purpose.stream);
    if (!purpose.owner)
        purpose.owner = pool_current();
    if (purpose.owner)
        *result = allocate(out, size, &purpose);
    if (is_pushed)
        driver->cuCtxPopCurrent(&popped);
    return purpose.owner != 0;
}

CUresult hook_cuMemAllocAsync(CUdeviceptr *out, size_t size, CUstream stream)
{
    CUresult result;
    const struct purpose purpose = {stream, 0, CALLERS_NEEDS};
    return allocate_on(out, size, purpose, &result) ? result : real.cuMemAllocAsync(out, size, stream);
}

CUresult hook_cuMemAllocAsync_ptsz(CUdeviceptr *out, size_t size, CUstream stream)
{
    CUresult result;
    const struct purpose purpose = {own_default(stream), 0, CALLERS_NEEDS};
    return allocate_on(out, size, purpose, &result) ? result : real.cuMemAllocAsync_ptsz(out, size, stream);
}

CUresult hook_cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream stream)
{
    CUresult result;
    const struct purpose purpose = {stream, is_active() ? pool_of_handle(pool) : 0, CALLERS_NEEDS};
    return purpose.owner && allocate_on(out, size, purpose, &result) ? result
                                                                     : real.cuMemAllocFromPoolAsync(out, size, pool, stream);
}

CUresult hook_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream stream)
{
    CUresult result;
    const struct purpose purpose = {own_default(stream), is_active() ? pool_of_handle(pool) : 0, CALLERS_NEEDS};
    return purpose.owner && allocate_on(out, size, purpose, &result)
               ? result
               : real.cuMemAllocFromPoolAsync_ptsz(out, size, pool, stream);
}

/* ---- frees ---- */

/* They succeed after a fault, unlike everything else: programs free in destructors, where an error would end them before they
 * could say what the call before has told them. */

static CUresult give_back(const struct host_call *call, CUdeviceptr pointer, CUstream stream)
{
    struct heap_freed freed;
    cufence_status status = heap_free((void *)(uintptr_t)pointer, stream, &freed);
    if (status == CUFENCE_OK) {
        pool_freed(&freed);
        return CUDA_SUCCESS;
    }
    if (status != CUFENCE_ERROR_DOUBLE_FREE && status != CUFENCE_ERROR_INVALID_FREE)
        return result_of(status);
    cufence_description place;
    heap_describe_free(pointer, &place);
    const char *kind = status == CUFENCE_ERROR_DOUBLE_FREE ? "double free" : "invalid free";
    return misuse(call, (struct misuse){.kind = kind, .address = pointer, .place = &place});
}

/* Returns once no work of the buffer's context is left. What goes wrong is the result. */
static CUresult wait_for_users(CUdeviceptr pointer)
{
    struct heap_range range;
    CUcontext popped;
    if (has_failed())
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (!heap_range_of(pointer, &range) || driver->cuCtxPushCurrent(range.context) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = settled(driver->cuCtxSynchronize(), 1);
    driver->cuCtxPopCurrent(&popped);
    return result;
}

CUresult hook_cuMemFree_v2(CUdeviceptr pointer)
{
    if (!is_ours(pointer))
        return real.cuMemFree_v2(pointer);
    int had_failed = has_failed();
    /* A synchronisation would end a capture; then the buffer waits for the next one. */
    CUresult waited = heap_captures() ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : wait_for_users(pointer);
    CUresult result = give_back(HOST_CALL("cuMemFree"), pointer, waited == CUDA_SUCCESS ? HEAP_SYNCHRONISED : HEAP_UNORDERED);
    return waited == CUDA_ERROR_ILLEGAL_ADDRESS && !had_failed ? waited : result; /* it has met the fault by waiting */
}

CUresult hook_cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
    return is_ours(pointer) ? give_back(HOST_CALL("cuMemFreeAsync"), pointer, stream) : real.cuMemFreeAsync(pointer, stream);
}

CUresult hook_cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream)
{
    return is_ours(pointer) ? give_back(HOST_CALL("cuMemFreeAsync"), pointer, own_default(stream))
                            : real.cuMemFreeAsync_ptsz(pointer, stream);
}

/* ---- questions ---- */

/* Free is what the next allocation could have. What pools keep counts as theirs, as with the driver's own. */
CUresult hook_cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    CUresult result = real.cuMemGetInfo_v2(free_bytes, total);
    if (result != CUDA_SUCCESS || !is_active() || !free_bytes || !total)
        return result;
    struct heap_figures figures = heap_figures();
    *free_bytes += figures.cached + (pools_are_used() ? 0 : figures.idle);
    if (*free_bytes > *total)
        *free_bytes = *total;
    return result;
}

CUresult hook_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer)
{
    struct heap_range range;
    if (!is_ours(pointer))
        return real.cuMemGetAddressRange_v2(base, size, pointer);
    if (!heap_range_of(pointer, &range))
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = range.address;
    if (size)
        *size = range.size;
    return CUDA_SUCCESS;
}

/* Where the answer differs from what the driver says of a mapping. Returns 0 where it does not. */
static int answer(const struct heap_range *range, CUpointer_attribute attribute, void *data)
{
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = range->context;
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

CUresult hook_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    struct heap_range range;
    if (!is_ours(pointer) || !data)
        return real.cuPointerGetAttribute(data, attribute, pointer);
    if (!heap_range_of(pointer, &range))
        return CUDA_ERROR_INVALID_VALUE;
    return answer(&range, attribute, data) ? CUDA_SUCCESS : real.cuPointerGetAttribute(data, attribute, pointer);
}

CUresult hook_cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr pointer)
{
    struct heap_range range;
    CUresult result = real.cuPointerGetAttributes(count, attributes, data, pointer);
    if (result != CUDA_SUCCESS || !is_ours(pointer) || !heap_range_of(pointer, &range))
        return result;
    for (unsigned i = 0; i < count; i++) {
        if (data[i])
            answer(&range, attributes[i], data[i]);
    }
    return result;
}

static CUresult refuse_export(const char *call)
{
    static int has_said; /* atomic */
    if (!__atomic_exchange_n(&has_said, 1, __ATOMIC_RELAXED))
        fprintf(
            stderr,
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
