/*
 * Lifetime across streams (streams=on): notices which work is given which buffer on which stream, and what orders the streams,
 * and tells when a buffer is freed or overwritten while a launch or copy on another stream may still use it.
 *
 * preload/ calls these functions from its hooks, with stream handles as the hook means them (NULL is the legacy stream), after
 * the driver's call has succeeded, unless it says "before". Calls on capturing streams do nothing. clocks.h says what counts as
 * ordered. While order_is_wanted() is 0, nothing may be called.
 *
 * Thread safety: every function, from any thread, after order_open().
 */
#pragma once

#include "finding/misuse.h"
#include "contexts/contexts.h"
#include "launch/inspect_table.h"

#include "clocks.h"
#include "uses.h"

extern int order_is_on; /* atomic; constant once the program uses CUDA, except in a forked child, which clears it */

static inline int order_is_wanted(void)
{
    return __builtin_expect(__atomic_load_n(&order_is_on, __ATOMIC_ACQUIRE), 0) != 0;
}

/* Starts it. The heap is open. finds_races: else it finds none (nan= alone). Returns 0 if out of host memory. */
int order_open(int finds_races);

void order_launched(const struct launch_event *event); /* a kernel or a graph */

/* ---- the end of streams and contexts ---- */

void order_stream_ends(struct stream *stream); /* before */
void order_context_gone(struct context *context);

/* ---- events ---- */

void order_event_made(CUevent event, unsigned flags);
void order_event_gone(CUevent event); /* before */
void order_event_recorded(CUevent event, CUstream stream, unsigned flags);
void order_event_waited(CUstream stream, CUevent event, unsigned flags);
void order_event_hidden(CUevent event);      /* something unseen may record it */
void order_event_records_all(CUevent event); /* it stands for a whole context */
void order_event_has_passed(CUevent event);  /* the host or a whole context waited for it */

/* ---- what cufence can't follow ---- */

void order_stream_waits_unseen(CUstream stream); /* for a value in memory, or a semaphore */
void order_host_learns(CUstream stream);         /* the host learns when the stream gets here, or another API does */
void order_node_added(const CUgraphNodeParams *node);
void order_graph_waits(void);             /* some graph waits for more than its stream */
void order_graph_tells(void);             /* some graph calls the host */
void order_graph_gone(CUgraphExec graph); /* before */

/* ---- synchronisation: the first three before the driver's call, the last after it ---- */

void order_sees_stream(struct order_clock *seen, CUstream stream);
void order_sees_event(struct order_clock *seen, CUevent event);
void order_sees_context(struct order_clock *seen, const struct context *context); /* NULL: all */
void order_host_knows(const struct order_clock *seen);

/* ---- buffers ---- */

void order_recorded(uint64_t address, CUstream stream); /* cufence_record_stream() */

struct heap_range; /* heap/heap.h */

struct order_race {
    uint64_t address, bytes; /* what is freed (bytes: 0) or written */
    CUstream stream;         /* where it is freed or written */
    int by_host;             /* the call is one that the host waits for */
    struct use use;          /* what may still use it */
};

/* Before a claimed buffer is freed on the stream: forgets its uses. Returns 1 and fills in *race if one of them may not be
 * done. stream NULL: the free waits for the buffer's context, which is done with the buffer then, and another device may not
 * be. */
int order_before_free(const struct heap_range *buffer, struct stream *stream, struct order_race *race);

/* The same for what frees without a hook, with the name of the function and its frame; stream NULL: nobody can tell. A race is
 * told by order_tell_race(), which the hooks set before anything is followed. */
void order_free(const char *call, const void *frame, const struct heap_range *buffer, struct stream *stream);
extern void (*order_tell_race)(const char *call, const void *frame, const struct order_race *race);

struct order_access {
    uint64_t address, size;
    int is_write;
};

/* A copy's part in page-locked memory. */
struct order_host {
    uint64_t start, end; /* end 0: none that is followed */
    uint64_t hash;       /* of the bytes, if the device reads them */
    int is_read;
};

/* A copy or set, on the device's side. */
struct order_copy {
    const char *call;  /* the driver function */
    const void *frame; /* of the hook, for stack_capture_from() */
    CUstream stream;
    int is_awaited;          /* the host waits for it */
    const void *host_target; /* where on the host it writes to; NULL: unknown, or nowhere */
    struct order_host host;
    unsigned count;
    struct order_access accesses[2];
};

/* Returns 1 and fills in *race if it overwrites something that may still be in use. */
int order_copied(const struct order_copy *copy, struct order_race *race);

/* The stream writes a value, which a kernel or the host may be waiting for: that is no race. */
void order_value_written(const struct order_copy *copy);

/* ---- page-locked memory of the host, with streams=on+host: what a copy reads must not change before the host knows that the
 * copy is done, nor be freed; what it writes must not be read ---- */

extern int order_host_is_on; /* constant after the start */

static inline int order_host_is_wanted(void)
{
    return order_is_wanted() && order_host_is_on;
}

/* Before the call: notes the copy's part in the host's memory, if that is page-locked. */
void order_host_begins(struct order_copy *copy, const void *memory, size_t size, int is_read);

/* Call where the host has learned that work is done, until it returns 0. Forgets the copies that are done; returns 1 and fills
 * in *race for one of them whose memory has changed since. */
int order_host_next_changed(struct order_race *race);

enum order_host_use { ORDER_HOST_FREES, ORDER_HOST_READS, ORDER_HOST_COPIES };

/* Returns 1 and fills in *race if the host frees or reads memory that a copy may still use; COPIES: a further copy reads it,
 * and it has changed. Forgets that copy. */
int order_host_conflict(uint64_t start, uint64_t size, enum order_host_use by, struct order_race *race);

/* The memory goes, and is not looked at any more. */
void order_host_forget(uint64_t start, uint64_t size);

/* ---- what ran at the same time (nan=) ---- */

struct order_position {
    uint64_t position, meetings;
    unsigned stream;
};

/* Where the calling thread's latest launch is, after order_launched(); a graph's needs the buffers that it is given. */
struct order_position order_launch_position(void);
void order_graph_given(const struct heap_range *buffer, CUstream stream);

/* Whether a launch or copy on another stream may have written to [start, end) of the buffer while the launch ran: *race has it.
 * A use of kind USE_WRITE without a function is not on record. */
int order_beside(const struct order_position *launch, uint64_t buffer, uint64_t start, uint64_t end, struct order_race *race);

/* What there is to say about the use of a race; with its frames if is_named, which takes up to 0.1 s. Large. */
struct order_details {
    struct earlier_use use; /* refers to the rest */
    struct order_position where;
    struct launch_entry entry;
    struct stack stack;
    struct stack_frame frames[STACK_READ];
};
void order_describe(const struct order_race *race, int is_named, struct order_details *out);
