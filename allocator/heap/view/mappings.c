/* What is mapped, and for whom; off the fast path. */
#include "heap/block/books.h"

#include <stdlib.h>

struct gathering {
    cufence_mapping *all;
    size_t count, capacity;
    int device;
    int has_failed;
};

static int gather(struct slot *slot, void *user)
{
    struct gathering *gathering = user;
    const struct block *block = (const struct block *)slot;
    if (!slot->is_mapped || slot->is_second || (gathering->device >= 0 && slot->device != gathering->device))
        return 0;
    if (gathering->count == gathering->capacity) {
        size_t capacity = gathering->capacity ? gathering->capacity * 2 : 256;
        cufence_mapping *grown = realloc(gathering->all, capacity * sizeof *grown);
        gathering->has_failed |= !grown;
        if (!grown)
            return 1;
        gathering->all = grown;
        gathering->capacity = capacity;
    }
    cufence_mapping *mapping = &gathering->all[gathering->count++];
    const struct facts facts = facts_read(block);
    enum block_state state = block_state_now(block);
    *mapping = (cufence_mapping){.is_live = facts.id && !facts.freed_ns,
                                 .is_waiting = state == BLOCK_WAITING || state == BLOCK_RETIRING};
    facts_describe(&facts, slot, slot->base, &mapping->buffer);
    block_pool_id(block, mapping->pool);
    return 0;
}

size_t heap_mappings(int device, cufence_mapping **out)
{
    struct gathering gathering = {.device = device};
    blocks_each(gather, &gathering);
    if (gathering.has_failed) {
        free(gathering.all);
        gathering = (struct gathering){0};
    }
    *out = gathering.all;
    return gathering.count;
}
