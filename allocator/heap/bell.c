/* The background thread's sleep, in a file of its own: whoever has work for the thread rings, without knowing what it does. */
#include "internal.h"

#include "base/clock.h"

#include <errno.h>

static struct {
    struct lock lock;
    pthread_cond_t wake;
    int is_open, is_stopping, has_work;
    int is_resting; /* atomic */
} bell = {.lock = LOCK(RANK_BELL)};

void bell_reset(void)
{
    pthread_condattr_t attributes;
    lock_take(&bell.lock);
    if (!bell.is_open) {
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(&bell.wake, &attributes);
        pthread_condattr_destroy(&attributes);
        bell.is_open = 1;
    }
    bell.is_stopping = 0;
    lock_release(&bell.lock);
}

void bell_ring(void)
{
    /* A polling thread finds the work by itself. Read without the lock: a stale value costs at most one rest period. */
    if (!__atomic_load_n(&bell.is_resting, __ATOMIC_RELAXED))
        return;
    lock_take(&bell.lock);
    bell.has_work = 1;
    pthread_cond_signal(&bell.wake);
    lock_release(&bell.lock);
}

void bell_stop(void)
{
    lock_take(&bell.lock);
    bell.is_stopping = 1;
    pthread_cond_signal(&bell.wake);
    lock_release(&bell.lock);
}

int bell_wait(uint64_t nanoseconds, int is_polling)
{
    const struct timespec until = clock_after(CLOCK_MONOTONIC, nanoseconds);
    lock_take(&bell.lock);
    __atomic_store_n(&bell.is_resting, !is_polling, __ATOMIC_RELAXED);
    while (!bell.is_stopping && !(bell.is_resting && bell.has_work) &&
           pthread_cond_timedwait(&bell.wake, &bell.lock.mutex, &until) != ETIMEDOUT)
        ;
    bell.has_work = 0;
    __atomic_store_n(&bell.is_resting, 0, __ATOMIC_RELAXED);
    int goes_on = !bell.is_stopping;
    lock_release(&bell.lock);
    return goes_on;
}
