/* Opens the heap, and allocates. */
#include "internal.h"

#include "base/aside.h"
#include "base/error.h"
#include "guard/layout.h"
#include "base/options.h"
#include "stacks/labels.h"
#include "vmm/physical.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const struct options *heap_options;

struct sharing {
    int device, peer;
};

static void share(void *argument)
{
    const struct sharing *sharing = argument;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    int can = 0;
    if (driver->cuDeviceCanAccessPeer && driver->cuDeviceCanAccessPeer(&can, sharing->peer, sharing->device) == CUDA_SUCCESS &&
        can) {
        driver->cuThreadExchangeStreamCaptureMode(&mode);
        arena_share(sharing->device, sharing->peer);
        driver->cuThreadExchangeStreamCaptureMode(&mode);
    }
}

void heap_share(int device, int peer)
{
    struct sharing sharing = {device, peer};
    if (!arena_is_shared(device, peer))
        aside_call(share, &sharing);
}

static void share_everything(void)
{
    int devices = 0;
    driver->cuDeviceGetCount(&devices);
    for (int device = 0; device < devices; device++) {
        for (int peer = 0; peer < devices; peer++)
            heap_share(device, peer);
    }
}

cufence_status heap_open(const struct options *options)
{
    heap_options = options;
    passed_open();
    physical_configure(options->cache_max);
    cufence_status status = space_open();
    if (status != CUFENCE_OK)
        return status;
    status = worker_start();
    if (status != CUFENCE_OK)
        space_close();
    else if (options->peers == PEERS_ON)
        share_everything();
    return status;
}

void heap_close(void)
{
    worker_stop();
}

static _Alignas(CACHE_LINE) uint64_t given[CACHE_LINE / sizeof(uint64_t)]; /* ids; atomic; alone on its cache line */

uint64_t heap_ids(void)
{
    return __atomic_load_n(&given[0], __ATOMIC_RELAXED);
}

/* Returns the next id. Ids ascend per thread; a thread takes several at a time, to keep threads off each other's cache line. */
static uint64_t take_id(void)
{
    enum { AT_ONCE = 16 };
    static HOT_TLS uint64_t next, end;
    if (next == end) {
        next = __atomic_fetch_add(&given[0], AT_ONCE, __ATOMIC_RELAXED);
        end = next + AT_ONCE;
    }
    return ++next;
}

/* Writes the places of allocation that hold most of the memory: "; most is held by train.py:12 in forward (1 GiB in 3), ...".
 */
static void say_holders(int device, char *out, size_t size)
{
    struct heap_use *use;
    size_t count = heap_use(device, &use), used = 0;
    out[0] = '\0';
    for (size_t i = 0; use && i < count && i < 3 && used < size; i++) {
        struct use_place place;
        char name[128];
        heap_use_place(&use[i], &place);
        use_place_name(&place, name, sizeof name);
        int length = snprintf(out + used, size - used, "%s%s (%llu bytes in %llu buffers)", i ? ", " : "; most is held by ",
                              name, (unsigned long long)use[i].mapped_bytes, (unsigned long long)use[i].buffers);
        used += length > 0 ? (size_t)length : 0;
    }
    free(use);
}

/* Reports what holds the memory: "out of memory" alone is of no help. */
static cufence_status out_of_memory(int device, uint64_t size, uint64_t mapped)
{
    cufence_stats stats = {0};
    size_t free_bytes = 0, all_bytes = 0;
    char holders[512];
    heap_stats(device, &stats);
    driver->cuMemGetInfo(&free_bytes, &all_bytes);
    say_holders(device, holders, sizeof holders);
    return error_set(
        CUFENCE_ERROR_OUT_OF_MEMORY,
        "no memory for %llu bytes (%llu with its mapping) on device %d: %zu of %zu bytes are free; %llu live buffers "
        "ask for %llu bytes and map %llu, of which graphs hold %llu%s. A buffer takes whole pages of 2 MiB",
        (unsigned long long)size, (unsigned long long)mapped, device, free_bytes, all_bytes,
        (unsigned long long)stats.live_buffers, (unsigned long long)stats.live_bytes, (unsigned long long)stats.mapped_bytes,
        (unsigned long long)stats.captured_bytes, holders);
}

#define FULL_NS 100000000ull         /* 0.1 s */
#define SCARCE_WAITS 500             /* of 1 ms in which nothing is retired */
#define SCARCE_MOST_NS 2000000000ull /* 2 s, also if something is */
#define DEVICES 64

static uint64_t full_ns[DEVICES]; /* atomic: when nothing more could be released on the device; 0: never */

/* A full device is not searched anew for each of thousands of buffers that something else has room for. */
static int was_just_full(int device)
{
    uint64_t then = device < DEVICES ? __atomic_load_n(&full_ns[device], __ATOMIC_RELAXED) : 0;
    return then && now_ns() - then < FULL_NS;
}

static void note_full(int device)
{
    if (device < DEVICES)
        __atomic_store_n(&full_ns[device], now_ns(), __ATOMIC_RELAXED);
}

static cufence_status still_full(int device, uint64_t size)
{
    return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "no memory for %llu bytes on device %d, which was full a moment ago",
                     (unsigned long long)size, device);
}

/* Returns when the background thread has released what it was working on. */
static void await_worker(void)
{
    visit_begin();
    visit_end();
}

/* The last 1/32 of a device's memory is for small buffers that share pages, with small=map for those that the driver allocates;
 * the last 1/64 of it for the driver in any case, if it may. */
#define RESERVE 32
#define RESERVE_DRIVER 64

static int is_nearly_full(const struct books *books)
{
    size_t total = 0;
    return driver->cuDeviceTotalMem(&total, books->context->device) == CUDA_SUCCESS &&
           __atomic_load_n(&books->mapped_bytes, __ATOMIC_RELAXED) > total / 8 * 7;
}

/* Whether pages for such a buffer would use up what many of them need: less than 1/`reserve` of the memory is free. The driver
 * is asked for that only once most of the device is mapped. */
static int is_scarce(const struct books *books, const struct heap_request *wanted, unsigned reserve)
{
    size_t free_bytes = 0, all_bytes = 0;
    int has_use = heap_options->fallback || (heap_options->small != SMALL_MAP && reserve == RESERVE);
    return has_use && !wanted->is_last_try && wanted->size <= CELLS_SIZE_MOST && wanted->device == books->context->device &&
           is_nearly_full(books) && driver->cuMemGetInfo(&free_bytes, &all_bytes) == CUDA_SUCCESS &&
           free_bytes < all_bytes / reserve;
}

/* Whether memory is scarce also when what can be released has been. With uaf=strict most of what was freed waits for work that
 * is not over, which is given some time, but is not synchronised with: it may be waiting for the caller. Other threads may take
 * what this one releases. */
static int stays_scarce(const struct books *books, const struct heap_request *wanted, unsigned reserve)
{
    const uint64_t began = now_ns();
    uint64_t retired = __atomic_load_n(&books->shared.retired, __ATOMIC_RELAXED), before;
    unsigned waits = 0;
    if (was_just_full(wanted->device))
        return 1;
    for (;;) {
        await_worker();
        reclaim_device(books->context, wanted->device, 1);
        if (!is_scarce(books, wanted, reserve))
            return 0;
        if (heap_options->uaf != UAF_STRICT || now_ns() - began >= SCARCE_MOST_NS)
            break;
        before = retired;
        retired = __atomic_load_n(&books->shared.retired, __ATOMIC_RELAXED);
        if (retired != before)
            continue;
        if (++waits > SCARCE_WAITS)
            break;
        usleep(1000);
    }
    note_full(wanted->device);
    return 1;
}

/* Maps a new block. If necessary, releases memory that is kept for reuse on the device. reserve: see is_scarce(). */
static struct block *map_anew(struct books *books, const struct heap_request *wanted, const struct layout *layout,
                              int is_captured, unsigned reserve, cufence_status *status)
{
    int device = wanted->device, is_brief = !wanted->is_last_try && heap_options->fallback && was_just_full(device);
    int is_alone = reserve == RESERVE && heap_options->small != SMALL_MAP && wanted->size <= CELLS_SIZE_MOST;
    int hardest = is_brief ? -1 : is_captured ? 1 : 2; /* a synchronisation would invalidate the capture */
    if (!is_captured && is_scarce(books, wanted, reserve) && stays_scarce(books, wanted, reserve)) {
        *status = still_full(device, wanted->size);
        return NULL;
    }
    struct block *block = block_map(books, device, layout, is_alone, status);
    for (int level = 0; !block && level <= hardest; level++) {
        if (!heap_lacks_room(*status))
            return NULL;
        if (level >= 1)
            await_worker();
        reclaim_device(books->context, device, level);
        if (level >= 1) { /* it may have had the second mapping of what was released just now */
            await_worker();
            reclaim_device(books->context, device, 0);
        }
        block = block_map(books, device, layout, is_alone, status);
    }
    if (!block && *status == CUFENCE_ERROR_OUT_OF_MEMORY)
        *status = is_brief ? still_full(device, wanted->size) : out_of_memory(device, wanted->size, layout->mapped);
    if (!block && heap_lacks_room(*status) && !is_brief && !is_captured)
        note_full(device);
    return block;
}

/* Takes a passed block of another stream's list. In a scope. */
static struct block *steal(struct freelist *list, uint64_t pages, uint64_t waste)
{
    struct books *books = list->books;
    freelist_advance(&books->shared);
    lock_take(&books->lock);
    freelist_drain(books);
    struct block *block = freelist_steal(books, list == &books->shared ? NULL : list, pages, waste);
    lock_release(&books->lock);
    return block;
}

#define RETIRED_SPINS 64
#define RETIRED_MOST_NS 10000000ull /* 10 ms, in which some 150 blocks are retired */

/* Whether memory of that size is being retired, or is about to be. */
static int is_coming(struct books *books, uint64_t pages)
{
    uint64_t most = pages + pages * heap_options->waste / 100;
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
        block = steal(list, pages, heap_options->waste);
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
        page = map_anew(list->books, wanted, layout, 0, RESERVE_DRIVER, status);
    return page ? pack_cut(list, cells, page) : cell;
}

/* Small buffers have been mapped one by one until now. Returns whether they are to share pages from here on. */
static int begins_packing(struct books *books, const struct heap_request *wanted)
{
    enum packing_why why = packing_is_due(books) ? PACKING_SHARE : arena_is_scarce() ? PACKING_SPACE : PACKING_SCARCE;
    if (why == PACKING_SCARCE && is_scarce(books, wanted, RESERVE))
        reclaim_device(books->context, wanted->device, 1);
    if (why == PACKING_SCARCE && !is_scarce(books, wanted, RESERVE))
        return 0;
    packing_begin(books, why);
    return 1;
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
        block = steal(list, layout->pages, heap_options->waste);
        if (!block && heap_options->uaf == UAF_STRICT)
            block = await_retired(list, layout->pages);
    }
    int may_pack = !block && packing_may(list, wanted, layout->align, &cells);
    if (may_pack && !__atomic_load_n(&books->is_packing, __ATOMIC_RELAXED) && begins_packing(books, wanted))
        block = obtain_cell(list, wanted, layout, &cells, status);
    if (!block)
        block = map_anew(books, wanted, layout, list->pool != NULL, RESERVE, status);
    if (!block && may_pack && heap_lacks_room(*status)) {
        packing_begin(books, *status == CUFENCE_ERROR_OUT_OF_MEMORY ? PACKING_SCARCE : PACKING_SPACE);
        block = obtain_cell(list, wanted, layout, &cells, status);
        if (!block && *status == CUFENCE_OK)
            *status = still_full(wanted->device, wanted->size);
    }
    if (block)
        freelist_count(list, wanted->size);
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

/* Asks the driver, and may wait. */
static __attribute__((noinline)) struct block *obtain(struct freelist *list, const struct heap_request *wanted,
                                                      const struct layout *layout, const struct cells *cells,
                                                      cufence_status *status)
{
    struct obtaining obtaining = {list, wanted, layout, cells, status, NULL};
    aside_call(obtain_aside, &obtaining);
    return obtaining.block;
}

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

/* Returns the option's alignment, or that of the request if it is larger. 0: align=auto suffices. */
static uint64_t align_of(const struct heap_request *wanted)
{
    uint64_t align = heap_options->align;
    return wanted->align > (align ? align : layout_auto_align(wanted->size)) ? wanted->align : align;
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
    lock_take(&books->lock);
    struct freelist *list = freelist_in_pool(books, stream, pool); /* stays valid while the caller captures */
    lock_release(&books->lock);
    return list;
}

cufence_status heap_allocate(void **pointer, const struct heap_request *wanted, uint64_t *mapped)
{
    cufence_status status = CUFENCE_OK;
    size_t size = wanted->size;
    struct context *context = wanted->context;
    if (__atomic_load_n(&context->fault, __ATOMIC_RELAXED) != CUDA_SUCCESS)
        return error_set(CUFENCE_ERROR_FAULTED,
                         "a kernel has already faulted on device %d, see its report; on_fault=continue allocates "
                         "nevertheless",
                         context->device);
    if (size == 0) {
        *pointer = NULL;
        return CUFENCE_OK;
    }
    enum layout_side side = side_of();
    struct layout layout;
    struct problem problem;
    status = layout_compute(&(struct layout_request){.size = size,
                                                     .align = align_of(wanted),
                                                     .side = side,
                                                     .granularity = heap_granularity,
                                                     .guard_min = heap_options->guard,
                                                     .guard_max = heap_options->guard_max},
                            &layout, &problem);
    if (status != CUFENCE_OK)
        return error_set(status, "%s", problem.text);
    struct books *books = books_of(context);
    if (__builtin_expect(!books, 0))
        books = books_make(context);
    struct freelist *list = books ? list_for(books, wanted->stream) : NULL;
    if (!list)
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory to keep track of a stream");
    uint64_t label = facts_label(label_current(), facts_stack());
    struct block *block = NULL;
    struct cells cells;
    if (__builtin_expect(__atomic_load_n(&books->is_packing, __ATOMIC_RELAXED), 0) &&
        packing_wants(list, wanted, layout.align, label, &cells))
        block = take_cell(list, wanted, &layout, &cells, &status);
    if (!block && wanted->device == context->device && !pool_is_spent(list->pool))
        block = freelist_take(list, layout.pages, heap_options->waste, size);
    if (!block)
        block = obtain(list, wanted, &layout, NULL, &status);
    if (!block)
        return status;
    block_join(block, list->pool);
    block->owner = wanted->owner;
    block->is_counted = 1;
    int is_fresh = !block->facts.id; /* mapped for this buffer */
    int is_cell = block_is_cell(block);
    if (mapped)
        *mapped = block->slot.mapped;
    struct facts facts = {.id = take_id(),
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
    *pointer = (void *)(uintptr_t)facts.address; /* before index_add(): another thread may free it after that */
    index_add(block);
    return CUFENCE_OK;
}
