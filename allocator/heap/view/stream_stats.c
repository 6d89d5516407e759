/* Figures by stream; off the fast path. */
#include "heap/reuse/reuse.h"

#include "base/list.h"

struct gathering {
    cufence_stream_stats *all;
    size_t count;
    int device;
    int has_failed;
};

/* Returns the stream's entry; NULL if out of host memory. Streams are few. */
static cufence_stream_stats *entry_of(struct gathering *gathering, int device, uint64_t stream)
{
    for (size_t i = gathering->count; i-- > 0;) {
        if (gathering->all[i].stream == stream && gathering->all[i].device == device)
            return &gathering->all[i];
    }
    if (!list_make_room(&gathering->all, gathering->count, sizeof *gathering->all)) {
        gathering->has_failed = 1;
        return NULL;
    }
    cufence_stream_stats *entry = &gathering->all[gathering->count++];
    *entry = (cufence_stream_stats){.stream = stream, .device = device};
    return entry;
}

static int add_buffer(struct slot *slot, void *user)
{
    struct gathering *gathering = user;
    struct facts facts = facts_read((struct block *)slot);
    if (!facts.id || facts.freed_ns || !slot->is_mapped || (gathering->device >= 0 && slot->device != gathering->device))
        return 0;
    cufence_stream_stats *entry = entry_of(gathering, slot->device, facts.stream);
    if (entry) {
        entry->live_buffers++;
        entry->live_bytes += facts.size;
        entry->mapped_bytes += slot->mapped;
    }
    return 0;
}

static void add_list(struct gathering *gathering, int device, struct freelist *list)
{
    list_lock(list);
    const struct stream *stream = __atomic_load_n(&list->stream, __ATOMIC_RELAXED);
    cufence_stream_stats *entry =
        stream ? entry_of(gathering, device, (uint64_t)(uintptr_t)stream->handle) : NULL; /* NULL: it has ended */
    if (entry) {
        entry->idle_bytes += list_idle_bytes(list);
        entry->allocations += list->allocations;
        entry->frees += list->frees;
    }
    list_unlock(list);
}

size_t heap_streams(int device, cufence_stream_stats **out)
{
    struct gathering gathering = {.device = device};
    for (struct books *books = books_next(NULL, device); books; books = books_next(books, device)) {
        struct freelist *list;
        struct pool *pool;
        HOLD(&books->lock);
        LL_FOREACH(books->lists, list)
        add_list(&gathering, books->context->device, list);
        LL_FOREACH(books->pools, pool)
        {
            LL_FOREACH(pool->lists, list)
            add_list(&gathering, books->context->device, list);
        }
    }
    blocks_each(add_buffer, &gathering);
    if (gathering.has_failed) {
        free(gathering.all);
        gathering.all = NULL;
        gathering.count = 0;
    }
    *out = gathering.all;
    return gathering.count;
}
