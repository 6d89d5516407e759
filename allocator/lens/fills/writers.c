/* The latest writers of the latest buffers, so that a run of any length takes the same memory. */
#include "writers.h"

#include "base/hash.h"

#include <stdlib.h>

enum { BUFFERS = 1 << 16 };

struct written {
    UT_hash_handle hh; /* by key */
    uint64_t key;      /* hash of the buffer's name */
    uint64_t first;    /* line of the first write that is known */
};

struct seen_writers {
    struct written *all; /* the one written last is the last one */
    int has_forgotten;
};

struct seen_writers *seen_writers_make(void)
{
    return calloc(1, sizeof(struct seen_writers));
}

void seen_writers_free(struct seen_writers *writers)
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

static struct written *find(const struct seen_writers *writers, uint64_t key)
{
    struct written *found;
    HASH_FIND(hh, writers->all, &key, sizeof key, found);
    return found;
}

/* Returns the entry of the key as the last one. The one written longest ago makes room; without host memory there is none. */
static struct written *take(struct seen_writers *writers, uint64_t key)
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

void seen_writers_note(struct seen_writers *writers, const struct seen_event *event, uint64_t line)
{
    for (size_t i = 0; i < event->buffer_count; i++) {
        const struct seen_buffer *buffer = &event->buffers[i];
        if (buffer->has_after ? !seen_is_written(buffer) : event->kind != SEEN_LAUNCH)
            continue; /* a launch without hashes may have written it */
        struct written *written = take(writers, key_of(buffer->name));
        if (written && !written->first)
            written->first = line;
    }
}

int seen_writers_find(const struct seen_writers *writers, const char *buffer, uint64_t line)
{
    const struct written *written = find(writers, key_of(buffer));
    if (written && written->first < line)
        return 1;
    return writers->has_forgotten ? -1 : 0;
}
