/* A block for an allocation whose list has none: of other streams, of a page that is shared, or newly mapped. */
#include "heap_internal.h"

#include "base/aside.h"
#include "base/clock.h"
#include "base/options.h"

#include <sched.h>
#include <unistd.h>

/* Takes a passed block of another stream's list. In a scope. */
static struct block *steal(struct freelist *list, uint64_t pages, uint64_t waste)
{
    struct books *books = list->books;
    freelist_advance(&books->shared);
    HOLD(&books->lock);
    freelist_drain(books);
    struct block *block = freelist_steal(books, list == &books->shared ? NULL : list, pages, waste);
    return block;
}

#define RETIRED_SPINS 64
#define RETIRED_MOST_NS 10000000ull /* 10 ms, in which some 150 blocks are retired */

/* Whether memory of that size is being retired, or is about to be. */
static int is_coming(struct books *books, uint64_t pages)
{
    uint64_t most = pages + pages * REUSE_WASTE / 100;
    for (unsigned bin = freelist_bin(pages); bin <= freelist_bin(most); bin++) {
        if (__atomic_load_n(&books->coming[bin], __ATOMIC_RELAXED))
            return 1;
    }
    return freelist_has_retired(&books->shared, pages, most);
}

/* With uaf=strict, for a program that allocates faster than the background thread retires: waits for memory that the thread is
 * about to have. To create some and map it takes no less time, the driver does one at a time, and the thread would lag behind
 * more and more. In a scope. */
static struct block *await_retired(struct freelist *list, uint64_t pages)
{
    const uint64_t until = now_ns() + RETIRED_MOST_NS;
    struct block *block = NULL;
    for (unsigned spins = 0; !block && is_coming(list->books, pages) && now_ns() < until; spins++) {
        if (spins < RETIRED_SPINS)
            sched_yield();
        else
            usleep(20);
        block = steal(list, pages, REUSE_WASTE);
    }
    return block;
}

/* Takes a cell from another stream, or out of a page, a new one if necessary. In a scope. On NULL with an OK *status the buffer
 * needs a page of its own. layout: of the buffer in such a page. */
static struct block *obtain_cell(struct freelist *list, const struct heap_request *wanted, const struct layout *layout,
                                 const struct cells *cells, cufence_status *status)
{
    struct block *cell = steal(list, CELL_PAGES + cells->class, 0), *page = NULL;
    int is_pending = 0;
    if (!cell)
        cell = pack_take(list->books, cells, &is_pending);
    if (!cell && !is_pending && pack_may_cut(list))
        page = memory_map(list->books, wanted, layout, 0, RESERVE_DRIVER, status);
    return page ? pack_cut(list, cells, page) : cell;
}

/* Returns whether the small buffer for which a page would be mapped is to share one, and others from here on. */
static int begins_packing(struct books *books, const struct heap_request *wanted)
{
    if (__atomic_load_n(&books->packing, __ATOMIC_RELAXED) == PACKING_ALL)
        return 0; /* it is its turn */
    enum packing_why why = packing_is_due(books) ? PACKING_SHARE : arena_is_scarce() ? PACKING_SPACE : PACKING_SCARCE;
    if (why == PACKING_SCARCE && memory_is_scarce(books, wanted, RESERVE))
        memory_release(books, wanted->device, 1);
    if (why != PACKING_SCARCE || memory_is_scarce(books, wanted, RESERVE)) {
        packing_begin(books, why);
        return 1;
    }
    return packing_begin_half(books);
}

/* The device is full, and what was freed last is still in use: memory that comes before the caller's own work on its stream
 * will do, as it does for the driver's pools. In a scope. */
static struct block *borrow(struct freelist *list, uint64_t pages)
{
    struct books *books = list->books;
    CUevent event = NULL;
    lock_take(&books->lock);
    struct block *block = freelist_borrow(books, list, pages, &event);
    lock_release(&books->lock);
    if (!block || !event)
        return block;
    SCOPE scope = scope_enter_stream(list->stream);
    if (scope.pushed && driver->cuStreamWaitEvent(list->stream->handle, event, 0) == CUDA_SUCCESS)
        return block;
    waits_add_context(block, books);
    freelist_move(&books->shared, block, BLOCK_WAITING);
    return NULL;
}

#define PENDING_MOST_MS 1000
#define PENDING_PAUSE_US 5000

/* Memory that was freed in the order of streams, and is still in use, may be of any size; the driver would cut it to fit. Ours
 * is mapped anew once its streams have passed, for which it is given some time. */
static struct block *await_pending(struct books *books, const struct heap_request *wanted, const struct layout *layout,
                                   cufence_status *status)
{
    const uint64_t until = monotonic_ms() + PENDING_MOST_MS;
    struct block *block = NULL;
    while (!block && heap_lacks_room(*status) && reclaim_pending_bytes(wanted->device) >= layout->mapped &&
           monotonic_ms() < until) {
        aside_sleep(PENDING_PAUSE_US);
        block = memory_map(books, wanted, layout, 0, RESERVE, status);
    }
    return block;
}

/* What a stream can have that no other memory can be found for. In a scope. */
static struct block *find_pending(struct freelist *list, const struct heap_request *wanted, const struct layout *layout,
                                  cufence_status *status)
{
    if (list->pool || list == &list->books->shared || wanted->device != list->books->context->device)
        return NULL;
    struct block *block = borrow(list, layout->pages);
    if (block || !wanted->is_last_try) /* the driver is asked first */
        return block;
    return await_pending(list->books, wanted, layout, status);
}

/* The list itself has no idle block. Tries blocks that have passed meanwhile, then those of other streams, then a new
 * mapping. */
static struct block *find_or_map(struct freelist *list, const struct heap_request *wanted, const struct layout *layout,
                                 cufence_status *status)
{
    struct books *books = list->books;
    struct block *block = NULL;
    struct cells cells;
    *status = space_need();
    if (*status != CUFENCE_OK)
        return NULL;
    struct scope scope = scope_enter(books->context);
    if (!list->pool && wanted->device == books->context->device) {
        block = steal(list, layout->pages, REUSE_WASTE);
        if (!block && heap_options->uaf == UAF_STRICT)
            block = await_retired(list, layout->pages);
    }
    int may_pack = !block && packing_may(list, wanted, layout->align, &cells);
    if (may_pack && begins_packing(books, wanted))
        block = obtain_cell(list, wanted, layout, &cells, status);
    if (!block)
        block = memory_map(books, wanted, layout, list->pool != NULL, RESERVE, status);
    if (!block && heap_lacks_room(*status) && !may_wait(wanted))
        block = find_pending(list, wanted, layout, status);
    if (!block && may_pack && heap_lacks_room(*status)) {
        packing_begin(books, *status == CUFENCE_ERROR_OUT_OF_MEMORY ? PACKING_SCARCE : PACKING_SPACE);
        block = obtain_cell(list, wanted, layout, &cells, status);
        if (!block && *status == CUFENCE_OK)
            *status = memory_still_full(wanted->device, wanted->size);
    }
    scope_leave(scope);
    return block;
}

struct obtaining {
    struct freelist *list;
    const struct heap_request *wanted;
    const struct layout *layout;
    const struct cells *cells; /* the buffer is to share a page; NULL: it need not */
    cufence_status *status;
    struct block *block;
};

static void obtain_aside(void *argument)
{
    struct obtaining *at = argument;
    if (!at->cells) {
        at->block = find_or_map(at->list, at->wanted, at->layout, at->status);
        return;
    }
    struct scope scope = scope_enter(at->list->books->context);
    at->block = obtain_cell(at->list, at->wanted, at->layout, at->cells, at->status);
    scope_leave(scope);
}

__attribute__((noinline)) struct block *obtain(struct freelist *list, const struct heap_request *wanted,
                                               const struct layout *layout, const struct cells *cells, cufence_status *status)
{
    struct obtaining obtaining = {list, wanted, layout, cells, status, NULL};
    aside_call(obtain_aside, &obtaining);
    if (obtaining.block)
        freelist_count(list, wanted->size);
    return obtaining.block;
}
