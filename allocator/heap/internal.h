/*
 * What the files of heap/ share.
 *
 * A block is a slot of the arena and the buffer in it, if any. It is in one place: in the index (live), in a free list
 * (idle, waiting for other streams, or waiting to be retired), in the hands of one thread, or only in the arena's books (past).
 *
 * Lock order, from first to last; none is held over a driver call that can be slow, but contexts_lock over the making of a
 * context and freelist.lock over queries of events:
 *   arena's lock  (visits; `forget`)
 *   contexts_lock (the list of contexts)
 *   context.lock  (its free lists and pools, and what graphs have been returned)
 *   freelist.lock (its blocks)
 *   block.recorded_lock (a spin lock, for a few stores)
 *   events_lock   (a context's spare events)
 */
#ifndef CUFENCE_HEAP_INTERNAL_H
#define CUFENCE_HEAP_INTERNAL_H

#include "heap.h"
#include "vmm/arena.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <utlist.h>

/* Thread-local data of the fast path, without a call for its address. It comes out of the little room that the loader keeps
 * for libraries that are opened late: a few words in all. */
#define HOT_TLS __attribute__((tls_model("initial-exec"))) _Thread_local

#define CACHE_LINE 64ul
#define BINS_EXACT 64 /* page counts up to here have a bin each; above, eight bins a doubling */
#define BINS (BINS_EXACT + 8 * 24)
#define MARKERS 8

/* The facts of one buffer, in words that can be copied one by one; first what a free reads or writes. */
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

/*
 * Laid out for programs with more buffers than the caches hold: an allocation that reuses a block touches the first three
 * lines, a free the second and the third. The owner writes the facts; anybody may read them at any time: `version` is odd while
 * they change (facts_write(), facts_read()).
 */
struct block {
    struct slot slot; /* first: the arena hands it back */

    _Alignas(CACHE_LINE) struct heap_context *context;
    struct pool *pool; /* graph memory; atomic, written by the owner */
    uint64_t version;
    struct facts facts; /* of the buffer in it, or of the last one; id 0: none yet. Five words here, four in the next line */

    struct block *prev, *next;
    uint64_t free_sequence; /* in its freelist */
    uint32_t pages : 24;    /* of the mapping, in units of the granularity */
    uint32_t owner : 8;     /* what its allocation named; written by the owner of the block */
    uint16_t recorded_count, event_count;

    CUstream *recorded; /* further streams that use it, under recorded_lock while live */
    CUevent *events;    /* to pass before it may be used or unmapped; of the freelist it waits in */
    pthread_spinlock_t recorded_lock;
    uint32_t returned;          /* enum returned; written by the owner, LISTED under context.lock */
    uint64_t returned_launches; /* of its graph, at its latest return */
};
_Static_assert(offsetof(struct block, context) == CACHE_LINE && offsetof(struct block, recorded) == 3 * CACHE_LINE,
               "a free needs the second and the third line");

/*
 * A buffer of a graph that was freed outside of the graph's capture. The graph's next launch allocates it again, at the same
 * address, so it stays in the index, and with the pool that it belongs to, until the graph is gone.
 */
enum returned {
    RETURNED = 1,         /* the program has freed it at least once */
    RETURNED_LISTED = 2,  /* it is in its pool's list */
    RETURNED_IDLE = 4,    /* whoever freed it had synchronised its context; else `events` are to pass */
    RETURNED_CAPTURED = 8 /* the free is part of another graph, which holds the pool */
};

/* A point on a stream: every free up to `sequence` lies before it. */
struct marker {
    CUevent event;
    uint64_t sequence;
};

/* The freed blocks of one stream (and one pool). */
struct freelist {
    int lock; /* list_lock(): held for tens of nanoseconds, so a thread that finds it taken spins, and then lets others run */
    struct heap_context *context;
    CUstream stream;
    uint64_t thread; /* with the per-thread default stream: whose; else 0 */
    struct pool *pool;
    struct block *bins[BINS]; /* idle ones, the latest first */
    struct block *waiting;    /* for recorded streams; in order of their frees */
    struct block *retiring;   /* uaf=strict: to be unmapped once their events have passed; in order of their frees */
    uint64_t freed;           /* sequence number of the last free */
    uint64_t passed;          /* frees up to here are behind the stream */
    uint64_t snapshot;        /* `freed` when the last synchronisation of the context began */
    uint64_t marked;          /* sequence of the last marker */
    uint64_t marked_ns;
    struct marker markers[MARKERS]; /* a queue: the first `marker_count` are waiting */
    unsigned marker_count;
    uint64_t idle_pages;
    uint64_t waiting_count, retiring_count;
    uint64_t allocations, frees;
    int64_t live_bytes;    /* of its stream, less what has gone into the context's sum */
    struct facts *history; /* a ring of the buffers whose blocks have been taken for others since */
    size_t history_position, history_count, history_capacity;
    struct freelist *next; /* of the context; never removed */
};

/* Whose it is: that of a stream that is destroyed becomes HEAP_UNORDERED's, at any time. */
static inline CUstream list_stream(const struct freelist *list)
{
    return __atomic_load_n(&list->stream, __ATOMIC_RELAXED);
}

static inline void list_lock(struct freelist *list)
{
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
}

struct pool {
    struct heap_context *context;
    uint64_t id[2];
    unsigned references; /* atomic: begins without release; of a capture's: what may launch the graph, and other graphs */
    int is_capture;      /* the pool of a capture that nobody named; constant */
    unsigned blocks;     /* atomic: in it, live or not */
    CUgraph graph;       /* a capture's, under context.lock, as all to `held_count`; NULL once another may have the handle */
    int is_auto_freed;   /* heap_graph_instantiated() */
    uint64_t launches;   /* atomic: while any block is returned */
    struct block *returned;
    struct pool **held; /* captures whose memory this one frees */
    size_t held_count;
    unsigned active; /* begins without end */
    cufence_pool_filter contains;
    void *user;
    void (*destroy)(void *);
    struct pool *next;
};

struct heap_context {
    CUcontext handle;
    unsigned long long unique; /* cuCtxGetId, 0 if the driver has none */
    int device;
    int is_primary;
    int is_faulted;
    int is_dead; /* destroyed by the program; atomic */
    pthread_mutex_t lock;
    struct freelist *freelists; /* append-only list, read without the lock */
    struct pool *pools;
    unsigned active_pools; /* atomic: how many pools are between begin and end */
    pthread_mutex_t events_lock;
    CUevent *events; /* spare ones */
    size_t event_count, event_capacity;
    uint64_t mapped_bytes, captured_bytes; /* atomic, as all below */
    uint64_t peak_mapped_bytes;
    uint64_t fresh, retired;
    /* Away from what every allocation only reads. */
    _Alignas(CACHE_LINE) int64_t live_bytes; /* the free lists' own sums are to be added */
    int64_t peak_live_bytes;
};

/* context.c */
void context_set_hook(void (*hook)(CUcontext context, int device));
void *line_alloc(size_t size); /* zeroed, on a cache line of its own; free() it; NULL when the host is out of memory */
struct heap_context *context_for(int device, cufence_status *status);   /* -1: the current one */
struct heap_context *context_known(CUcontext handle);                   /* NULL: it has no buffers, or is gone */
struct heap_context *context_latest(CUcontext handle);                  /* without asking the driver, which has let it go */
void context_forget(struct heap_context *context);                      /* it is dead: the next one may have its handle */
struct heap_context *context_next(const struct heap_context *previous); /* all contexts, NULL first */
struct freelist *freelist_for(struct heap_context *context, CUstream stream, struct pool *pool);
CUevent event_take(struct heap_context *context); /* NULL if the driver has none left */
void event_give(struct heap_context *context, CUevent event);

/* Makes a context current and the thread's captures relaxed, for driver calls that must work whatever the caller is doing. */
struct scope {
    CUstreamCaptureMode mode;
    int pushed;
};
struct scope scope_enter(struct heap_context *context);
void scope_leave(struct scope scope);

/* facts.c */
void facts_write(struct block *block, const struct facts *facts);                              /* by the owner of the block */
void facts_write_freed(struct block *block, uint64_t now, uint64_t stream, uint64_t freed_by); /* the same, at its free */
struct facts facts_read(const struct block *block);
void facts_describe(const struct facts *facts, const struct slot *slot, uint64_t gap_start, cufence_buffer *out);

/* index.c: live buffers by the address of their first byte, and by any address in them */
cufence_status index_open(void);
void index_close(void); /* undoes index_open(); no buffer has been in it */
void index_add(struct block *block);
struct block *index_find(uint64_t address);
struct block *index_holding(uint64_t address); /* NULL: no live buffer's first byte lies within reach below, see there */
struct block *index_remove(uint64_t address);  /* NULL: no live buffer starts there; else the caller owns the block */

/* freelist.c; all but freelist_take() expect an entered scope */
struct block *freelist_take(struct freelist *list, uint64_t pages, uint64_t waste, uint64_t size); /* and counts `size` bytes */
void freelist_count(struct freelist *list, uint64_t size); /* an allocation that another list or a mapping has served */
void block_forget_events(struct block *block);
enum freed_state { FREED_IDLE, FREED_WAITING, FREED_RETIRING, FREED_GONE /* only counted: the caller unmaps it */ };
int freelist_put(struct freelist *list, struct block *block, enum freed_state state,
                 uint64_t now);                               /* and counts it; 1: a mark is due */
void freelist_mark(struct freelist *list, uint64_t now);      /* puts a marker on the stream, which must exist */
void freelist_mark_rest(struct freelist *list, uint64_t now); /* the same, where frees have come since the last one */
struct block *freelist_take_passed(struct freelist *list, uint64_t pages, uint64_t waste);
void freelist_advance(struct freelist *list); /* looks which markers and waiting blocks have passed */
void freelist_retire(struct freelist *list);  /* unmaps what has passed of `retiring` */
/* freelist_trim unmaps idle blocks that have passed and were freed before `before_ns`, oldest first, at most `bytes`; returns
 * bytes. */
/* The newest buffer of the history that holds (exact: starts at) the address and is newer than *out. */
void freelist_recall(struct freelist *list, uint64_t address, int exact, struct facts *out);
uint64_t freelist_trim(struct freelist *list, uint64_t before_ns, uint64_t bytes);
struct block *freelist_take_idle(struct freelist *list); /* whether it has passed or not; NULL: there is none */
/* Takes every block that waits or is idle out of the list of a context that has been destroyed, one a call; NULL: no more. */
struct block *freelist_take_any(struct freelist *list);
/* Around a synchronisation of the context: what was freed before the first call has passed at the second. */
void freelist_begin_sync(struct freelist *list);
void freelist_end_sync(struct freelist *list);

/* pools.c */
struct pool *pool_of(struct heap_context *context, CUstream stream); /* the pool that `stream` allocates from now, or NULL */

/* captured.c */
struct pool *capture_pool(struct heap_context *context, CUstream stream); /* the same, where nobody has named the pool */
/* Takes a block that was freed outside of its capture, with the events to pass in it. capture: the one that frees it, or NULL.
 * The caller puts it back into the index. */
void capture_return(struct block *block, struct pool *capture, int is_idle);
void capture_forget(struct block *block);            /* it is not returned any more; by its owner */
void captures_collect(struct heap_context *context); /* gives up what graphs that are gone have held. Expects a scope */
int captures_are_gone(void);                         /* some graph has gone since the last call */

/* Moves a block from one pool to another; NULL: none. */
void pool_join(struct block *block, struct pool *pool);

static inline int pool_is_held(const struct pool *pool)
{
    return __atomic_load_n(&pool->references, __ATOMIC_ACQUIRE) != 0;
}

/* worker.c */
cufence_status worker_start(void);
void worker_stop(void); /* returns when it no longer calls the driver */
void worker_wake(void); /* there is something to retire */
/* Gives memory back to the driver, harder with each level: 0 caches, 1 what has passed, 2 after a synchronisation.
 * Expects an entered scope. */
void reclaim(struct heap_context *context, int level);

/* describe.c */

/* heap.c */
uint64_t now_ns(void);                 /* CLOCK_MONOTONIC_COARSE: a few ns a call, good to a few ms */
void block_unmap(struct block *block); /* of an idle or retired block; it belongs to the past then */
extern unsigned heap_faulted;          /* atomic: how many contexts have faulted */
extern const struct options *heap_options;
extern uint64_t heap_granularity; /* of mappings, bytes */

#endif
