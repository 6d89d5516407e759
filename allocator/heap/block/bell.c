/* The background thread's sleep, in a file of its own: whoever has work for the thread rings, without knowing what it does. */
#include "bell.h"

#include "base/lock.h"

#include "base/clock.h"

#include <errno.h>

static struct {
    struct lock lock;
    pthread_cond_t wake;
    int is_open, is_stopping, has_work;
} bell = {.lock = LOCK(RANK_BELL)};

int bell_depth; /* written under the lock */

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
    /* A polling thread finds the work by itself. */
    if (__atomic_load_n(&bell_depth, __ATOMIC_RELAXED) == BELL_POLLING)
        return;
    lock_take(&bell.lock);
    bell.has_work = 1;
    __atomic_store_n(&bell_depth, BELL_POLLING, __ATOMIC_RELAXED); /* one is enough */
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

/* After a timeout the depth stays: what happens while the thread looks around wakes it at the next wait. */
enum bell_end bell_wait(uint64_t until_ns, enum bell_depth depth)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S), .tv_nsec = (long)(until_ns % NS_PER_S)};
    int failed = 0;
    lock_take(&bell.lock);
    if (!bell.has_work)
        __atomic_store_n(&bell_depth, depth, __ATOMIC_RELAXED);
    while (!bell.is_stopping && !(depth != BELL_POLLING && bell.has_work) && failed != ETIMEDOUT)
        failed = until_ns == UINT64_MAX ? pthread_cond_wait(&bell.wake, &bell.lock.mutex)
                                        : pthread_cond_timedwait(&bell.wake, &bell.lock.mutex, &until);
    enum bell_end end = bell.is_stopping ? BELL_STOPPED : bell.has_work ? BELL_RUNG : BELL_TIMED_OUT;
    bell.has_work = 0;
    lock_release(&bell.lock);
    return end;
}
