#include "internal.h"

#include "base/thread.h"
#include "error.h"
#include "vmm/physical.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define POLL_NS 200000l    /* while freed buffers wait to be retired: two to three mappings' worth of driver time */
#define REST_NS 100000000l /* else: how often idle mappings are looked at */

static struct {
    pthread_mutex_t lock; /* a leaf */
    pthread_cond_t wake;
    pthread_t thread;
    int is_running, is_stopping, is_resting, has_work;
} worker = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Held while the thread is in a context; comes before every lock of the heap but the arena's. */
static pthread_mutex_t visiting = PTHREAD_MUTEX_INITIALIZER;

void heap_hold(void)
{
    pthread_mutex_lock(&visiting);
}

void heap_go_on(void)
{
    pthread_mutex_unlock(&visiting);
}

/* One at a time: the sequence snapshots of a synchronisation live in the free lists. */
static pthread_mutex_t sync_lock = PTHREAD_MUTEX_INITIALIZER;

static struct freelist *first_list(struct heap_context *context)
{
    return __atomic_load_n(&context->freelists, __ATOMIC_ACQUIRE);
}

static void retire(struct heap_context *context)
{
    for (struct freelist *list = first_list(context); list; list = list->next) {
        if (__atomic_load_n(&list->retiring_count, __ATOMIC_RELAXED))
            freelist_retire(list);
    }
}

static uint64_t idle_bytes(struct heap_context *context)
{
    uint64_t bytes = 0;
    for (struct freelist *list = first_list(context); list; list = list->next) {
        list_lock(list);
        bytes += list->idle_pages * heap_granularity;
        list_unlock(list);
    }
    return bytes;
}

static uint64_t idle_limit(struct heap_context *context)
{
    size_t total = 0;
    if (heap_options->idle_max)
        return heap_options->idle_max;
    /* A training step frees most of its memory and wants it back in the next one. */
    return driver->cuDeviceTotalMem(&total, context->device) == CUDA_SUCCESS ? total / 4 * 3 : UINT64_MAX;
}

/* Gives back what has been idle too long, or is too much. */
static void trim(struct heap_context *context)
{
    uint64_t idle = idle_bytes(context), limit = idle_limit(context), now = now_ns(), age = heap_options->idle_age * 1000000ull;
    if (!idle)
        return;
    for (struct freelist *list = first_list(context); list; list = list->next) {
        freelist_advance(list);
        if (age && now > age)
            idle -= freelist_trim(list, now - age, UINT64_MAX);
        if (idle > limit)
            idle -= freelist_trim(list, UINT64_MAX, idle - limit);
    }
}

static int has_retiring(void)
{
    for (struct heap_context *context = context_next(NULL); context; context = context_next(context)) {
        for (struct freelist *list = first_list(context); list; list = list->next) {
            if (__atomic_load_n(&list->retiring_count, __ATOMIC_RELAXED))
                return 1;
        }
    }
    return 0;
}

static void visit(struct heap_context *context, int is_time_to_trim, int has_gone)
{
    if (__atomic_load_n(&context->is_dead, __ATOMIC_RELAXED) || __atomic_load_n(&context->is_faulted, __ATOMIC_RELAXED))
        return;
    struct scope scope = scope_enter(context);
    if (scope.pushed) {
        if (has_gone || is_time_to_trim)
            captures_collect(context);
        retire(context);
        if (is_time_to_trim)
            trim(context);
    }
    scope_leave(scope);
}

static void *run(void *unused)
{
    (void)unused;
    uint64_t trimmed_ns = now_ns();
    pthread_setname_np(pthread_self(), "cufence-worker");
    for (;;) {
        int busy = has_retiring();
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += busy ? POLL_NS : REST_NS;
        until.tv_sec += until.tv_nsec / 1000000000l;
        until.tv_nsec %= 1000000000l;
        pthread_mutex_lock(&worker.lock);
        __atomic_store_n(&worker.is_resting, !busy, __ATOMIC_RELAXED);
        while (!worker.is_stopping && !(worker.is_resting && worker.has_work) &&
               pthread_cond_timedwait(&worker.wake, &worker.lock, &until) != ETIMEDOUT)
            ;
        worker.has_work = 0;
        __atomic_store_n(&worker.is_resting, 0, __ATOMIC_RELAXED);
        int stop = worker.is_stopping;
        pthread_mutex_unlock(&worker.lock);
        if (stop)
            return NULL;
        int is_time_to_trim = now_ns() - trimmed_ns > (uint64_t)REST_NS;
        if (is_time_to_trim)
            trimmed_ns = now_ns();
        int has_gone = captures_are_gone();
        for (struct heap_context *context = context_next(NULL); context; context = context_next(context)) {
            pthread_mutex_lock(&visiting);
            visit(context, is_time_to_trim, has_gone);
            pthread_mutex_unlock(&visiting);
        }
    }
}

cufence_status worker_start(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&worker.wake, &attributes);
    pthread_condattr_destroy(&attributes);
    int failed = thread_start(&worker.thread, run, NULL);
    if (failed) {
        pthread_cond_destroy(&worker.wake);
        return error_set(CUFENCE_ERROR_SYSTEM, "cannot start the background thread: %s", strerror(failed));
    }
    worker.is_running = 1;
    return CUFENCE_OK;
}

void worker_stop(void)
{
    if (!worker.is_running)
        return;
    pthread_mutex_lock(&worker.lock);
    worker.is_stopping = 1;
    pthread_cond_signal(&worker.wake);
    pthread_mutex_unlock(&worker.lock);
    pthread_join(worker.thread, NULL);
    worker.is_running = 0;
}

void worker_wake(void)
{
    /* While it polls, it looks by itself; the flag is read without the lock because a late look costs one rest at most. */
    if (!__atomic_load_n(&worker.is_resting, __ATOMIC_RELAXED))
        return;
    pthread_mutex_lock(&worker.lock);
    worker.has_work = 1;
    pthread_cond_signal(&worker.wake);
    pthread_mutex_unlock(&worker.lock);
}

void reclaim(struct heap_context *context, int level)
{
    if (level >= 2 && !__atomic_load_n(&context->active_pools, __ATOMIC_ACQUIRE) && !heap_captures()) {
        pthread_mutex_lock(&sync_lock);
        for (struct freelist *list = first_list(context); list; list = list->next)
            freelist_begin_sync(list);
        if (driver->cuCtxSynchronize() == CUDA_SUCCESS) {
            for (struct freelist *list = first_list(context); list; list = list->next)
                freelist_end_sync(list);
        }
        pthread_mutex_unlock(&sync_lock);
    }
    if (level >= 1) {
        captures_collect(context);
        for (struct freelist *list = first_list(context); list; list = list->next) {
            freelist_advance(list);
            freelist_retire(list);
            freelist_trim(list, UINT64_MAX, UINT64_MAX);
        }
    }
    physical_trim(context->device);
}
