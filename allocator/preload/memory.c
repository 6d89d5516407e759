/* Hooks that allocate and free memory, and queries about memory. */
#include "internal.h"

#include "base/options.h"
#include "base/output.h"
#include "heap/unguarded/unguarded.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define PITCH 512u /* bytes: row alignment of cuMemAllocPitch on every device since compute capability 5.0 */

/* Returns the error of a faulted context. */
static CUresult returned_fault(void)
{
    CUresult fault = failure();
    if (fault == CUDA_SUCCESS)
        fault = driver->cuCtxSynchronize();
    return fault != CUDA_SUCCESS ? fault : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static CUresult result_of(cufence_status status)
{
    static int has_said; /* atomic */
    switch (status) {
    case CUFENCE_OK:
        return CUDA_SUCCESS;
    case CUFENCE_ERROR_FAULTED:
        return returned_fault();
    case CUFENCE_ERROR_OUT_OF_MEMORY:
    case CUFENCE_ERROR_OVERFLOW:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case CUFENCE_ERROR_INVALID_ARGUMENT:
        return CUDA_ERROR_INVALID_VALUE;
    default:
        if (!__atomic_exchange_n(&has_said, 1, __ATOMIC_RELAXED))
            output_say("cufence: %s\n", cufence_error_detail());
        return status == CUFENCE_ERROR_OUT_OF_ADDRESS_SPACE ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
    }
}

/* Parameters of an allocation. All zero: one that is left to the driver, and not counted. */
struct purpose {
    struct context *context; /* whose memory it will be */
    struct stream *stream;   /* NULL: any stream may use it */
    unsigned owner;
    struct needs needs;
    enum passed_reason why; /* the driver serves it, unguarded, for this reason */
    int is_last_try;        /* the driver has no room either */
};

#define CALLERS_NEEDS caller_needs(__builtin_return_address(0)) /* for use in a hook */
#define CALLERS_FRAME __builtin_frame_address(0)                /* likewise */

static struct heap_request request_of(const struct purpose *purpose, size_t size)
{
    return (struct heap_request){.size = size,
                                 .context = purpose->context,
                                 .device =
                                     purpose->owner > OWNER_NO_POOL ? pool_device(purpose->owner) : purpose->context->device,
                                 .stream = purpose->stream,
                                 .owner = (uint8_t)purpose->owner,
                                 .is_last_try = purpose->is_last_try,
                                 .align = purpose->needs.alignment};
}

/* Returns 0 if the driver should serve the allocation: purpose->why says the reason. */
static int allocate(CUdeviceptr *out, size_t size, struct purpose *purpose, const void *frame, CUresult *result)
{
    const struct heap_request wanted = request_of(purpose, size);
    void *pointer = NULL;
    uint64_t mapped = 0;
    purpose->why = purpose->is_last_try ? PASSED_NOT : passed_why(&wanted, frame);
    if (purpose->why != PASSED_NOT)
        return 0;
    *result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!pool_reserve(purpose->owner, size))
        return 1;
    cufence_status status = heap_allocate(&pointer, &wanted, &mapped);
    if (status != CUFENCE_OK) {
        pool_cancel(purpose->owner, size);
        enum passed_reason why = purpose->is_last_try ? PASSED_NOT : passed_after(status);
        if (why == PASSED_NOT) {
            *result = result_of(status);
            return 1;
        }
        if (passed_may_fit(&wanted)) {
            purpose->why = why;
            return 0;
        }
        purpose->is_last_try = 1;
        return allocate(out, size, purpose, frame, result);
    }
    *out = (CUdeviceptr)(uintptr_t)pointer;
    *result = CUDA_SUCCESS;
    pool_mapped(purpose->owner, mapped);
    return 1;
}

/* Call with the result of the driver's own allocation; counts it. If the driver has no room either, tries to make some. Returns
 * the result. */
static CUresult passed(CUresult result, struct purpose *purpose, CUdeviceptr *out, size_t size)
{
    if (__builtin_expect(__atomic_load_n(&observe_is_on, __ATOMIC_RELAXED), 0) && result == CUDA_SUCCESS && size)
        observe_allocated(*out, size);
    if (purpose->why == PASSED_NOT)
        return result;
    if (result == CUDA_ERROR_OUT_OF_MEMORY && (purpose->why == PASSED_NO_MEMORY || purpose->why == PASSED_NO_SPACE)) {
        purpose->is_last_try = 1;
        allocate(out, size, purpose, NULL, &result);
        return result;
    }
    const struct heap_request wanted = request_of(purpose, size);
    if (result == CUDA_SUCCESS)
        passed_add(*out, &wanted, purpose->why);
    return result;
}

/* ---- allocations usable on every stream at once ---- */

/* Returns 0 if the driver should serve the allocation. */
static int is_for_us(struct purpose *purpose, const void *out, size_t size, struct needs needs)
{
    *purpose = (struct purpose){0};
    if (!is_active() || !out || !size)
        return 0;
    struct context *context = context_current();
    if (!context)
        return 0;
    *purpose = (struct purpose){.context = context, .owner = OWNER_NO_POOL, .needs = needs};
    if (preload_options->ipc == IPC_DRIVER || needs.exports)
        purpose->why = PASSED_EXPORTED;
    return purpose->why == PASSED_NOT;
}

CUresult hook_cuMemAlloc_v2(CUdeviceptr *out, size_t size)
{
    struct purpose purpose;
    CUresult result;
    if (is_for_us(&purpose, out, size, CALLERS_NEEDS) && allocate(out, size, &purpose, CALLERS_FRAME, &result))
        return result;
    return passed(real.cuMemAlloc_v2(out, size), &purpose, out, size);
}

CUresult hook_cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element)
{
    size_t size = 0, row;
    struct purpose purpose = {0};
    CUresult result;
    if (!pitch || !height || (element != 4 && element != 8 && element != 16) ||
        __builtin_add_overflow(width, PITCH - 1, &row) || __builtin_mul_overflow(row / PITCH * PITCH, height, &size))
        return real.cuMemAllocPitch_v2(out, pitch, width, height, element);
    if (!is_for_us(&purpose, out, width, CALLERS_NEEDS) || !allocate(out, size, &purpose, CALLERS_FRAME, &result))
        result = passed(real.cuMemAllocPitch_v2(out, pitch, width, height, element), &purpose, out, size);
    if (result == CUDA_SUCCESS && (purpose.why == PASSED_NOT) && purpose.context)
        *pitch = row / PITCH * PITCH;
    return result;
}

/* ---- stream-ordered allocations ---- */

/* Fills in *purpose for memory of `owner`, or with owner 0 of the current pool of the stream's device. The memory is on the
 * pool's device. Returns 0 if the driver should serve the allocation. */
static int is_for_pool(struct purpose *purpose, const void *out, size_t size, CUstream handle, unsigned owner,
                       struct needs needs)
{
    struct stream *stream = is_active() && out && size ? stream_resolve(handle) : NULL;
    *purpose = (struct purpose){0};
    if (!stream)
        return 0;
    *purpose = (struct purpose){.context = stream->context, .stream = stream, .owner = owner, .needs = needs};
    if (!owner)
        purpose->owner = pool_current(stream->context);
    return purpose->owner != 0;
}

#define ALLOC_ASYNC(symbol, stream_meant)                                                                                      \
    CUresult hook_##symbol(CUdeviceptr *out, size_t size, CUstream stream)                                                     \
    {                                                                                                                          \
        struct purpose purpose;                                                                                                \
        CUresult result;                                                                                                       \
        if (is_for_pool(&purpose, out, size, stream_meant(stream), 0, CALLERS_NEEDS) &&                                        \
            allocate(out, size, &purpose, CALLERS_FRAME, &result))                                                             \
            return result;                                                                                                     \
        return passed(real.symbol(out, size, stream), &purpose, out, size);                                                    \
    }
ALLOC_ASYNC(cuMemAllocAsync, as_it_is)
ALLOC_ASYNC(cuMemAllocAsync_ptsz, own_default)

#define ALLOC_FROM_POOL(symbol, stream_meant)                                                                                  \
    CUresult hook_##symbol(CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream stream)                                  \
    {                                                                                                                          \
        struct purpose purpose = {0};                                                                                          \
        CUresult result;                                                                                                       \
        unsigned owner = is_active() ? pool_of_handle(pool) : 0;                                                               \
        if (owner && is_for_pool(&purpose, out, size, stream_meant(stream), owner, CALLERS_NEEDS) &&                           \
            allocate(out, size, &purpose, CALLERS_FRAME, &result))                                                             \
            return result;                                                                                                     \
        return passed(real.symbol(out, size, pool, stream), &purpose, out, size);                                              \
    }
ALLOC_FROM_POOL(cuMemAllocFromPoolAsync, as_it_is)
ALLOC_FROM_POOL(cuMemAllocFromPoolAsync_ptsz, own_default)

/* ---- frees ---- */

/* Call before the driver's own free, and give what it returns to after_free(). */
static struct passed *before_free(CUdeviceptr pointer)
{
    if (__builtin_expect(__atomic_load_n(&observe_is_on, __ATOMIC_RELAXED), 0))
        observe_freed(pointer);
    return is_active() ? passed_take(pointer) : NULL; /* in a forked child, locks may be held by threads that are not there */
}

/* Returns the result of the driver's own free. */
static CUresult after_free(CUresult result, struct passed *passed)
{
    passed_freed(passed, result == CUDA_SUCCESS);
    return result;
}

/* Frees succeed even after a fault, unlike everything else. Programs free in destructors, where an error would terminate them
 * before they can report the error of the previous call. */

static CUresult refuse_free(const struct host_call *call, CUdeviceptr pointer, cufence_status status,
                            const cufence_description *where)
{
    const char *kind = status == CUFENCE_ERROR_DOUBLE_FREE ? "double free" : "invalid free";
    return misuse(call, (struct misuse){.kind = kind, .address = pointer, .where = where});
}

static void give_back(const struct heap_claim *claim, struct stream *stream, enum heap_users users)
{
    struct heap_freed freed;
    heap_free(claim, stream, users, &freed);
    pool_freed(&freed);
}

/* Returns once no work of the buffer's context is left; an error of that wait is the result. A thread that were cancelled
 * meanwhile would leave the buffer neither live nor freed. */
static CUresult wait_for_users(struct context *context)
{
    CUcontext popped;
    int cancel_state;
    if (failure() != CUDA_SUCCESS)
        return failure();
    if (driver->cuCtxPushCurrent(context->handle) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    CUresult result = synchronised(context, driver->cuCtxSynchronize);
    pthread_setcancelstate(cancel_state, NULL);
    driver->cuCtxPopCurrent(&popped);
    return result;
}

CUresult hook_cuMemFree_v2(CUdeviceptr pointer)
{
    struct heap_claim claim;
    if (!is_ours(pointer)) {
        uint64_t pinned = is_active() ? pinned_number(pointer) : 0;
        struct passed *passed = before_free(pointer);
        CUresult result = after_free(real.cuMemFree_v2(pointer), passed);
        if (result == CUDA_SUCCESS)
            pinned_remove(pointer, pinned);
        return result;
    }
    if (order_is_wanted())
        races_before_free(HOST_CALL("cuMemFree"), pointer, NULL);
    cufence_status status = heap_claim((void *)(uintptr_t)pointer, &claim);
    if (status != CUFENCE_OK)
        return refuse_free(HOST_CALL("cuMemFree"), pointer, status, &claim.where);
    int was_returned = __atomic_load_n(&preload_fault_returned, __ATOMIC_RELAXED);
    /* A synchronisation would invalidate a capture, so the buffer waits for the next one instead. */
    CUresult waited = heap_captures() ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : wait_for_users(claim.context);
    give_back(&claim, NULL, waited == CUDA_SUCCESS ? HEAP_NONE : HEAP_CONTEXT);
    return driver_has_faulted(waited) && !was_returned ? waited : CUDA_SUCCESS; /* it frees in destructors after that */
}

/* Frees in the order of the caller's stream: a default stream is that of the current context, whichever context owns the
 * memory. */
static CUresult free_async(const struct host_call *call, CUdeviceptr pointer, CUstream handle)
{
    struct heap_claim claim;
    struct stream *stream = stream_resolve(handle);
    if (order_is_wanted() && stream)
        races_before_free(call, pointer, stream);
    cufence_status status = heap_claim((void *)(uintptr_t)pointer, &claim);
    if (status != CUFENCE_OK)
        return refuse_free(call, pointer, status, &claim.where);
    give_back(&claim, stream, stream ? HEAP_STREAM : HEAP_UNKNOWN);
    return CUDA_SUCCESS;
}

#define FREE_ASYNC(symbol, stream_meant)                                                                                       \
    CUresult hook_##symbol(CUdeviceptr pointer, CUstream stream)                                                               \
    {                                                                                                                          \
        if (is_ours(pointer))                                                                                                  \
            return free_async(HOST_CALL("cuMemFreeAsync"), pointer, stream_meant(stream));                                     \
        struct passed *passed = before_free(pointer);                                                                          \
        return after_free(real.symbol(pointer, stream), passed);                                                               \
    }
FREE_ASYNC(cuMemFreeAsync, as_it_is)
FREE_ASYNC(cuMemFreeAsync_ptsz, own_default)

/* ---- queries ---- */

/* Free memory is what the next allocation could get. Memory kept by pools counts as used, as with the driver's own pools. */
CUresult hook_cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    CUresult result = real.cuMemGetInfo_v2(free_bytes, total);
    if (result != CUDA_SUCCESS || !is_active() || !free_bytes || !total)
        return result;
    struct heap_figures figures = heap_figures(context_current());
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

/* Answers attributes for which the driver's answer about the mapping would be wrong. Returns 0 for the others. */
static int answer(const struct heap_range *range, CUpointer_attribute attribute, void *data)
{
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = range->context->handle;
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

/* ---- host memory that kernels can reach ---- */

/* It is the driver's, and noted because a second launch needs it (witness/copies.c). */
void note_pinned(CUdeviceptr address, size_t size, enum pinned_kind kind)
{
    struct context *context = is_active() ? context_current() : NULL;
    if (context)
        pinned_add(context, address, size, kind);
}

CUresult host_free(CUresult (*function)(void *), void *pointer)
{
    uint64_t number = is_active() ? pinned_number((uint64_t)(uintptr_t)pointer) : 0;
    if (number)
        races_before_host_free(HOST_CALL(function == real.cuMemFreeHost ? "cuMemFreeHost" : "cuMemHostUnregister"), pointer);
    CUresult result = function(pointer);
    if (result == CUDA_SUCCESS)
        pinned_remove((uint64_t)(uintptr_t)pointer, number);
    return result;
}
