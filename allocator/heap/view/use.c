/* What is live, by place of allocation; off the fast path. */
#include "heap/block/index.h"

#include "finding/frames.h"
#include "stacks/stack.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

/* The key: no padding between its members. */
struct key {
    uint64_t label; /* as in struct facts: the text's address, and the stack */
    uint64_t device;
};

struct row {
    UT_hash_handle hh;
    struct key key;
    struct heap_use use;
};

struct gathering {
    struct row *rows;
    int device;
    int has_failed;
};

static struct row *row_of(struct gathering *gathering, const struct key *key)
{
    struct row *row;
    HASH_FIND(hh, gathering->rows, key, sizeof *key, row);
    if (row || (row = calloc(1, sizeof *row)) == NULL)
        return row;
    row->key = *key;
    HASH_ADD(hh, gathering->rows, key, sizeof row->key, row);
    return HASH_KEPT(row);
}

static int gather(struct slot *slot, void *user)
{
    struct gathering *gathering = user;
    struct block *block = (struct block *)slot;
    struct facts facts = facts_read(block);
    if (!facts.id || facts.freed_ns || !slot->is_mapped || (gathering->device >= 0 && slot->device != gathering->device) ||
        __atomic_load_n(&block->returned, __ATOMIC_RELAXED))
        return 0;
    const struct key key = {facts.label, (uint64_t)slot->device};
    struct row *row = row_of(gathering, &key);
    gathering->has_failed |= !row;
    if (!row)
        return 0;
    struct heap_use *use = &row->use;
    use->buffers++;
    use->bytes += facts.size;
    use->mapped_bytes += slot->mapped;
    if (!use->oldest_ns || facts.allocated_ns < use->oldest_ns)
        use->oldest_ns = facts.allocated_ns;
    if (facts.size > use->largest.size)
        facts_describe(&facts, slot, slot->base, &use->largest);
    return 0;
}

static int by_bytes(const void *a, const void *b)
{
    const struct heap_use *left = a, *right = b;
    if (left->mapped_bytes != right->mapped_bytes)
        return left->mapped_bytes < right->mapped_bytes ? 1 : -1;
    return left->bytes < right->bytes ? 1 : left->bytes > right->bytes ? -1 : 0;
}

size_t heap_use(int device, struct heap_use **out)
{
    struct gathering gathering = {.device = device};
    struct row *row, *next;
    size_t count = 0;
    blocks_each(gather, &gathering);
    *out = calloc(HASH_COUNT(gathering.rows) + 1, sizeof **out);
    HASH_ITER(hh, gathering.rows, row, next)
    {
        if (*out)
            (*out)[count++] = row->use;
        HASH_DEL(gathering.rows, row);
        free(row);
    }
    if (*out)
        qsort(*out, count, sizeof **out, by_bytes);
    return count;
}

void heap_use_place(const struct heap_use *use, struct use_place *out)
{
    struct stack_frame frames[STACK_READ];
    size_t count = stack_interned_frames(use->largest.allocated_stack, frames, STACK_READ);
    *out = (struct use_place){.has_frame = count > 0,
                              .device = use->largest.device,
                              .buffers = use->buffers,
                              .bytes = use->bytes,
                              .mapped_bytes = use->mapped_bytes,
                              .largest = use->largest.size,
                              .oldest_ns = use->oldest_ns};
    if (count)
        out->frame = *frames_own(frames, count);
    memcpy(out->label, use->largest.label, sizeof out->label);
}
