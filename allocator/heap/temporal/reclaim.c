/* Releases memory to the driver, and finds out which memory can be released. */
#include "temporal.h"

#include "heap/graphs/graphs.h"
#include "heap/pack/pack.h"
#include "heap/slack/slack.h"

#include "base/aside.h"
#include "base/options.h"
#include "base/peak.h"
#include "vmm/physical.h"
#include "base/tunables.h"

#define MARKED_AT_ONCE 64
#define GUESTS_MS 1000

struct books *heap_hold(struct context *ending, int is_certain)
{
    struct books *books = ending ? books_make(ending) : NULL;
    if (!books || !visit_begin(books, is_certain ? VISIT_FOR_EVER : VISIT_MS))
        return NULL;
    waits_set_ending(books, 1);
    books_await_guests(books, is_certain ? GUESTS_MS : VISIT_MS);
    return books;
}

void heap_go_on(struct books *held)
{
    if (held) {
        waits_set_ending(held, 0);
        visit_end(held);
    }
    pools_tell_users();
}

/* With uaf=strict each allocation needs a mapping. The background thread makes them ahead, from the memory of the blocks that
 * it unmaps, also when many wait: what it leaves undone the program does itself. They take the place of what the cache of
 * physical memory would hold. */
static int is_wanted_again(const struct books *books, const struct block *block)
{
    return heap_options->uaf == UAF_STRICT && !block_has(block, RARE_ELSEWHERE) && !block_is_cell(block) &&
           !block->slot.is_second && list_idle_bytes(&books->shared) + block->slot.mapped <= tunables.cache_max &&
           arena_is_roomy(block->slot.span);
}

/* Maps the memory of a held block at a new address. NULL if that fails; the memory then goes to the cache. */
static struct block *map_successor(struct block *block)
{
    struct block *successor = block_map_second(block);
    if (successor) {
        slot_hand_over(&block->slot, &successor->slot);
        facts_write_none(successor, now_ns());
    }
    return successor;
}

enum { RETIRED_AT_ONCE = 16 };

/* Blocks that are retired, and whose slack is being checked. */
struct retired {
    struct block *blocks[RETIRED_AT_ONCE];
    unsigned count;
};

/* left: how many more to take. */
static struct retired next_retired(struct books *books, uint64_t *left)
{
    struct retired next = {.count = 0};
    struct block *block;
    while (*left && next.count < RETIRED_AT_ONCE && (block = freelist_take_retired(&books->shared)) != NULL) {
        next.blocks[next.count++] = block;
        --*left;
    }
    slack_check_retired(books, next.blocks, next.count);
    return next;
}

/* Whether a report needs one of them, and thus perhaps the others. */
static int are_needed(const struct retired *retired)
{
    int are_needed = 0;
    for (unsigned i = 0; i < retired->count; i++) {
        slack_await(retired->blocks[i]);
        are_needed |= slack_keeps(retired->blocks[i]);
    }
    return are_needed;
}

static void unmap_retired(struct books *books, struct block *block, int is_needed)
{
    struct freelist *shared = &books->shared;
    const uint64_t pages = block->pages;
    if (slack_wait_for(block, NULL) || is_needed) {
        freelist_put(shared, block, BLOCK_RETIRING, now_ns());
        freelist_retired(books, pages);
        return;
    }
    figure_add(&shared->retired, 1); /* not before: it may have its turn again */
    struct block *successor = block->successor;
    block->successor = NULL;
    if (!successor && is_wanted_again(books, block))
        successor = map_successor(block);
    if (successor) {
        slack_forget(block); /* or a check of all might find the successor's bytes around the block */
        freelist_put(shared, successor, BLOCK_IDLE, now_ns());
    }
    block_release(block);
    freelist_retired(books, pages);
}

int reclaim_retired(struct books *books)
{
    uint64_t left = figure(&books->shared.retiring_count);
    struct retired now, next = next_retired(books, &left);
    int has_any = next.count != 0;
    while (next.count) {
        now = next;
        next = next_retired(books, &left); /* checked while the driver unmaps the others */
        int is_needed = are_needed(&now);
        for (unsigned i = 0; i < now.count; i++)
            unmap_retired(books, now.blocks[i], is_needed);
    }
    return has_any;
}

/* Those that a report needs are idle again once it is made. */
static void leave_kept(struct books *books, struct block **gone)
{
    struct block *block, *next;
    DL_FOREACH_SAFE(*gone, block, next)
    {
        if (!slack_keeps(block))
            continue;
        DL_DELETE(*gone, block);
        freelist_move(&books->shared, block, BLOCK_WAITING);
    }
}

/* Unmaps up to `bytes` of what was freed before `before_ns`. Returns the number of bytes unmapped. */
static uint64_t unmap_old(struct books *books, uint64_t before_ns, uint64_t bytes)
{
    struct block *gone = NULL;
    uint64_t taken = 0;
    lock_take(&books->lock);
    for (struct freelist *list = freelist_next(books, NULL); list && taken < bytes; list = freelist_next(books, list))
        taken += freelist_take_old(list, before_ns, bytes - taken, &gone);
    lock_release(&books->lock);
    leave_kept(books, &gone);
    blocks_release(gone);
    return taken;
}

uint64_t reclaim_idle_bytes(struct books *books)
{
    uint64_t bytes = 0;
    HOLD(&books->lock);
    for (struct freelist *list = freelist_next(books, NULL); list; list = freelist_next(books, list))
        bytes += list_idle_bytes(list);
    return bytes;
}

uint64_t reclaim_pending_bytes(int device)
{
    uint64_t bytes = 0;
    for (struct books *books = books_next(NULL, device); books; books = books_next(books, device))
        bytes += reclaim_idle_bytes(books);
    return bytes;
}

static void note_used(struct books *books, uint64_t idle)
{
    uint64_t mapped = figure(&books->mapped_bytes);
    if (mapped > idle)
        raise_to(&books->peak_used_bytes, mapped - idle);
}

void reclaim_note_peak(struct books *books)
{
    note_used(books, reclaim_idle_bytes(books));
}

/* A training step frees most of its memory and needs it again in the next one. */
static uint64_t idle_limit(struct books *books)
{
    uint64_t used = figure(&books->peak_used_bytes);
    return tunables.idle_max ?: used > KEPT_ANYWAY ? used : KEPT_ANYWAY;
}

static void mark(struct freelist *list, struct stream *stream, int checks)
{
    int is_idle = freelist_pass_touched(list, stream);
    int has_checks = checks && slack_waits(list);
    if (has_checks || freelist_is_unmarked(list))
        stream_used_behind(stream);
    if (has_checks)
        slack_flush_touched(list, stream, is_idle);
    if (freelist_is_unmarked(list))
        freelist_mark_touched(list, stream);
}

/* is_own: only the calling thread's per-thread streams, which no other thread can name. */
static void mark_all(struct books *books, int checks, int is_own)
{
    struct freelist *unmarked[MARKED_AT_ONCE];
    unsigned count = 0;
    lock_take(&books->lock);
    for (struct freelist *list = books->lists; list && count < MARKED_AT_ONCE; list = list->next) {
        int has_rest = freelist_is_unmarked(list) || (checks && slack_waits(list));
        if ((contexts_are_watched() || list->stream == &books->context->legacy) && has_rest &&
            (!is_own || (list->stream->thread && stream_is_named_here(list->stream))))
            unmarked[count++] = list;
    }
    lock_release(&books->lock);
    for (unsigned i = 0; i < count; i++) {
        struct freelist *list = unmarked[i];
        struct stream *stream = __atomic_load_n(&list->stream, __ATOMIC_ACQUIRE);
        if (!stream || !stream_touch_try(stream))
            continue;
        /* It does not end meanwhile. Since then, the list may have been given to another one. */
        if (__atomic_load_n(&list->stream, __ATOMIC_ACQUIRE) == stream && !list->pool && !freelist_is_behind(list))
            mark(list, stream, checks);
        stream_touch_end(stream);
    }
}

/* Whether the list has frees that mark_all() can mark, or that markers will show to have passed. Caller holds the books'
 * lock.
 */
static int is_list_pending(struct freelist *list)
{
    lock_expect(RANK_BOOKS);
    struct stream *stream = __atomic_load_n(&list->stream, __ATOMIC_ACQUIRE);
    int can_mark =
        stream && (contexts_are_watched() || stream == &list->books->context->legacy) && stream_is_named_here(stream);
    list_lock(list);
    int is_marked = list->marker_count != 0;
    list_unlock(list);
    return is_marked || (can_mark && (freelist_is_unmarked(list) || slack_waits(list)));
}

/* Of what waits, a part waits for a synchronisation, which wakes the thread. Caller holds the books' lock. */
static int has_waits(struct freelist *shared)
{
    lock_expect(RANK_BOOKS);
    struct block *block;
    list_lock(shared);
    for (block = shared->waiting; block && block->awaits_context; block = block->next)
        ;
    list_unlock(shared);
    return block != NULL;
}

/* When the oldest idle block of the list was freed, UINT64_MAX if none has passed. */
static uint64_t oldest_idle_ns(struct freelist *list)
{
    uint64_t oldest = UINT64_MAX;
    list_lock(list);
    for (unsigned bin = 0; bin < BINS && list_has_idle(list); bin++) {
        const struct block *block = list->bins[bin] ? list->bins[bin]->prev : NULL;
        if (block && block->free_sequence <= list->passed && block->facts.freed_ns < oldest)
            oldest = block->facts.freed_ns;
    }
    list_unlock(list);
    return oldest;
}

int reclaim_is_pending(struct books *books, uint64_t *due_ns)
{
    uint64_t oldest = UINT64_MAX, bytes = 0;
    lock_take(&books->lock);
    int is_pending = 0;
    for (struct freelist *list = freelist_next(books, NULL); list && !is_pending; list = freelist_next(books, list)) {
        uint64_t idle = oldest_idle_ns(list);
        is_pending = is_list_pending(list);
        oldest = idle < oldest ? idle : oldest;
        bytes += list_idle_bytes(list);
    }
    is_pending |= has_waits(&books->shared);
    lock_release(&books->lock);
    const uint64_t age = (bytes > idle_limit(books) ? tunables.idle_beyond : tunables.idle_age) * 1000000ull;
    if (age && oldest != UINT64_MAX && oldest + age < *due_ns)
        *due_ns = oldest + age;
    return is_pending;
}

/* ---- memory of graphs ---- */

void reclaim_graphs(struct books *books)
{
    struct block *gone = NULL;
    captures_collect(books, &gone);
    blocks_release(gone);
}

#define GRAPHS_PART 4 /* of the device's memory */

static void collect_aside(void *books)
{
    SCOPE scope = scope_enter(((struct books *)books)->context);
    reclaim_graphs(books);
}

int heap_has_room_for_graph(const struct heap_request *wanted)
{
    size_t total = 0;
    struct books *books = books_of(wanted->context);
    if (!books || driver->cuDeviceTotalMem(&total, wanted->device) != CUDA_SUCCESS)
        return 1;
    if (figure(&books->captured_bytes) + wanted->size > total / GRAPHS_PART)
        aside_call(collect_aside, books);
    return figure(&books->captured_bytes) + wanted->size <= total / GRAPHS_PART;
}

/* ---- what has passed ---- */

static void advance(struct books *books)
{
    freelist_advance(&books->shared);
    HOLD(&books->lock);
    freelist_drain(books);
}

/* A list that has nothing idle has markers too: behind the checks of slack. Without this they would stay pending. */
static void ask_all_markers(struct books *books)
{
    HOLD(&books->lock);
    for (struct freelist *list = books->lists; list; list = list->next) {
        list_lock(list);
        freelist_ask_markers(list);
        list_unlock(list);
    }
}

void reclaim_look(struct books *books, int checks)
{
    mark_all(books, checks, 0);
    advance(books);
    ask_all_markers(books);
}

void reclaim_old(struct books *books)
{
    uint64_t now = now_ns(), age = tunables.idle_age * 1000000ull, beyond = tunables.idle_beyond * 1000000ull;
    reclaim_look(books, 1);
    uint64_t idle = reclaim_idle_bytes(books), limit = idle_limit(books);
    note_used(books, idle);
    if (idle && age && now > age)
        idle -= unmap_old(books, now - age, UINT64_MAX);
    if (idle > limit && now > beyond)
        unmap_old(books, now - beyond, idle - limit);
}

void (*heap_gives_back)(int device, uint64_t left);

static void synchronise(struct books *books)
{
    uint64_t since = waits_now();
    if (heap_synchronise() == CUDA_SUCCESS)
        freelists_synchronised(books, since);
}

/* Releases memory of one context: a `const int *level`. In a scope. */
static void reclaim(struct books *books, void *user)
{
    const int level = *(const int *)user;
    if (level >= 2 && !__atomic_load_n(&books->active_pools, __ATOMIC_ACQUIRE))
        synchronise(books);
    RETURNS_MEMORY;
    if (level >= 1) {
        books_let_go(books, 0);
        reclaim_graphs(books);
        mark_all(books, 0, 1);
        advance(books);
        reclaim_retired(books);
        unmap_old(books, UINT64_MAX, UINT64_MAX);
        pack_trim(books);
        if (heap_gives_back)
            heap_gives_back(books->context->device, 0);
    }
    physical_trim(books->context->device);
}

void reclaim_visit(const struct context *own, struct books *books, unsigned patience_ms,
                   void (*work)(struct books *books, void *user), void *user)
{
    int is_own = books->context == own;
    if (!is_own && !visit_begin(books, patience_ms))
        return;
    struct scope scope = is_own ? scope_enter(own) : scope_visit(books->context);
    if (scope.pushed)
        work(books, user);
    scope_leave(scope);
    if (!is_own)
        visit_end(books);
}

void reclaim_device(const struct context *own, int device, int level)
{
    for (struct books *books = books_next(NULL, device); books; books = books_next(books, device))
        reclaim_visit(own, books, VISIT_MS, reclaim, &level);
    physical_trim(device);
}

void heap_prepare_capture(struct context *context)
{
    struct books *books = books_of(context);
    if (!books)
        return;
    SCOPE scope = scope_enter(context);
    mark_all(books, 1, 0);
}

/* Whether blocks are waiting that may need a synchronisation. memory: not the retiring ones whose memory is in use elsewhere,
 * because waiting for those releases nothing. */
static int has_waiting(struct books *books, int memory)
{
    return figure(&books->shared.waiting_count) ||
           figure(&books->shared.retiring_count) > (memory ? figure(&books->replaced) : 0);
}

int reclaim_is_behind(struct books *books)
{
    int has = 0;
    HOLD(&books->lock);
    for (struct freelist *list = freelist_next(books, NULL); list && !has; list = freelist_next(books, list)) {
        list_lock(list);
        has = list->freed > list->passed;
        list_unlock(list);
    }
    return has;
}

static int is_sync_wanted(struct books *books, enum heap_waits waits)
{
    return waits == WAITS_FOR_WORK ? has_waiting(books, 0) || reclaim_is_behind(books)
                                   : waits == WAITS_FOR_POOLS && has_waiting(books, 1);
}

void reclaim_unused(int device, enum heap_waits waits)
{
    const struct context *own = context_known_current();
    int synchronises = 2, releases = 1;
    worker_look(VISIT_MS);
    for (struct books *books = books_next(NULL, device); books; books = books_next(books, device)) {
        if (is_sync_wanted(books, waits))
            reclaim_visit(own, books, VISIT_MS, reclaim, &synchronises);
        /* Never at the same time as the background thread, which may just have some of it in hand. */
        reclaim_visit(NULL, books, PATIENCE_MS, reclaim, &releases);
    }
}
