/* The latest writers of the latest buffers, so that a trace of any length takes the same memory. */
#include "writers.h"

#include "base/hash.h"

#include <stdlib.h>

enum { KEPT = 4, BUFFERS = 1 << 16 };

struct written {
    UT_hash_handle hh;             /* by key */
    uint64_t key;                  /* hash of the buffer's name */
    uint64_t count;                /* of all writes */
    struct trace_write last[KEPT]; /* write number n (from 0) is in slot n % KEPT */
};

struct trace_writers {
    struct written *all; /* the one written last is the last one */
    int has_forgotten;
};

struct trace_writers *trace_writers_make(void)
{
    return calloc(1, sizeof(struct trace_writers));
}

void trace_writers_free(struct trace_writers *writers)
{
    struct written *written, *next;
    if (writers) {
        HASH_ITER(hh, writers->all, written, next)
        {
            HASH_DEL(writers->all, written);
            free(written);
        }
    }
    free(writers);
}

/* FNV-1a. */
static uint64_t key_of(const char *name)
{
    uint64_t key = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++)
        key = (key ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return key;
}

static struct written *find(const struct trace_writers *writers, uint64_t key)
{
    struct written *found;
    HASH_FIND(hh, writers->all, &key, sizeof key, found);
    return found;
}

/* Returns the entry of the key as the last one. The one written longest ago makes room; without host memory there is none. */
static struct written *take(struct trace_writers *writers, uint64_t key)
{
    struct written *known = find(writers, key), *taken = known;
    if (!known && HASH_COUNT(writers->all) == BUFFERS)
        taken = writers->all;
    if (taken)
        HASH_DEL(writers->all, taken);
    writers->has_forgotten |= taken != known;
    if (!taken)
        taken = malloc(sizeof *taken);
    if (taken && !known)
        *taken = (struct written){.key = key};
    if (taken)
        HASH_ADD(hh, writers->all, key, sizeof taken->key, taken);
    if (taken && taken->hh.tbl)
        return taken;
    writers->has_forgotten = 1;
    free(taken);
    return NULL;
}

void trace_writers_note(struct trace_writers *writers, const struct trace_event *event, uint64_t line, uint64_t offset)
{
    for (size_t i = 0; i < event->buffer_count; i++) {
        const struct trace_buffer *buffer = &event->buffers[i];
        if (buffer->has_after ? !trace_is_written(buffer) : event->kind != TRACE_LAUNCH)
            continue; /* a launch without hashes may have written it */
        struct written *written = take(writers, key_of(buffer->name));
        if (written)
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
