/* The latest writers of the latest buffers: open addressing in a table that is emptied half by half, so that a trace of any
 * length takes the same memory. */
#include "writers.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT = 4, BUFFERS = 1 << 15, SLOTS = 2 * BUFFERS };

struct written {
    uint64_t key;                  /* hash of the buffer's name; 0: empty */
    uint64_t count;                /* of all writes */
    struct trace_write last[KEPT]; /* write number n (from 0) is in slot n % KEPT */
};

struct generation {
    struct written *slots;
    size_t used;
};

struct trace_writers {
    struct generation now, before; /* a buffer that is written again moves to `now` */
    int has_forgotten;
};

struct trace_writers *trace_writers_make(void)
{
    struct trace_writers *writers = calloc(1, sizeof *writers);
    if (writers && !(writers->now.slots = calloc(SLOTS, sizeof *writers->now.slots))) {
        free(writers);
        writers = NULL;
    }
    return writers;
}

void trace_writers_free(struct trace_writers *writers)
{
    if (!writers)
        return;
    free(writers->now.slots);
    free(writers->before.slots);
    free(writers);
}

/* FNV-1a. */
static uint64_t key_of(const char *name)
{
    uint64_t key = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++)
        key = (key ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return key ? key : 1;
}

/* Returns the slot of the key, or the empty one where it belongs. */
static struct written *slot_of(const struct generation *generation, uint64_t key)
{
    size_t at = (size_t)(key >> 20) & (SLOTS - 1);
    while (generation->slots[at].key && generation->slots[at].key != key)
        at = (at + 1) & (SLOTS - 1);
    return &generation->slots[at];
}

static const struct written *find(const struct trace_writers *writers, uint64_t key)
{
    const struct written *found = slot_of(&writers->now, key);
    if (!found->key && writers->before.slots)
        found = slot_of(&writers->before, key);
    return found->key ? found : NULL;
}

/* The table is full: forgets what has not been written since the last time. Without host memory for a new one, all of it. */
static void turn(struct trace_writers *writers)
{
    struct written *fresh = writers->before.slots;
    if (!fresh)
        fresh = calloc(SLOTS, sizeof *fresh);
    else
        writers->has_forgotten = 1;
    if (fresh) {
        writers->before = writers->now;
        writers->now.slots = fresh;
    } else {
        writers->has_forgotten = 1;
    }
    memset(writers->now.slots, 0, SLOTS * sizeof *writers->now.slots);
    writers->now.used = 0;
}

static struct written *take(struct trace_writers *writers, uint64_t key)
{
    struct written *slot = slot_of(&writers->now, key);
    if (slot->key)
        return slot;
    if (writers->now.used == BUFFERS) {
        turn(writers);
        slot = slot_of(&writers->now, key);
    }
    const struct written *old = writers->before.slots ? slot_of(&writers->before, key) : NULL;
    if (old && old->key)
        *slot = *old;
    slot->key = key;
    writers->now.used++;
    return slot;
}

void trace_writers_note(struct trace_writers *writers, const struct trace_event *event, uint64_t line, uint64_t offset)
{
    for (size_t i = 0; i < event->buffer_count; i++) {
        const struct trace_buffer *buffer = &event->buffers[i];
        if (buffer->has_after ? !trace_is_written(buffer) : event->kind != TRACE_LAUNCH)
            continue; /* a launch without hashes may have written it */
        struct written *written = take(writers, key_of(buffer->name));
        written->last[written->count++ % KEPT] =
            (struct trace_write){.line = line,
                                 .offset = offset,
                                 .is_whole = buffer->has_after && buffer->bytes == buffer->size,
                                 .after = buffer->after};
    }
}

int trace_writers_find(const struct trace_writers *writers, const char *buffer, uint64_t line, struct trace_write *out)
{
    const struct written *written = find(writers, key_of(buffer));
    if (!written)
        return writers->has_forgotten ? -1 : 0;
    for (uint64_t i = written->count; i > 0 && i + KEPT > written->count; i--) {
        const struct trace_write *write = &written->last[(i - 1) % KEPT];
        if (write->line < line) {
            *out = *write;
            return 1;
        }
    }
    return written->count > KEPT ? -1 : 0;
}
