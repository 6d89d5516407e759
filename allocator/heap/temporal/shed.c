/*
 * Memory that the program has freed is kept to be used again, but it is the device's: what is kept beyond a share of what the
 * program uses goes back where the driver would give it back, and all of it before anybody is refused.
 */
#include "temporal.h"

#include "heap/pack/pack.h"

#include "base/aside.h"
#include "base/clock.h"
#include "vmm/physical.h"

/* Smaller mappings cost more to make again than the driver's pools ask for as much memory (H200: 100 us for 2 MiB, 7 us there;
 * from here on less than there). The background thread releases them when they are old. */
#define SHED_PAGES 16

/* Of a list: what could be used by others at once, in bytes. */
static uint64_t passed_bytes(struct freelist *list)
{
    list_lock(list);
    freelist_ask_markers(list);
    uint64_t bytes = list->passed >= list->freed ? list_idle_bytes(list) : 0;
    list_unlock(list);
    return bytes;
}

/* In a scope. */
static uint64_t kept_of(struct books *books)
{
    uint64_t sum = 0;
    HOLD(&books->lock);
    for (struct freelist *list = freelist_next(books, NULL); list; list = freelist_next(books, list))
        sum += passed_bytes(list);
    return sum;
}

struct kept {
    int device;
    uint64_t bytes;
};

static void add_kept(struct books *books, void *user)
{
    *(uint64_t *)user += kept_of(books);
}

static void sum_up(void *argument)
{
    struct kept *kept = argument;
    const struct context *own = context_known_current();
    kept->bytes = physical_cached_bytes(kept->device);
    for (struct books *books = books_next(NULL, kept->device); books; books = books_next(books, kept->device))
        reclaim_visit(own, books, 0, add_kept, &kept->bytes);
}

uint64_t heap_kept(int device)
{
    struct kept kept = {.device = device};
    aside_call(sum_up, &kept);
    return kept.bytes;
}

/* ---- beyond a share of what is used ---- */

struct shedding {
    struct books *books;
    struct freelist *list; /* NULL: all */
    uint64_t may_keep;     /* on top of that share, ... */
    int is_all;            /* ... or nothing else */
};

static uint64_t idle_of(const struct shedding *shedding)
{
    return shedding->list ? list_idle_bytes(shedding->list) : reclaim_idle_bytes(shedding->books);
}

static struct block *take_large(const struct shedding *shedding, uint64_t bytes)
{
    struct block *gone = NULL;
    uint64_t taken = 0;
    if (shedding->list) {
        freelist_take_large(shedding->list, SHED_PAGES, bytes, &gone);
        return gone;
    }
    HOLD(&shedding->books->lock);
    struct freelist *list = freelist_next(shedding->books, NULL);
    for (; list && taken < bytes; list = freelist_next(shedding->books, list))
        taken += freelist_take_large(list, SHED_PAGES, bytes - taken, &gone);
    return gone;
}

#define CHECK_TRIES 200  /* of 0.5 ms: a check takes microseconds, but others may use the GPU */
#define RETIRED_TRIES 20 /* likewise: what is around them is being checked, or a check is being launched */

/* The memory may still be mapped where a twin has taken a retired block's place. The background thread unmaps that soon, but
 * who allocates next may be another process. */
static void end_retired(struct books *books)
{
    if (!figure(&books->shared.retiring_count) || !visit_begin(books, VISIT_MS))
        return;
    reclaim_retired(books);
    for (int tries = 0; tries < RETIRED_TRIES && figure(&books->replaced); tries++) {
        aside_sleep(500);
        reclaim_retired(books);
    }
    visit_end(books);
}

/* Whether what was freed waits for a check that the background thread has launched behind it since. */
static int awaits_check(const struct shedding *shedding)
{
    struct books *books = shedding->books;
    if (shedding->list)
        return freelist_awaits_check(shedding->list);
    HOLD(&books->lock);
    struct freelist *list = freelist_next(books, NULL);
    while (list && !freelist_awaits_check(list))
        list = freelist_next(books, list);
    return list != NULL;
}

/* What a synchronisation could not tell because of such checks, markers do. */
static void settle_idle(const struct shedding *shedding)
{
    struct books *books = shedding->books;
    unsigned tries = shedding->is_all ? RETIRED_TRIES : CHECK_TRIES;
    if (shedding->is_all) {
        end_retired(books);
        reclaim_look(books, 0);
    }
    while (tries-- && (shedding->is_all ? reclaim_is_behind(books) : awaits_check(shedding))) {
        aside_sleep(500);
        reclaim_look(books, 0);
    }
}

/* Returns the bytes to give back. */
static uint64_t too_much(const struct shedding *shedding)
{
    uint64_t mapped = figure(&shedding->books->mapped_bytes), idle = idle_of(shedding);
    uint64_t used = mapped > idle ? mapped - idle : 0, share = used > KEPT_ANYWAY ? used : KEPT_ANYWAY;
    uint64_t most = (shedding->is_all ? 0 : share) + shedding->may_keep;
    return idle > most ? idle - most : 0;
}

static void shed(void *argument)
{
    const struct shedding *shedding = argument;
    struct books *books = shedding->books;
    SCOPE scope = scope_enter(books->context);
    RETURNS_MEMORY;
    if (!scope.pushed || !(shedding->is_all || too_much(shedding)))
        return;
    settle_idle(shedding);
    uint64_t bytes = too_much(shedding);
    struct block *gone = bytes ? take_large(shedding, bytes) : NULL;
    if (!gone)
        return;
    blocks_release(gone);
    end_retired(books);
    physical_trim(books->context->device);
    const struct shedding all = {.books = books};
    if (heap_gives_back)
        heap_gives_back(books->context->device, idle_of(&all));
}

static void shed_if_much(struct books *books, struct freelist *list, uint64_t may_keep)
{
    struct shedding shedding = {.books = books, .list = list, .may_keep = may_keep};
    const uint64_t mapped = figure(&books->mapped_bytes), most = KEPT_ANYWAY + may_keep;
    if (mapped > most && idle_of(&shedding) > most && books_enter(books)) {
        aside_call(shed, &shedding);
        books_leave(books);
    }
}

void heap_shed(struct context *context, uint64_t may_keep)
{
    struct books *books = books_of(context);
    if (books)
        shed_if_much(books, NULL, may_keep);
}

void heap_keep_only(struct context *context, uint64_t bytes)
{
    struct shedding shedding = {.books = books_of(context), .may_keep = bytes, .is_all = 1};
    if (shedding.books && books_enter(shedding.books)) {
        aside_call(shed, &shedding);
        books_leave(shedding.books);
    }
}

uint64_t heap_stream_sync_begins(struct stream *stream)
{
    struct freelist *list = __atomic_load_n((struct freelist **)&stream->books, __ATOMIC_ACQUIRE);
    return list ? freelist_to_pass(list) : 0;
}

void heap_stream_sync_ended(struct stream *stream, uint64_t since, uint64_t may_keep)
{
    struct freelist *list = __atomic_load_n((struct freelist **)&stream->books, __ATOMIC_ACQUIRE);
    if (list && freelist_synchronised(list, stream, since))
        shed_if_much(list->books, list, may_keep);
}

uint64_t heap_sync_begins(struct context *context)
{
    return books_of(context) ? waits_now() : 0;
}

void heap_sync_ended(struct context *context, uint64_t since, uint64_t may_keep)
{
    struct books *books = books_of(context);
    if (!books)
        return;
    freelists_synchronised(books, since);
    if (freelists_wait(books))
        wake_worker();
    shed_if_much(books, NULL, may_keep);
}

/* ---- before somebody is refused ---- */

uint64_t heap_returns(void)
{
    return __atomic_load_n(&physical_returns, __ATOMIC_RELAXED);
}

static void give_back(void *unused)
{
    const uint64_t until = monotonic_ms() + PATIENCE_MS;
    (void)unused;
    reclaim_unused(-1, WAITS_FOR_NOTHING);
    const uint64_t since = heap_returns();
    while (physical_is_moving(heap_returns()) && monotonic_ms() < until)
        aside_sleep(MOVING_PAUSE_US);
    if (physical_is_moving(since)) /* the cache may have it */
        reclaim_unused(-1, WAITS_FOR_NOTHING);
}

int heap_give_back(uint64_t since)
{
    aside_call(give_back, NULL);
    return heap_returns() != since; /* only then is the call made again: a graph launch that runs out keeps what it has found */
}
