/*
 * The first check in every driver function: counts the call, lets it fail or slows it down if a test asks for that, and refuses
 * it before cuInit().
 *
 * Thread safety: any thread. Its lock is a leaf: nothing is called with it held.
 */
#pragma once

#include "sim.h"

#include <pthread.h>
#include <stdatomic.h>

#define SIM_API __attribute__((visibility("default")))

struct call;

/* `site` is a static variable of the caller that caches the look-up of the name. */
CUresult call_enter(struct call *_Atomic *site, const char *name, int needs_init);

#define CALL_GATE(name, needs_init)                                                                                            \
    do {                                                                                                                       \
        static struct call *_Atomic call_site;                                                                                 \
        CUresult call_result = call_enter(&call_site, name, needs_init);                                                       \
        if (call_result != CUDA_SUCCESS)                                                                                       \
            return call_result;                                                                                                \
    } while (0)

#define CALL_ENTER(name) CALL_GATE(name, 1)
#define CALL_ENTER_UNINITIALIZED(name) CALL_GATE(name, 0)

/* Returns `error` from the calling function unless `expression` is CUDA_SUCCESS. */
#define CALL_TRY(expression)                                                                                                   \
    do {                                                                                                                       \
        CUresult try_result = (expression);                                                                                    \
        if (try_result != CUDA_SUCCESS)                                                                                        \
            return try_result;                                                                                                 \
    } while (0)

/* Returns a CUresult from the calling function if the condition holds: CALL_REFUSE(size == 0, INVALID_VALUE). */
#define CALL_REFUSE(condition, error)                                                                                          \
    do {                                                                                                                       \
        if (condition)                                                                                                         \
            return CUDA_ERROR_##error;                                                                                         \
    } while (0)

/* Holds a lock until the end of the block. Declares a variable, so it stands among statements. */
#define HOLD(lock)                                                                                                             \
    pthread_mutex_t *const held __attribute__((cleanup(call_unlock), unused)) = (lock);                                        \
    pthread_mutex_lock(held)

static inline void call_unlock(pthread_mutex_t *const *held)
{
    pthread_mutex_unlock(*held);
}

/* Returns the driver function that the calling thread is in, or was last in. */
const char *call_name(void);

/* Called by cuInit() on success: from now on calls that need initialisation are allowed. */
void call_set_initialized(void);
/* Whether the process was forked from one that was initialized. Nothing works there, not even cuInit(). */
int call_is_forked(void);
