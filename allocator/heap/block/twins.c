#include "block.h"

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
    if (state == BLOCK_PAST || state == BLOCK_RETIRING || block_is_elsewhere(block) || block_is_cell(block) ||
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

struct block *twins_end(struct block *block)
{
    twins_hold(); /* a twin of it may be being mapped */
    block_become(block, BLOCK_PAST);
    struct block *first = twins_take_all(block);
    twins_go_on();
    return first;
}
