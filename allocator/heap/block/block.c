#include "block.h"
#include "books.h"

#include "base/aside.h"
#include "base/error.h"
#include "base/output.h"
#include "base/peak.h"
#include "base/tally.h"

#include <stdlib.h>
#include <string.h>

unsigned blocks_leaving;
uint64_t blocks_given_freed;
unsigned heap_rare = RARE_CAPTURES; /* until heap_captures_are_seen() */

#define TO(state) (1u << BLOCK_##state)

void block_become(struct block *block, enum block_state state)
{
    static const unsigned steps[] = {
        [BLOCK_HELD] = TO(LIVE) | TO(IDLE) | TO(WAITING) | TO(RETIRING) | TO(PAST),
        [BLOCK_LIVE] = TO(HELD),
        [BLOCK_IDLE] = TO(HELD),
        [BLOCK_WAITING] = TO(HELD),
        [BLOCK_RETIRING] = TO(HELD),
        [BLOCK_PAST] = 0,
    };
    static const char *const names[] = {"held", "live", "idle", "waiting", "retiring", "past"};
    enum block_state from = block->state;
    __atomic_store_n(&block->state, (uint8_t)state, __ATOMIC_RELAXED);
    if (__builtin_expect(steps[from] >> state & 1, 1))
        return;
    output_say("cufence: internal error: the block of buffer #%llu goes from %s to %s; please report it\n",
               (unsigned long long)block->facts.id, names[from], names[state]);
#ifndef NDEBUG
    abort();
#endif
}

void *line_alloc(size_t size)
{
    void *memory = aligned_alloc(CACHE_LINE, (size + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    return memory ? memset(memory, 0, size) : NULL;
}

void block_forget(struct slot *slot)
{
    struct block *block = (struct block *)slot;
    pthread_spin_destroy(&block->recorded_lock);
    free(block->recorded);
    free(block->waits);
    free(block);
}

/* A held block with a slot that is not mapped yet. From slot_cut() on, other threads find it in the arena. */
static struct block *cut(struct books *books, int device, const struct layout *layout, int is_alone, cufence_status *status)
{
    struct block *block = line_alloc(sizeof *block);
    if (!block) {
        *status = error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory to keep track of a buffer");
        return NULL;
    }
    __atomic_store_n(&block->books, books, __ATOMIC_RELAXED);
    block->rare = device != books->context->device ? RARE_ELSEWHERE : 0;
    block->is_alone = is_alone != 0;
    block->pages = layout->pages & (CELL_PAGES - 1); /* up to 4 TiB, more than any device has */
    pthread_spin_init(&block->recorded_lock, PTHREAD_PROCESS_PRIVATE);
    *status = slot_cut(&block->slot, device, layout->mapped, layout->guard);
    if (*status == CUFENCE_OK)
        return block;
    block_forget(&block->slot);
    return NULL;
}

static void say_smaller_guard(uint64_t guard)
{
    static int has_said; /* atomic */
    if (!__atomic_exchange_n(&has_said, 1, __ATOMIC_RELAXED))
        output_say("cufence: address space is short (%llu MiB; `ulimit -v`): guards are smaller from now on than guard= "
                   "says, this one has %llu MiB\n",
                   (unsigned long long)((arena_end() - arena_start()) >> 20), (unsigned long long)(guard >> 20));
}

/* It could not be mapped; the arena owns it from now on. */
static void abandon(struct block *block)
{
    block_become(block, BLOCK_PAST);
    slot_abandon(&block->slot);
}

struct block *block_map_second(const struct block *of)
{
    const struct slot *slot = &of->slot;
    const struct layout layout = {.mapped = slot->mapped, .guard = slot->span - slot->mapped, .pages = of->pages};
    cufence_status status;
    struct block *block = cut(of->books, slot->device, &layout, of->is_alone, &status);
    if (!block)
        return NULL;
    if (slot_map_second(&block->slot, slot) == CUFENCE_OK)
        return block;
    abandon(block);
    return NULL;
}

struct block *block_map(struct books *books, int device, const struct layout *layout, int is_alone, cufence_status *status)
{
    struct block *block = cut(books, device, layout, is_alone, status);
    if (!block)
        return NULL;
    *status = slot_map(&block->slot);
    if (*status != CUFENCE_OK) {
        abandon(block);
        return NULL;
    }
    if (block->slot.span < layout->span)
        say_smaller_guard(block->slot.span - block->slot.mapped);
    raise_to(&books->peak_mapped_bytes, figure_add(&books->mapped_bytes, layout->mapped));
    raise_to(&books->peak_mappings, figure_add(&books->mappings, 1));
    figure_add(&books->fresh, 1);
    figure_add(&books->fresh_bytes, layout->mapped);
    if (is_alone)
        figure_add(&books->alone_bytes, layout->mapped);
    tally_note(TALLY_GUARDED);
    return block;
}

static void unmap_slot(void *slot)
{
    slot_unmap(slot);
}

static void unmap(struct block *block)
{
    if (!block->slot.is_second) {
        figure_sub(&block->books->mapped_bytes, block->slot.mapped);
        figure_sub(&block->books->mappings, 1);
        if (block->is_alone)
            figure_sub(&block->books->alone_bytes, block->slot.mapped);
    }
    aside_call(unmap_slot, &block->slot);
}

void block_adopt(struct block *block, struct books *books)
{
    block_expect(block, BLOCK_HELD);
    struct books *from = block->books;
    const uint64_t mapped = block->slot.mapped;
    if (block->successor)
        block_adopt(block->successor, books);
    __atomic_store_n(&block->books, books, __ATOMIC_RELAXED); /* collect_live() looks at blocks that others hold */
    if (block->slot.device != books->context->device)
        block_mark(block, RARE_ELSEWHERE);
    else
        block_unmark(block, RARE_ELSEWHERE);
    if (block->slot.is_second || block_is_cell(block))
        return;
    figure_sub(&from->mapped_bytes, mapped);
    figure_sub(&from->mappings, 1);
    raise_to(&books->peak_mapped_bytes, figure_add(&books->mapped_bytes, mapped));
    raise_to(&books->peak_mappings, figure_add(&books->mappings, 1));
    if (block->is_alone) {
        figure_sub(&from->alone_bytes, mapped);
        figure_add(&books->alone_bytes, mapped);
    }
}

/* ---- twins ---- */

/* Held while a twin is mapped, and shortly by every thread that is about to unmap a block. */
static struct lock adding = LOCK(RANK_TWIN);

static struct lock twins = LOCK(RANK_TWINS); /* the lists; held for a few instructions */
static uint64_t mapped;                      /* atomic */

void twins_hold(void)
{
    lock_take(&adding);
}

void twins_go_on(void)
{
    lock_release(&adding);
}

uint64_t twins_mapped(void)
{
    return __atomic_load_n(&mapped, __ATOMIC_RELAXED);
}

/* Caller holds the lock, or nobody else knows the block. */
static void set_twins(struct block *block, struct block *first, uint32_t count)
{
    block->twin = first;
    __atomic_store_n(&block->twin_count, count, __ATOMIC_RELAXED);
    if (count)
        block_mark(block, RARE_TWIN);
    else
        block_unmark(block, RARE_TWIN);
}

/* Adds a mapped twin. Returns 0 if the block's memory is another's by now. */
static uint32_t attach(struct block *block, struct block *twin)
{
    uint32_t count = 0;
    HOLD(&twins);
    if (!block->slot.is_second) {
        count = block->twin_count + 1;
        set_twins(twin, block->twin, count - 1);
        set_twins(block, twin, count);
        __atomic_add_fetch(&mapped, 1, __ATOMIC_RELAXED);
    }
    return count;
}

uint32_t twin_add(struct block *block)
{
    lock_expect(RANK_TWIN);
    enum block_state state = block_state_now(block);
    if (state == BLOCK_PAST || state == BLOCK_RETIRING || block_has(block, RARE_ELSEWHERE) || block_is_cell(block) ||
        block_page_now(block) || !arena_is_roomy(block->slot.span))
        return 0;
    struct block *twin = block_map_second(block);
    uint32_t count = twin ? attach(block, twin) : 0;
    if (twin && !count) {
        block_become(twin, BLOCK_PAST);
        slot_unmap(&twin->slot);
    }
    return count;
}

struct block *twin_take(struct block *block)
{
    HOLD(&twins);
    struct block *twin = block->twin;
    if (twin) {
        set_twins(block, NULL, 0);
        slot_hand_over(&block->slot, &twin->slot);
        twin->books = block->books; /* block_adopt() */
        __atomic_sub_fetch(&mapped, 1, __ATOMIC_RELAXED);
    }
    return twin;
}

struct block *twins_take_all(struct block *block)
{
    HOLD(&twins);
    struct block *first = block->twin;
    __atomic_sub_fetch(&mapped, block->twin_count, __ATOMIC_RELAXED);
    set_twins(block, NULL, 0);
    return first;
}

/* Makes a held block past, and takes all its twins. */
static struct block *twins_end(struct block *block)
{
    twins_hold(); /* a twin of it may be being mapped */
    block_become(block, BLOCK_PAST);
    struct block *first = twins_take_all(block);
    twins_go_on();
    return first;
}

/* ---- the end of a block ---- */

void block_unmap(struct block *block)
{
    block_expect(block, BLOCK_HELD);
    struct books *books = block->books;
    int is_leaving = block_has(block, RARE_LEAVING);
    struct block *successor = block->successor;
    block->successor = NULL;
    if (successor) /* the context is gone */
        block_unmap(successor);
    block_join(block, NULL);
    if (block->is_replaced)
        figure_sub(&books->replaced, 1);
    figure_add(&books->retired, 1);
    struct block *twin = twins_end(block), *next;
    for (; twin; twin = next) {
        next = twin->twin;
        block_become(twin, BLOCK_PAST);
        unmap(twin);
    }
    unmap(block);
    if (is_leaving)
        __atomic_sub_fetch(&blocks_leaving, 1, __ATOMIC_RELEASE);
}

void block_pool_id(const struct block *block, uint64_t id[2])
{
    const struct pool *pool = block_pool_now(block);
    id[0] = pool && !pool->is_capture ? pool->id[0] : 0;
    id[1] = pool && !pool->is_capture ? pool->id[1] : 0;
}

void block_join(struct block *block, struct pool *pool)
{
    struct pool *previous = block->pool;
    if (previous == pool)
        return;
    if (!previous)
        figure_add(&block->books->captured_bytes, block->slot.mapped);
    else if (!pool)
        figure_sub(&block->books->captured_bytes, block->slot.mapped);
    if (pool)
        __atomic_add_fetch(&pool->blocks, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&block->pool, pool, __ATOMIC_RELAXED);
    if (pool)
        block_mark(block, RARE_POOL);
    else
        block_unmark(block, RARE_POOL);
    if (previous)
        __atomic_sub_fetch(&previous->blocks, 1, __ATOMIC_RELEASE);
}
