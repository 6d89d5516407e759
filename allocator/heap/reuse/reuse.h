/*
 * Freed blocks, by stream: the lists, the markers that show how far a stream has got, and who still uses a block.
 *
 * "Passed" means that the stream has executed everything submitted before the free. "In a scope" means that the caller has
 * called scope_enter() for the context.
 */
#pragma once

#include "heap/block/books.h"

#include <assert.h>
#include <sched.h>

/* Caller holds the list lock, also for the next one. */
static inline void list_count_idle(struct freelist *list, uint64_t pages, uint64_t change)
{
    if (__builtin_expect(pages < CELL_PAGES, 1)) {
        __atomic_store_n(&list->idle_pages, list->idle_pages + change * pages, __ATOMIC_RELAXED);
        return;
    }
    uint64_t bytes = cells_bytes(heap_granularity, (uint32_t)(pages - CELL_PAGES));
    __atomic_store_n(&list->idle_cell_bytes, list->idle_cell_bytes + change * bytes, __ATOMIC_RELAXED);
}

static inline int list_has_idle(const struct freelist *list)
{
    return (list->idle_pages | list->idle_cell_bytes) != 0;
}

/* Without the list lock: roughly. */
static inline uint64_t list_idle_bytes(const struct freelist *list)
{
    return __atomic_load_n(&list->idle_pages, __ATOMIC_RELAXED) * heap_granularity +
           __atomic_load_n(&list->idle_cell_bytes, __ATOMIC_RELAXED);
}

static inline void list_lock(struct freelist *list)
{
    lock_entered(RANK_LIST);
    for (unsigned spins = 0; __atomic_exchange_n(&list->lock, 1, __ATOMIC_ACQUIRE);) {
        while (__atomic_load_n(&list->lock, __ATOMIC_RELAXED)) {
            if (++spins % 256 == 0)
                sched_yield();
        }
    }
}

static inline void list_unlock(struct freelist *list)
{
    __atomic_store_n(&list->lock, 0, __ATOMIC_RELEASE);
    lock_left(RANK_LIST);
}

/* The caller holds the list lock; debug builds check it. */
static inline void list_expect(const struct freelist *list)
{
    lock_expect(RANK_LIST);
    assert(__atomic_load_n(&list->lock, __ATOMIC_RELAXED));
    (void)list;
}

/* ---- waits.c: pending uses of a freed block ---- */

struct wait {
    struct books *of;
    uint64_t generation; /* of its context: a different one now means that work and event no longer exist */
    CUevent event;       /* NULL: ends only with a synchronisation of the context begun after `waiting_since` */
};

enum awaits {
    AWAITS_OWN = 1,     /* a synchronisation of its own context; noting that needs no memory */
    AWAITS_FOR_EVER = 2 /* out of host memory to note the use: unusable until the context is destroyed */
};

/* Orders frees, added waits and synchronisations: what has an earlier number than a synchronisation's was before it. */
uint64_t waits_now(void);
extern uint64_t waits_clock; /* atomic: the latest number */
/* Adds the work submitted to the stream so far: as an event if one can be recorded, else as a synchronisation of its context.
 */
void waits_add(struct block *block, struct stream_ref on);
void waits_add_context(struct block *block, struct books *of); /* all work submitted to a context so far */
void waits_add_all(struct block *block);                       /* all work submitted to any context so far */
/* All work submitted so far to the streams recorded for a held block, which are forgotten; as they are by the other. */
void waits_add_recorded(struct block *block);
void recorded_drop(struct block *block);
int waits_are_over(struct block *block); /* queries the events; recycles those that have completed */
/* The synchronisation of the context that began at `since` has ended. Returns whether nothing is left to wait for. */
int waits_synchronised(struct block *block, const struct books *of, uint64_t since);
void waits_forget(struct block *block);                               /* drops all waits */
void waits_drop_context(struct block *block, const struct books *of); /* that context was destroyed, and its events with it */
void waits_adopt(struct block *block, struct books *books);           /* block_adopt(), by a context that it waits for */
void waits_set_ending(struct books *books, int is_ending);            /* while it is, none of its events is queried */
/* Makes the stream, which the caller has named, wait for what was submitted to another one. Returns 0 if that cannot be done:
 * one of them captures, is another thread's own, or has ended. books: of the other one's context. */
int stream_waits_for(struct books *books, struct stream *stream, const struct stream_ref *other);
unsigned waits_foreign(void); /* atomic: nonzero if blocks may be waiting for another context than their own */

/* ---- markers.c: events behind the frees of a list ---- */

int freelist_is_unmarked(struct freelist *list); /* there were frees after the last marker */
void freelist_mark(struct freelist *list);       /* records a marker on the stream, if this thread can name it */
/* Caller has touched the stream, so that it does not end. */
void freelist_mark_touched(struct freelist *list, struct stream *stream);
int freelist_pass_touched(struct freelist *list, struct stream *stream); /* if the stream is idle, all frees have passed, and no
                                                                            marker is needed */
/* Whether the stream has yet to reach a marker. It may be waiting for the host, with a queue that is full or nearly so: to give
 * it more, or to ask whether it is idle, may wait where the program does not. In a scope. */
int freelist_is_behind(struct freelist *list);
void freelist_ask_markers(struct freelist *list); /* updates `passed`. In a scope, under the list lock */

#define REUSE_WASTE 20 /* per cent by which a mapping that is used again may be larger than needed */

/* ---- freelist.c; in a scope, except freelist_of(), freelist_take(), freelist_put() and freelist_count() ---- */

struct freelist *freelist_make(struct stream *stream);

/* Creates the list at its first use. NULL: out of host memory. */
static inline struct freelist *freelist_of(struct stream *stream)
{
    struct freelist *list = __atomic_load_n((struct freelist **)&stream->books, __ATOMIC_ACQUIRE);
    return __builtin_expect(list != NULL, 1) ? list : freelist_make(stream);
}

/* Caller holds books->lock; otherwise the list may be freed together with its graph. */
struct freelist *freelist_in_pool(struct books *books, struct stream *stream, struct pool *pool);
struct block *freelist_take(struct freelist *list, uint64_t pages, uint64_t waste, uint64_t size); /* and counts `size` bytes */
void freelist_count(struct freelist *list, uint64_t size); /* an allocation served from another list or a new mapping */
/* Puts a held block into the list and counts its free. IDLE: usable in stream order; WAITING or RETIRING: with its waits. With
 * PAST it is only counted, and the caller unmaps it. Returns whether a marker is due. */
int freelist_put(struct freelist *list, struct block *block, enum block_state state, uint64_t now);
void freelist_uncount(struct freelist *list, struct block *block); /* counts its free, and nothing else */
/* Saves the facts of a block's last buffer before the block is reused. Caller holds the list lock. */
void freelist_remember(struct freelist *list, const struct facts *facts);
/* Copies up to `most` of the buffers remembered since the last call; if there were more, the newest. */
size_t freelist_learn(struct freelist *list, struct facts *out, size_t most, uint64_t *freed);
/* Finds the newest buffer in the history that contains (exact: starts at) the address, if it is newer than *out. */
void freelist_recall(struct freelist *list, uint64_t address, int exact, struct facts *out);
/* Takes this idle block out for another buffer, and returns it. Caller holds the list lock. */
struct block *freelist_pick(struct freelist *list, struct block *idle);
void freelist_advance(struct freelist *list); /* checks markers and waiting blocks for completion */
/* Takes this block out of the list; 0: it is not in it, idle or waiting. */
int freelist_take_this(struct freelist *list, struct block *block);
/* Moves an idle block, with which nobody has anything left to do, to where it waits until books_let_go(). */
void freelist_withhold(struct freelist *list, struct block *block);
/* Takes a passed block from any stream's list, first fit. Caller holds books->lock. */
struct block *freelist_steal(struct books *books, const struct freelist *thief, uint64_t pages, uint64_t waste);
/* Moves idle blocks that have passed and were freed before `before_ns` into *gone, oldest first, up to `bytes`. Returns the
 * number of bytes taken. */
uint64_t freelist_take_old(struct freelist *list, uint64_t before_ns, uint64_t bytes, struct block **gone);
/* The same for blocks of at least `pages`, largest first, that the program's own calls have freed: PyTorch's class keeps what
 * it frees. */
uint64_t freelist_take_large(struct freelist *list, uint64_t pages, uint64_t bytes, struct block **gone);
/* A retiring block that is no longer in use, or NULL. Counts as coming until freelist_retired(). */
struct block *freelist_take_retired(struct freelist *list);
void freelist_retired(struct books *books, uint64_t pages);
/* Whether freelist_take_retired() is going to find one with at least `pages`, and at most `most`. */
int freelist_has_retired(struct freelist *list, uint64_t pages, uint64_t most);
/* Moves a held block to the list without counting a free. */
void freelist_move(struct freelist *list, struct block *block, enum block_state state);
/* A synchronisation of the context `of` that began at `since` has ended: of what waits, that part becomes idle. */
void freelist_end_waits(struct freelist *list, const struct books *of, uint64_t since);
/* Adds the figures and the history of a list that ends to those of the shared one. */
void freelist_absorb(struct freelist *shared, struct freelist *list);
void freelist_take_idle(struct freelist *list, struct block **gone); /* passed or not */
void freelist_take_all(struct freelist *list, struct block **gone);  /* idle, waiting and retiring ones */

/* ---- lists.c; in a scope, except freelist_make() ---- */

/* Takes an idle block of at least `pages`, however much larger, that the stream of `list` may use: one of its own, or one of
 * another stream once its own has waited for *event (NULL: it need not). Caller holds books->lock. */
struct block *freelist_borrow(struct books *books, struct freelist *list, uint64_t pages, CUevent *event);

/* Moves all blocks to the shared list. Blocks that have not passed, and those of pools, wait there for a synchronisation.
 * Caller holds books->lock, also for the next two. */
void freelist_give_up(struct freelist *list);
extern void (*freelist_ends)(struct freelist *list); /* what slack/ does when a list is recycled; heap_open() sets it */
void freelist_recycle(struct freelist *list);        /* makes an empty list, in no other list, available to another stream */
void freelist_drain(struct books *books);            /* gives up the lists of destroyed streams that have passed */
void freelist_end(struct freelist *list);            /* its stream is being destroyed */
int freelists_wait(const struct books *books);       /* blocks are waiting that a synchronisation of the context may set free */
/* A synchronisation of the context that began at `since` (waits_now()) has ended: what was freed before it has passed. */
void freelists_synchronised(struct books *books, uint64_t since);
/* The same for one stream: the frees up to a number that freelist_to_pass() returned before have passed. 0: none. */
uint64_t freelist_to_pass(struct freelist *list);
int freelist_synchronised(struct freelist *list, struct stream *stream, uint64_t sequence); /* 0: the stream has ended */
/* Bracket a launch on the stream of the list for blocks that are idle in it: it counts as one more free, which has not passed
 * before the launch has. freelist_launches(): caller holds the list lock; returns the number of that free. */
uint64_t freelist_launches(struct freelist *list);
void freelist_launched(struct freelist *list);
int freelist_awaits_check(struct freelist *list); /* whether the last such launch has not passed */
