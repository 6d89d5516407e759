/* Allocates. */
#include "heap_internal.h"

#include "base/error.h"
#include "guard/layout.h"
#include "base/options.h"
#include "stacks/labels.h"

/* The buffer is to share a page. NULL: as obtain_cell(). */
static struct block *take_cell(struct freelist *list, const struct heap_request *wanted, const struct layout *layout,
                               const struct cells *cells, cufence_status *status)
{
    struct block *cell = freelist_take(list, CELL_PAGES + cells->class, 0, wanted->size);
    if (cell)
        return cell;
    cell = obtain(list, wanted, layout, cells, status);
    if (cell)
        freelist_count(list, wanted->size);
    return cell;
}

/* Returns the option's alignment, or that of the request or of the place of allocation if it is larger. 0: align=auto suffices.
 */
static uint64_t align_of(const struct heap_request *wanted, uint64_t label)
{
    uint64_t align = heap_options->align, more = wanted->align;
    if (__builtin_expect(__atomic_load_n(&places_want, __ATOMIC_RELAXED), 0)) {
        const struct facts facts = {
            .label = label, .size = wanted->size, .stream = wanted->stream ? (uint64_t)(uintptr_t)wanted->stream->handle : 0};
        more = place_align(&facts) > more ? place_align(&facts) : more;
    }
    return more > (align ? align : layout_auto_align(wanted->size)) ? more : align;
}

static enum layout_side side_of(void)
{
    static unsigned allocations; /* atomic */
    switch (heap_options->side) {
    case SIDE_ALTERNATE:
        return __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED) % 2 ? LAYOUT_START : LAYOUT_END;
    case SIDE_START:
        return LAYOUT_START;
    default:
        return LAYOUT_END;
    }
}

/* Returns the list to take freed blocks from; its pool, if any, will own the buffer. */
static struct freelist *list_for(struct books *books, struct stream *stream)
{
    if (!stream || stream->context != books->context)
        return &books->shared; /* memory for another context's stream: only blocks that nobody uses any more */
    struct pool *pool = pool_of(books, stream);
    if (__builtin_expect(!pool, 1))
        return freelist_of(stream);
    HOLD(&books->lock);
    struct freelist *list = freelist_in_pool(books, stream, pool); /* stays valid while the caller captures */
    return list;
}

static inline cufence_status lay_out(const struct heap_request *wanted, enum layout_side side, uint64_t label,
                                     struct layout *layout)
{
    struct problem problem;
    cufence_status status = layout_compute(&(struct layout_request){.size = wanted->size,
                                                                    .align = align_of(wanted, label),
                                                                    .side = side,
                                                                    .granularity = heap_granularity,
                                                                    .guard_min = heap_options->guard,
                                                                    .guard_max = heap_options->guard_max},
                                           layout, &problem);
    if (status == CUFENCE_OK && layout->pages >= CELL_PAGES)
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "no device has %zu bytes", wanted->size);
    return status == CUFENCE_OK ? status : error_set(status, "%s", problem.text);
}

static inline struct block *take_block(struct freelist *list, const struct heap_request *wanted, const struct layout *layout,
                                       uint64_t label, cufence_status *status)
{
    struct block *block = NULL;
    struct cells cells;
    if (__builtin_expect(__atomic_load_n(&list->books->packing, __ATOMIC_RELAXED), 0) &&
        packing_wants(list, wanted, layout->align, label, &cells))
        block = take_cell(list, wanted, layout, &cells, status);
    if (!block && wanted->device == wanted->context->device && !pool_is_spent(list->pool))
        block = freelist_take(list, layout->pages, REUSE_WASTE, wanted->size);
    return block ? block : obtain(list, wanted, layout, NULL, status);
}

cufence_status heap_allocate(void **pointer, const struct heap_request *wanted, uint64_t *mapped)
{
    size_t size = wanted->size;
    struct context *context = wanted->context;
    if (__atomic_load_n(&context->fault, __ATOMIC_RELAXED) != CUDA_SUCCESS)
        return error_set(CUFENCE_ERROR_FAULTED,
                         "a kernel has already faulted on device %d, see its report; on_fault=continue allocates all the same",
                         context->device);
    if (size == 0) {
        *pointer = NULL;
        return CUFENCE_OK;
    }
    enum layout_side side = side_of();
    uint64_t label = facts_label(label_current(), facts_stack());
    struct layout layout;
    cufence_status status = lay_out(wanted, side, label, &layout);
    if (status != CUFENCE_OK)
        return status;
    struct books *books = books_of(context);
    if (__builtin_expect(!books, 0))
        books = books_make(context);
    struct freelist *list = books ? list_for(books, wanted->stream) : NULL;
    if (!list)
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory to keep track of a stream");
    struct block *block = take_block(list, wanted, &layout, label, &status);
    if (!block)
        return status;
    block_join(block, list->pool);
    block->owner = wanted->owner;
    block->node = wanted->node;
    block->is_counted = 1;
    int is_fresh = !block->facts.id; /* mapped for this buffer */
    int is_cell = block_is_cell(block);
    if (mapped)
        *mapped = block->slot.mapped;
    struct facts facts = {.id = facts_next_id(),
                          .address = block->slot.base +
                                     (is_cell ? cells_offset : layout_offset)(block->slot.mapped, size, layout.align, side),
                          .size = size,
                          .stream = wanted->stream ? (uint64_t)(uintptr_t)wanted->stream->handle : 0,
                          .allocated_ns = now_ns(),
                          .who = thread_id(),
                          .label = label};
    facts_write(block, &facts);
    if (is_cell)
        pack_count(block, 1);
    if (__builtin_expect(heap_options->slack | is_cell, 0))
        slack_hand_out(list, block, facts.address, size, is_fresh);
    if (__builtin_expect(heap_options->fill != FILL_OFF, 0))
        fill_fresh(list, facts.address, size);
    if (__builtin_expect(list->pool != NULL, 0))
        capture_hold(block);
    *pointer = (void *)(uintptr_t)facts.address; /* before index_add(): another thread may free it after that */
    index_add(block);
    return CUFENCE_OK;
}

int heap_wants_alignment(uint64_t address, uint32_t align)
{
    struct block *block = index_holding(address);
    const struct facts facts = block ? facts_read(block) : (struct facts){0};
    return facts.id && place_wants(&facts, align);
}

struct seeking {
    const cufence_buffer *was;
    struct block *block;
};

static void seek(struct slot *slot, uint64_t gap_start, void *user)
{
    struct seeking *seeking = user;
    (void)gap_start;
    if (slot->base == seeking->was->mapping_start)
        seeking->block = (struct block *)slot;
}

static struct block *take_back(struct pool *pool, const cufence_buffer *was, struct freelist **from)
{
    struct seeking seeking = {was, NULL};
    struct block *block = NULL;
    arena_visit(was->mapping_start, 1, seek, &seeking);
    if (!seeking.block || __atomic_load_n(&seeking.block->pool, __ATOMIC_RELAXED) != pool)
        return NULL;
    HOLD(&pool->books->lock);
    for (*from = pool->lists; *from && !block; *from = block ? *from : (*from)->next)
        block = freelist_take_this(*from, seeking.block) ? seeking.block : NULL;
    return block;
}

cufence_status heap_revive(int device, const uint64_t id[2], const cufence_buffer *was)
{
    cufence_status status = CUFENCE_OK;
    struct freelist *from;
    struct pool *pool = pool_named(device, id, &status);
    struct block *block = pool ? take_back(pool, was, &from) : NULL;
    if (!block)
        return pool ? error_set(CUFENCE_ERROR_NOT_FOUND, "the memory of buffer #%llu at 0x%llx is in use, or not the pool's",
                                (unsigned long long)was->id, (unsigned long long)was->address)
                    : status;
    freelist_count(from, was->size);
    block->is_counted = 1;
    block->owner = HEAP_TORCH;
    block->node = 0;
    struct facts facts = {.id = facts_next_id(),
                          .address = was->address,
                          .size = was->size,
                          .stream = was->stream,
                          .allocated_ns = now_ns(),
                          .who = thread_id(),
                          .label = facts_label(label_current(), was->allocated_stack)};
    facts_write(block, &facts);
    index_add(block);
    return CUFENCE_OK;
}

cufence_status passed_or_guarded(void **pointer, const struct heap_request *wanted, const void *frame)
{
    enum passed_reason why = passed_why(wanted, frame);
    passed_settle(0);
    if (why != PASSED_NOT && wanted->size && passed_leave(pointer, wanted, why))
        return CUFENCE_OK;
    cufence_status status = heap_allocate(pointer, wanted, NULL);
    why = __builtin_expect(status != CUFENCE_OK, 0) ? passed_after(status) : PASSED_NOT;
    if (__builtin_expect(why == PASSED_NOT, 1))
        return status;
    if (passed_may_fit(wanted) && passed_leave(pointer, wanted, why))
        return CUFENCE_OK;
    struct heap_request again = *wanted;
    again.is_last_try = 1;
    return heap_allocate(pointer, &again, NULL);
}
