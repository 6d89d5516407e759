/* Allocates. */
#include "heap_internal.h"

#include "base/error.h"
#include "guard/layout.h"
#include "base/options.h"
#include "stacks/labels.h"

/* Returns the option's alignment, or that of the request or of the place of allocation if it is larger. 0: align=auto suffices.
 */
static inline uint64_t align_of(const struct heap_request *wanted, uint64_t label, unsigned rare)
{
    uint64_t align = heap_options->align, more = wanted->align;
    if (rare & RARE_ALIGNMENT) {
        const struct facts facts = {
            .label = label, .size = wanted->size, .stream = wanted->stream ? (uint64_t)(uintptr_t)wanted->stream->handle : 0};
        more = place_align(&facts) > more ? place_align(&facts) : more;
    }
    return more > (align ? align : layout_auto_align(wanted->size)) ? more : align;
}

static inline enum layout_side side_of(unsigned rare)
{
    static unsigned allocations; /* atomic */
    if (rare & RARE_ALTERNATES)
        return __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED) % 2 ? LAYOUT_START : LAYOUT_END;
    return heap_options->side == SIDE_START ? LAYOUT_START : LAYOUT_END;
}

static inline cufence_status lay_out(const struct heap_request *wanted, enum layout_side side, uint64_t align,
                                     struct layout *layout)
{
    struct problem problem;
    cufence_status status = layout_compute(&(struct layout_request){.size = wanted->size,
                                                                    .align = align,
                                                                    .side = side,
                                                                    .granularity = heap_granularity,
                                                                    .guard_min = heap_options->guard,
                                                                    .guard_max = heap_options->guard_max},
                                           layout, &problem);
    if (status == CUFENCE_OK && layout->pages >= CELL_PAGES)
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "no device has %zu bytes", wanted->size);
    return status == CUFENCE_OK ? status : error_set(status, "%s", problem.text);
}

static inline void write_allocated(struct block *block, uint64_t address, uint64_t size, uint64_t stream, uint64_t label)
{
    const struct facts facts = {.id = facts_next_id(),
                                .address = address,
                                .size = size,
                                .stream = stream,
                                .allocated_ns = now_ns(),
                                .who = thread_id(),
                                .label = label};
    facts_write(block, &facts);
}

/* Makes a held block a buffer, which another thread may free before this returns. */
static inline void hand_out(struct block *block, struct freelist *list, const struct heap_request *wanted,
                            const struct layout *layout, enum layout_side side, uint64_t label, void **pointer)
{
    int is_fresh = !block->facts.id; /* mapped for this buffer */
    int is_cell = block_is_cell(block);
    uint64_t address =
        block->slot.base + (is_cell ? cells_offset : layout_offset)(block->slot.mapped, wanted->size, layout->align, side);
    block->owner = wanted->owner;
    block->node = wanted->node;
    block->is_counted = 1;
    write_allocated(block, address, wanted->size, wanted->stream ? (uint64_t)(uintptr_t)wanted->stream->handle : 0, label);
    if (heap_options->slack | is_cell)
        slack_hand_out(list, block, address, wanted->size, is_fresh);
    *pointer = (void *)(uintptr_t)address;
}

/* ---- the rare ways ---- */

/* Returns the list to take freed blocks from; its pool, if any, will own the buffer. */
static struct freelist *list_for(struct books *books, struct stream *stream)
{
    if (!stream || stream->context != books->context)
        return &books->shared; /* memory for another context's stream: only blocks that nobody uses any more */
    struct pool *pool = pool_of(books, stream);
    if (!pool)
        return freelist_of(stream);
    HOLD(&books->lock);
    return freelist_in_pool(books, stream, pool); /* stays valid while the caller captures */
}

static struct block *take_block(struct freelist *list, const struct heap_request *wanted, const struct layout *layout,
                                uint64_t label, cufence_status *status)
{
    struct block *block = NULL;
    struct cells cells;
    if (__atomic_load_n(&list->books->packing, __ATOMIC_RELAXED) && packing_wants(list, wanted, layout->align, label, &cells) &&
        !(block = freelist_take(list, CELL_PAGES + cells.class, 0, wanted->size)))
        block = obtain(list, wanted, layout, &cells, status);
    if (!block && wanted->device == wanted->context->device && !pool_is_spent(list->pool))
        block = freelist_take(list, layout->pages, REUSE_WASTE, wanted->size);
    return block ? block : obtain(list, wanted, layout, NULL, status);
}

/* Any allocation. */
static __attribute__((noinline)) cufence_status allocate_rarely(void **pointer, const struct heap_request *wanted,
                                                                const struct layout *layout, enum layout_side side,
                                                                uint64_t label, uint64_t *mapped)
{
    struct context *context = wanted->context;
    cufence_status status = CUFENCE_OK;
    struct books *books = books_of(context);
    if (!books)
        books = books_make(context);
    struct freelist *list = books ? list_for(books, wanted->stream) : NULL;
    if (!list)
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory to keep track of a stream");
    struct block *block = take_block(list, wanted, layout, label, &status);
    if (!block)
        return status;
    block_join(block, list->pool);
    if (mapped)
        *mapped = block->slot.mapped;
    hand_out(block, list, wanted, layout, side, label, pointer);
    if (block_is_cell(block))
        pack_count(block, 1);
    if (heap_rare_now() & RARE_FILL_FRESH)
        fill_fresh(list, block->facts.address, wanted->size);
    if (list->pool)
        capture_hold(block);
    index_add(block);
    return CUFENCE_OK;
}

/* ---- the way of nearly all: a block that the stream itself has freed ---- */

static __attribute__((noinline)) cufence_status allocate_nothing(void **pointer, const struct context *context)
{
    if (__atomic_load_n(&context->fault, __ATOMIC_RELAXED) != CUDA_SUCCESS)
        return error_set(CUFENCE_ERROR_FAULTED,
                         "a kernel has already faulted on device %d, see its report; on_fault=continue allocates all the same",
                         context->device);
    *pointer = NULL;
    return CUFENCE_OK;
}

/* NULL: the allocation is a rare one. */
static inline struct freelist *plain_list(const struct heap_request *wanted, unsigned rare)
{
    struct stream *stream = wanted->stream;
    const struct context *context = wanted->context;
    if (rare & ~(unsigned)RARE_NOT_OF_LISTS || !stream || stream->context != context || wanted->device != context->device)
        return NULL;
    return __atomic_load_n((struct freelist **)&stream->books, __ATOMIC_ACQUIRE);
}

cufence_status heap_allocate(void **pointer, const struct heap_request *wanted, uint64_t *mapped)
{
    if (__builtin_expect(__atomic_load_n(&wanted->context->fault, __ATOMIC_RELAXED) != CUDA_SUCCESS || !wanted->size, 0))
        return allocate_nothing(pointer, wanted->context);
    const unsigned rare = heap_rare_now();
    const uint64_t label = facts_label(label_current(), facts_stack());
    const enum layout_side side = side_of(rare);
    struct layout layout;
    cufence_status status = lay_out(wanted, side, align_of(wanted, label, rare), &layout);
    if (status != CUFENCE_OK)
        return status;
    struct freelist *list = plain_list(wanted, rare);
    struct block *block =
        __builtin_expect(list != NULL, 1) ? freelist_take(list, layout.pages, REUSE_WASTE, wanted->size) : NULL;
    if (__builtin_expect(!block, 0))
        return allocate_rarely(pointer, wanted, &layout, side, label, mapped);
    if (mapped)
        *mapped = block->slot.mapped;
    hand_out(block, list, wanted, &layout, side, label, pointer);
    index_add(block);
    return CUFENCE_OK;
}

/* ---- other entry points ---- */

int heap_wants_alignment(uint64_t address, uint32_t align)
{
    struct block *block = index_holding(address);
    const struct facts facts = block ? facts_read(block) : (struct facts){0};
    return facts.id && place_wants(&facts, align);
}

/* ---- buffers with CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, which the driver does not take for mapped memory: the hooks wait ---- */

int heap_has_synchronous;

static struct block *live_at(uint64_t address)
{
    struct heap_range range;
    return heap_range_of(address, &range) ? index_holding(address) : NULL;
}

int heap_set_synchronous(uint64_t address, int is_on)
{
    struct block *block = live_at(address);
    if (!block)
        return 0;
    if (is_on) {
        block_mark(block, RARE_SYNCHRONOUS);
        __atomic_store_n(&heap_has_synchronous, 1, __ATOMIC_RELAXED);
    } else {
        block_unmark(block, RARE_SYNCHRONOUS);
    }
    return 1;
}

int heap_asks_synchronous(uint64_t address)
{
    const struct block *block = live_at(address);
    return block && block_rare(block) & RARE_SYNCHRONOUS;
}

/* ---- a buffer of a pool that lives again ---- */

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
    write_allocated(block, was->address, was->size, was->stream, facts_label(label_current(), was->allocated_stack));
    index_add(block);
    return CUFENCE_OK;
}

/* ---- or by the driver ---- */

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
