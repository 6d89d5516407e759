/* Hooks that allocate memory. */
#include "preload_internal.h"

#include "base/options.h"
#include "base/output.h"
#include "heap/unguarded/unguarded.h"

#define PITCH 512u /* bytes: row alignment of cuMemAllocPitch on every device since compute capability 5.0 */

/* Returns the error of a faulted context. */
static CUresult returned_fault(const struct context *context)
{
    CUresult fault = failure();
    if (fault == CUDA_SUCCESS)
        fault = __atomic_load_n(&context->fault, __ATOMIC_RELAXED);
    if (fault == CUDA_SUCCESS)
        fault = driver->cuCtxSynchronize(); /* the driver has refused a call because of it, and refuses this one at once */
    return fault != CUDA_SUCCESS ? fault : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static CUresult result_of(cufence_status status, const struct context *context)
{
    static int has_said; /* atomic */
    switch (status) {
    case CUFENCE_OK:
        return CUDA_SUCCESS;
    case CUFENCE_ERROR_FAULTED:
        return returned_fault(context);
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

int relieve(uint64_t returns)
{
    return is_active() && heap_give_back(returns);
}

/* Parameters of an allocation. All zero: one that is left to the driver, and not counted. */
struct purpose {
    struct context *context; /* whose memory it will be */
    struct stream *stream;   /* NULL: any stream may use it */
    unsigned owner;
    struct needs needs;
    enum passed_reason why; /* the driver serves it, unguarded, for this reason */
    int is_last_try;        /* the driver has no room either */
    CUstream capturing;     /* the stream captures, as the calling thread names it; NULL: it does not */
    CUdeviceptr node;       /* then: heap_request.node */
    unsigned pool;          /* then: the memory is a graph's, of this pool's device; 0: of the stream's */
};

#define CALLERS_NEEDS caller_needs(__builtin_return_address(0)) /* for use in a hook */
#define CALLERS_FRAME __builtin_frame_address(0)                /* likewise */

static struct heap_request request_of(const struct purpose *purpose, size_t size)
{
    return (struct heap_request){.size = size,
                                 .context = purpose->context,
                                 .device = pool_device(purpose->pool ? purpose->pool : purpose->owner, purpose->context),
                                 .stream = purpose->stream,
                                 .owner = (uint8_t)purpose->owner,
                                 .is_last_try = purpose->is_last_try,
                                 .align = purpose->needs.alignment};
}

/* While a capture may be in progress. Returns 0 if the allocation is not allowed, or is left to the driver: purpose->why.
 * Beside memory that a capture allocates, the driver allocates a byte, by a node of the graph. That the graph is cloned,
 * updated or launched twice, and that its memory is freed by which call and when, is thus for the driver to judge. */
static __attribute__((noinline)) int begin_beside_captures(struct purpose *purpose, struct heap_request *wanted,
                                                           CUresult *result)
{
    if (purpose->capturing && !purpose->is_last_try && !heap_has_room_for_graph(wanted)) {
        purpose->why = PASSED_GRAPH;
        return 0;
    }
    *result = !purpose->capturing ? capture_forbids()
              : purpose->node     ? CUDA_SUCCESS
              : purpose->pool ? real.cuMemAllocFromPoolAsync(&purpose->node, 1, pool_handle(purpose->pool), purpose->capturing)
                              : driver->cuMemAllocAsync(&purpose->node, 1, purpose->capturing);
    wanted->node = purpose->node;
    return *result == CUDA_SUCCESS;
}

/* Returns 0 if the driver should serve the allocation: purpose->why says the reason. */
static int allocate(CUdeviceptr *out, size_t size, struct purpose *purpose, const void *frame, CUresult *result)
{
    struct heap_request wanted = request_of(purpose, size);
    void *pointer = NULL;
    uint64_t mapped = 0;
    purpose->why = purpose->is_last_try ? PASSED_NOT : passed_why(&wanted, frame);
    if (purpose->why != PASSED_NOT)
        return 0;
    if (__builtin_expect(heap_may_capture(), 0) && !begin_beside_captures(purpose, &wanted, result))
        return purpose->why == PASSED_NOT;
    *result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!pool_reserve(purpose->owner, size))
        return 1;
    cufence_status status = heap_allocate(&pointer, &wanted, &mapped);
    if (status != CUFENCE_OK) {
        pool_cancel(purpose->owner, size);
        if (purpose->node)
            driver->cuMemFreeAsync(purpose->node, purpose->capturing);
        purpose->node = 0;
        enum passed_reason why = purpose->is_last_try ? PASSED_NOT : passed_after(status);
        if (why == PASSED_NOT) {
            *result = result_of(status, purpose->context);
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
    if (result == CUDA_SUCCESS && purpose->why == PASSED_GRAPH)
        graph_has_node();
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
    struct tried tried;
    return passed(RELIEVED(real.cuMemAlloc_v2(out, size)), &purpose, out, size);
}

CUresult hook_cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element)
{
    size_t size = 0, row;
    struct purpose purpose = {0};
    CUresult result;
    struct tried tried;
    if (!pitch || !height || (element != 4 && element != 8 && element != 16) ||
        __builtin_add_overflow(width, PITCH - 1, &row) || __builtin_mul_overflow(row / PITCH * PITCH, height, &size))
        return real.cuMemAllocPitch_v2(out, pitch, width, height, element);
    if (!is_for_us(&purpose, out, width, CALLERS_NEEDS) || !allocate(out, size, &purpose, CALLERS_FRAME, &result))
        result = passed(RELIEVED(real.cuMemAllocPitch_v2(out, pitch, width, height, element)), &purpose, out, size);
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
    if (purpose->owner && capture_is_on(handle)) {
        purpose->capturing = handle;
        purpose->pool = owner;
        purpose->owner = OWNER_GRAPH;
    }
    return purpose->owner != 0;
}

#define ALLOC_ASYNC(symbol, stream_meant)                                                                                      \
    CUresult hook_##symbol(CUdeviceptr *out, size_t size, CUstream stream)                                                     \
    {                                                                                                                          \
        struct purpose purpose;                                                                                                \
        CUresult result;                                                                                                       \
        struct tried tried;                                                                                                    \
        if (is_for_pool(&purpose, out, size, stream_meant(stream), 0, CALLERS_NEEDS) &&                                        \
            allocate(out, size, &purpose, CALLERS_FRAME, &result))                                                             \
            return result;                                                                                                     \
        return passed(RELIEVED(real.symbol(out, size, stream)), &purpose, out, size);                                          \
    }
ALLOC_ASYNC(cuMemAllocAsync, as_it_is)
ALLOC_ASYNC(cuMemAllocAsync_ptsz, own_default)

#define ALLOC_FROM_POOL(symbol, stream_meant)                                                                                  \
    CUresult hook_##symbol(CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream stream)                                  \
    {                                                                                                                          \
        struct purpose purpose = {0};                                                                                          \
        CUresult result;                                                                                                       \
        struct tried tried;                                                                                                    \
        unsigned owner = is_active() ? pool_of_handle(pool) : 0;                                                               \
        if (owner && is_for_pool(&purpose, out, size, stream_meant(stream), owner, CALLERS_NEEDS) &&                           \
            allocate(out, size, &purpose, CALLERS_FRAME, &result))                                                             \
            return result;                                                                                                     \
        return passed(RELIEVED(real.symbol(out, size, pool, stream)), &purpose, out, size);                                    \
    }
ALLOC_FROM_POOL(cuMemAllocFromPoolAsync, as_it_is)
ALLOC_FROM_POOL(cuMemAllocFromPoolAsync_ptsz, own_default)

/* ---- host memory that kernels can reach ---- */

/* It is the driver's, and noted because a second launch needs it (fault/copies.c). */
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
