/*
 * Who else wants to see a launch: observers are called before and after each launch that the preload library hooks, on the
 * launching thread, without locks held. With no observer a launch costs one comparison.
 *
 * Thread safety: launch_observe() at the start. An observer's functions run on any thread, several at once.
 */
#pragma once

#include "launch.h"

/* A launch, borrowed for the duration of the call. */
struct launch_event {
    struct context *context;        /* the current one; NULL: the launch is neither recorded nor shown */
    const struct launch_call *call; /* NULL: a graph launch */
    CUgraphExec graph;              /* NULL: a kernel launch */
    CUstream stream;                /* as the hook means it: NULL is the legacy stream */
    const void *frame;              /* of the hook, for stack_capture_from() */
};

struct launch_observer {
    void (*begins)(const struct launch_event *event);                 /* may submit work of its own to the stream; NULL: none */
    void (*ended)(const struct launch_event *event, CUresult result); /* likewise; `result` is the driver's */
};

#define LAUNCH_OBSERVERS 2                                               /* the inspector and order */
extern const struct launch_observer *launch_observers[LAUNCH_OBSERVERS]; /* the first launch_observer_count() are set */
extern unsigned launch_observers_added;                                  /* atomic */

static inline unsigned launch_observer_count(void)
{
    return __atomic_load_n(&launch_observers_added, __ATOMIC_ACQUIRE);
}

/* Adds an observer, which must stay valid. They are called in this order, and at the end in the opposite one. */
void launch_observe(const struct launch_observer *observer);

static inline void launch_begins(const struct launch_event *event)
{
    for (unsigned i = 0; i < launch_observer_count(); i++) {
        if (launch_observers[i]->begins)
            launch_observers[i]->begins(event);
    }
}

static inline void launch_ended(const struct launch_event *event, CUresult result)
{
    for (unsigned i = launch_observer_count(); i-- > 0;) {
        if (launch_observers[i]->ended)
            launch_observers[i]->ended(event, result);
    }
}
