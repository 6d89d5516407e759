/* Pages that small buffers share: how they are cut into cells, and which cells are in them. Then what is packed: small buffers,
 * once that has begun, except a rotating few of each place of allocation. */
#include "pack.h"

#include "heap/block/places.h"
#include "heap/graphs/graphs.h"
#include "heap/slack/watch.h"

#include "base/aside.h"
#include "base/options.h"
#include "base/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AWAIT_US 10u /* how often and how long an allocation that any stream may use waits for the pattern of a new page */
#define AWAIT_TIMES 64u

/* ---- a page and its cells; callers hold the lock of the packs, unless they made the page ---- */

static void list_page(struct page *page)
{
    lock_expect(RANK_PACK);
    DL_PREPEND(page->block->books->pages[page->cells.class], page);
    page->is_listed = 1;
}

static void unlist_page(struct page *page)
{
    lock_expect(RANK_PACK);
    if (page->is_listed)
        DL_DELETE(page->block->books->pages[page->cells.class], page);
    page->is_listed = 0;
}

static struct block *take_cell(struct page *page)
{
    lock_expect(RANK_PACK);
    struct block *cell = page->cells_inside;
    page->cells_inside = cell->next;
    if (!--page->inside)
        unlist_page(page);
    return cell;
}

static void put_cell(struct page *page, struct block *cell)
{
    lock_expect(RANK_PACK);
    cell->next = page->cells_inside;
    page->cells_inside = cell;
    if (!page->inside++)
        list_page(page);
}

/* The last cell ends where the page does, and has its guard. */
static void init_cell(struct page *page, uint32_t number)
{
    const struct block *whole = page->block;
    const struct cells *cells = &page->cells;
    struct block *cell = &page->blocks[number];
    uint16_t tag = cell->tag; /* goes on, see index.c */
    uint64_t base = whole->slot.base + cells->leftover + number * cells->bytes, first = number ? 0 : cells->leftover;
    uint64_t guard = number + 1 == cells->count ? whole->slot.span - whole->slot.mapped : 0;
    memset(cell, 0, sizeof *cell);
    cell->slot = (struct slot){.base = base - first,
                               .mapped = cells->bytes + first,
                               .span = cells->bytes + first + guard,
                               .device = whole->slot.device,
                               .is_mapped = 1};
    cell->books = whole->books;
    cell->pages = (CELL_PAGES + cells->class) & (2 * CELL_PAGES - 1);
    cell->rare = RARE_CELL;
    cell->is_blank = 1;
    cell->page = page;
    cell->tag = tag;
    pthread_spin_init(&cell->recorded_lock, PTHREAD_PROCESS_PRIVATE);
}

/* One of a page that was unmapped: threads may still look at its cells, so it is not given back to the host. Otherwise a new
 * one. NULL: the host has no memory. */
static struct page *obtain_page(struct books *books, const struct cells *cells)
{
    lock_take(&books->pack_lock);
    struct page *page = books->spare_pages[cells->class];
    if (page)
        books->spare_pages[cells->class] = page->next;
    lock_release(&books->pack_lock);
    if (page || (page = calloc(1, sizeof *page + cells->count * sizeof page->entries[0])) == NULL)
        return page;
    page->blocks = line_alloc(cells->count * sizeof *page->blocks);
    if (page->blocks)
        return page;
    free(page);
    return NULL;
}

static struct page *make_page(struct block *block, const struct cells *cells)
{
    struct page *page = obtain_page(block->books, cells);
    if (!page)
        return NULL;
    page->block = block;
    page->cells = *cells;
    page->is_written = 1;
    for (uint32_t i = 0; i < cells->count; i++)
        init_cell(page, i);
    __atomic_store_n(&block->page, page, __ATOMIC_RELEASE);
    index_pack(page);
    figure_add(&block->books->packed_mapped, block->slot.mapped);
    return page;
}

/* All cells are in it, and it is in no list. Who looks at the arena may still see them until block_unmap() has locked that. */
static void unmap_page(struct page *page)
{
    struct block *block = page->block;
    struct books *books = block->books;
    for (uint32_t i = 0; i < page->cells.count; i++) {
        if (page->blocks[i].slack)
            slack_forget(&page->blocks[i]);
    }
    index_unpack(page);
    __atomic_store_n(&block->page, NULL, __ATOMIC_RELEASE);
    figure_sub(&books->packed_mapped, block->slot.mapped);
    block_unmap(block);
    page->cells_inside = NULL;
    page->inside = 0;
    HOLD(&books->pack_lock);
    page->next = books->spare_pages[page->cells.class];
    books->spare_pages[page->cells.class] = page;
}

/* ---- the pattern of a new page ---- */

/* In a scope of the stream's context. */
static int launch_pattern(const struct page *page, const struct stream *stream)
{
    const struct slot *slot = &page->block->slot;
    struct watch *watch = watch_of(page->block->books);
    return watch && watch_begin(watch) && pattern_fill(watch->fill, stream->handle, slot->base, slot->mapped) == CUDA_SUCCESS;
}

/* On the stream of the list, if the calling thread may use that now. */
static int launch_in_order(const struct page *page, struct freelist *list)
{
    struct stream *stream = __atomic_load_n(&list->stream, __ATOMIC_RELAXED);
    if (!stream)
        return 0;
    stream_touch_begin(stream); /* the program is allocating on it */
    int is_there = __atomic_load_n(&list->stream, __ATOMIC_RELAXED) == stream;
    struct scope scope = scope_enter_stream(is_there ? stream : NULL);
    int is_launched = scope.pushed && launch_pattern(page, stream);
    scope_leave(scope);
    stream_touch_end(stream);
    return is_launched;
}

/* Puts all cells but the first into the list, as if they had been freed behind the pattern; returns the first. */
static struct block *hand_over(struct page *page, struct freelist *list)
{
    uint64_t now = now_ns();
    int is_due = 0;
    for (uint32_t i = page->cells.count; i-- > 1;) {
        facts_write_none(&page->blocks[i], now);
        is_due |= freelist_put(list, &page->blocks[i], BLOCK_IDLE, now);
    }
    if (is_due)
        freelist_mark(list);
    return &page->blocks[0];
}

/* Whether the pattern is there. Only that of pages which any stream may use is asked for: they wait for cufence's own stream.
 * In a scope. */
static int is_written(struct page *page)
{
    if (!page->is_written) {
        const struct stream *own = books_stream(page->block->books);
        page->is_written = own && driver->cuStreamQuery(own->handle) == CUDA_SUCCESS;
    }
    return page->is_written;
}

/* Memory that any stream may use. All cells are in the page until the pattern is there. Returns 0 if nothing was launched. */
static int launch_for_all(struct page *page)
{
    const struct stream *own = books_stream(page->block->books);
    if (!own || !launch_pattern(page, own))
        return 0;
    page->is_written = 0;
    HOLD(&page->block->books->pack_lock);
    for (uint32_t i = page->cells.count; i-- > 0;)
        put_cell(page, &page->blocks[i]);
    return 1;
}

/* ---- entry points ---- */

int pack_may_cut(struct freelist *list)
{
    const struct stream *stream = __atomic_load_n(&list->stream, __ATOMIC_RELAXED);
    struct watch *watch = watch_of(list->books);
    return (list == &list->books->shared || (stream && stream_is_named_here(stream))) && watch && watch_begin(watch);
}

/* Returns a cell; or NULL, and whether that is because the pattern of its page is still being written. */
static struct block *try_to_take(struct books *books, uint32_t class, int *is_pending)
{
    struct page *page;
    struct block *cell = NULL;
    *is_pending = 0;
    HOLD(&books->pack_lock);
    DL_FOREACH(books->pages[class], page)
    {
        if (is_written(page)) {
            cell = take_cell(page);
            break;
        }
        *is_pending = 1;
    }
    return cell;
}

struct block *pack_take(struct books *books, const struct cells *cells, int *is_pending)
{
    struct block *cell = NULL;
    for (unsigned i = 0; i < AWAIT_TIMES && !(cell = try_to_take(books, cells->class, is_pending)) && *is_pending; i++)
        aside_sleep(AWAIT_US);
    return cell;
}

struct block *pack_cut(struct freelist *list, const struct cells *cells, struct block *block)
{
    int is_shared = list == &list->books->shared, is_pending;
    struct page *page = make_page(block, cells);
    if (!page) {
        block_unmap(block);
        return NULL;
    }
    if (is_shared ? launch_for_all(page) : launch_in_order(page, list))
        return is_shared ? pack_take(list->books, cells, &is_pending) : hand_over(page, list);
    unmap_page(page);
    return NULL;
}

static void give_back(struct block *cell)
{
    block_expect(cell, BLOCK_HELD);
    struct page *page = cell->page;
    struct books *books = page->block->books;
    block_join(cell, NULL);
    if (cell->books != books) { /* block_adopt() */
        slack_forget(cell);
        cell->books = books;
        block_unmark(cell, RARE_ELSEWHERE);
    }
    list_lock(&books->shared); /* once the page is unmapped, nothing else knows what was in the cell */
    freelist_remember(&books->shared, &cell->facts);
    list_unlock(&books->shared);
    lock_take(&books->pack_lock);
    put_cell(page, cell);
    int is_empty = page->inside == page->cells.count;
    if (is_empty)
        unlist_page(page);
    lock_release(&books->pack_lock);
    if (is_empty)
        unmap_page(page);
}

void block_release(struct block *block)
{
    if (block_is_cell(block)) {
        give_back(block);
        return;
    }
    if (block->slack)
        slack_forget(block);
    block_unmap(block);
}

void blocks_release(struct block *first)
{
    struct block *block, *next;
    DL_FOREACH_SAFE(first, block, next)
    {
        DL_DELETE(first, block);
        block_release(block);
    }
}

/* Takes a page out of the lists in which all cells are. If the context is gone, the others are in no list any more either. */
static struct page *take_page(struct books *books, int is_gone)
{
    struct page *page, *next, *found = NULL;
    HOLD(&books->pack_lock);
    for (unsigned class = 0; class < CELLS_CLASSES && !found; class ++) {
        DL_FOREACH_SAFE(books->pages[class], page, next)
        {
            int is_found = page->inside == page->cells.count && (is_gone || is_written(page));
            if (is_gone || is_found)
                unlist_page(page);
            if (is_found) {
                found = page;
                break;
            }
        }
    }
    return found;
}

void pack_trim(struct books *books)
{
    struct page *page;
    while (figure(&books->packed_mapped) && (page = take_page(books, 0)) != NULL)
        unmap_page(page);
}

void pack_context_gone(struct books *books)
{
    struct page *page;
    while ((page = take_page(books, 1)) != NULL)
        unmap_page(page);
}

void pack_count(struct block *cell, int change)
{
    struct books *books = cell->books;
    uint64_t size = cell->facts.size;
    figure_add(&books->packed_buffers, (uint64_t)(int64_t)change);
    figure_add(&books->packed_bytes, (uint64_t)(int64_t)change * size);
    if (change > 0)
        figure_add(&books->packed_ever, 1);
}

/* ---- what is packed ---- */

#define MOST_SHARE 5 /* small=auto: all pack once the pages of small buffers take so many per cent of a device's memory */

int packing_may(const struct freelist *list, const struct heap_request *wanted, uint64_t align, struct cells *out)
{
    return heap_options->small != SMALL_MAP && wanted->size <= CELLS_SIZE_MOST && !list->pool &&
           wanted->device == list->books->context->device && !heap_may_capture() &&
           cells_for(heap_granularity, wanted->size, align, out);
}

static int has_idle_page(struct freelist *list)
{
    list_lock(list);
    int has = list->bins[freelist_bin(1)] != NULL;
    list_unlock(list);
    return has;
}

/* Whether another page may be mapped for one small buffer. While there is room, twice as many may be if it is the first of its
 * place: what other places hold for long keeps none from the hardware. */
static int may_be_alone(const struct books *books, struct cells_turns turns, int is_first)
{
    int is_half = turns.round == CELLS_HALF.round;
    uint64_t alone = figure(&books->alone_bytes);
    return cells_may_be_alone(turns, heap_granularity, is_half && is_first ? alone / 2 : alone,
                              __atomic_load_n(is_half ? &books->mapped_bytes : &books->packed_mapped, __ATOMIC_RELAXED));
}

int packing_wants(struct freelist *list, const struct heap_request *wanted, uint64_t align, uint64_t label, struct cells *out)
{
    if (!packing_may(list, wanted, align, out))
        return 0;
    const struct facts facts = {
        .size = wanted->size, .stream = wanted->stream ? (uint64_t)(uintptr_t)wanted->stream->handle : 0, .label = label};
    struct place *place = place_of(&facts);
    struct cells_turns turns =
        __atomic_load_n(&list->books->packing, __ATOMIC_RELAXED) == PACKING_HALF ? CELLS_HALF : CELLS_ALL;
    uint32_t before = __atomic_load_n(&place->packed, __ATOMIC_RELAXED);
    int is_due = before % turns.round == 0;
    if (is_due && !has_idle_page(list) && !may_be_alone(list->books, turns, !before))
        return 1; /* its turn comes when there is a page */
    __atomic_add_fetch(&place->packed, 1, __ATOMIC_RELAXED);
    return !is_due;
}

static uint64_t share_of(struct books *books)
{
    size_t total = 0;
    uint64_t most = figure(&books->alone_most);
    if (!most && driver->cuDeviceTotalMem(&total, books->context->device) == CUDA_SUCCESS) {
        most = total / 100 * MOST_SHARE + 1;
        figure_set(&books->alone_most, most);
    }
    return most ? most : UINT64_MAX;
}

int packing_is_due(struct books *books)
{
    return figure(&books->alone_bytes) + heap_granularity > share_of(books);
}

int packing_begin_half(struct books *books)
{
    enum packing none = PACKING_NONE;
    if (heap_options->small != SMALL_AUTO || heap_options->uaf == UAF_STRICT || may_be_alone(books, CELLS_HALF, 0) ||
        !__atomic_compare_exchange_n(&books->packing, &none, PACKING_HALF, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return 0;
    heap_mark(RARE_PACKING);
    return 1;
}

void packing_begin(struct books *books, enum packing_why why)
{
    char reason[160];
    if (__atomic_exchange_n(&books->packing, PACKING_ALL, __ATOMIC_RELAXED) == PACKING_ALL)
        return;
    heap_mark(RARE_PACKING);
    if (why == PACKING_SHARE)
        snprintf(reason, sizeof reason, "those for small buffers take more than %d per cent of its memory", MOST_SHARE);
    else
        snprintf(reason, sizeof reason, "%s is nearly used up",
                 why == PACKING_SCARCE ? "its memory" : "cufence's address space (`ulimit -v`)");
    output_say(
        "cufence: from now on small buffers (up to 512 KiB) on GPU %d share pages of 2 MiB, because %s. Kernels check the "
        "redzones between them; a rotating few still have pages of their own, flush with a guard. small=map never "
        "packs, small=pack does from the start (see docs/memory.md)\n",
        books->context->device, reason);
}
