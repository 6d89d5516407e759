/*
 * Whether the device gets on with what was launched, for stuck=. It (1) records an event behind each launch, and (2) finds out
 * which of them have come since it was last asked. Never used without stuck=, and never in a capture. Each launch costs a few
 * driver calls more. Of more than 512 launches under way, every sixteenth has an event.
 *
 * Thread safety: all functions, any thread; progress_launched() takes no lock.
 */
#pragma once

#include "contexts/contexts.h"

extern int progress_wanted; /* atomic */
static inline int progress_is_wanted(void)
{
    return __atomic_load_n(&progress_wanted, __ATOMIC_RELAXED);
}

void progress_open(void);

/* Call behind a launch, with its context current. */
void progress_launched(struct context *context, CUstream stream);

/* Whether a launch has ended since the last call. Asks the driver about each event. */
int progress_was_made(void);

/* The context is about to end. */
void progress_forget(const struct context *context);
