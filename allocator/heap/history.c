/* The buffers whose blocks have since been reused: a ring in each list. */
#include "internal.h"

#include "base/options.h"

#include <stdlib.h>

void freelist_remember(struct freelist *list, const struct facts *facts)
{
    const size_t most = (size_t)heap_options->history;
    if (list->history_count == list->history_capacity && list->history_capacity < most) {
        size_t capacity = list->history_capacity ? list->history_capacity * 2 : 64;
        capacity = capacity < most ? capacity : most;
        struct facts *grown = realloc(list->history, capacity * sizeof *grown);
        if (!grown)
            return;
        list->history = grown; /* the ring has not wrapped, since it was never full before */
        list->history_position = list->history_count;
        list->history_capacity = capacity;
    }
    if (!list->history_capacity)
        return;
    list->history[list->history_position] = *facts;
    list->history_position = list->history_position + 1 == list->history_capacity ? 0 : list->history_position + 1;
    if (list->history_count < list->history_capacity)
        list->history_count++;
}

void freelist_recall(struct freelist *list, uint64_t address, int exact, struct facts *out)
{
    list_lock(list);
    for (size_t i = 0; i < list->history_count; i++) {
        const struct facts *facts = &list->history[i];
        if (facts->id > out->id &&
            (exact ? facts->address == address : address >= facts->address && address - facts->address < facts->size))
            *out = *facts;
    }
    list_unlock(list);
}
