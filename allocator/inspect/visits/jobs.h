/*
 * The users of visits, the visits that are not finished, the thread that finishes them, and what they need in each context:
 * also visits_need(), visits_context_begun() and visits_context_gone(). Used by visits.c alone. Thread safety: any thread.
 */
#pragma once

#include "kernels/flight.h"
#include "visits.h"

/* A visit on its way, with the parts of its users. Owns its arguments and what they reach. */
struct job {
    struct visit visit;
    struct job *prev, *next;
    uint64_t turn;  /* in the order of submission, from 1 on */
    uint32_t users; /* bit i: user i takes part */
    struct visit_part parts[VISIT_USERS];
    size_t offsets[VISIT_USERS]; /* of the parts' memory */
    struct flight flight;        /* all of its work; begun when that is submitted */
    uint8_t *memory;             /* pinned: the flight's word, then the parts' memory. NULL: none, or gone */
    uint8_t *copy;               /* of the memory, once it is done; owned */
    size_t bytes;
    int is_done; /* `how` is final */
    enum visit_end how;
};

extern const struct visit_user *visit_users[VISIT_USERS]; /* the first visit_user_count() are set */
extern unsigned visit_users_added;                        /* atomic */

static inline unsigned visit_user_count(void)
{
    return __atomic_load_n(&visit_users_added, __ATOMIC_ACQUIRE);
}

/* What a context has for visits. */
struct visit_context {
    struct results results; /* under the lock of the jobs */
    CUfunction mark;
    CUfunction functions[VISIT_USERS][VISIT_KERNELS];
    unsigned ready; /* atomic: the kernels of so many users are loaded, and the mark if there are any */
};

/* NULL: it could not be loaded; said once. The context is current. */
struct visit_context *visit_context_of(struct context *context);

/* Takes pinned memory for the job, and waits for it if need be. Returns 0 if there is none. */
int jobs_take_memory(struct visit_context *within, struct job *job, size_t bytes);

/* Hands the job over, whose work is submitted. Frees it at last. */
void jobs_submit(struct job *job);
/* Waits until all jobs are finished whose work the devices have done by now. Returns 0 if the time is over before. */
int jobs_await(unsigned ms);
void jobs_free(struct job *job); /* one that was not submitted */

void jobs_close(unsigned ms);
