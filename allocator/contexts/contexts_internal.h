/* Shared by the files of contexts/. */
#pragma once

#include "contexts.h"

/* Incremented whenever a handle that a thread has cached may have become invalid. */
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

/* contexts.c: the entry of the calling thread's current context, or of a handle; for a green context its own entry. NULL as
 * context_of(). */
struct context *context_entry(void);
struct context *context_entry_of(CUcontext handle);

/* Returns the calling thread's current context if it is a green context that stands for `context`; else `context`. */
struct context *context_within(struct context *context);

static inline struct context *context_meant(struct context *entry)
{
    return entry && entry->stands_for ? entry->stands_for : entry;
}

/* Whether a thread is ending the context, or the one that it stands for. */
static inline int context_may_have_ended(const struct context *entry)
{
    return __atomic_load_n(&entry->ending, __ATOMIC_RELAXED) ||
           (entry->stands_for && __atomic_load_n(&entry->stands_for->ending, __ATOMIC_RELAXED));
}

/* scopes.c: the driver's unique id of a handle that it knows, 0 if it lacks them; whether the handle, which was the context's,
 * still has the same. */
unsigned long long context_unique_id(CUcontext handle);
int context_has_same_id(const struct context *context, CUcontext handle);

/* streams.c: ends the streams within a context, except per-thread streams of other threads. */
void streams_end_within(struct context *entry);

/* Forgets every stream of a context that has ended. */
void streams_forget(struct context *context);
