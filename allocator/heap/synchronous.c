/* Buffers with CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, which the driver does not take for mapped memory. The hooks wait in its place.
 */
#include "heap_internal.h"

int heap_has_synchronous;

static struct block *live_at(uint64_t address)
{
    struct heap_range range;
    return heap_range_of(address, &range) ? index_holding(address) : NULL;
}

int heap_set_synchronous(uint64_t address, int is_on)
{
    struct block *block = live_at(address);
    if (!block)
        return 0;
    if (is_on) {
        block_mark(block, RARE_SYNCHRONOUS);
        __atomic_store_n(&heap_has_synchronous, 1, __ATOMIC_RELAXED);
    } else {
        block_unmark(block, RARE_SYNCHRONOUS);
    }
    return 1;
}

int heap_asks_synchronous(uint64_t address)
{
    const struct block *block = live_at(address);
    return block && block_rare(block) & RARE_SYNCHRONOUS;
}
