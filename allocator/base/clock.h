/* Time. Units: nanoseconds since the clock's beginning. Thread safety: any thread. */
#pragma once

#include <stdint.h>
#include <time.h>

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

/* CLOCK_MONOTONIC is the clock of every time that cufence tells; its coarse form costs less and is some milliseconds old. */
static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static inline uint64_t monotonic_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static inline uint64_t monotonic_ms(void)
{
    return monotonic_ns() / NS_PER_MS;
}

/* That many nanoseconds from now on, as timed waits want it. */
static inline struct timespec clock_after(clockid_t clock, uint64_t nanoseconds)
{
    uint64_t until = clock_ns(clock) + nanoseconds;
    return (struct timespec){.tv_sec = (time_t)(until / NS_PER_S), .tv_nsec = (long)(until % NS_PER_S)};
}
