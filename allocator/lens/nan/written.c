#include "written.h"

#include "heap/heap.h"

#include <stdlib.h>

#define ENTRIES (UINT64_C(1) << 20)

static uint64_t *written_table; /* each atomic: the newest buffer whose number ends like this and that was written */

int written_open(void)
{
    if (!written_table)
        written_table = calloc(ENTRIES, sizeof *written_table);
    return written_table != NULL;
}

void written_note(uint64_t buffer)
{
    uint64_t *entry = written_table ? &written_table[buffer % ENTRIES] : NULL;
    uint64_t known = entry ? __atomic_load_n(entry, __ATOMIC_RELAXED) : UINT64_MAX;
    while (known < buffer && !__atomic_compare_exchange_n(entry, &known, buffer, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

int written_is(uint64_t buffer)
{
    return !written_table || __atomic_load_n(&written_table[buffer % ENTRIES], __ATOMIC_RELAXED) >= buffer;
}

int written_is_noted(void)
{
    return written_table != NULL;
}

void written_note_address(uint64_t address)
{
    struct heap_range range;
    if (heap_owns(address) && heap_range_of(address, &range))
        written_note(range.id);
}
