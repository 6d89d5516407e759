/*
 * Whether the device gets on with what was launched, for stuck=. It (1) records an event behind each launch, and (2) finds out
 * which of them have come since it was last asked. Never used without stuck=, and never in a capture. An event costs one to two
 * microseconds a launch. Of more than 512 launches under way, every sixteenth has one.
 *
 * Thread safety: progress_launched() from any thread, without a lock of ours; the others too.
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
