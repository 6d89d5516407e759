/*
 * Whether streams get on with what was queued, for stuck=: launches, copies and functions of the host. It (1) records an event
 * behind each, and (2) finds out which of them have come since it was last asked. Never used without stuck=, and never in a
 * capture. Each costs a few driver calls more. Of more than 512 that are under way, every sixteenth has an event.
 *
 * Thread safety: all functions, any thread; progress_queued() takes no lock.
 */
#pragma once

#include "contexts/contexts.h"

extern int progress_wanted; /* atomic */
static inline int progress_is_wanted(void)
{
    return __atomic_load_n(&progress_wanted, __ATOMIC_RELAXED);
}

void progress_open(void);

/* Call behind a launch, or other work on a stream, with its context current. NULL: nothing happens. */
void progress_queued(struct context *context, CUstream stream);

/* Whether some of that has ended since the last call. Asks the driver about each event. */
int progress_was_made(void);

/* The context is about to end. */
void progress_forget(const struct context *context);
