/* Frees, and the streams recorded for a buffer. */
#include "heap_internal.h"

#include "base/error.h"
#include "base/options.h"

#include <stdio.h>

#define RECORDED_MOST 1024u

cufence_status heap_refuse_free(const void *pointer, cufence_description *description)
{
    const uint64_t address = (uint64_t)(uintptr_t)pointer;
    heap_describe_free(address, description);
    const cufence_buffer *buffer = &description->buffer;
    if (description->place == CUFENCE_PLACE_FREED && buffer->address == address) {
        char by[64] = "which ended with its context";
        if (buffer->freed_tid)
            snprintf(by, sizeof by, "which thread %llu has freed", (unsigned long long)buffer->freed_tid);
        return error_set(CUFENCE_ERROR_DOUBLE_FREE, "0x%llx was buffer #%llu of %llu bytes, %s", (unsigned long long)address,
                         (unsigned long long)buffer->id, (unsigned long long)buffer->size, by);
    }
    if (description->place == CUFENCE_PLACE_INSIDE)
        return error_set(CUFENCE_ERROR_INVALID_FREE, "0x%llx lies %llu bytes inside buffer #%llu, which starts at 0x%llx",
                         (unsigned long long)address, (unsigned long long)description->offset, (unsigned long long)buffer->id,
                         (unsigned long long)buffer->address);
    return error_set(CUFENCE_ERROR_INVALID_FREE, "0x%llx was not allocated by cufence", (unsigned long long)address);
}

cufence_status heap_claim(void *pointer, struct heap_claim *claim)
{
    struct block *block = index_claim((uint64_t)(uintptr_t)pointer);
    claim->block = block;
    if (__builtin_expect(!block, 0))
        return heap_refuse_free(pointer, &claim->where);
    claim->context = block->books->context;
    claim->owner = block->owner;
    claim->node = block->node;
    return CUFENCE_OK;
}

void heap_unclaim(const struct heap_claim *claim)
{
    block_expect(claim->block, BLOCK_HELD);
    index_add(claim->block);
}

void heap_claimed(const struct heap_claim *claim, struct heap_range *out)
{
    const struct block *block = claim->block;
    *out = (struct heap_range){.id = block->facts.id,
                               .address = block->facts.address,
                               .size = block->facts.size,
                               .context = claim->context,
                               .device = block->slot.device,
                               .owner = block->owner,
                               .stream = block->facts.stream};
}

/* The next buffer in the block is another one. A block that retires has none. */
static void end_synchronous(struct block *block)
{
    if (block_has(block, RARE_SYNCHRONOUS))
        block_unmark(block, RARE_SYNCHRONOUS);
}

/* Returns the time of the free. The facts must not be read once the block is in a list: another buffer may have it by then.
 * is_retired: a late access will be seen, and it can be told how long ago the free was. */
static uint64_t write_freed(struct block *block, struct stream *stream, int is_retired)
{
    block_expect(block, BLOCK_HELD);
    uint64_t now = now_ns();
    uint32_t stack = heap_options->uaf != UAF_OFF ? facts_stack() : 0;
    if (is_retired)
        __atomic_store_n(&block->ids_at_free, heap_ids(), __ATOMIC_RELAXED);
    facts_write_freed(block, now, stream ? (uint64_t)(uintptr_t)stream->handle : 0, facts_freed_by(thread_id(), stack));
    if (is_retired && block_has(block, RARE_GRAPH))
        __atomic_add_fetch(&blocks_given_freed, 1, __ATOMIC_RELEASE);
    return now;
}

/* Whoever may still use the block has to be done with it first. */
static void wait_for_users(struct block *block, struct stream *stream, enum heap_users users)
{
    if (users == HEAP_NONE) {
        recorded_drop(block);
        return;
    }
    if (users == HEAP_STREAM)
        waits_add(block, stream_ref(stream));
    else if (users == HEAP_CONTEXT)
        waits_add_context(block, block->books);
    else
        waits_add_all(block);
    waits_add_recorded(block);
}

/* ---- memory of graphs ---- */

/* The free is the program's or another capture's, outside of the buffer's own capture, or of a later one into its graph: the
 * memory stays with the graph. */
static void return_to_graph(struct block *block, struct stream *stream, enum heap_users users, struct pool *capture)
{
    freelist_uncount(&block->books->shared, block);
    struct facts facts = block->facts;
    facts.free_stream = stream ? (uint64_t)(uintptr_t)stream->handle : 0;
    facts.who = facts_allocated_tid(&facts) | facts_freed_by(thread_id(), 0);
    facts_write(block, &facts);
    struct scope scope = scope_enter(block->books->context);
    waits_forget(block); /* waits of its previous return */
    scope_leave(scope);
    if (!capture) {
        wait_for_users(block, stream, users);
    } else { /* no event can be recorded on its stream */
        int is_recorded = block_has(block, RARE_RECORDED);
        recorded_drop(block);
        if (is_recorded)
            waits_add_all(block);
        else
            waits_add_context(block, block->books);
    }
    capture_return(block, capture, users == HEAP_NONE);
}

/* Frees within a capture, where nothing may be waited for. Memory that is also used outside of it is not reused until the graph
 * is destroyed. The same goes for everything once the capture's dependencies were changed by hand. */
static void free_in_pool(struct block *block, struct stream *stream, struct pool *pool, int is_ordered)
{
    int is_unwatched = slack_forget(block);
    int is_reusable = is_ordered && is_unwatched && !block_has(block, RARE_ELSEWHERE) && !block_has(block, RARE_RECORDED) &&
                      (block->pool == pool || !pool->is_capture) && !pool_is_spent(pool);
    recorded_drop(block);
    uint64_t now = write_freed(block, stream, heap_options->uaf == UAF_STRICT);
    lock_take(&pool->books->lock); /* the graph may be destroyed right now, and the pool's lists with it */
    struct freelist *list = freelist_in_pool(pool->books, stream, pool);
    block_join(block, pool);
    if (!list) { /* out of host memory */
        list = &block->books->shared;
        block->awaits_context |= AWAITS_FOR_EVER;
        is_reusable = 0;
    }
    freelist_put(list, block, is_reusable ? BLOCK_IDLE : BLOCK_WAITING, now);
    lock_release(&pool->books->lock);
}

/* ---- other memory ---- */

/* Whose free puts the block into the list of its stream, to be used again in the order of that stream. */
static inline struct freelist *own_list(const struct block *block, struct stream *stream, enum heap_users users)
{
    int is_own = users == HEAP_STREAM && stream->context == block->books->context && !block_has(block, RARE_RECORDED);
    return is_own ? freelist_of(stream) : NULL;
}

/* The twin that is to go on with the block's memory, if the place of its allocation is due to have a buffer retired. */
static struct block *take_turn(struct block *block)
{
    struct place *place = place_of(&block->facts);
    struct block *twin = place_is_due(place) || block_has(block, RARE_GRAPH) ? twin_take(block) : NULL;
    if (twin)
        place_had_turn(place);
    return twin;
}

/* Puts a block with memory of its own into a list, as if it was freed now. */
static void go_on_with(struct block *twin, struct freelist *list, uint64_t now)
{
    facts_write_none(twin, now);
    if (freelist_put(list, twin, BLOCK_IDLE, now))
        freelist_mark(list);
}

/* With slack=on and fill=FRESH/FREED: checks what is around a freed buffer, and overwrites it. Returns whether work of ours
 * uses it that is not in the order of `list` (NULL: any work). */
static int release_contents(struct block *block, struct stream *stream, enum heap_users users, const struct freelist *list,
                            int has_twin)
{
    int is_used = 0, is_recorded = block_has(block, RARE_RECORDED);
    if (block->slack)
        slack_release(block, stream, users, is_recorded, has_twin);
    if (heap_options->poison != FILL_OFF && !is_recorded && !block_has(block, RARE_ELSEWHERE)) {
        if (users == HEAP_STREAM && stream->context == block->books->context)
            fill_freed(block, stream);
        else if (users == HEAP_NONE)
            is_used = fill_freed_idle(block);
    }
    if (block->slack)
        is_used |= slack_wait_for(block, list) | books_keeps(block->books, block->slot.base);
    return is_used;
}

/* Puts a held block that is to be unmapped into the shared list, with its waits. */
static void leave(struct block *block, uint64_t now)
{
    if (block_has(block, RARE_GRAPH)) {
        __atomic_add_fetch(&blocks_leaving, 1, __ATOMIC_RELAXED);
        block_mark(block, RARE_LEAVING);
    }
    freelist_put(&block->books->shared, block, BLOCK_RETIRING, now);
    wake_worker();
}

/* Frees a buffer whose block is retired while a twin goes on with its memory: at once in the order of the stream that freed it,
 * or else when nobody uses the buffer any more. */
static void free_for_twin(struct block *block, struct block *twin, struct stream *stream, enum heap_users users)
{
    struct books *books = block->books;
    struct freelist *own = own_list(block, stream, users), *list = users == HEAP_NONE ? &books->shared : own;
    uint64_t now = write_freed(block, stream, 1);
    if (release_contents(block, stream, users, own, 1))
        list = NULL;     /* the twin's memory is still in use */
    slack_forget(block); /* what is around the buffer is the twin's from here on */
    wait_for_users(block, stream, users);
    if (list) {
        go_on_with(twin, list, now);
        block->is_replaced = 1;
        figure_add(&books->replaced, 1);
    } else {
        facts_write_none(twin, now);
        block->successor = twin;
    }
    leave(block, now);
}

/* Frees a buffer that is used by more than one stream of its own context, or that is to be unmapped. Any other too, but slower.
 */
static void free_with_waits(struct block *block, struct stream *stream, enum heap_users users)
{
    end_synchronous(block);
    int is_strict = (heap_options->uaf == UAF_STRICT && !block_is_cell(block)) || block_has(block, RARE_GRAPH);
    int is_retired = is_strict || block_has(block, RARE_ELSEWHERE);
    struct freelist *shared = &block->books->shared;
    uint64_t now = write_freed(block, stream, is_strict);
    int is_used = release_contents(block, stream, users, NULL, 0), is_idle = users == HEAP_NONE && !is_used;
    wait_for_users(block, stream, users);
    if (is_retired && !is_idle) {
        leave(block, now);
        return;
    }
    enum block_state state = is_retired ? BLOCK_PAST : is_idle ? BLOCK_IDLE : BLOCK_WAITING;
    freelist_put(shared, block, state, now);
    if (state == BLOCK_PAST) {
        figure_add(&shared->retired, 1);
        block_release(block);
    }
}

/* Buffers that a graph allocates again are not counted again. */
static struct heap_freed what_was_freed(const struct block *block)
{
    return block->is_counted ? (struct heap_freed){block->facts.size, block->slot.mapped, block->owner}
                             : (struct heap_freed){0};
}

/* Handles graph memory, and frees within a capture. Returns 0 if it is neither. */
static int free_of_graph(struct block *block, struct stream *stream, enum heap_users users)
{
    end_synchronous(block);
    struct books *books = block->books;
    struct pool *pool = block->pool && pool_is_held(block->pool) ? block->pool : NULL, *capture = NULL;
    if (users == HEAP_STREAM && (!pool || pool->is_capture))
        capture = pool_of(books, stream);
    if (capture && block->pool && block->pool->is_capture)
        pool = block->pool; /* also if its graph is gone: it lives until the capture's graph is launched */
    if (!pool && !capture) {
        if (!block->pool)
            return 0;
        if (block_is_returned_now(block))
            capture_forget(block);
        block_join(block, NULL);
        return 0;
    }
    if (pool && pool->is_capture && (capture != pool || capture_may_be_launched(pool))) {
        return_to_graph(block, stream, users, capture);
        return 1;
    }
    if (block_is_returned_now(block))
        capture_forget(block);
    int is_own_stream = stream && stream->context == books->context;
    free_in_pool(block, is_own_stream ? stream : &books->context->legacy, pool ? pool : capture,
                 users == HEAP_NONE || (users == HEAP_STREAM && is_own_stream));
    return 1;
}

/* Into the list of the stream, to be used again in its order. rare: of the block and the heap. */
static inline void free_in_order(struct block *block, struct freelist *list, struct stream *stream, unsigned rare)
{
    uint64_t now = write_freed(block, stream, 0);
    if ((heap_options->slack || rare & RARE_CELL) && block->slack && !slack_freed(list, block)) {
        free_with_waits(block, stream, HEAP_STREAM);
        return;
    }
    if (rare & RARE_FILL_FREED)
        fill_freed(block, stream);
    if (freelist_put(list, block, BLOCK_IDLE, now))
        freelist_mark(list);
}

/* Of all kinds of frees, the block's. Inlined, for where nothing tells of captures each free comes this way. */
static inline __attribute__((always_inline)) void free_as_it_is(struct block *block, struct stream *stream,
                                                                enum heap_users users)
{
    unsigned rare = block_rare(block) | heap_rare_now();
    if ((rare & (RARE_POOL | RARE_CAPTURES) || rare >= RARE_POOL_BEGUN) && free_of_graph(block, stream, users))
        return;
    rare = block_rare(block) | heap_rare_now(); /* it may have left its pool */
    struct block *twin = rare & RARE_TWIN ? take_turn(block) : NULL;
    struct freelist *list = own_list(block, stream, users);
    if (twin)
        free_for_twin(block, twin, stream, users);
    else if (!list || rare & (RARE_GRAPH | RARE_SYNCHRONOUS | RARE_ELSEWHERE) || (rare & RARE_STRICT && !(rare & RARE_CELL)))
        free_with_waits(block, stream, users);
    else
        free_in_order(block, list, stream, rare);
}

/* A pool's memory, whose context may end right now: then the stream's context has it from here on, or any of its device. */
static void free_outside(struct block *block, struct stream *stream, enum heap_users users)
{
    struct books *entered = NULL;
    while (!entered && (users != HEAP_STREAM || stream->context != block->books->context)) {
        if (books_enter(block->books)) {
            entered = block->books;
        } else if (!orphan_adopt(block, stream)) {
            orphan_drop(block);
            return;
        }
    }
    free_as_it_is(block, stream, users);
    if (entered)
        books_leave(entered);
}

/* Any free. */
static __attribute__((noinline)) void free_rarely(struct block *block, struct stream *stream, enum heap_users users)
{
    const unsigned rare = block_rare(block) | heap_rare_now();
    if (rare & RARE_POISON)
        poison_freed(block->facts.address, block->facts.size, stream, users);
    if (rare & RARE_CELL)
        pack_count(block, -1);
    if (block_outlives_context(block))
        free_outside(block, stream, users);
    else
        free_as_it_is(block, stream, users);
}

/* The way of nearly all: a buffer that only its own stream uses. */
void heap_free(const struct heap_claim *claim, struct stream *stream, enum heap_users users, struct heap_freed *freed)
{
    struct block *block = claim->block;
    const unsigned rare = block_rare(block) | (heap_rare_now() & ~(unsigned)RARE_ALLOCATIONS_ONLY);
    struct freelist *list = users == HEAP_STREAM && stream->context == block->books->context ? freelist_of(stream) : NULL;
    if (freed)
        *freed = what_was_freed(block);
    if (__builtin_expect(!rare && list, 1))
        free_in_order(block, list, stream, 0);
    else
        free_rarely(block, stream, users);
}

/* ---- recorded streams ---- */

static cufence_status record(struct block *block, struct stream *stream)
{
    recorded_lock(block);
    size_t before = block->recorded_count, count = stream_refs_add(&block->recorded, before, RECORDED_MOST, stream);
    if (count) {
        block->recorded_count = (uint16_t)count;
        block_mark(block, RARE_RECORDED);
    }
    recorded_unlock(block);
    return count ? CUFENCE_OK
                 : error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "cannot record stream %zu of a buffer: no memory, or more than %u",
                             before + 1, RECORDED_MOST);
}

cufence_status heap_record_stream(void *pointer, CUstream handle)
{
    uint64_t address = (uint64_t)(uintptr_t)pointer;
    struct block *block = pointer ? index_find(address) : NULL;
    if (!pointer)
        return CUFENCE_OK;
    if (!block)
        return error_set(CUFENCE_ERROR_NOT_FOUND, "no live buffer starts at 0x%llx", (unsigned long long)address);
    struct context *context = block->books->context;
    struct stream *stream = stream_is_default(handle) ? stream_in(context, handle) : stream_resolve(handle);
    return stream
               ? record(block, stream)
               : error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "the driver cannot tell the context of stream %p", (void *)handle);
}

cufence_status heap_claim_record(const struct heap_claim *claim, struct stream *stream)
{
    return record(claim->block, stream);
}
