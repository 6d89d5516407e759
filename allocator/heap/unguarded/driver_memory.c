/* Buffers of the C API that are left to the driver: allocated there, and freed when neither streams nor captures forbid it. */
#include "driver_memory.h"

#include "heap/graphs/graphs.h"
#include "heap/temporal/temporal.h"

#include "base/aside.h"

/* Memory of a graph stays with the graph, which the driver's own allocations do not do: it is always guarded. */
static int is_of_graph(const struct heap_request *wanted)
{
    struct books *books = books_make(wanted->context);
    return heap_captures() ||
           (wanted->stream && books && wanted->stream->context == wanted->context && pool_of(books, wanted->stream));
}

void passed_trim(int device)
{
    CUmemoryPool pool = NULL;
    passed_settle(0);
    if (passed_sums().count && driver->cuDeviceGetMemPool(&pool, device) == CUDA_SUCCESS)
        driver->cuMemPoolTrimTo(pool, 0);
}

static CUresult ask_driver(CUdeviceptr *out, const struct heap_request *wanted, int *is_async)
{
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    SCOPE scope = scope_enter(wanted->stream ? wanted->stream->within : wanted->context);
    if (!scope.pushed)
        return result;
    if (wanted->stream)
        result = driver->cuMemAllocAsync(out, wanted->size, wanted->stream->handle);
    *is_async = result == CUDA_SUCCESS;
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        result = driver->cuMemAlloc(out, wanted->size);
    return result;
}

/* Waits for the work of every context. Returns 0 where a capture forbids that, or a wait fails. */
static int synchronise_all(void)
{
    int is_done = !heap_captures();
    for (struct context *context = context_next(NULL); context && is_done; context = context_next(context)) {
        struct books *books = books_make(context);
        if (!books || !visit_begin(books, VISIT_MS))
            return 0;
        struct scope scope = scope_visit(context);
        if (scope.is_entered)
            is_done =
                !__atomic_load_n(&books->active_pools, __ATOMIC_ACQUIRE) && scope.pushed && heap_synchronise() == CUDA_SUCCESS;
        scope_leave(scope);
        visit_end(books);
    }
    return is_done;
}

struct freeing {
    const struct passed *passed;
    int is_done;
};

static void free_aside(void *argument)
{
    struct freeing *freeing = argument;
    if (!synchronise_all())
        return;
    SCOPE scope = scope_enter(freeing->passed->context);
    freeing->is_done = scope.pushed && driver->cuMemFree((CUdeviceptr)freeing->passed->address) == CUDA_SUCCESS;
}

/* Frees what no stream's order is known for. The driver does not wait for the users of stream-ordered memory. Returns 0 if they
 * cannot be waited for now. */
static int free_now(const struct passed *passed)
{
    struct freeing freeing = {passed, 0};
    aside_call(free_aside, &freeing);
    return freeing.is_done;
}

int passed_leave(void **pointer, const struct heap_request *wanted, enum passed_reason why)
{
    CUdeviceptr address = 0;
    int is_async = 0;
    if (is_of_graph(wanted) || ask_driver(&address, wanted, &is_async) != CUDA_SUCCESS)
        return 0;
    if (!passed_remember(address, wanted, why, 1, is_async)) {
        const struct passed lost = {.address = address, .context = wanted->context};
        free_now(&lost);
        return 0;
    }
    *pointer = (void *)(uintptr_t)address;
    return 1;
}

/* The driver's own pool may have a little more room than it calls free. */
#define POOL_ROOM ((size_t)64 << 20)

int passed_may_fit(const struct heap_request *wanted)
{
    size_t free_bytes = 0, all_bytes = 0;
    struct books *books = books_of(wanted->context);
    uint64_t limit = books ? figure(&books->limit) : 0;
    if (wanted->device != wanted->context->device)
        return 1;
    if (limit && figure(&books->mapped_bytes) + wanted->size > limit)
        return 0;
    SCOPE scope = scope_enter(wanted->context);
    int is_known = scope.pushed && driver->cuMemGetInfo(&free_bytes, &all_bytes) == CUDA_SUCCESS;
    return !is_known || wanted->size <= free_bytes + POOL_ROOM;
}

/* ---- frees ---- */

static struct lock lock = LOCK(RANK_PASSED); /* guards the list */
static struct passed *first_late;            /* those that the program has freed, but the driver cannot yet; oldest first */
static unsigned late;                        /* atomic: how many */

static void put_late(struct passed *passed, int is_oldest)
{
    lock_take(&lock);
    if (is_oldest)
        LL_PREPEND(first_late, passed);
    else
        LL_APPEND(first_late, passed);
    lock_release(&lock);
    __atomic_add_fetch(&late, 1, __ATOMIC_RELEASE);
}

static struct passed *take_late(void)
{
    lock_take(&lock);
    struct passed *passed = first_late;
    if (passed)
        LL_DELETE(first_late, passed);
    lock_release(&lock);
    if (passed)
        __atomic_sub_fetch(&late, 1, __ATOMIC_RELEASE);
    return passed;
}

void passed_context_gone(const struct context *context)
{
    struct passed *passed, *next;
    passed_forget_context(context);
    HOLD(&lock);
    LL_FOREACH_SAFE(first_late, passed, next)
    {
        if (passed->context != context)
            continue;
        LL_DELETE(first_late, passed);
        __atomic_sub_fetch(&late, 1, __ATOMIC_RELEASE);
        passed_drop(passed);
    }
}

/* Whether the stream can be named to the driver. Caller has touched it, or it may end. */
static int is_nameable(const struct stream_ref *use)
{
    lock_expect(RANK_TOUCH);
    return stream_ref_is_there(use) && stream_is_named_here(use->stream);
}

static int is_capturing(const struct stream_ref *use)
{
    int is = 0;
    if (!use->stream)
        return 0;
    if (!stream_touch_try(use->stream))
        return 1; /* it is being destroyed, or full: not now either */
    if (is_nameable(use)) {
        SCOPE scope = scope_enter(use->stream->within); /* a green context has default streams of its own */
        is = scope.pushed && !stream_is_open(use->stream->handle);
    }
    stream_touch_end(use->stream);
    return is;
}

/* A capture takes no free of memory that was allocated outside of it, and an event would tie other streams to it. */
static int is_in_capture(const struct passed *passed)
{
    int is = is_capturing(&passed->freed_on);
    for (size_t i = 0; i < passed->recorded_count && !is; i++)
        is = is_capturing(&passed->recorded[i]);
    return is;
}

/* Returns 0 if that cannot be done: the other stream was destroyed, and its work may go on, or is of another thread. */
static int wait_for(struct stream *stream, const struct stream_ref *other)
{
    struct books *books =
        stream_ref_is_there(other) && other->stream->context == stream->context ? books_of(stream->context) : NULL;
    return books && (other->stream == stream || stream_waits_for(books, stream, other));
}

/* Frees in the order of the stream that the program has freed the buffer on, and of those recorded for it. */
static int free_in_order(const struct passed *passed)
{
    struct stream *stream = passed->freed_on.stream;
    int is_done = passed->is_async && stream && stream->context == passed->context;
    for (size_t i = 0; i < passed->recorded_count && is_done; i++)
        is_done = wait_for(stream, &passed->recorded[i]);
    if (!is_done)
        return 0;
    stream_touch_begin(stream);
    if ((is_done = is_nameable(&passed->freed_on)) != 0) {
        SCOPE scope = scope_enter(stream->within);
        is_done = scope.pushed && driver->cuMemFreeAsync((CUdeviceptr)passed->address, stream->handle) == CUDA_SUCCESS;
    }
    stream_touch_end(stream);
    return is_done;
}

static int try_free(const struct passed *passed, int may_wait)
{
    return !is_in_capture(passed) && (free_in_order(passed) || (may_wait && free_now(passed)));
}

void passed_settle(int may_wait)
{
    struct passed *passed;
    while (__atomic_load_n(&late, __ATOMIC_ACQUIRE) && (passed = take_late()) != NULL) {
        if (!try_free(passed, may_wait)) {
            put_late(passed, 1);
            break;
        }
        passed_drop(passed);
    }
}

int passed_free(void *pointer, struct context *context, CUstream handle)
{
    struct passed *passed = passed_take((uint64_t)(uintptr_t)pointer);
    if (!passed)
        return 0;
    passed_settle(0);
    passed->freed_on = stream_ref(context ? stream_in(context, handle) : stream_resolve(handle));
    if (try_free(passed, 1))
        passed_drop(passed);
    else
        put_late(passed, 0);
    return 1;
}
