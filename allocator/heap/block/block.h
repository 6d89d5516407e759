/*
 * A block, which is a slot of the arena with the buffer in it, if any, and the data of its buffer.
 */
#pragma once

#include "heap/heap.h"
#include "guard/cells.h"
#include "guard/layout.h"
#include "vmm/arena.h"
#include "base/lock.h"

#include <assert.h>
#include <stddef.h>

#define CACHE_LINE 64ul

/* ---- block_facts.c: the data of one buffer ---- */

/* An array of words, copied one by one. What a free reads or writes comes first. */
struct facts {
    uint64_t address, size;
    uint64_t who; /* thread ids and the stack of the free, see facts_freed_by() */
    uint64_t free_stream, freed_ns;
    uint64_t id, stream, allocated_ns;
    uint64_t label; /* const char * (0: none) and the stack of the allocation, see facts_label() */
};

/* Thread ids are below 2^22 (the kernel's PID_MAX_LIMIT), user addresses below 2^48, stack numbers below 2^16. */
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

/*
 * The states of a block, and who may change it in each of them:
 *
 *      block_map()
 *           |        index_add()
 *           v     ----------------->  LIVE      in the index: it is a buffer. Whoever succeeds in index_claim() holds it then
 *         HELD    <-----------------
 *      by one       index_claim()
 *      thread,
 *      which may    freelist_put()    IDLE      in a bin of a free list, for the next buffer. Under the list lock, as the next
 * two change all ----------------->  WAITING   in a free list until its waits are over; then idle of it      <-----------------
 * RETIRING  likewise, but then unmapped; its twin, if it has one, then becomes idle |      out of the list
 *           |
 *           v
 *         PAST                                  unmapped; nobody changes it, and the arena forgets it one day
 */
enum block_state { BLOCK_HELD, BLOCK_LIVE, BLOCK_IDLE, BLOCK_WAITING, BLOCK_RETIRING, BLOCK_PAST };

/*
 * What makes an allocation or a free less than simple. heap_free() tests the bits of the block and those of the heap as one
 * word; heap_allocate() those of the heap. If all are 0, a buffer moves between the index and the list of its stream.
 */
enum rare {
    /* Of a block (block->rare), changed by its holder unless it says otherwise. */
    RARE_RECORDED = 1 << 0, /* other streams use it: recorded_count is not 0. Under recorded_lock */
    RARE_TWIN = 1 << 1,     /* twin_count is not 0. Under RANK_TWINS */
    RARE_GRAPH =
        1 << 2, /* a node of a graph or a texture has the buffer: a launch may use it long after its free. Any thread */
    RARE_LEAVING = 1 << 3,     /* and it was freed, and counts in blocks_leaving until it is unmapped */
    RARE_SYNCHRONOUS = 1 << 4, /* heap_set_synchronous(). Any thread */
    RARE_ELSEWHERE = 1 << 5,   /* its memory is on another device than its context: never reused for another buffer */
    RARE_CELL = 1 << 6,        /* block_is_cell(). Constant */
    RARE_POOL = 1 << 7,        /* its memory is a pool's: block->pool. By block_join() */

    /* Of the heap (heap_rare). Never cleared unless it says otherwise. */
    RARE_CAPTURES = 1 << 8,    /* a stream may be capturing. Set and cleared under RANK_CAPTURES (progress.c) */
    RARE_POISON = 1 << 9,      /* bytes were poisoned */
    RARE_STRICT = 1 << 10,     /* uaf=strict: each freed buffer is unmapped. By heap_open(), like the next three */
    RARE_FILL_FREED = 1 << 11, /* fill=.../FREED */
    RARE_FILL_FRESH = 1 << 12, /* fill=FRESH */
    RARE_ALTERNATES = 1 << 13, /* side=alternate */
    RARE_PACKING = 1 << 14,    /* some context packs small buffers */
    RARE_ALIGNMENT = 1 << 15,  /* some place of allocation needs a larger alignment than the option gives */
    RARE_POOL_BEGUN = 1 << 16, /* times the number of pools between begin and end, which the bits above count */

    RARE_OPTIONS = RARE_STRICT | RARE_FILL_FREED | RARE_FILL_FRESH | RARE_ALTERNATES,
    RARE_ALLOCATIONS_ONLY = RARE_FILL_FRESH | RARE_ALTERNATES | RARE_PACKING | RARE_ALIGNMENT,
    RARE_NOT_OF_LISTS = RARE_POISON | RARE_STRICT | RARE_FILL_FREED | RARE_ALTERNATES | RARE_ALIGNMENT /* of allocations */
};
extern unsigned heap_rare; /* atomic */

/*
 * Laid out for programs with more buffers than fit in the caches: an allocation that reuses a block touches the first three
 * cache lines, a free the second and the third (and the first for struct heap_freed). Only the thread that holds the block
 * writes it. Any thread may read the facts at any time: `version` is odd while they change (facts_write(), facts_read()).
 */
struct block {
    struct slot slot; /* must be first: the arena passes it back */
    uint8_t owner;    /* heap_request.owner */

    _Alignas(CACHE_LINE) struct books *books; /* of its context; constant while mapped */
    struct pool *pool;                        /* for graph memory, else NULL; atomic */
    uint64_t version;
    struct facts facts; /* of the current or the last buffer; id 0: none yet. Five words here, four in the next line */

    struct block *prev, *next;
    uint64_t free_sequence; /* position in its free list */
    uint32_t pages : 22; /* of the mapping, in units of the granularity; constant while mapped, like the next two. See pack.h */
    uint32_t is_alone : 1;   /* mapped for a small buffer; a twin's as well */
    uint8_t rare;            /* atomic; enum rare */
    uint8_t state;           /* enum block_state; atomic; block_become() */
    uint8_t is_counted : 1;  /* counted as allocated and not yet freed */
    uint8_t is_replaced : 1; /* retiring, while a twin goes on with its memory */
    uint8_t is_blank : 1;    /* a cell that was never handed out: all of it has the pattern */
    uint16_t tag;            /* index.c */

    struct stream_ref *recorded; /* other streams that use it; under recorded_lock while live */
    struct wait *waits;          /* pending uses; owned by the holder, or guarded by the lock of the list that it waits in */
    uint64_t waiting_since;      /* waits_now() when the last wait was added */
    pthread_spinlock_t recorded_lock;
    uint16_t recorded_count, wait_count;
    uint32_t returned;       /* enum returned; LISTED under RANK_BOOKS */
    uint32_t awaits_context; /* enum awaits: what it waits for besides events */
    uint64_t returned_after; /* how many launches of graphs came before its latest return */
    struct pool *freed_by;   /* another graph that frees it, and holds its pool, or NULL; under RANK_BOOKS */
    CUdeviceptr node;        /* heap_request.node of its buffer */

    struct block *twin;      /* the next of its twins; see twin_add(). Under RANK_TWINS, like the count */
    uint32_t twin_count;     /* how many it has */
    uint32_t claims;         /* places of allocation that count on one of them; used by the background thread only */
    struct block *successor; /* of a retiring block: the twin that becomes idle when its waits are over, or NULL */
    uint64_t ids_at_free;    /* heap_ids() when its last buffer was freed; 0: unknown. Known for retired blocks only */
    struct slack *slack;     /* slack.h; NULL: not watched. Written by the holder */
    struct page *page;       /* pack.h; of a packed page, while it is mapped: its cells; of a cell: its page. Atomic */
};

/* Whether who frees it may wait where the driver would for what cufence does about it: PyTorch's class and the C API, which
 * create events of their own. The program's own calls must not. */
static inline int block_may_wait(const struct block *block)
{
    return !block->owner || block->owner == HEAP_TORCH;
}

/* Whether it is of a pool, whose memory belongs to no context. */
static inline int block_outlives_context(const struct block *block)
{
    return block->owner > HEAP_PLAIN && block->owner != HEAP_TORCH && !block->pool;
}

/* Moves a held block to the books of another context: its own has ended. */
void block_adopt(struct block *block, struct books *books);

extern unsigned blocks_leaving; /* atomic, as is the number of frees of blocks with RARE_GRAPH */
extern uint64_t blocks_given_freed;

/* The bits of a block. */
static inline unsigned block_rare(const struct block *block)
{
    return __atomic_load_n(&block->rare, __ATOMIC_RELAXED);
}

static inline void block_mark(struct block *block, enum rare bit)
{
    __atomic_or_fetch(&block->rare, (uint8_t)bit, __ATOMIC_RELAXED);
}

static inline void block_unmark(struct block *block, enum rare bit)
{
    __atomic_and_fetch(&block->rare, (uint8_t)~bit, __ATOMIC_RELAXED);
}

static inline int block_has(const struct block *block, enum rare bit)
{
    return (block_rare(block) & (unsigned)bit) != 0;
}

/* Those of the heap. */
static inline unsigned heap_rare_now(void)
{
    return __atomic_load_n(&heap_rare, __ATOMIC_SEQ_CST); /* RARE_POISON is set before poison_begin() asks the index */
}

static inline void heap_mark(enum rare bits)
{
    if (~heap_rare_now() & (unsigned)bits)
        __atomic_or_fetch(&heap_rare, (unsigned)bits, __ATOMIC_SEQ_CST);
}

static inline void heap_unmark(enum rare bits)
{
    __atomic_and_fetch(&heap_rare, ~(unsigned)bits, __ATOMIC_SEQ_CST);
}

/* What threads that do not hold a block may ask of it. All of it may be out of date at once. */
static inline enum block_state block_state_now(const struct block *block)
{
    return (enum block_state)__atomic_load_n(&block->state, __ATOMIC_RELAXED);
}

static inline uint64_t block_address_now(const struct block *block)
{
    return __atomic_load_n(&block->facts.address, __ATOMIC_RELAXED);
}

static inline struct books *block_books_now(const struct block *block)
{
    return __atomic_load_n(&block->books, __ATOMIC_RELAXED);
}

static inline struct pool *block_pool_now(const struct block *block)
{
    return __atomic_load_n(&block->pool, __ATOMIC_RELAXED);
}

/* NULL: it is no packed page. */
static inline struct page *block_page_now(const struct block *block)
{
    return __atomic_load_n(&block->page, __ATOMIC_ACQUIRE);
}

/* Whether a graph keeps it that the program has freed. */
static inline int block_is_returned_now(const struct block *block)
{
    return __atomic_load_n(&block->returned, __ATOMIC_RELAXED) != 0;
}

/*
 * A packed page is a held block whose mapping is cut into cells (guard/cells.h). Each cell is a block too: its slot is a piece
 * of the page's, so it is freed, reused, waited for, watched and described as any other block, and no part of that knows more
 * about it than block_is_cell(). What differs: it lies in a bin of its class, its redzones are watched also with slack=off, it
 * is never retired (only a page can be unmapped), and where others are unmapped it is given back to its page, which is unmapped
 * with its last cell.
 *
 * A new page is filled with the pattern first. Its cells then lie in the free list on whose stream that was done, as if they
 * had been freed there; those of the shared list are in the page until the pattern is there. A cell that is in its page is held
 * by it, and nobody uses it.
 */
struct page {
    struct block *block;
    struct cells cells;
    struct page *prev, *next;   /* pages of the class that have cells in them; under RANK_PACK, like everything to is_written */
    struct block *cells_inside; /* linked by `next` */
    uint32_t inside;            /* their number */
    int is_listed;
    int is_written;       /* the pattern was there, or in the order of the cells' list */
    struct block *blocks; /* the cells.count cells */
    uint64_t entries[];   /* of the index, for each cell */
};

/* block.pages of a cell: this, plus its class. No mapping is as large. */
#define CELL_PAGES (1u << 21)

static inline int block_is_cell(const struct block *block)
{
    return block->pages >= CELL_PAGES;
}

/* What a comment says of the caller's block; debug builds check it. */
static inline void block_expect(const struct block *block, enum block_state state)
{
    assert(block_state_now(block) == state);
    (void)block;
    (void)state;
}

/* Bracket access to the streams recorded for a block that is live. */
static inline void recorded_lock(struct block *block)
{
    lock_entered(RANK_RECORDED);
    pthread_spin_lock(&block->recorded_lock);
}

static inline void recorded_unlock(struct block *block)
{
    pthread_spin_unlock(&block->recorded_lock);
    lock_left(RANK_RECORDED);
}

_Static_assert(offsetof(struct block, owner) < CACHE_LINE && offsetof(struct block, books) == CACHE_LINE &&
                   offsetof(struct block, recorded) == 3 * CACHE_LINE,
               "a free needs the second and the third line");

/* Changes a block's state; no other function does. An invalid transition is reported as an internal error, and debug builds
 * abort. */
void block_become(struct block *block, enum block_state state);

/* Creates a mapping and a held block for it. On NULL, *status says why; a slot that could not be mapped becomes a past slot.
 * is_alone: it is for one small buffer, and counts in books->alone_bytes. */
struct block *block_map(struct books *books, int device, const struct layout *layout, int is_alone, cufence_status *status);
/* A held block in a slot of its own that maps the memory of `of`, which must stay mapped meanwhile. NULL: no memory, no address
 * space, or the driver failed. */
struct block *block_map_second(const struct block *of);
/* A held one, with its twins; they become past slots. Not a cell, nor one that is watched: see block_release() in pack.h. */
void block_unmap(struct block *block);
void block_forget(struct slot *slot);                    /* callback of the arena: frees a past one */
void block_join(struct block *block, struct pool *pool); /* moves it to another pool; NULL: none */
void *line_alloc(size_t size); /* zeroed and cache-line aligned; free() it; NULL if out of host memory */

/* ---- twins of a block ---- */

/*
 * A twin of a block is a second mapping of its memory, in a slot of its own, made ahead by the background thread. When a buffer
 * is freed and its block is to be retired, a twin takes the block's place at once: the program goes on with the same memory at
 * a new address, while the old address is unmapped as soon as the streams have passed. So retiring takes neither time nor
 * memory from the program. The twins of a block are a list; the one that takes its place inherits the others.
 */
uint32_t
twin_add(struct block *block); /* maps one more; returns how many it has then. 0: none, it is being unmapped or retired */
struct block *twin_take(struct block *block);      /* by its holder: a held block that now owns the memory, or NULL */
struct block *twins_take_all(struct block *block); /* its twins, linked by `twin`; they own nothing */
void twins_hold(void); /* until twins_go_on(), no block that is mapped is unmapped, and no other thread adds twins */
void twins_go_on(void);
uint64_t twins_mapped(void); /* in all */

/* ---- the facts of a block ---- */

/*
 * Readers (descriptions, reports) are rare and must not slow down the fast path, so a version guards the facts instead of a
 * lock. Each word is stored with release and loaded with acquire, so that a reader that sees a new word also sees the odd
 * version stored before it.
 *
 * Unrolled and inlined, so that the caller's words go straight into the block. A copy on the way costs 70 instructions, and its
 * wide loads would have to wait for the caller's stores.
 */
static inline void facts_write(struct block *block, const struct facts *facts)
{
    const uint64_t *from = (const uint64_t *)facts;
    uint64_t *to = (uint64_t *)&block->facts, version = __atomic_load_n(&block->version, __ATOMIC_RELAXED);
    __atomic_store_n(&block->version, version + 1, __ATOMIC_RELAXED);
#pragma GCC unroll 16
    for (size_t i = 0; i < FACTS_WORDS; i++)
        __atomic_store_n(&to[i], from[i], __ATOMIC_RELEASE);
    __atomic_store_n(&block->version, version + 2, __ATOMIC_RELEASE);
}

/* Likewise, at the free. */
static inline void facts_write_freed(struct block *block, uint64_t now, uint64_t stream, uint64_t freed_by)
{
    struct facts *facts = &block->facts;
    uint64_t version = __atomic_load_n(&block->version, __ATOMIC_RELAXED), who = facts->who | freed_by;
    __atomic_store_n(&block->version, version + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&facts->who, who, __ATOMIC_RELEASE);
    __atomic_store_n(&facts->free_stream, stream, __ATOMIC_RELEASE);
    __atomic_store_n(&facts->freed_ns, now, __ATOMIC_RELEASE);
    __atomic_store_n(&block->version, version + 2, __ATOMIC_RELEASE);
}

/* Of a held block with memory that no buffer has had yet: it counts as freed at that time. */
static inline void facts_write_none(struct block *block, uint64_t freed_ns)
{
    const struct facts facts = {.freed_ns = freed_ns};
    facts_write(block, &facts);
}

/* What the thread that holds the block may read, and has just written: word by word, for a wider load would wait until those
 * stores are in the cache. */
static inline void facts_copy(const struct block *block, struct facts *out)
{
    const uint64_t *from = (const uint64_t *)&block->facts;
    uint64_t *to = (uint64_t *)out;
#pragma GCC unroll 16
    for (size_t i = 0; i < FACTS_WORDS; i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

struct facts facts_read(const struct block *block);
void facts_describe(const struct facts *facts, const struct slot *slot, uint64_t gap_start, cufence_buffer *out);
uint64_t now_ns(void);      /* CLOCK_MONOTONIC_COARSE: a few ns per call, resolution a few ms; never 0 */
uint32_t facts_stack(void); /* the caller's stack */
uint64_t heap_ids(void);    /* buffer ids given out so far; threads hold up to 15 unused ones each */
/* Returns the next id. Ids ascend per thread; a thread takes several at a time, to keep threads off each other's cache line. */
uint64_t facts_next_id(void);
