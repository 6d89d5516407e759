/*
 * Which work was given which buffer: for each live buffer its latest launch and its latest copy on each stream, and which of
 * them a free or a write conflicts with.
 *
 * Bounded: the table has USES_SETS times USES_WAYS buffers of USES_KEPT uses. Beyond that, uses are forgotten, so a conflict
 * may be missed. Pure: no driver, no threads, no globals. The caller serialises.
 */
#pragma once

#include "clocks.h"

#define USES_SETS 8192u
#define USES_WAYS 4u
#define USES_KEPT 6u
#define USES_GRAPHS UINT64_MAX /* a buffer's number, for launches of graphs: each may write anywhere */

enum use_kind { USE_LAUNCH, USE_READ, USE_WRITE }; /* a launch may read and write anything in the buffer */

struct use {
    uint64_t position; /* on its stream, see clocks_step() */
    unsigned stream;
    enum use_kind kind;
    uint64_t start, end; /* addresses; of a launch: the buffer's */
    /* For the report; not read here. */
    const void *source;
    uint64_t turn;
    const void *function; /* of a copy, set or graph: its call's name */
    uint32_t python, tid;
    uint64_t handle;
};

struct buffer_uses {
    uint32_t count, oldest;    /* uses; the one that makes room for a further one */
    struct order_set recorded; /* streams for which the free waits */
    struct use uses[USES_KEPT];
};

/* All zero: empty. The id of a buffer is never 0. */
struct uses_set {
    uint64_t ids[USES_WAYS]; /* 0: free */
    uint32_t oldest;
    struct buffer_uses buffers[USES_WAYS];
};

struct uses {
    struct uses_set sets[USES_SETS];
};

void uses_add(struct uses *uses, uint64_t buffer, const struct use *use);
const struct buffer_uses *uses_of(const struct uses *uses, uint64_t buffer); /* NULL: none */

/* A free of the buffer waits for the work of this stream, too. */
void uses_recorded(struct uses *uses, uint64_t buffer, unsigned stream);

void uses_drop(struct uses *uses, uint64_t buffer); /* the buffer was freed */

/* Finds a use that is not ordered before the next work of `by`, as of a free: a use by a stream that was not recorded. Returns
 * NULL if there is none. */
const struct use *uses_against_free(const struct uses *uses, const struct order_clocks *clocks, uint64_t buffer, unsigned by);

/* The same for a write to [start, end). A launch conflicts only if the write covers the buffer, because nobody knows which part
 * of it the launch uses. by: ORDER_NOT_TRACKED for a write by the host. */
const struct use *uses_against_write(const struct uses *uses, const struct order_clocks *clocks, uint64_t buffer, unsigned by,
                                     uint64_t start, uint64_t end);
