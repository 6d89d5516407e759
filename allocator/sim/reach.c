/* The kernel cufence_reach on the host: one thread does all of it. */
#include "kernel.h"

#include <string.h>

#define NONE UINT64_MAX

struct buffer {
    uint64_t start, end, address, size, at;
    uint32_t is_found, unused;
};

struct queue {
    uint32_t count, unused;
    uint32_t at[];
};

struct reach {
    struct buffer *table;
    struct queue *found;
    uint8_t *out;
    uint64_t room, each, most;
    uint32_t count, first, is_again, unused;
};

static struct buffer *find(const struct reach *reach, uint64_t address)
{
    for (uint32_t i = 0; i < reach->count; i++)
        if (address >= reach->table[i].start && address < reach->table[i].end)
            return &reach->table[i];
    return NULL;
}

static uint64_t search(const struct reach *reach, const struct buffer *from, uint64_t left, uint32_t *tail)
{
    uint64_t start = (from->address + 7) / 8 * 8, end = (from->address + from->size) / 8 * 8;
    uint64_t bytes = start < end ? end - start : 0, most = (reach->each < left ? reach->each : left) / 8 * 8;
    bytes = bytes < most ? bytes : most;
    for (uint64_t at = end - bytes; at < end; at += 8) {
        struct buffer *found = find(reach, *(const uint64_t *)(uintptr_t)at);
        if (found && !found->is_found) {
            found->is_found = 1;
            reach->found->at[(*tail)++] = (uint32_t)(found - reach->table);
        }
    }
    return bytes;
}

static void place(const struct reach *reach, uint32_t tail)
{
    uint64_t used = 0;
    for (uint32_t i = reach->first; i < tail; i++) {
        struct buffer *buffer = &reach->table[reach->found->at[i]];
        uint64_t bytes = (buffer->size + 15) / 16 * 16;
        buffer->at = bytes <= reach->room - used ? used : NONE;
        used += buffer->at == NONE ? 0 : bytes;
    }
    reach->found->count = tail;
}

void kernel_reach(const cusim_thread *thread, void *const *arguments)
{
    const struct reach *reach = arguments[0];
    uint32_t tail = reach->is_again ? reach->found->count : reach->first;
    uint64_t searched = 0;
    if (thread->thread_index[0])
        return;
    for (uint32_t head = 0; !reach->is_again && head < tail && searched < reach->most; head++)
        searched += search(reach, &reach->table[reach->found->at[head]], reach->most - searched, &tail);
    if (!reach->is_again)
        place(reach, tail);
    for (uint32_t i = reach->first; i < tail; i++) {
        const struct buffer *buffer = &reach->table[reach->found->at[i]];
        if (buffer->at != NONE)
            memcpy(reach->out + buffer->at, (const void *)(uintptr_t)buffer->address, buffer->size);
    }
}
