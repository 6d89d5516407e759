/*
 * What must be done before what, as vector clocks over streams.
 *
 * Each step of a stream (a launch, a copy, a record, a wait, a free) has a position there, from 1. A clock holds, for each
 * stream, the position up to which its work is done before something else: before the next work of a stream, before whoever
 * waits for an event goes on, or before the host goes on. All host threads share one clock, because threads can tell each other
 * what they have waited for in ways that cufence does not see.
 *
 * Where CUDA promises an order, a clock has it. Where cufence can't know, it assumes the order, so that what these functions
 * call unordered is. That goes for events that were not seen, and for streams beyond the first ORDER_STREAMS.
 *
 * Pure: no driver, no threads, no globals. The caller serialises.
 */
#pragma once

#include <stdint.h>

#define ORDER_STREAMS 128u              /* tracked at once; a multiple of 64 */
#define ORDER_POINTS 4096u              /* events and executable graphs; the oldest are forgotten */
#define ORDER_NOT_TRACKED ORDER_STREAMS /* a stream for which no index was free */

struct order_clock {
    uint64_t at[ORDER_STREAMS];
};

struct order_set {
    uint64_t words[ORDER_STREAMS / 64];
};

enum order_kind { ORDER_LEGACY, ORDER_BLOCKING, ORDER_NON_BLOCKING };

struct order_stream {
    const void *context;       /* what it has its legacy stream in common with */
    struct order_clock before; /* done before its next work; its own entry: its newest step */
};

/* An event, or an executable graph. */
struct order_point;

/* All zero: nothing has happened. */
struct order_clocks {
    struct order_clock latest; /* the newest step of every stream */
    struct order_clock host;   /* done before the host goes on */
    struct order_set used, legacy, blocking;
    unsigned count;     /* indices up to here have been used */
    unsigned next;      /* where to look for a free index: the one that has been free for longest */
    int has_untracked;  /* some stream had no index */
    int graphs_wait;    /* graphs may wait for more than their stream */
    int graphs_tell;    /* graphs may tell the host of their progress */
    int has_lost_graph; /* a launched graph was forgotten */
    unsigned point_count;
    struct order_point *points; /* a uthash table, oldest first */
    struct order_stream streams[ORDER_STREAMS];
};

/* Frees the table of points. */
void clocks_clear(struct order_clocks *clocks);

/* Gives a stream an index, and takes it away. When another stream gets the index, the work of the earlier one counts as done.
 */
unsigned clocks_stream_begins(struct order_clocks *clocks, const void *context, enum order_kind kind);
void clocks_stream_ends(struct order_clocks *clocks, unsigned stream);

/* The context has ended: its work is done, and its streams no longer exist. */
void clocks_context_ends(struct order_clocks *clocks, const void *context);

/* The next step of a stream, ordered as CUDA orders the legacy stream and the streams that it blocks. Returns its position; 0
 * for a stream that is not tracked. */
uint64_t clocks_step(struct order_clocks *clocks, unsigned stream);

/* Events, by handle.
 *   made      it was created, and orders nothing until it is recorded
 *   recorded  it stands for all of the stream's work so far
 *   hidden    from now on it may be recorded where cufence does not see it, so whatever waits for it is ordered
 *   all       it stands for all work so far
 *   gone      it was destroyed: another one may get its handle */
void clocks_event_made(struct order_clocks *clocks, uint64_t event);
void clocks_event_recorded(struct order_clocks *clocks, uint64_t event, unsigned stream);
void clocks_event_hidden(struct order_clocks *clocks, uint64_t event);
void clocks_event_all(struct order_clocks *clocks, uint64_t event);
void clocks_event_gone(struct order_clocks *clocks, uint64_t event);

/* The stream waits for the event, or for something that cufence does not know. */
void clocks_wait(struct order_clocks *clocks, unsigned stream, uint64_t event);
void clocks_wait_for_all(struct order_clocks *clocks, unsigned stream);

/* Executable graphs, by handle: one step of the stream for all of a graph. Its launches do not overlap. */
void clocks_graph_launched(struct order_clocks *clocks, unsigned stream, uint64_t graph);
void clocks_graph_gone(struct order_clocks *clocks, uint64_t graph);

/* What a synchronisation with a stream, an event or a context waits for, if it begins now. context NULL: all. The host knows it
 * once the synchronisation has returned: clocks_host_knows(). */
struct order_clock clocks_of_stream(const struct order_clocks *clocks, unsigned stream);
struct order_clock clocks_of_event(const struct order_clocks *clocks, uint64_t event);
struct order_clock clocks_of_context(const struct order_clocks *clocks, const void *context);
void clocks_host_knows(struct order_clocks *clocks, const struct order_clock *seen);

/* Up to which position work of `stream` is done before the next work of `by`, or, with ORDER_NOT_TRACKED, before what the host
 * does now; and whether that at `position` is. */
uint64_t clocks_done(const struct order_clocks *clocks, unsigned stream, unsigned by);
int clocks_is_ordered(const struct order_clocks *clocks, unsigned stream, uint64_t position, unsigned by);

static inline void order_set_add(struct order_set *set, unsigned stream)
{
    set->words[stream / 64] |= UINT64_C(1) << stream % 64;
}

static inline int order_set_has(const struct order_set *set, unsigned stream)
{
    return (int)(set->words[stream / 64] >> stream % 64 & 1);
}
