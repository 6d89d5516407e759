/* The background thread's sleep, in a file of its own: whoever has work for the thread wakes it, without knowing what it does.
 */
#include "wake.h"

#include "base/lock.h"

#include "base/clock.h"

#include <errno.h>

static struct {
    struct lock lock;
    pthread_cond_t wake, looked;
    int is_open, is_stopping, has_work;
    uint64_t asked, looking, answered; /* looks: how many were asked for, until when the thread looks now, and has looked */
} worker = {.lock = LOCK(RANK_WAKE)};

int wake_depth; /* written under the lock */

void wake_reset(void)
{
    HOLD(&worker.lock);
    if (!worker.is_open) {
        lock_condition_init(&worker.wake);
        lock_condition_init(&worker.looked);
    }
    worker.is_open = 1;
    worker.is_stopping = 0;
}

void wake_worker(void)
{
    /* A polling thread finds the work by itself. */
    if (__atomic_load_n(&wake_depth, __ATOMIC_RELAXED) == WAKE_POLLING)
        return;
    HOLD(&worker.lock);
    worker.has_work = 1;
    __atomic_store_n(&wake_depth, WAKE_POLLING, __ATOMIC_RELAXED); /* one is enough */
    pthread_cond_signal(&worker.wake);
}

void wake_stop(void)
{
    HOLD(&worker.lock);
    worker.is_stopping = 1;
    pthread_cond_signal(&worker.wake);
    pthread_cond_broadcast(&worker.looked);
}

void worker_look(unsigned most_ms)
{
    const struct timespec until = clock_after(CLOCK_MONOTONIC, most_ms * NS_PER_MS);
    int failed = 0;
    HOLD(&worker.lock);
    if (!worker.is_open || worker.is_stopping)
        return;
    uint64_t look = ++worker.asked;
    pthread_cond_signal(&worker.wake);
    while (most_ms && !worker.is_stopping && worker.answered < look && failed != ETIMEDOUT)
        failed = lock_wait(&worker.lock, &worker.looked, &until);
}

int wake_is_asked(void)
{
    HOLD(&worker.lock);
    worker.looking = worker.asked;
    return worker.asked != worker.answered;
}

void wake_answer(void)
{
    HOLD(&worker.lock);
    worker.answered = worker.looking;
    pthread_cond_broadcast(&worker.looked);
}

/* After a timeout the depth stays: what happens while the thread looks around wakes it at the next wait. */
enum wake_end wake_wait(uint64_t until_ns, enum wake_depth depth)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / NS_PER_S), .tv_nsec = (long)(until_ns % NS_PER_S)};
    int failed = 0;
    HOLD(&worker.lock);
    if (!worker.has_work)
        __atomic_store_n(&wake_depth, (int)depth, __ATOMIC_RELAXED);
    while (!worker.is_stopping && worker.asked == worker.answered && !(depth != WAKE_POLLING && worker.has_work) &&
           failed != ETIMEDOUT)
        failed = lock_wait(&worker.lock, &worker.wake, until_ns == UINT64_MAX ? NULL : &until);
    enum wake_end end = worker.is_stopping ? WAKE_STOPPED : worker.has_work ? WAKE_WOKEN : WAKE_TIMED_OUT;
    worker.has_work = 0;
    return end;
}
