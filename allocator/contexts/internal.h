/* What the two files of contexts/ share. */
#ifndef CUFENCE_CONTEXTS_INTERNAL_H
#define CUFENCE_CONTEXTS_INTERNAL_H

#include "contexts.h"

/* Changes whenever what a thread remembers of a handle may be wrong. */
extern uint64_t contexts_epoch; /* atomic */

extern const struct context_events *contexts_events;

static inline uint64_t contexts_epoch_now(void)
{
    return __atomic_load_n(&contexts_epoch, __ATOMIC_ACQUIRE);
}

static inline void contexts_changed(void)
{
    __atomic_add_fetch(&contexts_epoch, 1, __ATOMIC_RELEASE);
}

/* streams.c: every stream of the context is gone with it. */
void streams_forget(struct context *context);

#endif
