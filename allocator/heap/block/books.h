/*
 * What the heap keeps of a context: its free lists, its pools, its unused events, and its figures.
 */
#pragma once

#include "wake.h"
#include "index.h"
#include "base/lock.h"

#include <limits.h>

#include <utlist.h>

#define BINS_EXACT 64 /* page counts up to here have a bin each; above, eight bins per power of two */
#define BINS_PAGES (BINS_EXACT + 8 * 24)
#define BINS (BINS_PAGES + CELLS_CLASSES) /* and one for each class of cells (pack.h) */
#define MARKERS 8
#define KEPT_MOST 8

/* Zeros: it is in none. */
void block_pool_id(const struct block *block, uint64_t id[2]);

extern const struct options *heap_options;
static const uint64_t heap_granularity = 2ull << 20; /* of mappings, in bytes */

/*
 * A graph's buffer that was freed outside of the graph's capture. The next launch of the graph allocates it again at the same
 * address, so it stays in the index and in its pool until the graph is destroyed.
 */
enum returned {
    RETURNED = 1,        /* freed at least once by the program */
    RETURNED_LISTED = 2, /* in its pool's list */
    RETURNED_IDLE = 4    /* whoever freed it had synchronised its context; if not set, its waits must end first */
};

/* What was passed to a pool's begin. */
struct pool_user {
    cufence_pool_filter contains;
    void *user;
    void (*destroy)(void *);
    struct pool_user *next; /* of those whose destroy() is due */
};

struct pool {
    struct books *books;
    uint64_t id[2];
    unsigned references; /* atomic: begins minus releases; of a capture: its graph, executables, and graphs that hold it */
    int is_capture;      /* the pool of a capture without a named pool; constant */
    int is_lost;         /* atomic; the capture has ended with its stream, and there will never be a graph */
    int is_own;          /* atomic; its latest capture was into a graph of the program, which outlives the stream */
    int is_followed;     /* atomic; its graph tells its end. A capture's pools in several contexts each have that */
    int has_others;      /* atomic; the capture has pools in other contexts, too */
    int is_unordered;    /* atomic; what is captured later may run beside what is captured already: nothing in it is reused */
    unsigned blocks;     /* atomic: blocks in it, live or not */
    struct freelist *lists; /* under RANK_BOOKS, like everything to `held_count` */
    CUgraph graph;          /* of a capture; NULL once another graph may have the handle */
    uint64_t launched;      /* atomic: the number of its latest launch; see capture_memory.c */
    struct pool *earlier;   /* atomic; of an earlier capture into the same graph, or NULL */
    struct block *returned;
    struct pool **held; /* captures whose memory this graph frees */
    size_t held_count;
    struct pool_user *begun; /* atomic; between begin and end, else NULL */
    int may_lend;            /* what it keeps may be given to others when the device is full */
    struct pool *next;
};

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
    uint64_t freed_at;                /* waits_clock at the last free */
    int is_launching;                 /* freelist_launches() */
    uint64_t checked;                 /* sequence of the last such launch */
    uint64_t marked;                  /* sequence of the last marker */
    uint64_t mark_at, mark_at_ns;     /* a marker is due from this free or time on */
    struct marker markers[MARKERS];   /* a queue; the first `marker_count` are pending */
    unsigned marker_count;
    uint64_t idle_pages, idle_cell_bytes;   /* atomic; written under the list lock */
    uint64_t waiting_count, retiring_count; /* atomic */
    uint64_t retired;                       /* atomic: how many freed buffers were unmapped */
    uint64_t allocations, frees;
    int64_t live_bytes;    /* of its stream, minus what was added to the context's sum */
    int64_t most_bytes;    /* their peak since then */
    struct facts *history; /* a ring of buffers whose blocks have since been reused */
    size_t history_position, history_count, history_capacity;
    size_t learned;                  /* history_position when adaptive.c looked last */
    struct slack_queue *slack_queue; /* atomic; slack.h; NULL: nothing was ever queued */
    struct freelist *next;           /* in the context's lists, draining or spare ones, or in its pool's; under RANK_BOOKS */
};

/* Which small buffers share pages from now on: none, every second of a place of allocation, all but a few (cells.h). */
enum packing { PACKING_NONE, PACKING_HALF, PACKING_ALL };

struct books {
    struct context *context;
    struct lock lock;
    struct lock visit; /* visit_begin() */
    int visit_cancel;  /* the visitor's cancel state before; under that lock */
    int is_ending;     /* waits_set_ending(); written under RANK_WAITS; atomic */
    unsigned guests;   /* atomic; between books_enter() and books_leave() */
    struct freelist shared;
    struct freelist *lists;                    /* of existing streams; under lock, like everything to `pools` */
    struct freelist *draining, *draining_last; /* of destroyed streams, until their last marker has passed; oldest first */
    struct freelist *spares;
    struct pool *pools;
    unsigned active_pools; /* atomic: number of pools between begin and end */
    enum packing packing;  /* atomic */
    struct lock events_lock;
    CUevent *events; /* unused ones */
    size_t event_count, event_capacity;
    unsigned events_missed;                /* atomic: since the stock was filled */
    uint64_t mapped_bytes, captured_bytes; /* atomic, like everything below */
    uint64_t peak_mapped_bytes;
    uint64_t peak_used_bytes; /* mapped and not idle, as far as was looked */
    uint64_t fresh, fresh_bytes, retired;
    uint64_t mappings, peak_mappings;                   /* those in mapped_bytes */
    uint64_t limit;                                     /* mapped_bytes stays below; 0: none */
    uint64_t replaced;                                  /* blocks in retiring lists whose memory a twin has taken over */
    uint32_t coming[BINS];                              /* blocks that a thread is retiring, by size */
    uint64_t alone_bytes;                               /* mapped for small buffers that share no page */
    uint64_t alone_most;                                /* max_overhead in bytes; 0: not known yet */
    uint64_t packed_mapped;                             /* packed pages; part of mapped_bytes */
    uint64_t packed_buffers, packed_bytes, packed_ever; /* live ones, and since the start */
    struct watch *watch;                                /* slack.h; NULL: nothing was ever watched */
    uint64_t kept[KEPT_MOST];                           /* books_keep(); 0: none */
    struct stream own;                                  /* books_stream(); its handle is atomic, NULL: not created yet */
    struct lock pack_lock;
    uint64_t freed_seen; /* frees that adaptive.c knows of; by the background thread */
    struct page *pages[CELLS_CLASSES],
        *spare_pages[CELLS_CLASSES]; /* those with cells in them; unmapped ones. Under pack_lock */
    /* On a cache line apart from fields that every allocation reads. */
    _Alignas(CACHE_LINE) int64_t live_bytes; /* the free lists' own sums come on top */
    int64_t peak_live_bytes;
};

/* The figures of books and lists, which any thread reads and changes, in no order with anything else. figure_add() and
 * figure_sub() return the sum. */
static inline uint64_t figure(const uint64_t *of)
{
    return __atomic_load_n(of, __ATOMIC_RELAXED);
}

static inline void figure_set(uint64_t *of, uint64_t value)
{
    __atomic_store_n(of, value, __ATOMIC_RELAXED);
}

static inline uint64_t figure_add(uint64_t *of, uint64_t more)
{
    return __atomic_add_fetch(of, more, __ATOMIC_RELAXED);
}

static inline uint64_t figure_sub(uint64_t *of, uint64_t less)
{
    return __atomic_sub_fetch(of, less, __ATOMIC_RELAXED);
}

/* NULL: not created yet. */
static inline struct books *books_of(const struct context *context)
{
    return __atomic_load_n((struct books *const *)&context->books[CONTEXT_HEAP], __ATOMIC_ACQUIRE);
}

/* Iterates over those of the living contexts of a device (-1: all); NULL starts. */
struct books *books_next(const struct books *previous, int device);
/* Iterates over all lists of the books except those of pools, the shared one first; NULL starts. Caller holds books->lock. */
struct freelist *freelist_next(struct books *books, const struct freelist *previous);
struct books *books_make(struct context *context); /* NULL: out of host memory */
struct stream *
books_stream(struct books *books); /* cufence's own, which no other waits for. NULL if the driver fails. In a scope */
void books_forget_stream(struct books *books); /* the context was destroyed */

/*
 * Unused events, made ahead: to create one waits for every stream of the context whose queue is full. events_fill() is called
 * when the context begins, and by the background thread. event_take(): NULL if there is none. event_make(): creates one then,
 * for callers that natively create one; NULL if the driver fails. All in a scope.
 */
void events_fill(struct books *books);
CUevent event_take(struct books *books);
CUevent event_make(struct books *books);
void event_give(struct books *books, CUevent event);

/* Bracket work in a context other than the caller's own, which may be destroyed at any time (heap_hold()). Gives up after
 * `patience_ms`, and returns 0: another thread is in the context, or it ends. */
int visit_begin(struct books *books, unsigned patience_ms);
void visit_end(struct books *books);
#define VISIT_FOR_EVER UINT_MAX

/* Bracket what a thread does for a moment with memory of a context that another may end, which then waits:
 * books_await_guests(). books_enter() returns 0 if it ends right now, or has ended. */
int books_enter(struct books *books);
void books_leave(struct books *books);
void books_await_guests(struct books *ending, unsigned patience_ms);

/* The mapping at `base` is needed for a report: the heap neither uses it again nor unmaps it until books_let_go() (0: all), nor
 * does it retire others before there are many: a launch that is done again for the report reaches more. books_keep() returns 0
 * if KEPT_MOST are needed already. */
int books_keep(struct books *books, uint64_t base);
void books_let_go(struct books *books, uint64_t base);
int books_keeps(const struct books *books, uint64_t base); /* 0: any */

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
