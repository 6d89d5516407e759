/*
 * Memory of captures and of graphs.
 */
#pragma once

#include "heap/reuse/reuse.h"

/* ---- graph_pools.c: memory of graphs ---- */

static inline int pool_is_held(const struct pool *pool)
{
    return __atomic_load_n(&pool->references, __ATOMIC_ACQUIRE) != 0 && !__atomic_load_n(&pool->is_lost, __ATOMIC_RELAXED);
}

/* Memory freed in the pool must not be reused: later work may run concurrently with earlier work. */
static inline int pool_is_spent(const struct pool *pool)
{
    return pool && __atomic_load_n(&pool->is_unordered, __ATOMIC_RELAXED);
}

/* Its graph is captured into again: what was captured before may have been launched. */
static inline int capture_may_be_launched(const struct pool *pool)
{
    return pool_is_spent(pool) && __atomic_load_n(&pool->is_own, __ATOMIC_RELAXED);
}

/* The pool from which `stream` allocates now, or NULL. For a stream of another context, what its capture has in these books. */
struct pool *pool_of(struct books *books, struct stream *stream);
struct pool *pool_of_capture(struct books *books, CUstream stream, CUgraph *graph); /* of a capturing stream, or NULL */
struct pool *pool_with_id(struct books *books, cuuint64_t capture); /* of this capture. NULL: out of host memory */
int capture_has_begun(const struct stream *stream);                 /* progress.c: it began a capture that may be in progress */
struct pool *pool_named(int device, const uint64_t id[2], cufence_status *status); /* NULL: see *status */
void pools_lend(struct books *books); /* gives up what pools keep that may lend; it waits for a synchronisation. In a scope */
void pools_drop_lists(struct pool *pool); /* moves its unused blocks to the shared list; caller holds RANK_BOOKS */
void pool_forget_user(struct pool *pool); /* ends what pool_begin() has begun, if anything; caller holds RANK_BOOKS */

/* Calls destroy() for the users that were forgotten since: a callback into the program. Without a lock. */
void pools_tell_users(void);

/* ---- follow.c: captures have their number in common with all others into the same graph ---- */

static inline uint64_t capture_number(const struct pool *pool)
{
    return __atomic_load_n(&pool->id[1], __ATOMIC_RELAXED);
}

struct pool *pool_of_graph(CUgraph graph); /* of the latest capture into the graph, in any context, or NULL */
/* Iterates over the pools of the same capture in all contexts; NULL starts. */
struct pool *pool_beside(const struct pool *pool, const struct pool *previous);
/* The pool is new, and goes with the graph. */
void capture_follow(struct pool *pool, CUgraph graph);
/* The same if the capture has a pool elsewhere that does so: a stream of this context has joined. */
void capture_joins(struct pool *pool, CUgraph graph);
void captures_have_gone(void); /* some graph, or a capture */
int captures_are_gone(void);   /* some have since the last call */

/* ---- capture_memory.c ---- */

/* A held block becomes a buffer of a capture: until the graph is launched, nobody has its memory. */
void capture_hold(struct block *block);
/* Takes a held block that was freed outside of its capture, with its waits, and puts it back into the index. `capture`: the
 * capture that frees it, or NULL. */
void capture_return(struct block *block, struct pool *capture, int is_idle);
void capture_forget(struct block *block);     /* it is no longer returned; called by its holder */
void capture_forget_all(struct books *books); /* the context was destroyed */
/* Moves the memory of destroyed graphs that nobody uses to *gone. In a scope. */
void captures_collect(struct books *books, struct block **gone);
/* The stream, which has begun a capture, is about to be destroyed, and the capture with it. CUDA does not always tell that its
 * graph is gone (green contexts, driver 580.159). */
void capture_lose(struct stream *stream);
