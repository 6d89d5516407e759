#include "internal.h"

#include "error.h"

#include <stdlib.h>

/* Held while a filter of a pool runs, so that its end does not destroy it meanwhile. Comes before context.lock. */
static pthread_mutex_t filter_lock = PTHREAD_MUTEX_INITIALIZER;

static struct pool *find(struct heap_context *context, const uint64_t id[2])
{
    struct pool *pool;
    LL_FOREACH(context->pools, pool)
    {
        if (pool->id[0] == id[0] && pool->id[1] == id[1])
            return pool;
    }
    return NULL;
}

/* Finds or makes a pool. Expects context.lock. */
static struct pool *obtain(struct heap_context *context, const uint64_t id[2])
{
    struct pool *pool = find(context, id);
    if (!pool && (pool = calloc(1, sizeof *pool)) != NULL) {
        pool->context = context;
        pool->id[0] = id[0];
        pool->id[1] = id[1];
        LL_PREPEND(context->pools, pool);
    }
    return pool;
}

void pool_join(struct block *block, struct pool *pool)
{
    struct pool *previous = block->pool;
    if (pool && !previous)
        __atomic_add_fetch(&block->context->captured_bytes, block->slot.mapped, __ATOMIC_RELAXED);
    else if (!pool && previous)
        __atomic_sub_fetch(&block->context->captured_bytes, block->slot.mapped, __ATOMIC_RELAXED);
    if (pool)
        __atomic_add_fetch(&pool->blocks, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&block->pool, pool, __ATOMIC_RELAXED);
    if (previous)
        __atomic_sub_fetch(&previous->blocks, 1, __ATOMIC_RELEASE);
}

static struct pool *claimed(struct heap_context *context, CUstream stream)
{
    struct pool *pool, *found = NULL;
    CUstreamCaptureStatus capture;
    pthread_mutex_lock(&filter_lock);
    pthread_mutex_lock(&context->lock);
    struct pool *pools = context->pools;
    pthread_mutex_unlock(&context->lock);
    LL_FOREACH(pools, pool)
    {
        if (!pool->active)
            continue;
        int mine = pool->contains ? pool->contains(stream, pool->user)
                                  : driver->cuStreamIsCapturing(stream, &capture) == CUDA_SUCCESS &&
                                        capture == CU_STREAM_CAPTURE_STATUS_ACTIVE;
        if (mine) {
            found = pool;
            break;
        }
    }
    pthread_mutex_unlock(&filter_lock);
    return found;
}

struct pool *pool_of(struct heap_context *context, CUstream stream)
{
    if (stream == HEAP_SYNCHRONISED || stream == HEAP_UNORDERED)
        return NULL;
    if (__atomic_load_n(&context->active_pools, __ATOMIC_ACQUIRE)) {
        struct pool *pool = claimed(context, stream);
        if (pool)
            return pool;
    }
    return capture_pool(context, stream);
}

cufence_status pool_begin(int device, const uint64_t id[2], cufence_pool_filter contains, void *user, void (*destroy)(void *))
{
    cufence_status status = CUFENCE_OK;
    struct heap_context *context = context_for(device, &status);
    if (!context)
        return status;
    if (!id || id[0] == UINT64_MAX)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "the pool's id is NULL or its first number is reserved");
    pthread_mutex_lock(&filter_lock);
    pthread_mutex_lock(&context->lock);
    struct pool *pool = obtain(context, id);
    if (!pool) {
        status = error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory for a pool");
    } else if (pool->active) {
        status = error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "pool (%llu, %llu) was begun and has not ended",
                           (unsigned long long)id[0], (unsigned long long)id[1]);
    } else {
        __atomic_add_fetch(&pool->references, 1, __ATOMIC_RELAXED);
        pool->active = 1;
        pool->contains = contains;
        pool->user = user;
        pool->destroy = destroy;
        __atomic_add_fetch(&context->active_pools, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&context->lock);
    pthread_mutex_unlock(&filter_lock);
    return status;
}

static cufence_status unknown_pool(const uint64_t id[2])
{
    return error_set(CUFENCE_ERROR_NOT_FOUND, "pool (%llu, %llu) was not begun", (unsigned long long)id[0],
                     (unsigned long long)id[1]);
}

cufence_status pool_end(int device, const uint64_t id[2])
{
    cufence_status status = CUFENCE_OK;
    struct heap_context *context = context_for(device, &status);
    if (!context)
        return status;
    if (!id)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "the pool's id is NULL");
    void (*destroy)(void *) = NULL;
    void *user = NULL;
    pthread_mutex_lock(&filter_lock);
    pthread_mutex_lock(&context->lock);
    struct pool *pool = find(context, id);
    if (pool && pool->active) {
        pool->active = 0;
        __atomic_sub_fetch(&context->active_pools, 1, __ATOMIC_RELEASE);
        destroy = pool->destroy;
        user = pool->user;
        pool->contains = NULL;
        pool->destroy = NULL;
    } else {
        status = unknown_pool(id);
    }
    pthread_mutex_unlock(&context->lock);
    pthread_mutex_unlock(&filter_lock);
    if (destroy)
        destroy(user);
    return status;
}

cufence_status pool_release(int device, const uint64_t id[2])
{
    cufence_status status = CUFENCE_OK;
    struct heap_context *context = context_for(device, &status);
    if (!context)
        return status;
    if (!id)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "the pool's id is NULL");
    pthread_mutex_lock(&context->lock);
    struct pool *pool = find(context, id);
    if (!pool || !pool->references)
        status = unknown_pool(id);
    else
        __atomic_sub_fetch(&pool->references, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&context->lock);
    return status;
}
