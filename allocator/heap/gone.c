/* What the program destroys beneath its buffers: streams and contexts. */
#include "internal.h"

#include <stdlib.h>
#include <unistd.h>

void heap_stream_gone(CUstream stream)
{
    if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
        return;
    for (struct heap_context *context = context_next(NULL); context; context = context_next(context)) {
        struct freelist *list = __atomic_load_n(&context->freelists, __ATOMIC_ACQUIRE);
        for (; list; list = list->next) {
            if (list_stream(list) != stream || list->pool)
                continue;
            struct scope scope = scope_enter(context);
            freelist_mark(list, now_ns());
            scope_leave(scope);
            __atomic_store_n(&list->stream, HEAP_UNORDERED, __ATOMIC_RELAXED); /* no stream's list from now on */
        }
    }
}

struct orphans {
    const struct heap_context *context;
    struct block **blocks;
    size_t count, capacity;
};

static int collect_live(struct slot *slot, void *user)
{
    struct orphans *orphans = user;
    struct block *block = (struct block *)slot;
    if (block->context != orphans->context || !slot->is_mapped || index_find(block->facts.address) != block)
        return 0;
    if (orphans->count == orphans->capacity) {
        size_t capacity = orphans->capacity ? orphans->capacity * 2 : 256;
        struct block **grown = realloc(orphans->blocks, capacity * sizeof *grown);
        if (!grown)
            return 1; /* the rest stays mapped */
        orphans->blocks = grown;
        orphans->capacity = capacity;
    }
    orphans->blocks[orphans->count++] = block;
    return 0;
}

static void drop(struct block *block)
{
    free(block->events); /* they are gone with the context */
    block->events = NULL;
    block->event_count = 0;
    block_unmap(block);
}

void heap_context_gone(CUcontext handle)
{
    struct heap_context *context = context_latest(handle);
    if (!context)
        return;
    context_forget(context);
    if (__atomic_exchange_n(&context->is_faulted, 0, __ATOMIC_RELAXED))
        __atomic_sub_fetch(&heap_faulted, 1, __ATOMIC_RELEASE);
    struct block *block;
    for (struct freelist *list = __atomic_load_n(&context->freelists, __ATOMIC_ACQUIRE); list; list = list->next) {
        while ((block = freelist_take_any(list)) != NULL)
            drop(block);
    }
    struct orphans orphans = {.context = context};
    arena_each(collect_live, &orphans);
    for (size_t i = 0; i < orphans.count; i++) {
        if (!index_remove(orphans.blocks[i]->facts.address))
            continue;
        facts_write_freed(orphans.blocks[i], now_ns(), 0, facts_freed_by((uint64_t)gettid(), 0));
        drop(orphans.blocks[i]);
    }
    free(orphans.blocks);
}
