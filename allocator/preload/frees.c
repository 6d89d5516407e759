/*
 * Hooks that free memory. What CUDA promises about waiting is kept: cuMemFree of plain memory waits for its context, of a
 * pool's or a graph's memory it does not; cuMemFreeAsync never does.
 */
#include "preload_internal.h"

#include "heap/unguarded/unguarded.h"

#include <pthread.h>

/* Call before the driver's own free, and give what it returns to after_free(). */
static struct passed *before_free(CUdeviceptr pointer)
{
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

/* Inlined: each frame more is one that heap_free() walks over to the program's. */
static inline __attribute__((always_inline)) void give_back(const struct heap_claim *claim, struct stream *stream,
                                                            enum heap_users users)
{
    struct heap_freed freed;
    heap_free(claim, stream, users, &freed);
    pool_freed(&freed);
}

/* A synchronisation of a context invalidates the captures in it, whichever thread and mode they are of, also one that begins
 * right now. The driver's own cuMemFree does not, and waits all the same; but it needs memory of its own, which takes twice as
 * long. So it waits in a process that has captured. */
static CUresult wait_by_free(void)
{
    CUdeviceptr any;
    struct tried tried;
    CUresult result = RELIEVED(real.cuMemAlloc_v2(&any, 1));
    return settled(result == CUDA_SUCCESS ? real.cuMemFree_v2(any) : heap_synchronise(), 0);
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
    int may_synchronise = captures_hold_off();
    CUresult result = may_synchronise ? synchronised("cuMemFree", context, driver->cuCtxSynchronize) : wait_by_free();
    if (may_synchronise)
        captures_go_on();
    pthread_setcancelstate(cancel_state, NULL);
    driver->cuCtxPopCurrent(&popped);
    return result;
}

/* Of memory that a graph allocates, the driver knows the state by its own node (heap_claim.node). */
static CUresult free_of_graph(const struct heap_claim *claim, CUresult result, struct stream *stream, enum heap_users users)
{
    if (result == CUDA_SUCCESS)
        give_back(claim, stream, users);
    else
        heap_unclaim(claim);
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
    CUresult forbidden = capture_forbids();
    if (forbidden != CUDA_SUCCESS)
        return forbidden;
    cufence_status status = heap_claim((void *)(uintptr_t)pointer, &claim);
    if (status != CUFENCE_OK)
        return refuse_free(HOST_CALL("cuMemFree"), pointer, status, &claim.where);
    if (order_is_wanted())
        races_before_free(HOST_CALL("cuMemFree"), &claim, NULL);
    if (claim.node)
        return free_of_graph(&claim, real.cuMemFree_v2(claim.node), NULL, HEAP_NONE);
    if (pool_handle(claim.owner)) {
        give_back(&claim, NULL, HEAP_NONE);
        heap_shed(claim.context, pools_keep(claim.context->device));
        return CUDA_SUCCESS;
    }
    int was_returned = __atomic_load_n(&preload_fault_returned, __ATOMIC_RELAXED);
    CUresult waited = wait_for_users(claim.context);
    give_back(&claim, NULL, waited == CUDA_SUCCESS ? HEAP_NONE : HEAP_CONTEXT);
    heap_shed(claim.context, pools_keep(claim.context->device));
    return driver_has_faulted(waited) && !was_returned ? waited : CUDA_SUCCESS; /* it frees in destructors after that */
}

/* What is freed is a graph's, or the stream captures, and takes frees of such memory only. */
static __attribute__((noinline)) CUresult free_of_capture(const struct heap_claim *claim, struct stream *stream,
                                                          enum heap_users users, CUstream handle)
{
    if (claim->node)
        return free_of_graph(claim, driver->cuMemFreeAsync(claim->node, handle), stream, users);
    heap_unclaim(claim);
    return CUDA_ERROR_INVALID_VALUE;
}

/* Frees in the order of the caller's stream: a default stream is that of the current context, whichever context owns the
 * memory. */
static CUresult free_async(const struct host_call *call, CUdeviceptr pointer, CUstream handle)
{
    struct heap_claim claim;
    struct stream *stream = stream_resolve(handle);
    const enum heap_users users = stream ? HEAP_STREAM : HEAP_UNKNOWN;
    int is_captured = 0;
    if (__builtin_expect(!stream, 0) && !stream_is_open(handle)) /* else the host has no memory to note it, but is to free */
        return stream_is_default(handle) ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_HANDLE;
    if (__builtin_expect(heap_may_capture(), 0)) {
        is_captured = capture_is_on(handle);
        CUresult forbidden = is_captured ? CUDA_SUCCESS : capture_forbids();
        if (forbidden != CUDA_SUCCESS)
            return forbidden;
    }
    cufence_status status = heap_claim((void *)(uintptr_t)pointer, &claim);
    if (status != CUFENCE_OK)
        return refuse_free(call, pointer, status, &claim.where);
    if (order_is_wanted() && stream)
        races_before_free(call, &claim, stream);
    if (__builtin_expect(claim.node || is_captured, 0))
        return free_of_capture(&claim, stream, users, handle);
    give_back(&claim, stream, users);
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
