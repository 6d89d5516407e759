/*
 * The visits that are not finished, the thread that finishes them, and what they need in each context.
 * Used by visits.c alone. Thread safety: any thread.
 */
#ifndef CUFENCE_LENS_JOBS_H
#define CUFENCE_LENS_JOBS_H

#include "visits.h"

/* A visit on its way, with the parts of its users. Owns its arguments and what they reach. */
struct job {
    struct visit visit;
    struct job *next;
    uint32_t users; /* bit i: user i takes part */
    struct visit_part parts[VISIT_USERS];
    size_t offsets[VISIT_USERS]; /* of the parts' memory */
    uint8_t *memory; /* pinned: a word that is 1 when all work is done, then the parts' memory. NULL: none, or gone */
    uint8_t *copy;   /* of the memory, once it is done; owned */
    size_t bytes;
    int is_marked; /* the kernel that writes the word has been submitted */
    int is_done;   /* `how` is final */
    enum visit_end how;
};

extern const struct visit_user *visit_users[VISIT_USERS]; /* the first visit_user_count are set */
extern unsigned visit_user_count;

/* What a context has for visits. NULL: it could not be prepared; said once. The context is current. */
struct desk;
struct desk *desk_of(struct context *context);
const CUfunction *desk_functions(const struct desk *desk, unsigned user);
CUfunction desk_mark(const struct desk *desk);

/* Takes pinned memory for the job, and waits for it if need be. Returns 0 if there is none. */
int jobs_take_memory(struct desk *desk, struct job *job, size_t bytes);

/* Hands the job over, whose work is submitted. Frees it at last. */
void jobs_submit(struct job *job);
/* Waits until all jobs of launches up to this one are finished, at most 10 s. */
void jobs_await(uint64_t launch);
void jobs_free(struct job *job); /* one that was not submitted */

void jobs_need(uint64_t pinned_bytes);
void jobs_context_gone(struct context *context);
void jobs_close(unsigned ms);

#endif
