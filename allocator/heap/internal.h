/*
 * What the files of heap/ share. Who calls whom, from top to bottom; none calls one above it:
 *
 *   allocate.c  free.c  gone.c  figures.c  worker.c   what the other rooms call, and the background thread
 *   reclaim.c                                         gives memory back to the driver
 *   captured.c                                        memory of captures: graphs that are gone, buffers freed outside of them
 *   pools.c                                           which pool an allocation or a free belongs to
 *   freelist.c  describe.c                            freed blocks by stream; what lies at an address
 *   markers.c  waits.c                                how far a stream has come; who still uses a freed block
 *   books.c  index.c                                  what the heap knows of a context; live blocks by address
 *   block.c  facts.c  bell.c                          a block and its states; facts of a buffer; wakes the background thread
 *
 * A block is a slot of the arena and the buffer in it, if any. Locks and their order: lock.h.
 */
#ifndef CUFENCE_HEAP_INTERNAL_H
#define CUFENCE_HEAP_INTERNAL_H

#include "heap.h"
#include "base/lock.h"
#include "guard/layout.h"
#include "vmm/arena.h"

#include <sched.h>
#include <stddef.h>
#include <utlist.h>

#define CACHE_LINE 64ul
#define BINS_EXACT 64 /* page counts up to here have a bin each; above, eight bins a doubling */
#define BINS (BINS_EXACT + 8 * 24)
#define MARKERS 8

/* ---- facts.c: what there is to know of one buffer ---- */

/* In words that can be copied one by one; first what a free reads or writes. */
struct facts {
    uint64_t address, size;
    uint64_t who; /* threads and the stack of the free, see facts_freed_by() */
    uint64_t free_stream, freed_ns;
    uint64_t id, stream, allocated_ns;
    uint64_t label; /* const char *, 0 without one, and the stack of the allocation, see facts_label() */
};

/* Thread ids are smaller than 2^22 (PID_MAX_LIMIT of the kernel), addresses of a process than 2^48, numbers of stacks than
 * 2^16. */
enum { TID_BITS = 22, ADDRESS_BITS = 48 };

static inline uint64_t facts_label(const char *label, uint32_t allocated_stack)
{
    return (uint64_t)(uintptr_t)label | (uint64_t)allocated_stack << ADDRESS_BITS;
}

static inline uint64_t facts_freed_by(uint64_t tid, uint32_t freed_stack)
{
    return tid << TID_BITS | (uint64_t)freed_stack << 2 * TID_BITS;
}

static inline uint64_t facts_allocated_tid(const struct facts *facts)
{
    return facts->who & ((1u << TID_BITS) - 1);
}

static inline uint64_t facts_freed_tid(const struct facts *facts)
{
    return facts->who >> TID_BITS & ((1u << TID_BITS) - 1);
}
#define FACTS_WORDS (sizeof(struct facts) / sizeof(uint64_t))

/* ---- block.c ---- */

enum block_state {
    BLOCK_HELD,     /* in the hands of one thread */
    BLOCK_LIVE,     /* in the index */
    BLOCK_IDLE,     /* in a bin of a free list */
    BLOCK_WAITING,  /* in a free list, for those who may still use it; idle then */
    BLOCK_RETIRING, /* the same; unmapped then */
    BLOCK_PAST      /* unmapped: only the arena knows it */
};

/*
 * Laid out for programs with more buffers than the caches hold: an allocation that reuses a block touches the first three
 * lines, a free the second and the third. Who holds the block writes it; anybody may read the facts at any time: `version` is
 * odd while they change (facts_write(), facts_read()).
 */
struct block {
    struct slot slot; /* first: the arena hands it back */

    _Alignas(CACHE_LINE) struct books *books; /* of its context; constant while it is mapped */
    struct pool *pool;                        /* graph memory; atomic */
    uint64_t version;
    struct facts facts; /* of the buffer in it, or of the last one; id 0: none yet. Five words here, four in the next line */

    struct block *prev, *next;
    uint64_t free_sequence; /* in its free list */
    uint32_t pages : 24;    /* of the mapping, in units of the granularity */
    uint32_t owner : 8;     /* what its allocation named */
    uint8_t state;          /* enum block_state; block_become() */
    uint8_t is_counted;     /* among the allocations that have not been freed */
    uint16_t tag;           /* index.c */

    struct recorded *recorded; /* further streams that use it, under recorded_lock while live */
    struct wait *waits;        /* who may still use it; of who holds it, or of the list that it waits in */
    uint64_t waiting_since;    /* waits_now() when the last of them was added */
    pthread_spinlock_t recorded_lock;
    uint16_t recorded_count, wait_count;
    uint32_t returned;          /* enum returned; LISTED under RANK_BOOKS */
    uint32_t awaits_context;    /* enum awaits: what it waits for beside the events */
    uint64_t returned_launches; /* of its graph, at its latest return */
};
_Static_assert(offsetof(struct block, books) == CACHE_LINE && offsetof(struct block, recorded) == 3 * CACHE_LINE,
               "a free needs the second and the third line");

/* The one way from a state to the next. A step that does not exist is an error of ours: it is said, and debug builds abort. */
void block_become(struct block *block, enum block_state state);

/* Makes a mapping and a held block for it. NULL: *status says why, a slot that could not be mapped is of the past. */
struct block *block_map(struct books *books, int device, const struct layout *layout, cufence_status *status);
void block_unmap(struct block *block);                   /* a held one: it belongs to the past then */
void block_forget(struct slot *slot);                    /* for the arena: drops one of the past */
void block_join(struct block *block, struct pool *pool); /* moves it from one pool to another; NULL: none */
void *line_alloc(size_t size); /* zeroed, on a cache line of its own; free() it; NULL when the host is out of memory */

/* facts.c */
void facts_write(struct block *block, const struct facts *facts);
void facts_write_freed(struct block *block, uint64_t now, uint64_t stream, uint64_t freed_by); /* the same, at its free */
struct facts facts_read(const struct block *block);
void facts_describe(const struct facts *facts, const struct slot *slot, uint64_t gap_start, cufence_buffer *out);
uint64_t now_ns(void);      /* CLOCK_MONOTONIC_COARSE: a few ns a call, good to a few ms; never 0 */
uint32_t facts_tid(void);   /* the calling thread's */
uint32_t facts_stack(void); /* where in Python this is called from */

/* index.c: live buffers by the address of their first byte, and by any address in them */
cufence_status index_open(void);
void index_close(void);              /* undoes index_open(); no buffer has been in it */
void index_add(struct block *block); /* a held one: it is live then */
struct block *index_find(uint64_t address);
struct block *index_holding(uint64_t address); /* the live buffer that begins nearest at or below the address, or NULL */
struct block *index_claim(uint64_t address);   /* NULL: no live buffer starts there; else the caller holds the block */

/* bell.c: the background thread's sleep */
void bell_ring(void);                                /* there is something to do; any thread, CUDA's own too */
int bell_wait(uint64_t nanoseconds, int is_polling); /* 0: bell_stop() was called. Polling, it does not hear the bell */
void bell_stop(void);
void bell_reset(void);

/* ---- books.c: what the heap knows of a context ---- */

/* A point on a stream: every free up to `sequence` lies before it. */
struct marker {
    CUevent event;
    uint64_t sequence;
};

/*
 * The freed blocks of one stream, outside of captures or of one pool. A context's shared list is no stream's: what is idle
 * there may be used by any. Only it has blocks that wait; those of a pool that wait stay until the pool is gone.
 */
struct freelist {
    int lock; /* list_lock(): held for tens of nanoseconds, so a thread that finds it taken spins, and then lets others run */
    struct books *books;
    struct stream *stream; /* atomic; NULL: the shared list, or its stream is gone */
    struct pool *pool;
    struct block *bins[BINS];         /* idle ones, the latest first */
    struct block *waiting, *retiring; /* in order of their frees */
    uint64_t freed;                   /* sequence number of the last free */
    uint64_t passed;                  /* frees up to here are behind the stream */
    uint64_t snapshot;                /* `freed` when a synchronisation of the context began */
    uint64_t marked;                  /* sequence of the last marker */
    uint64_t marked_ns;
    struct marker markers[MARKERS]; /* a queue: the first `marker_count` are waiting */
    unsigned marker_count;
    uint64_t idle_pages;                    /* atomic; written under the list's lock */
    uint64_t waiting_count, retiring_count; /* atomic */
    uint64_t allocations, frees;
    int64_t live_bytes;    /* of its stream, less what has gone into the context's sum */
    struct facts *history; /* a ring of the buffers whose blocks have been taken for others since */
    size_t history_position, history_count, history_capacity;
    struct freelist *next; /* under RANK_BOOKS: of the context's, of its draining or spare ones, or of its pool's */
};

struct books {
    struct context *context;
    struct lock lock;
    struct freelist shared;
    struct freelist *lists;                    /* under lock, as all to `pools`: of streams that exist */
    struct freelist *draining, *draining_last; /* of streams that are gone, until their last marker has passed; oldest first */
    struct freelist *spares;
    struct pool *pools;
    unsigned active_pools; /* atomic: how many pools are between begin and end */
    struct lock events_lock;
    CUevent *events; /* spare ones */
    size_t event_count, event_capacity;
    uint64_t mapped_bytes, captured_bytes; /* atomic, as all below */
    uint64_t peak_mapped_bytes;
    uint64_t fresh, retired;
    uint64_t allocations, frees; /* of lists that have been given up */
    /* Away from what every allocation only reads. */
    _Alignas(CACHE_LINE) int64_t live_bytes; /* the free lists' own sums are to be added */
    int64_t peak_live_bytes;
};

/* NULL: it has none yet. */
static inline struct books *books_of(const struct context *context)
{
    return __atomic_load_n((struct books *const *)&context->books[CONTEXT_HEAP], __ATOMIC_ACQUIRE);
}

struct books *books_make(struct context *context); /* NULL: the host has no memory */
CUevent event_take(struct books *books);           /* NULL if the driver has none left. Expects a scope */
void event_give(struct books *books, CUevent event);

static inline uint64_t list_idle_pages(const struct freelist *list)
{
    return __atomic_load_n(&list->idle_pages, __ATOMIC_RELAXED);
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

/* ---- waits.c: who may still use a freed block ---- */

struct recorded {
    struct stream *stream;
    uint64_t generation; /* another one by now: the stream is gone */
};

struct wait {
    struct books *of;
    uint64_t generation; /* of its context: another one by now, and the work and the event are gone */
    CUevent event;       /* NULL: nothing tells but a synchronisation of the context that began after `waiting_since` */
};

enum awaits {
    AWAITS_OWN = 1,     /* a synchronisation of its own context, which takes no memory to note */
    AWAITS_FOR_EVER = 2 /* the host had no memory to note what: it stays out of use until the context is gone */
};

uint64_t waits_now(void);
/* Adds what `stream` has got by now; by its event where the stream can be touched, else by a synchronisation of its context. */
void waits_add(struct block *block, struct stream *stream, uint64_t generation);
void waits_add_context(struct block *block, struct books *of); /* all that a context has got by now */
void waits_add_all(struct block *block);                       /* all that any context has got by now */
int waits_are_over(struct block *block);                       /* asks the events; those that have passed are given back */
/* The context's synchronisation that began at `since` has ended. Returns whether nothing is left to wait for. */
int waits_synchronised(struct block *block, const struct books *of, uint64_t since);
void waits_forget(struct block *block);                               /* all of them */
void waits_drop_context(struct block *block, const struct books *of); /* that context is gone, and its events with it */
void waits_set_ending(const struct books *books);                     /* from now on no event of it is asked; NULL: none ends */
unsigned waits_foreign(void); /* atomic: how many blocks may be waiting for another context than theirs */

/* ---- markers.c: events behind the frees of a list; all but the first expect a scope ---- */

int freelist_is_unmarked(struct freelist *list);         /* frees have come since the last marker */
void freelist_mark(struct freelist *list, uint64_t now); /* puts a marker on the stream, which the caller can name */
void freelist_mark_touched(struct freelist *list, struct stream *stream, uint64_t now); /* RANK_TOUCH is held */
int freelist_pass(struct freelist *list); /* if nothing is left on the stream, all its frees have passed: no marker is needed */
void freelist_ask_markers(struct freelist *list); /* which have passed. Expects the list's lock */

/* ---- freelist.c; all but freelist_of(), freelist_take(), freelist_put() and freelist_count() expect a scope ---- */

struct freelist *freelist_make(struct stream *stream);

/* Made at its first use. NULL: the host has no memory. */
static inline struct freelist *freelist_of(struct stream *stream)
{
    struct freelist *list = __atomic_load_n((struct freelist **)&stream->books, __ATOMIC_ACQUIRE);
    return __builtin_expect(list != NULL, 1) ? list : freelist_make(stream);
}

/* Expects the lock of the books, without which the list may go with its graph. */
struct freelist *freelist_in_pool(struct books *books, struct stream *stream, struct pool *pool);
struct block *freelist_take(struct freelist *list, uint64_t pages, uint64_t waste, uint64_t size); /* and counts `size` bytes */
void freelist_count(struct freelist *list, uint64_t size); /* an allocation that another list or a mapping has served */
/* Gives a held block to the list: idle behind what its stream has got, WAITING or RETIRING with its waits. With PAST it is only
 * counted: the caller unmaps it. Counts its free. Returns whether a mark is due. */
int freelist_put(struct freelist *list, struct block *block, enum block_state state, uint64_t now);
void freelist_uncount(struct freelist *list, struct block *block); /* counts its free, and nothing else */
/* The newest buffer of the history that holds (exact: starts at) the address and is newer than *out. */
void freelist_recall(struct freelist *list, uint64_t address, int exact, struct facts *out);
void freelist_advance(struct freelist *list); /* looks which markers and waiting blocks have passed */
/* What has passed, the first fit of any stream's. Expects the lock of the books. */
struct block *freelist_steal(struct books *books, const struct freelist *thief, uint64_t pages, uint64_t waste);
/* Takes every idle block that has passed and was freed before `before_ns`, oldest first, at most `bytes`, into *gone. Returns
 * bytes. */
uint64_t freelist_take_old(struct freelist *list, uint64_t before_ns, uint64_t bytes, struct block **gone);
struct block *freelist_take_retired(struct freelist *list);          /* one that nobody uses any more, or NULL */
void freelist_take_idle(struct freelist *list, struct block **gone); /* whether it has passed or not */
void freelist_take_all(struct freelist *list, struct block **gone);  /* idle, waiting or retiring */
/* Moves all to the shared list: what has not passed, and what pools have held, waits for a synchronisation there. Expects the
 * lock of the books, as the next two. */
void freelist_give_up(struct freelist *list);
void freelist_recycle(struct freelist *list); /* an empty one that is in no list of lists: it serves another stream */
void freelist_drain(struct books *books);     /* gives up the lists of streams that are gone, once they have passed */
void freelist_end(struct freelist *list);     /* its stream is gone */
/* Around a synchronisation of the context: what was freed before the first call has passed at the second. */
void freelists_begin_sync(struct books *books);
void freelists_end_sync(struct books *books, uint64_t since);
void freelists_end_waits(struct books *books, uint64_t since); /* the same, for blocks that wait alone: needs no first call */

/* ---- pools.c: memory of graphs ---- */

/*
 * A buffer of a graph that was freed outside of the graph's capture. The graph's next launch allocates it again, at the same
 * address, so it stays in the index, and with the pool that it belongs to, until the graph is gone.
 */
enum returned {
    RETURNED = 1,         /* the program has freed it at least once */
    RETURNED_LISTED = 2,  /* it is in its pool's list */
    RETURNED_IDLE = 4,    /* whoever freed it had synchronised its context; else its waits are to be over */
    RETURNED_CAPTURED = 8 /* the free is part of another graph, which holds the pool */
};

struct pool {
    struct books *books;
    uint64_t id[2];
    unsigned references;    /* atomic: begins without release; of a capture's: what may launch the graph, and other graphs */
    int is_capture;         /* the pool of a capture that nobody named; constant */
    int is_unordered;       /* atomic; the capture's order was changed by hand: nothing in it is used twice */
    unsigned blocks;        /* atomic: in it, live or not */
    struct freelist *lists; /* under RANK_BOOKS, as all to `held_count` */
    CUgraph graph;          /* a capture's; NULL once another may have the handle */
    int is_auto_freed;      /* heap_graph_instantiated() */
    uint64_t launches;      /* atomic: while any block is returned */
    struct block *returned;
    struct pool **held; /* captures whose memory this one frees */
    size_t held_count;
    unsigned active; /* begins without end */
    cufence_pool_filter contains;
    void *user;
    void (*destroy)(void *);
    struct pool *next;
};

static inline int pool_is_held(const struct pool *pool)
{
    return __atomic_load_n(&pool->references, __ATOMIC_ACQUIRE) != 0;
}

/* Nothing that was freed in it is used again: what comes next may run beside the work that was before. */
static inline int pool_is_spent(const struct pool *pool)
{
    return pool && __atomic_load_n(&pool->is_unordered, __ATOMIC_RELAXED);
}

struct pool *pool_of(struct books *books, struct stream *stream); /* the pool that `stream` allocates from now, or NULL */
struct pool *pool_of_capture(struct books *books, CUstream stream, CUgraph *graph); /* of a stream that is captured, or NULL */
int pools_may_be_captured(void);                                                    /* some stream may be */
int pool_has_memory(const struct pool *pool);                                       /* expects RANK_BOOKS */
void pools_drop_lists(struct pool *pool); /* what it holds and nobody uses goes to the shared list; expects RANK_BOOKS */

/* ---- captured.c ---- */

/* Takes a held block that was freed outside of its capture, with its waits, and puts it back into the index. capture: the one
 * that frees it, or NULL. */
void capture_return(struct block *block, struct pool *capture, int is_idle);
void capture_forget(struct block *block);     /* it is not returned any more; by who holds it */
void capture_forget_all(struct books *books); /* the context is gone */
void captures_collect(struct books *books);   /* gives up what graphs that are gone have held. Expects a scope */
int captures_are_gone(void);                  /* some graph has gone since the last call */

/* ---- reclaim.c ---- */

/* Gives memory of a device back to the driver, harder with each level: 0 caches, 1 what has passed, 2 after synchronisations.
 */
void reclaim_device(const struct context *own, int device, int level); /* own: the one that the caller works in */
/* Around a look at another context than the caller's own, which may end meanwhile (heap_hold()). */
void visit_begin(void);
void visit_end(void);
void reclaim_retired(struct books *books); /* unmaps what is to be retired and has passed */
void reclaim_old(struct books *books);     /* what has been idle too long, or is too much */

/* worker.c */
cufence_status worker_start(void);
void worker_stop(void); /* returns when it no longer calls the driver */

/* Of another device than its context: it serves one buffer only. */
static inline int block_is_elsewhere(const struct block *block)
{
    return block->slot.device != block->books->context->device;
}

extern const struct options *heap_options;
extern uint64_t heap_granularity; /* of mappings, bytes */

#endif
