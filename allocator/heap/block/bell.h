/*
 * Puts the background thread to sleep and wakes it.
 */
#ifndef CUFENCE_HEAP_BELL_H
#define CUFENCE_HEAP_BELL_H

#include <stdint.h>

/* bell.c: puts the background thread to sleep and wakes it. While it polls, nothing wakes it; while it rests, what it has to do
 * soon; while it sleeps, everything that may ever give it something to do. */
enum bell_depth { BELL_POLLING, BELL_RESTING, BELL_SLEEPING };
enum bell_end { BELL_STOPPED, BELL_RUNG, BELL_TIMED_OUT };
extern int bell_depth; /* atomic */
void bell_ring(void);  /* there is work to do; from any thread, CUDA's own included */
enum bell_end bell_wait(uint64_t until_ns, enum bell_depth depth); /* CLOCK_MONOTONIC; UINT64_MAX: for ever */
void bell_stop(void);
void bell_reset(void);

/* There may be something to do later, if only when time has passed. The caller's stores before this may become visible to the
 * background thread after it has been seen sleeping: worker.c allows for that. */
static inline void bell_stir(void)
{
    if (__builtin_expect(__atomic_load_n(&bell_depth, __ATOMIC_RELAXED) == BELL_SLEEPING, 0))
        bell_ring();
}

#endif
