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

/* contexts.c: the calling thread's current context and a handle's, as they are: a green one's own entry. NULL as context_of().
 */
struct context *context_entry(void);
struct context *context_entry_of(CUcontext handle);

/* The calling thread's current context if it is a green one that stands for `context`; else `context`. */
struct context *context_within(struct context *context);

static inline struct context *context_meant(struct context *entry)
{
    return entry && entry->stands_for ? entry->stands_for : entry;
}

/* streams.c: the streams within a context end, those that others may name too. */
void streams_end_within(struct context *entry);

/* Every stream of the context is gone with it. */
void streams_forget(struct context *context);

#endif
