#include "graphs.h"

#include "base/error.h"

#include <stdlib.h>

/* Held while a pool's filter runs, so that its user is not destroyed meanwhile. */
static struct lock filter_lock = LOCK(RANK_FILTER);
static struct pool_user *forgotten; /* atomic; those whose destroy() is due */

static struct pool *find(struct books *books, const uint64_t id[2])
{
    struct pool *pool;
    LL_FOREACH(books->pools, pool)
    {
        if (pool->id[0] == id[0] && pool->id[1] == id[1])
            return pool;
    }
    return NULL;
}

/* NULL: out of host memory. Caller holds books->lock. */
static struct pool *add(struct books *books, uint64_t first, uint64_t second)
{
    lock_expect(RANK_BOOKS);
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->books = books;
    pool->id[0] = first;
    pool->id[1] = second;
    LL_PREPEND(books->pools, pool);
    return pool;
}

/* Caller holds books->lock. */
static int has_memory(const struct pool *pool)
{
    lock_expect(RANK_BOOKS);
    return __atomic_load_n(&pool->blocks, __ATOMIC_ACQUIRE) || pool->held_count;
}

void pools_drop_lists(struct pool *pool)
{
    lock_expect(RANK_BOOKS);
    struct freelist *list, *next;
    LL_FOREACH_SAFE(pool->lists, list, next)
    {
        LL_DELETE(pool->lists, list);
        freelist_give_up(list);
        freelist_recycle(list);
    }
}

static struct pool *claimed(struct books *books, CUstream stream)
{
    struct pool *pool, *found = NULL;
    CUstreamCaptureStatus capture;
    HOLD(&filter_lock);
    lock_take(&books->lock);
    struct pool *pools = books->pools;
    lock_release(&books->lock);
    LL_FOREACH(pools, pool)
    {
        const struct pool_user *begun = __atomic_load_n(&pool->begun, __ATOMIC_ACQUIRE);
        if (!begun)
            continue;
        int mine = begun->contains ? begun->contains(stream, begun->user)
                                   : driver->cuStreamIsCapturing(stream, &capture) == CUDA_SUCCESS &&
                                         capture == CU_STREAM_CAPTURE_STATUS_ACTIVE;
        if (mine) {
            found = pool;
            break;
        }
    }
    return found;
}

/* ---- captures without a named pool ---- */

/* Finds or creates the pool of a capture, reusing one whose graph and memory no longer exist. Caller holds books->lock. */
static struct pool *obtain_capture(struct books *books, uint64_t capture)
{
    lock_expect(RANK_BOOKS);
    struct pool *pool, *spare = NULL;
    LL_FOREACH(books->pools, pool)
    {
        if (pool->is_capture && pool->id[1] == capture)
            return pool;
        if (pool->is_capture && !__atomic_load_n(&pool->references, __ATOMIC_ACQUIRE) && !has_memory(pool))
            spare = pool;
    }
    LL_FOREACH(books->pools, pool)
    {
        if (pool->earlier == spare)
            __atomic_store_n(&pool->earlier, NULL, __ATOMIC_RELAXED);
    }
    if (!spare)
        spare = add(books, UINT64_MAX, capture);
    if (spare) {
        spare->is_capture = 1;
        __atomic_store_n(&spare->id[1], capture, __ATOMIC_RELAXED);
        spare->graph = NULL;
        __atomic_store_n(&spare->earlier, NULL, __ATOMIC_RELAXED);
        __atomic_store_n(&spare->launched, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&spare->is_lost, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&spare->is_own, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&spare->is_followed, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&spare->has_others, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&spare->is_unordered, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&spare->references, 1, __ATOMIC_RELEASE);
    }
    return spare;
}

__attribute__((noinline)) struct pool *pool_with_id(struct books *books, cuuint64_t capture)
{
    static _Thread_local struct pool *latest;
    /* A pool is not reused while its capture goes on. */
    if (latest && latest->books == books && __atomic_load_n(&latest->id[1], __ATOMIC_RELAXED) == capture)
        return latest;
    HOLD(&books->lock);
    latest = obtain_capture(books, capture);
    return latest;
}

struct pool *pool_of_capture(struct books *books, CUstream stream, CUgraph *graph)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    if (driver->stream_capture_info(stream, &status, &id, graph, NULL, NULL) != CUDA_SUCCESS ||
        status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return NULL;
    struct pool *pool = pool_with_id(books, id);
    if (pool && !__atomic_load_n(&pool->is_followed, __ATOMIC_ACQUIRE))
        capture_joins(pool, *graph);
    return pool;
}

/* The legacy stream cannot be captured. The query costs a fifth of an allocation; if the begin of every capture is seen, it is
 * made only while a capture is in progress. */
static inline struct pool *unclaimed(struct books *books, const struct stream *stream)
{
    CUgraph graph = NULL;
    return stream->handle && heap_rare_now() & RARE_CAPTURES ? pool_of_capture(books, stream->handle, &graph) : NULL;
}

static __attribute__((noinline)) struct pool *claimed_or_not(struct books *books, const struct stream *stream)
{
    struct pool *pool = claimed(books, stream->handle);
    return pool ? pool : unclaimed(books, stream);
}

struct pool *pool_of(struct books *books, struct stream *stream)
{
    int may_claim = stream->context == books->context && __atomic_load_n(&books->active_pools, __ATOMIC_ACQUIRE);
    return may_claim ? claimed_or_not(books, stream) : unclaimed(books, stream);
}

/* ---- pools named by the program ---- */

static struct books *books_on(int device, const uint64_t id[2], cufence_status *status)
{
    struct context *context = NULL;
    if (device >= 0)
        context = context_of_device(device, status);
    else if ((context = context_current()) == NULL)
        *status = error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "the calling thread has no current CUDA context; name a device");
    struct books *books = context ? books_make(context) : NULL;
    if (context && !books)
        *status = error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory to keep track of a context");
    if (!books || (id && id[0] != UINT64_MAX))
        return books;
    *status = error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "the pool's id is NULL or its first number is reserved");
    return NULL;
}

static cufence_status unknown_pool(const uint64_t id[2])
{
    return error_set(CUFENCE_ERROR_NOT_FOUND, "pool (%llu, %llu) was not begun", (unsigned long long)id[0],
                     (unsigned long long)id[1]);
}

/* Caller holds books->lock. made: for the pool, which takes it over if it succeeds. */
static cufence_status begin(struct books *books, const uint64_t id[2], struct pool_user *made)
{
    lock_expect(RANK_BOOKS);
    struct pool *pool = find(books, id);
    if (!pool)
        pool = add(books, id[0], id[1]);
    if (!pool || !made)
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory for a pool");
    if (pool->begun)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "pool (%llu, %llu) was begun and has not ended",
                         (unsigned long long)id[0], (unsigned long long)id[1]);
    __atomic_add_fetch(&pool->references, 1, __ATOMIC_RELAXED);
    LL_DELETE(books->pools, pool); /* the one that was begun last comes first */
    LL_PREPEND(books->pools, pool);
    __atomic_store_n(&pool->begun, made, __ATOMIC_RELEASE);
    __atomic_add_fetch(&books->active_pools, 1, __ATOMIC_RELEASE);
    __atomic_add_fetch(&heap_rare, RARE_POOL_BEGUN, __ATOMIC_RELEASE);
    return CUFENCE_OK;
}

cufence_status pool_begin(int device, const uint64_t id[2], cufence_pool_filter contains, void *user, void (*destroy)(void *))
{
    cufence_status status = CUFENCE_OK;
    struct books *books = books_on(device, id, &status);
    if (!books)
        return status;
    struct pool_user *made = malloc(sizeof *made);
    if (made)
        *made = (struct pool_user){contains, user, destroy, NULL};
    lock_take(&filter_lock);
    lock_take(&books->lock);
    status = begin(books, id, made);
    lock_release(&books->lock);
    lock_release(&filter_lock);
    if (status != CUFENCE_OK)
        free(made);
    pools_tell_users(); /* NOLINT(clang-analyzer-unix.Malloc): the pool has it */
    return status;
}

/* Returns what pool_begin() has begun, and ends it; NULL if there is nothing. Caller holds books->lock. */
static struct pool_user *take_user(struct pool *pool)
{
    lock_expect(RANK_BOOKS);
    struct pool_user *begun = __atomic_exchange_n(&pool->begun, NULL, __ATOMIC_ACQ_REL);
    if (!begun)
        return NULL;
    __atomic_sub_fetch(&heap_rare, RARE_POOL_BEGUN, __ATOMIC_RELEASE);
    __atomic_sub_fetch(&pool->books->active_pools, 1, __ATOMIC_RELEASE);
    return begun;
}

static void destroy_all(struct pool_user *users)
{
    struct pool_user *user, *next;
    lock_take(&filter_lock); /* none of their filters runs any more */
    lock_release(&filter_lock);
    LL_FOREACH_SAFE(users, user, next)
    {
        if (user->destroy)
            user->destroy(user->user);
        free(user);
    }
}

void pool_forget_user(struct pool *pool)
{
    struct pool_user *user = take_user(pool);
    if (!user)
        return;
    user->next = __atomic_load_n(&forgotten, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&forgotten, &user->next, user, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

void pools_tell_users(void)
{
    if (__atomic_load_n(&forgotten, __ATOMIC_RELAXED))
        destroy_all(__atomic_exchange_n(&forgotten, NULL, __ATOMIC_ACQUIRE));
}

cufence_status pool_request(int device, const uint64_t id[2], enum pool_request what, int *users)
{
    cufence_status status = CUFENCE_OK;
    struct books *books = books_on(device, id, &status);
    if (!books)
        return status;
    HOLD(&books->lock);
    struct pool *pool = find(books, id);
    if (!pool && what == POOL_RETAIN && (pool = add(books, id[0], id[1])) == NULL)
        status = error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory for a pool");
    else if (!pool || (what == POOL_RELEASE && !pool->references))
        status = unknown_pool(id);
    else if (what == POOL_RETAIN)
        __atomic_add_fetch(&pool->references, 1, __ATOMIC_RELAXED);
    else if (what == POOL_LEND || what == POOL_KEEP)
        pool->may_lend = what == POOL_LEND;
    else if (what == POOL_RELEASE && !__atomic_sub_fetch(&pool->references, 1, __ATOMIC_ACQ_REL))
        pools_drop_lists(pool); /* it is unknown on which streams its graphs were replayed */
    if (users)
        *users = pool ? (int)__atomic_load_n(&pool->references, __ATOMIC_RELAXED) : 0;
    return status;
}

struct pool *pool_named(int device, const uint64_t id[2], cufence_status *status)
{
    struct books *books = books_on(device, id, status);
    if (!books)
        return NULL;
    lock_take(&books->lock);
    struct pool *pool = find(books, id);
    lock_release(&books->lock);
    if (!pool)
        *status = unknown_pool(id);
    return pool;
}

void pools_lend(struct books *books)
{
    struct pool *pool;
    HOLD(&books->lock);
    LL_FOREACH(books->pools, pool)
    {
        if (pool->may_lend && !pool->begun)
            pools_drop_lists(pool);
    }
}

cufence_status pool_end(int device, const uint64_t id[2])
{
    cufence_status status = CUFENCE_OK;
    struct books *books = books_on(device, id, &status);
    if (!books)
        return status;
    lock_take(&books->lock);
    struct pool *pool = find(books, id);
    struct pool_user *user = pool ? take_user(pool) : NULL;
    lock_release(&books->lock);
    if (user)
        destroy_all(user);
    else
        status = unknown_pool(id);
    pools_tell_users();
    return status;
}
