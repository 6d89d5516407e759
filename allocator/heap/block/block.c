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
    raise_to(&books->peak_mapped_bytes, __atomic_add_fetch(&books->mapped_bytes, layout->mapped, __ATOMIC_RELAXED));
    raise_to(&books->peak_mappings, __atomic_add_fetch(&books->mappings, 1, __ATOMIC_RELAXED));
    __atomic_add_fetch(&books->fresh, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&books->fresh_bytes, layout->mapped, __ATOMIC_RELAXED);
    if (is_alone)
        __atomic_add_fetch(&books->alone_bytes, layout->mapped, __ATOMIC_RELAXED);
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
        __atomic_sub_fetch(&block->books->mapped_bytes, block->slot.mapped, __ATOMIC_RELAXED);
        __atomic_sub_fetch(&block->books->mappings, 1, __ATOMIC_RELAXED);
        if (block->is_alone)
            __atomic_sub_fetch(&block->books->alone_bytes, block->slot.mapped, __ATOMIC_RELAXED);
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
    __atomic_sub_fetch(&from->mapped_bytes, mapped, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&from->mappings, 1, __ATOMIC_RELAXED);
    raise_to(&books->peak_mapped_bytes, __atomic_add_fetch(&books->mapped_bytes, mapped, __ATOMIC_RELAXED));
    raise_to(&books->peak_mappings, __atomic_add_fetch(&books->mappings, 1, __ATOMIC_RELAXED));
    if (block->is_alone) {
        __atomic_sub_fetch(&from->alone_bytes, mapped, __ATOMIC_RELAXED);
        __atomic_add_fetch(&books->alone_bytes, mapped, __ATOMIC_RELAXED);
    }
}

void block_unmap(struct block *block)
{
    block_expect(block, BLOCK_HELD);
    struct books *books = block->books;
    int is_leaving = (block_rare(block) & RARE_LEAVING) != 0;
    struct block *successor = block->successor;
    block->successor = NULL;
    if (successor) /* the context is gone */
        block_unmap(successor);
    block_join(block, NULL);
    if (block->is_replaced)
        __atomic_sub_fetch(&books->replaced, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&books->retired, 1, __ATOMIC_RELAXED);
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
        __atomic_add_fetch(&block->books->captured_bytes, block->slot.mapped, __ATOMIC_RELAXED);
    else if (!pool)
        __atomic_sub_fetch(&block->books->captured_bytes, block->slot.mapped, __ATOMIC_RELAXED);
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
