#include "internal.h"

#include "base/output.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    block->state = (uint8_t)state;
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

static void raise_to(uint64_t *peak, uint64_t value)
{
    uint64_t most = __atomic_load_n(peak, __ATOMIC_RELAXED);
    while (value > most && !__atomic_compare_exchange_n(peak, &most, value, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

struct block *block_map(struct books *books, int device, const struct layout *layout, cufence_status *status)
{
    struct block *block = line_alloc(sizeof *block);
    if (!block) {
        *status = error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory to keep track of a buffer");
        return NULL;
    }
    block->books = books;
    block->is_elsewhere = device != books->context->device;
    block->pages = layout->pages & ((1u << 24) - 1); /* up to 32 TiB; an arena has at most 64 TiB */
    pthread_spin_init(&block->recorded_lock, PTHREAD_PROCESS_PRIVATE);
    *status = slot_cut(&block->slot, device, layout->mapped, layout->guard);
    if (*status != CUFENCE_OK) {
        block_forget(&block->slot);
        return NULL;
    }
    *status = slot_map(&block->slot);
    if (*status != CUFENCE_OK) {
        block_become(block, BLOCK_PAST);
        slot_abandon(&block->slot); /* owned by the arena from now on */
        return NULL;
    }
    raise_to(&books->peak_mapped_bytes, __atomic_add_fetch(&books->mapped_bytes, layout->mapped, __ATOMIC_RELAXED));
    __atomic_add_fetch(&books->fresh, 1, __ATOMIC_RELAXED);
    return block;
}

void block_unmap(struct block *block)
{
    struct books *books = block->books;
    if (block->slack)
        slack_forget(block);
    __atomic_sub_fetch(&books->mapped_bytes, block->slot.mapped, __ATOMIC_RELAXED);
    block_join(block, NULL);
    __atomic_add_fetch(&books->retired, 1, __ATOMIC_RELAXED);
    block_become(block, BLOCK_PAST);
    slot_unmap(&block->slot);
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
    if (previous)
        __atomic_sub_fetch(&previous->blocks, 1, __ATOMIC_RELEASE);
}
