#include "locate.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

/* Large enough for the evidence of an ordinary fault in a single allocation. */
#define BLOCK_BYTES ((size_t)32 << 10)

struct scratch_block {
    struct scratch_block *previous;
    size_t used;
    size_t size;
    alignas(max_align_t) unsigned char bytes[];
};

void *scratch_take(struct scratch *scratch, size_t size)
{
    const size_t align = alignof(max_align_t);
    if (size > (size_t)-1 / 2)
        return NULL;
    size = (size + align - 1) / align * align;
    struct scratch_block *block = scratch->last;
    if (!block || block->size - block->used < size) {
        size_t room = size > BLOCK_BYTES ? size : BLOCK_BYTES;
        block = calloc(1, sizeof(*block) + room);
        if (!block)
            return NULL;
        block->size = room;
        block->previous = scratch->last;
        scratch->last = block;
    }
    void *bytes = block->bytes + block->used;
    block->used += size;
    return bytes;
}

const char *scratch_text(struct scratch *scratch, const char *text)
{
    if (!text)
        return NULL;
    size_t size = strlen(text) + 1;
    char *copy = scratch_take(scratch, size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

void scratch_free(struct scratch *scratch)
{
    while (scratch->last) {
        struct scratch_block *block = scratch->last;
        scratch->last = block->previous;
        free(block);
    }
}
