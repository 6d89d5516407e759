/* The buffers whose blocks have since been reused: a ring in each list. */
#include "reuse.h"

#include "base/options.h"

#include <stdlib.h>

void freelist_remember(struct freelist *list, const struct facts *facts)
{
    list_expect(list);
    const size_t most = (size_t)heap_options->history;
    if (!facts->id) /* a twin that has not held a buffer yet */
        return;
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

size_t freelist_learn(struct freelist *list, struct facts *out, size_t most, uint64_t *freed)
{
    size_t count = 0;
    list_lock(list);
    *freed += list->freed;
    if (list->learned != list->history_position) {
        size_t capacity = list->history_capacity;
        size_t since = (list->history_position + capacity - list->learned % capacity) % capacity;
        size_t at = list->history_position + capacity - (since < most ? since : most);
        for (; count < most && count < since; count++)
            out[count] = list->history[(at + count) % capacity];
        list->learned = list->history_position;
    }
    list_unlock(list);
    return count;
}
