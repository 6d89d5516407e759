/* Shared by the files of order/ that follow a program. */
#pragma once

#include "order.h"

#include "base/lock.h"

#define CALLS_KEPT 256u
#define MEETINGS_KEPT 4096u

/* A copy or set on buffers, with who called: launches have a ring of their own in launch/. */
struct order_call {
    uint64_t turn; /* the number of the call, from 1 */
    const char *name;
    uint64_t time_ns;
    struct stack stack;
};

/* uses[1] of the buffer came when the work of the stream of uses[0] was done up to position `done` only. */
struct order_meeting {
    uint64_t buffer, done;
    struct use uses[2];
};

struct order_state {
    int finds_races; /* constant after order_open() */
    struct order_clocks clocks;
    uint64_t call_count;
    struct order_call calls[CALLS_KEPT]; /* the latest ones */
    struct uses uses;
    uint64_t meeting_count;
    struct order_meeting meetings[MEETINGS_KEPT]; /* the latest ones */
};
extern struct order_state *order_state; /* constant after order_open(); its contents are under the lock */
extern struct lock order_lock;

enum followed {
    FOLLOWED,
    CAPTURED, /* the call submits nothing */
    LOST      /* nobody can tell which stream it is, or whether it is captured: all work so far counts as done */
};

/* Whether to follow what a call does on the stream, which may be NULL. Takes the lock. */
enum followed follow(struct stream *stream);

/* host_copies.c, with the lock: the copy was called; and what the host may have learned of in some way that is not seen. */
void host_copy_add(const struct order_host *host, const struct use *use);
void host_copies_forget_done(void);

static inline unsigned index_of(const struct stream *stream)
{
    lock_expect(RANK_ORDER);
    unsigned tracked = __atomic_load_n(&stream->tracked, __ATOMIC_RELAXED);
    return tracked ? tracked - 1 : ORDER_NOT_TRACKED;
}

static inline uint64_t name_of(const void *handle)
{
    return (uint64_t)(uintptr_t)handle;
}
