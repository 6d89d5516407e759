/*
 * Puts the background thread to sleep and wakes it.
 */
#pragma once

#include <stdint.h>

/* While the thread polls, nothing wakes it; while it rests, what it has to
 * do soon; while it sleeps, everything that may ever give it something to do. */
enum wake_depth { WAKE_POLLING, WAKE_RESTING, WAKE_SLEEPING };
enum wake_end { WAKE_STOPPED, WAKE_WOKEN, WAKE_TIMED_OUT };
extern int wake_depth;  /* atomic */
void wake_worker(void); /* there is work to do; from any thread, CUDA's own included */
enum wake_end wake_wait(uint64_t until_ns, enum wake_depth depth); /* CLOCK_MONOTONIC; UINT64_MAX: for ever */

/* The thread is to look at everything now: at what has passed, too. Returns once it has, at most after `most_ms`; at once if
 * there is no thread. */
void worker_look(unsigned most_ms);
/* By the thread: whether somebody asks for a look; and it has looked at what was asked until wake_is_asked(). */
int wake_is_asked(void);
void wake_answer(void);
void wake_stop(void);
void wake_reset(void);

/* There may be something to do later, if only when time has passed. The caller's stores before this may become visible to the
 * background thread after it has been seen sleeping: worker.c allows for that. */
static inline void wake_sleeping_worker(void)
{
    if (__builtin_expect(__atomic_load_n(&wake_depth, __ATOMIC_RELAXED) == WAKE_SLEEPING, 0))
        wake_worker();
}
