#include "block.h"
#include "books.h"

#include "base/clock.h"
#include "base/options.h"
#include "base/text.h"
#include "base/thread.h"
#include "stacks/stack.h"

#include <string.h>

uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC_COARSE) + 1;
}

uint32_t facts_stack(void)
{
    switch (heap_options->stacks) {
    case STACKS_ON:
        return stack_capture_interned();
    case STACKS_PYTHON:
        return stack_capture_python();
    default:
        return 0;
    }
}

static _Alignas(CACHE_LINE) uint64_t given[CACHE_LINE / sizeof(uint64_t)]; /* ids; atomic; alone on its cache line */

uint64_t heap_ids(void)
{
    return __atomic_load_n(&given[0], __ATOMIC_RELAXED);
}

uint64_t facts_next_id(void)
{
    enum { AT_ONCE = 16 };
    static HOT_TLS uint64_t next, end;
    if (next == end) {
        next = __atomic_fetch_add(&given[0], AT_ONCE, __ATOMIC_RELAXED);
        end = next + AT_ONCE;
    }
    return ++next;
}

struct facts facts_read(const struct block *block)
{
    uint64_t words[FACTS_WORDS], before;
    const uint64_t *from = (const uint64_t *)&block->facts;
    struct facts facts;
    do {
        before = __atomic_load_n(&block->version, __ATOMIC_ACQUIRE);
        for (size_t i = 0; i < FACTS_WORDS; i++)
            words[i] = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);
    } while (before & 1 || __atomic_load_n(&block->version, __ATOMIC_RELAXED) != before);
    memcpy(&facts, words, sizeof facts);
    return facts;
}

void facts_describe(const struct facts *facts, const struct slot *slot, uint64_t gap_start, cufence_buffer *out)
{
    const char *label = (const char *)(uintptr_t)(facts->label & ((1ull << ADDRESS_BITS) - 1));
    *out = (cufence_buffer){
        .struct_size = sizeof *out,
        .id = facts->id,
        .address = facts->address,
        .size = facts->size,
        .mapping_start = slot->base,
        .mapping_end = slot->base + slot->mapped,
        .guard_start = gap_start,
        .guard_end = slot->base + slot->span,
        .stream = facts->stream,
        .allocated_ns = facts->allocated_ns,
        .freed_ns = facts->freed_ns,
        .free_stream = facts->free_stream,
        .allocated_tid = facts_allocated_tid(facts),
        .freed_tid = facts_freed_tid(facts),
        .allocated_stack = (uint32_t)(facts->label >> ADDRESS_BITS),
        .freed_stack = (uint32_t)(facts->who >> 2 * TID_BITS),
        .device = slot->device,
        .is_mapped = slot->is_mapped,
    };
    if (slot->mapped && slot->mapped < heap_granularity) { /* a cell of a shared page */
        struct layout_slack redzones = layout_slack(slot->mapped, facts->address - slot->base, facts->size);
        out->redzone_before = redzones.head;
        out->redzone_after = redzones.tail;
    }
    if (label)
        text_format(out->label, sizeof out->label, "%s", label);
}
