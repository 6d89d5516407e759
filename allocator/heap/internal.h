/*
 * Shared by the files of heap/. Calls go from top to bottom only:
 *
 *   passed.c                                          leaves buffers to the driver, unguarded (reclaim.c lets it free what had
 * to wait, and trim the driver's pool) choice.c                                          which buffers the options leave to the
 * driver (allocate.c opens it) allocate.c  free.c  gone.c  figures.c  worker.c   entry points for the other rooms, and the
 * background thread packing.c                                         which small buffers share pages adaptive.c retires blocks
 * by place of allocation, at a measured pace reclaim.c                                         releases memory to the driver
 *   captured.c                                        memory of captures: destroyed graphs, buffers freed outside their capture
 *   check.c  slack.c  batches.c  fill.c               slack watch (slack.h); fill and poison
 *   pools.c                                           finds the pool of an allocation or a free
 *   freelist.c  describe.c                            freed blocks by stream; what is at an address
 *   markers.c  waits.c                                progress of streams; who still uses a freed block
 *   places.c  twins.c                                 places of allocation and their turns; second mappings of blocks
 *   pack.c                                            pages that small buffers share (pack.h)
 *   books.c  space.c  index.c                         per-context state; address space; live blocks by address
 *   block.c  facts.c  bell.c                          a block and its states; data of a buffer; wakes the background thread
 *
 * "Passed" means that the stream has executed everything submitted before the free. "In a scope" means that the caller has
 * called scope_enter() for the context. Locks and their order: lock.h.
 */
#ifndef CUFENCE_HEAP_INTERNAL_H
#define CUFENCE_HEAP_INTERNAL_H

#include "block.h"
#include "base/lock.h"
#include "guard/cells.h"

#include <sched.h>
#include <stddef.h>
#include <utlist.h>

#define BINS_EXACT 64 /* page counts up to here have a bin each; above, eight bins per power of two */
#define BINS_PAGES (BINS_EXACT + 8 * 24)
#define BINS (BINS_PAGES + CELLS_CLASSES) /* and one for each class of cells (pack.h) */
#define MARKERS 8

extern const struct options *heap_options;
static const uint64_t heap_granularity = 2ull << 20; /* of mappings, in bytes */

/* space.c: address space for blocks, and the index of its pages */
cufence_status space_open(void); /* with a limit, space_need() does it */
void space_close(void);          /* undoes it, only while empty */
cufence_status
space_need(void); /* call before the first block is mapped. Errors: OUT_OF_ADDRESS_SPACE, OUT_OF_MEMORY, DRIVER */

/* index.c: finds live buffers by their first byte or by any address in them */
cufence_status index_open(void);
void index_close(void);              /* undoes index_open(); only while empty */
void index_add(struct block *block); /* a held one, which becomes live */
struct block *index_find(uint64_t address);
struct block *index_holding(uint64_t address); /* the live buffer that begins closest at or below the address, or NULL */
void index_pack(struct page *page);            /* from now on its cells have entries of their own */
void index_unpack(struct page *page);          /* no cell of it is live */
int index_is_packed(uint64_t address);         /* in a page with such cells */
struct block *index_claim(uint64_t address);   /* NULL: no live buffer starts there; else the caller now holds the block */

/* bell.c: puts the background thread to sleep and wakes it. While it polls, nothing wakes it; while it rests, what it has to do
 * soon; while it sleeps, everything that may ever give it something to do. */
enum bell_depth { BELL_POLLING, BELL_RESTING, BELL_SLEEPING };
enum bell_end { BELL_STOPPED, BELL_RUNG, BELL_TIMED_OUT };
extern int bell_depth; /* atomic */
void bell_ring(void);  /* there is work to do; from any thread, CUDA's own included */
enum bell_end bell_wait(uint64_t until_ns, enum bell_depth depth); /* CLOCK_MONOTONIC; UINT64_MAX: for ever */
void bell_stop(void);
void bell_reset(void);

/* There may be something to do later, if only when time has passed. The caller's stores before this may become visible to the
 * background thread after it has been seen sleeping: worker.c allows for that. */
static inline void bell_stir(void)
{
    if (__builtin_expect(__atomic_load_n(&bell_depth, __ATOMIC_RELAXED) == BELL_SLEEPING, 0))
        bell_ring();
}

#include "turns.h"
#include "pack.h"

/* ---- books.c: the heap's state of a context ---- */

/* An event on a stream. Every free up to `sequence` comes before it. */
struct marker {
    CUevent event;
    uint64_t sequence;
};

/*
 * The freed blocks of one stream, either those freed outside of captures or those of one pool. A context's shared list belongs
 * to no stream: any stream may use its idle blocks. Only the shared list has waiting blocks that become idle; those of a pool's
 * list wait until the pool is destroyed.
 */
struct freelist {
    int lock; /* list_lock(): held for tens of nanoseconds. A thread that finds it taken spins, and yields now and then */
    struct books *books;
    struct stream *stream; /* atomic; NULL: the shared list, or the stream was destroyed */
    struct pool *pool;
    struct block *bins[BINS];         /* idle blocks, last freed first */
    struct block *waiting, *retiring; /* in the order of their frees */
    uint64_t freed;                   /* sequence number of the last free */
    uint64_t passed;                  /* frees up to this sequence number have passed */
    uint64_t snapshot;                /* `freed` when a synchronisation of the context began */
    uint64_t marked;                  /* sequence of the last marker */
    uint64_t mark_at, mark_at_ns;     /* a marker is due from this free or time on */
    struct marker markers[MARKERS];   /* a queue; the first `marker_count` are pending */
    unsigned marker_count;
    uint64_t idle_pages, idle_cell_bytes;   /* atomic; written under the list lock */
    uint64_t waiting_count, retiring_count; /* atomic */
    uint64_t retired;                       /* atomic: how many were taken to be unmapped */
    uint64_t allocations, frees;
    int64_t live_bytes;    /* of its stream, minus what was added to the context's sum */
    struct facts *history; /* a ring of buffers whose blocks have since been reused */
    size_t history_position, history_count, history_capacity;
    size_t learned;                  /* history_position when adaptive.c looked last */
    struct slack_queue *slack_queue; /* atomic; slack.h; NULL: nothing was ever queued */
    struct freelist *next;           /* in the context's lists, draining or spare ones, or in its pool's; under RANK_BOOKS */
};

struct books {
    struct context *context;
    struct lock lock;
    struct freelist shared;
    struct freelist *lists;                    /* of existing streams; under lock, like everything to `pools` */
    struct freelist *draining, *draining_last; /* of destroyed streams, until their last marker has passed; oldest first */
    struct freelist *spares;
    struct pool *pools;
    unsigned active_pools; /* atomic: number of pools between begin and end */
    int is_packing;        /* atomic; small buffers share pages from now on */
    struct lock events_lock;
    CUevent *events; /* unused ones */
    size_t event_count, event_capacity;
    uint64_t mapped_bytes, captured_bytes; /* atomic, like everything below */
    uint64_t peak_mapped_bytes;
    uint64_t fresh, retired;
    uint64_t replaced;                                  /* blocks in retiring lists whose memory a twin has taken over */
    uint32_t coming[BINS];                              /* blocks that a thread is retiring, by size */
    uint64_t allocations, frees;                        /* of lists that no longer exist */
    uint64_t alone_bytes;                               /* mapped for small buffers that share no page */
    uint64_t alone_most;                                /* max_overhead in bytes; 0: not known yet */
    uint64_t packed_mapped;                             /* packed pages; part of mapped_bytes */
    uint64_t packed_buffers, packed_bytes, packed_ever; /* live ones, and since the start */
    struct watch *watch;                                /* slack.h; NULL: nothing was ever watched */
    struct stream own;                                  /* books_stream(); its handle is atomic, NULL: not created yet */
    struct lock pack_lock;
    uint64_t freed_seen; /* frees that adaptive.c knows of; by the background thread */
    struct page *pages[CELLS_CLASSES],
        *spare_pages[CELLS_CLASSES]; /* those with cells in them; unmapped ones. Under pack_lock */
    /* On a cache line apart from fields that every allocation reads. */
    _Alignas(CACHE_LINE) int64_t live_bytes; /* the free lists' own sums come on top */
    int64_t peak_live_bytes;
};

/* NULL: not created yet. */
static inline struct books *books_of(const struct context *context)
{
    return __atomic_load_n((struct books *const *)&context->books[CONTEXT_HEAP], __ATOMIC_ACQUIRE);
}

struct books *books_make(struct context *context); /* NULL: out of host memory */
struct stream *
books_stream(struct books *books); /* cufence's own, which no other waits for. NULL if the driver fails. In a scope */
void books_forget_stream(struct books *books); /* the context was destroyed */
CUevent event_take(struct books *books);       /* NULL if the driver fails. In a scope */
void event_give(struct books *books, CUevent event);

/* The bin of mappings of that many pages. */
static inline unsigned freelist_bin(uint64_t pages)
{
    if (pages <= BINS_EXACT)
        return (unsigned)pages - 1;
    if (pages >= CELL_PAGES)
        return BINS_PAGES + (unsigned)(pages - CELL_PAGES);
    unsigned power = 63u - (unsigned)__builtin_clzll(pages); /* at least 6 */
    unsigned bin = BINS_EXACT + (power - 6) * 8 + (unsigned)((pages >> (power - 3)) & 7);
    return bin < BINS_PAGES ? bin : BINS_PAGES - 1;
}

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

/* ---- waits.c: pending uses of a freed block ---- */

struct recorded {
    struct stream *stream;
    uint64_t generation; /* a different one now means that the stream was destroyed */
};

struct wait {
    struct books *of;
    uint64_t generation; /* of its context: a different one now means that work and event no longer exist */
    CUevent event;       /* NULL: ends only with a synchronisation of the context begun after `waiting_since` */
};

enum awaits {
    AWAITS_OWN = 1,     /* a synchronisation of its own context; noting that needs no memory */
    AWAITS_FOR_EVER = 2 /* out of host memory to note the use: unusable until the context is destroyed */
};

uint64_t waits_now(void);
/* Adds the work submitted to `stream` so far: as an event if one can be recorded, else as a synchronisation of its context. */
void waits_add(struct block *block, struct stream *stream, uint64_t generation);
void waits_add_context(struct block *block, struct books *of); /* all work submitted to a context so far */
void waits_add_all(struct block *block);                       /* all work submitted to any context so far */
int waits_are_over(struct block *block);                       /* queries the events; recycles those that have completed */
/* The synchronisation of the context that began at `since` has ended. Returns whether nothing is left to wait for. */
int waits_synchronised(struct block *block, const struct books *of, uint64_t since);
void waits_forget(struct block *block);                               /* drops all waits */
void waits_drop_context(struct block *block, const struct books *of); /* that context was destroyed, and its events with it */
void waits_set_ending(const struct books *books);                     /* stop querying its events; NULL: none is ending */
unsigned waits_foreign(void); /* atomic: nonzero if blocks may be waiting for another context than their own */

/* ---- markers.c: events behind the frees of a list ---- */

int freelist_is_unmarked(struct freelist *list); /* there were frees after the last marker */
void freelist_mark(struct freelist *list);       /* records a marker on the stream, if this thread can name it */
/* Caller holds RANK_TOUCH, so that the stream does not end. */
void freelist_mark_touched(struct freelist *list, struct stream *stream);
int freelist_pass_touched(struct freelist *list, struct stream *stream); /* if the stream is idle, all frees have passed, and no
                                                                            marker is needed */
void freelist_ask_markers(struct freelist *list);                        /* updates `passed`. In a scope, under the list lock */

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
/* If the block is idle in one of the books' lists, has passed and its last buffer is still `id`, a twin takes its place in the
 * list. Returns 1 if so; the caller then holds the block. The block may also have been unmapped and freed by now. */
int freelists_replace(struct books *books, struct block *block, uint64_t pages, uint64_t id);
/* Saves the facts of a block's last buffer before the block is reused. Caller holds the list lock. */
void freelist_remember(struct freelist *list, const struct facts *facts);
/* Copies up to `most` of the buffers remembered since the last call; if there were more, the newest. */
size_t freelist_learn(struct freelist *list, struct facts *out, size_t most, uint64_t *freed);
/* Finds the newest buffer in the history that contains (exact: starts at) the address, if it is newer than *out. */
void freelist_recall(struct freelist *list, uint64_t address, int exact, struct facts *out);
void freelist_advance(struct freelist *list); /* checks markers and waiting blocks for completion */
/* Takes a passed block from any stream's list, first fit. Caller holds books->lock. */
struct block *freelist_steal(struct books *books, const struct freelist *thief, uint64_t pages, uint64_t waste);
/* Moves idle blocks that have passed and were freed before `before_ns` into *gone, oldest first, up to `bytes`. Returns the
 * number of bytes taken. */
uint64_t freelist_take_old(struct freelist *list, uint64_t before_ns, uint64_t bytes, struct block **gone);
/* A retiring block that is no longer in use, or NULL. Counts as coming until freelist_retired(). */
struct block *freelist_take_retired(struct freelist *list);
void freelist_retired(struct books *books, uint64_t pages);
/* Whether freelist_take_retired() is going to find one with at least `pages`, and at most `most`. */
int freelist_has_retired(struct freelist *list, uint64_t pages, uint64_t most);
void freelist_take_idle(struct freelist *list, struct block **gone); /* passed or not */
void freelist_take_all(struct freelist *list, struct block **gone);  /* idle, waiting and retiring ones */
/* Moves all blocks to the shared list. Blocks that have not passed, and those of pools, wait there for a synchronisation.
 * Caller holds books->lock, also for the next two. */
void freelist_give_up(struct freelist *list);
void freelist_recycle(struct freelist *list); /* makes an empty list, in no other list, available to another stream */
void freelist_drain(struct books *books);     /* gives up the lists of destroyed streams that have passed */
void freelist_end(struct freelist *list);     /* its stream is being destroyed */
/* Bracket a synchronisation of the context: what was freed before the first call has passed at the second. */
void freelists_begin_sync(struct books *books);
void freelists_end_sync(struct books *books, uint64_t since);
void freelists_end_waits(struct books *books, uint64_t since); /* the same for waiting blocks only; needs no first call */

/* ---- pools.c: memory of graphs ---- */

/*
 * A graph's buffer that was freed outside of the graph's capture. The next launch of the graph allocates it again at the same
 * address, so it stays in the index and in its pool until the graph is destroyed.
 */
enum returned {
    RETURNED = 1,         /* freed at least once by the program */
    RETURNED_LISTED = 2,  /* in its pool's list */
    RETURNED_IDLE = 4,    /* whoever freed it had synchronised its context; if not set, its waits must end first */
    RETURNED_CAPTURED = 8 /* the free is part of another graph, which holds the pool */
};

struct pool {
    struct books *books;
    uint64_t id[2];
    unsigned references;    /* atomic: begins minus releases; of a capture: its graph, executables, and graphs that hold it */
    int is_capture;         /* the pool of a capture without a named pool; constant */
    int is_unordered;       /* atomic; the capture's dependencies were changed by hand: nothing in it is reused */
    unsigned blocks;        /* atomic: blocks in it, live or not */
    struct freelist *lists; /* under RANK_BOOKS, like everything to `held_count` */
    CUgraph graph;          /* of a capture; NULL once another graph may have the handle */
    int is_auto_freed;      /* see heap_graph_instantiated() */
    uint64_t launches;      /* atomic: counted only while any block is returned */
    struct block *returned;
    struct pool **held; /* captures whose memory this graph frees */
    size_t held_count;
    unsigned active; /* begun and not ended */
    cufence_pool_filter contains;
    void *user;
    void (*destroy)(void *);
    struct pool *next;
};

static inline int pool_is_held(const struct pool *pool)
{
    return __atomic_load_n(&pool->references, __ATOMIC_ACQUIRE) != 0;
}

/* Memory freed in the pool must not be reused: later work may run concurrently with earlier work. */
static inline int pool_is_spent(const struct pool *pool)
{
    return pool && __atomic_load_n(&pool->is_unordered, __ATOMIC_RELAXED);
}

struct pool *pool_of(struct books *books, struct stream *stream); /* the pool from which `stream` allocates now, or NULL */
struct pool *pool_of_capture(struct books *books, CUstream stream, CUgraph *graph); /* of a capturing stream, or NULL */
int pools_may_be_captured(void);                                                    /* some stream may be capturing */
int pool_has_memory(const struct pool *pool);                                       /* caller holds RANK_BOOKS */
void pools_drop_lists(struct pool *pool); /* moves its unused blocks to the shared list; caller holds RANK_BOOKS */

/* ---- captured.c ---- */

/* Takes a held block that was freed outside of its capture, with its waits, and puts it back into the index. `capture`: the
 * capture that frees it, or NULL. */
void capture_return(struct block *block, struct pool *capture, int is_idle);
void capture_forget(struct block *block);     /* it is no longer returned; called by its holder */
void capture_forget_all(struct books *books); /* the context was destroyed */
void captures_collect(struct books *books);   /* releases the memory of destroyed graphs. In a scope */
int captures_are_gone(void);                  /* a graph was destroyed since the last call */

/* ---- slack.c, batches.c: slack watch. Only with slack=on; but where nothing is watched the others do nothing ---- */

/* The block, held, is to become a buffer of the list. is_fresh: it was mapped for it. */
void slack_hand_out(struct freelist *list, struct block *block, uint64_t address, uint64_t size, int is_fresh);
/* The block, held, is freed into the list of its stream: call right before freelist_put(). Returns 0, and has done nothing, if
 * a launch on another stream may still use the block. */
int slack_freed(struct freelist *list, struct block *block);
/* The block, held, was freed into another list than that of its stream. `stream` only with HEAP_STREAM. */
void slack_release(struct block *block, struct stream *stream, enum heap_users users, int is_recorded);
/* Launches a check of those that are due: held blocks of a context that nobody uses, before they are unmapped. In a scope. */
void slack_check_retired(struct books *books, struct block *const *blocks, unsigned count);
void slack_await(struct block *block); /* waits a moment for its last launch */
/* Adds a wait for the block's last launch. Returns 0 if that is over, or in the order of `list` (may be NULL). */
int slack_wait_for(struct block *block, const struct freelist *list);
int slack_is_queued(const struct block *block); /* its check waits for a launch; between slack_hold() and slack_go_on() */
struct watch *slack_hold(struct books *books);  /* no launch until slack_go_on(). NULL: there are none */
void slack_go_on(struct watch *watch, struct block *gone); /* gone: a block that is not watched any more, or NULL */
int slack_forget(struct block *block); /* it is not watched any more. Returns 0 if its last launch is not over */
/* Launches what waits. is_idle: nothing else is on the stream. Caller holds RANK_TOUCH. */
void slack_flush_touched(struct freelist *list, struct stream *stream, int is_idle);
int slack_waits(const struct freelist *list); /* something waits to be launched on its stream */
void slack_list_gone(struct freelist *list);
void slack_context_gone(struct books *books);
int slack_is_flying(struct books *books);  /* a launch is under way, or has found something that is not collected */
size_t slack_collect(struct books *books); /* reports what launches have found; returns the number. Not under a lock */

/* ---- fill.c; only with the option ---- */

void fill_fresh(struct freelist *list, uint64_t address, uint64_t size); /* a buffer of the list */
void fill_freed(struct block *block, struct stream *stream);             /* in the order of the stream */
int fill_freed_idle(struct block *block); /* one that nobody uses. Returns 1 if it must be waited for, as was added to it */

/* ---- reclaim.c ---- */

/* Releases memory of a device to the driver. Level 0: caches; 1: also what has passed; 2: also after synchronising. */
void reclaim_device(const struct context *own, int device, int level); /* own: the caller's context */
/* Bracket work in a context other than the caller's own, which may be destroyed at any time (heap_hold()). */
void visit_begin(void);
void visit_end(void);
/* Unmaps the retiring blocks that have passed, of those that are waiting now: others may add some for ever. Returns whether
 * there were any. */
int reclaim_retired(struct books *books);
void reclaim_old(struct books *books); /* unmaps blocks idle for too long, or beyond the limit */
/* Whether there is more for the background thread to do once the device has gone on. Lowers *due_ns to when a block will have
 * been idle for too long. */
int reclaim_is_pending(struct books *books, uint64_t *due_ns);

/* ---- adaptive.c ---- */

/* Lets the background thread do its share of work for uaf=adaptive in a context, reclaim_retired() included. In a scope.
 * Returns whether the program is freeing buffers. */
int adaptive_work(struct books *books);
uint64_t adaptive_due_ns(void); /* when there will be more to do although the program does nothing; UINT64_MAX: never */
/* choice.c: reads the options that choose what is guarded */
void passed_open(void);

/* worker.c */
cufence_status worker_start(void);
void worker_stop(void); /* the thread makes no more driver calls, unless one hangs */

uint64_t heap_ids(void); /* buffer ids given out so far; threads hold up to 15 unused ones each */

#endif
