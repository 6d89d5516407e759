#include "reuse.h"

#include "base/options.h"

#include <stdlib.h>

#define MARK_FREES 256     /* a marker costs about 500 ns in all (H100): 2 ns per free */
#define MARK_NS 5000000ull /* longest time between tries to record one while buffers are freed */
#define SCAN 16            /* blocks to look at in a bin of mixed sizes */
#define WAITING_SCAN 64    /* waiting blocks whose events are queried in one call */
#define RETIRING_SCAN 512  /* retiring blocks to look at for one of a size */
#define PAUSED_MOST 256    /* retiring blocks that wait for a report: with one finding after the other they would get no turn */

/* All of these require the list lock. */

static inline void put_idle(struct freelist *list, struct block *block)
{
    list_expect(list);
    struct block **bin = &list->bins[freelist_bin(block->pages)];
    block_become(block, BLOCK_IDLE);
    DL_PREPEND(*bin, block);
    list_count_idle(list, block->pages, 1);
}

static inline void remove_idle(struct freelist *list, struct block *block)
{
    list_expect(list);
    DL_DELETE(list->bins[freelist_bin(block->pages)], block);
    list_count_idle(list, block->pages, (uint64_t)-1);
    block_become(block, BLOCK_HELD);
}

struct block *freelist_pick(struct freelist *list, struct block *idle)
{
    remove_idle(list, idle);
    freelist_remember(list, &idle->facts);
    return idle;
}

/* Of watched blocks: the first whose last buffer was of the same size, because its pattern fits. */
static struct block *search_same(struct freelist *list, uint64_t pages, uint64_t size)
{
    list_expect(list);
    struct block *block;
    unsigned seen = 0;
    DL_FOREACH(list->bins[freelist_bin(pages)], block)
    {
        if (block->pages == pages && block->facts.size == size)
            return freelist_pick(list, block);
        if (++seen == SCAN)
            break;
    }
    return NULL;
}

/* Takes the first block of at least `pages`, at most `waste` percent larger, that was freed at `sequence` or before. */
static struct block *search(struct freelist *list, uint64_t pages, uint64_t waste, uint64_t sequence)
{
    list_expect(list);
    uint64_t most = pages + pages * waste / 100;
    for (unsigned bin = freelist_bin(pages), last = freelist_bin(most); bin <= last; bin++) {
        struct block *block;
        unsigned seen = 0;
        DL_FOREACH(list->bins[bin], block)
        {
            if (block->pages >= pages && block->pages <= most && block->free_sequence <= sequence)
                return freelist_pick(list, block);
            if (++seen == SCAN)
                break;
        }
    }
    return NULL;
}

#ifndef NDEBUG
#define VERIFY_EACH 32 /* allocations and frees of a list; it is walked then */

static uint64_t verify_bin(const struct freelist *list, unsigned bin)
{
    const struct block *block;
    uint64_t bytes = 0;
    DL_FOREACH(list->bins[bin], block)
    {
        block_expect(block, BLOCK_IDLE);
        assert(block->books == list->books && freelist_bin(block->pages) == bin && block->free_sequence <= list->freed);
        assert(!block->wait_count && !block->awaits_context && !block->recorded_count && !block->is_counted);
        bytes += bin < BINS_PAGES ? block->pages * heap_granularity : cells_bytes(heap_granularity, bin - BINS_PAGES);
    }
    return bytes;
}

static uint64_t verify_used(const struct freelist *list, const struct block *first, enum block_state state)
{
    const struct block *block;
    uint64_t count = 0;
    DL_FOREACH(first, block)
    {
        block_expect(block, state);
        assert(block->books == list->books && !block->recorded_count && !block->is_counted);
        count++;
    }
    return count;
}

/* Whether the list and its blocks are as their comments say. */
static void verify(const struct freelist *list)
{
    uint64_t bytes = 0;
    list_expect(list);
    if ((list->allocations + list->freed) % VERIFY_EACH)
        return;
    for (unsigned bin = 0; bin < BINS; bin++)
        bytes += verify_bin(list, bin);
    assert(bytes == list_idle_bytes(list));
    assert(verify_used(list, list->waiting, BLOCK_WAITING) == list->waiting_count);
    assert(verify_used(list, list->retiring, BLOCK_RETIRING) == list->retiring_count);
    assert(list->passed <= list->freed || list == &list->books->shared);
}
#else
#define verify(list) ((void)(list))
#endif

/* How many bytes a list may count on its own before adding them to the context's sum. The peak is exact to this much for each
 * stream; in return, threads that allocate small buffers don't contend for a cache line. */
#define UNKNOWN_BYTES (1 << 20)

/* Caller holds the list lock. */
static void count_bytes(struct freelist *list, int64_t bytes)
{
    list_expect(list);
    struct books *context = list->books;
    list->live_bytes += bytes;
    list->most_bytes = list->live_bytes > list->most_bytes ? list->live_bytes : list->most_bytes;
    if (list->live_bytes < UNKNOWN_BYTES && list->live_bytes > -UNKNOWN_BYTES)
        return;
    int64_t live = __atomic_fetch_add(&context->live_bytes, list->live_bytes, __ATOMIC_RELAXED) + list->most_bytes;
    int64_t peak = __atomic_load_n(&context->peak_live_bytes, __ATOMIC_RELAXED);
    while (live > peak &&
           !__atomic_compare_exchange_n(&context->peak_live_bytes, &peak, live, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    list->live_bytes = list->most_bytes = 0;
}

void freelist_count(struct freelist *list, uint64_t size)
{
    list_lock(list);
    list->allocations++;
    count_bytes(list, (int64_t)size);
    list_unlock(list);
}

struct block *freelist_take(struct freelist *list, uint64_t pages, uint64_t waste, uint64_t size)
{
    list_lock(list);
    int is_watched = __builtin_expect(heap_options->slack, 0) || __builtin_expect(pages >= CELL_PAGES, 0);
    struct block *block = is_watched ? search_same(list, pages, size) : NULL;
    if (!block)
        block = search(list, pages, waste, UINT64_MAX);
    if (block) {
        list->allocations++;
        count_bytes(list, (int64_t)size);
    }
    verify(list);
    list_unlock(list);
    return block;
}

/* ---- frees ---- */

/* Caller holds the list lock. */
static inline void put(struct freelist *list, struct block *block, enum block_state state)
{
    list_expect(list);
    block->free_sequence = ++list->freed;
    list->freed_at = __atomic_load_n(&waits_clock, __ATOMIC_RELAXED);
    if (state == BLOCK_IDLE) {
        put_idle(list, block);
    } else if (state != BLOCK_PAST) {
        int is_waiting = state == BLOCK_WAITING;
        block_become(block, state);
        DL_APPEND(*(is_waiting ? &list->waiting : &list->retiring), block);
        __atomic_add_fetch(is_waiting ? &list->waiting_count : &list->retiring_count, 1, __ATOMIC_RELAXED);
    }
}

/* Takes a block that is waiting or retiring out of the list. */
static void remove_used(struct freelist *list, struct block *block)
{
    list_expect(list);
    int is_waiting = block->state == BLOCK_WAITING;
    DL_DELETE(*(is_waiting ? &list->waiting : &list->retiring), block);
    __atomic_sub_fetch(is_waiting ? &list->waiting_count : &list->retiring_count, 1, __ATOMIC_RELAXED);
    block_become(block, BLOCK_HELD);
}

/* Caller holds the list lock. */
static void count_free(struct freelist *list, struct block *block)
{
    list_expect(list);
    if (!block->is_counted)
        return;
    block->is_counted = 0;
    list->frees++;
    count_bytes(list, -(int64_t)block->facts.size);
}

void freelist_uncount(struct freelist *list, struct block *block)
{
    list_lock(list);
    count_free(list, block);
    list_unlock(list);
}

int freelist_put(struct freelist *list, struct block *block, enum block_state state, uint64_t now)
{
    list_lock(list);
    count_free(list, block);
    put(list, block, state);
    int is_due = (list->freed >= list->mark_at || now >= list->mark_at_ns) && !list->pool && list->stream;
    if (is_due) {
        list->mark_at = list->freed + MARK_FREES; /* also if none can be recorded, as on a stream that lags */
        list->mark_at_ns = now + MARK_NS;
    }
    verify(list);
    list_unlock(list);
    wake_sleeping_worker();
    return is_due;
}

void freelist_move(struct freelist *list, struct block *block, enum block_state state)
{
    list_lock(list);
    put(list, block, state);
    list_unlock(list);
}

/* ---- what has passed ---- */

void freelist_advance(struct freelist *list)
{
    struct block *block, *next;
    unsigned asked = 0;
    list_lock(list);
    freelist_ask_markers(list);
    if (!list->pool) {
        DL_FOREACH_SAFE(list->waiting, block, next)
        {
            if (block->awaits_context) /* events don't tell */
                continue;
            if (asked++ == WAITING_SCAN)
                break;
            if (waits_are_over(block)) {
                remove_used(list, block);
                put_idle(list, block);
            }
        }
    }
    list_unlock(list);
}

static struct block *take_passed(struct freelist *list, uint64_t pages, uint64_t waste)
{
    list_lock(list);
    struct block *block = NULL;
    if (list_has_idle(list)) {
        freelist_ask_markers(list);
        block = search(list, pages, waste, list->passed);
    }
    list_unlock(list);
    return block;
}

struct block *freelist_steal(struct books *books, const struct freelist *thief, uint64_t pages, uint64_t waste)
{
    lock_expect(RANK_BOOKS);
    struct block *block = NULL;
    for (struct freelist *list = freelist_next(books, NULL); list && !block; list = freelist_next(books, list)) {
        if (list != thief)
            block = take_passed(list, pages, waste);
    }
    return block;
}

/* The first that waits for events only, if they are over: blocks of one stream pass in order. Caller holds the list lock. */
static struct block *first_retired(struct freelist *list)
{
    list_expect(list);
    int is_paused = books_keeps(list->books, 0) && figure(&list->retiring_count) < PAUSED_MOST;
    struct block *block = is_paused ? NULL : list->retiring;
    while (block && (block->awaits_context || books_keeps(list->books, block->slot.base)))
        block = block->next;
    return block && waits_are_over(block) ? block : NULL;
}

struct block *freelist_take_retired(struct freelist *list)
{
    if (!figure(&list->retiring_count))
        return NULL;
    list_lock(list);
    struct block *block = first_retired(list);
    if (block) {
        remove_used(list, block);
        __atomic_add_fetch(&list->books->coming[freelist_bin(block->pages)], 1, __ATOMIC_RELAXED);
    }
    list_unlock(list);
    return block;
}

void freelist_retired(struct books *books, uint64_t pages)
{
    __atomic_sub_fetch(&books->coming[freelist_bin(pages)], 1, __ATOMIC_RELAXED);
}

int freelist_has_retired(struct freelist *list, uint64_t pages, uint64_t most)
{
    struct block *block;
    unsigned seen = 0;
    int has = 0;
    if (!figure(&list->retiring_count))
        return 0;
    list_lock(list);
    for (block = first_retired(list); block && seen++ < RETIRING_SCAN; block = block->next) {
        if (block->pages < pages || block->pages > most)
            continue;
        has = !block->awaits_context && waits_are_over(block);
        break;
    }
    list_unlock(list);
    return has;
}

uint64_t freelist_take_old(struct freelist *list, uint64_t before_ns, uint64_t bytes, struct block **gone)
{
    uint64_t taken = 0;
    list_lock(list);
    freelist_ask_markers(list);
    while (taken < bytes && list_has_idle(list)) {
        struct block *oldest = NULL;
        for (unsigned bin = 0; bin < BINS; bin++) {
            /* In utlist the head's prev is the tail: the block idle for longest. */
            struct block *block = list->bins[bin] ? list->bins[bin]->prev : NULL;
            if (block && block->free_sequence <= list->passed && block->facts.freed_ns <= before_ns &&
                (!oldest || block->facts.freed_ns < oldest->facts.freed_ns))
                oldest = block;
        }
        if (!oldest)
            break;
        remove_idle(list, oldest);
        taken += oldest->slot.mapped;
        DL_APPEND(*gone, oldest);
    }
    list_unlock(list);
    return taken;
}

uint64_t freelist_take_large(struct freelist *list, uint64_t pages, uint64_t bytes, struct block **gone)
{
    struct block *block, *next;
    uint64_t taken = 0;
    list_lock(list);
    for (unsigned bin = BINS_PAGES; bin-- > freelist_bin(pages) && taken < bytes;) {
        DL_FOREACH_SAFE(list->bins[bin], block, next)
        {
            if (taken >= bytes)
                break;
            if (block->free_sequence > list->passed || block_may_wait(block))
                continue;
            remove_idle(list, block);
            taken += block->slot.mapped;
            DL_APPEND(*gone, block);
        }
    }
    list_unlock(list);
    return taken;
}

int freelist_take_this(struct freelist *list, struct block *block)
{
    struct block *at;
    list_lock(list);
    DL_FOREACH(list->bins[freelist_bin(block->pages)], at)
    {
        if (at == block)
            break;
    }
    if (at) {
        freelist_pick(list, block);
    } else {
        DL_FOREACH(list->waiting, at)
        {
            if (at == block)
                break;
        }
        if (at)
            remove_used(list, block);
    }
    list_unlock(list);
    return at != NULL;
}

void freelist_withhold(struct freelist *list, struct block *block)
{
    if (block_state_now(block) == BLOCK_IDLE && freelist_take_this(list, block))
        freelist_move(&list->books->shared, block, BLOCK_WAITING);
}

/* Caller holds the list lock. */
static void take_idle(struct freelist *list, struct block **gone)
{
    list_expect(list);
    struct block *block;
    for (unsigned bin = 0; bin < BINS && list_has_idle(list); bin++) {
        while ((block = list->bins[bin]) != NULL) {
            remove_idle(list, block);
            DL_APPEND(*gone, block);
        }
    }
}

void freelist_take_idle(struct freelist *list, struct block **gone)
{
    list_lock(list);
    take_idle(list, gone);
    list_unlock(list);
}

void freelist_take_all(struct freelist *list, struct block **gone)
{
    struct block *block;
    list_lock(list);
    take_idle(list, gone);
    while ((block = list->waiting ? list->waiting : list->retiring) != NULL) {
        remove_used(list, block);
        DL_APPEND(*gone, block);
    }
    list_unlock(list);
}

void freelist_end_waits(struct freelist *list, const struct books *of, uint64_t since)
{
    struct block *block, *next;
    list_lock(list);
    DL_FOREACH_SAFE(list->waiting, block, next)
    {
        if (waits_synchronised(block, of, since)) {
            remove_used(list, block);
            put_idle(list, block);
        }
    }
    DL_FOREACH(list->retiring, block) /* freelist_take_retired() takes them */
    waits_synchronised(block, of, since);
    list_unlock(list);
}

void freelist_absorb(struct freelist *shared, struct freelist *list)
{
    list_lock(shared);
    for (size_t i = 0; i < list->history_count; i++) {
        size_t oldest = list->history_count < list->history_capacity ? 0 : list->history_position;
        freelist_remember(shared, &list->history[(oldest + i) % list->history_count]);
    }
    shared->allocations += list->allocations;
    shared->frees += list->frees;
    count_bytes(shared, list->most_bytes);
    count_bytes(shared, list->live_bytes - list->most_bytes);
    list_unlock(shared);
    free(list->history);
}
