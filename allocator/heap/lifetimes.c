/* The beginning of the heap and of contexts, and the end of streams and contexts. */
#include "heap_internal.h"

#include "base/aside.h"
#include "base/options.h"

struct sharing {
    int device, peer;
};

static void share(void *argument)
{
    const struct sharing *sharing = argument;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    int can = 0;
    if (driver->cuDeviceCanAccessPeer(&can, sharing->peer, sharing->device) == CUDA_SUCCESS && can) {
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
    freelist_ends = slack_list_gone;
    heap_unmark(RARE_OPTIONS);
    heap_mark((options->uaf == UAF_STRICT ? RARE_STRICT : 0) | (options->poison != FILL_OFF ? RARE_FILL_FREED : 0) |
              (options->fill != FILL_OFF ? RARE_FILL_FRESH : 0) | (options->side == SIDE_ALTERNATE ? RARE_ALTERNATES : 0) |
              (options->small == SMALL_PACK ? RARE_PACKING : 0));
    passed_open();
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

/* ---- contexts and streams ---- */

void heap_context_begun(struct context *context)
{
    struct books *books = books_make(context);
    if (!books)
        return;
    events_fill(books);
    slack_context_begun(books);
}

void heap_stream_ends(struct stream *stream)
{
    struct freelist *list = stream->books, *other;
    struct context *context = stream->context;
    struct books *books = context ? books_of(context) : NULL;
    struct pool *pool;
    if (heap_may_capture())
        capture_lose(stream);
    heap_capture_ends(stream);
    if (!books)
        return;
    if (list) {
        slack_flush_touched(list, stream, 0);
        if (freelist_is_unmarked(list))
            freelist_mark_touched(list, stream);
        freelist_end(list);
        wake_sleeping_worker();
    }
    HOLD(&books->lock);
    LL_FOREACH(books->pools, pool)
    {
        LL_FOREACH(pool->lists, other)
        {
            if (other->stream == stream) /* nobody reuses its blocks until the pool is destroyed */
                __atomic_store_n(&other->stream, NULL, __ATOMIC_RELAXED);
        }
    }
}

/* A batch of live blocks of a context. Fixed in size, so that it needs no host memory. */
struct orphans {
    const struct books *books;
    struct block *blocks[256];
    size_t count;
};

static int collect_live(struct slot *slot, void *user)
{
    struct orphans *orphans = user;
    struct block *block = (struct block *)slot;
    if (block_books_now(block) != orphans->books || !slot->is_mapped || index_find(block->facts.address) != block)
        return 0;
    if (block_outlives_context(block))
        return 0;
    orphans->blocks[orphans->count++] = block;
    return orphans->count == sizeof orphans->blocks / sizeof *orphans->blocks;
}

/* ---- memory of pools, which outlives contexts ---- */

int orphan_adopt(struct block *block, const struct stream *stream)
{
    struct books *own = block->books;
    struct context *context = stream ? stream->context : context_for_pool(own->context->device, NULL);
    struct books *books = context && context != own->context ? books_make(context) : NULL;
    if (!books)
        return 0;
    slack_await(block);
    slack_forget(block);
    freelist_uncount(&own->shared, block);
    block_adopt(block, books);
    return 1;
}

/* Nobody of ours can wait for whoever uses it: without a context nothing runs. */
void orphan_drop(struct block *block)
{
    facts_write_freed(block, now_ns(), 0, facts_freed_by(thread_id(), 0));
    freelist_put(&block->books->shared, block, BLOCK_PAST, now_ns());
    block_release(block);
}

/* Unmaps a held block whose context was destroyed, and its events with it: at once, or when another context no longer uses it.
 */
static void drop(struct block *block)
{
    recorded_drop(block);
    waits_drop_context(block, block->books);
    block->awaits_context = 0;
    block->returned = 0;
    if (waits_are_over(block) || !block->wait_count) {
        block_release(block);
        return;
    }
    slack_forget(block);
    block_join(block, NULL);
    waits_adopt(block, block->waits->of);
    freelist_put(&block->books->shared, block, BLOCK_RETIRING, now_ns());
}

static void drop_all(struct block *gone)
{
    struct block *block, *next;
    DL_FOREACH_SAFE(gone, block, next)
    {
        DL_DELETE(gone, block);
        drop(block);
    }
}

/* Gives up every list. Their blocks go into *gone. */
static void give_up_lists(struct books *books, struct block **gone)
{
    struct freelist *list, *next;
    struct pool *pool;
    HOLD(&books->lock);
    freelist_take_all(&books->shared, gone);
    LL_CONCAT(books->lists, books->draining);
    books->draining = books->draining_last = NULL;
    LL_FOREACH(books->pools, pool)
    {
        LL_CONCAT(books->lists, pool->lists);
        pool->lists = NULL;
        pool_forget_user(pool);
    }
    LL_FOREACH_SAFE(books->lists, list, next)
    {
        LL_DELETE(books->lists, list);
        freelist_take_all(list, gone);
        list->marker_count = 0; /* the events were destroyed */
        freelist_recycle(list);
    }
    books->event_count = 0;
}

static void drop_live(struct books *books)
{
    struct orphans orphans = {.books = books};
    do {
        orphans.count = 0;
        blocks_each(collect_live, &orphans);
        for (size_t i = 0; i < orphans.count; i++) {
            struct block *block = orphans.blocks[i];
            const uint64_t address = block_address_now(block); /* 0: a cell whose page has been cut anew meanwhile */
            if (!address || index_claim(address) != block)
                continue;
            if (block_is_cell(block))
                pack_count(block, -1);
            facts_write_freed(block, now_ns(), 0, facts_freed_by(0, 0)); /* by no thread: see cufence.h */
            freelist_put(&books->shared, block, BLOCK_PAST, now_ns());
            drop(block);
        }
    } while (orphans.count);
}

/* Blocks elsewhere need no longer wait for work of this context. */
static void end_foreign_waits(const struct books *gone)
{
    struct block *block;
    for (struct books *books = waits_foreign() ? books_next(NULL, -1) : NULL; books; books = books_next(books, -1)) {
        if (books == gone)
            continue;
        list_lock(&books->shared);
        DL_FOREACH(books->shared.waiting, block)
        waits_drop_context(block, gone);
        DL_FOREACH(books->shared.retiring, block)
        waits_drop_context(block, gone);
        list_unlock(&books->shared);
    }
}

void heap_context_gone(struct context *context)
{
    struct books *books = books_of(context);
    struct block *gone = NULL;
    if (!books)
        return;
    capture_forget_all(books);
    give_up_lists(books, &gone);
    drop_all(gone);
    drop_live(books);
    end_foreign_waits(books);
    slack_context_gone(books);
    poison_context_gone(context);
    pack_context_gone(books);
    books_forget_stream(books);
}
