/* All free lists of a context: what a synchronisation means for them, how they come about and how they end. */
#include "reuse.h"

#include <string.h>

/* ---- synchronisations ---- */

static void pass_before(struct freelist *list, uint64_t since)
{
    list_lock(list);
    if (list->freed_at < since && !list->is_launching && list->freed > list->passed)
        list->passed = list->freed;
    list_unlock(list);
}

int freelists_wait(const struct books *books)
{
    return figure(&books->shared.waiting_count) || figure(&books->shared.retiring_count) || waits_foreign();
}

void freelists_synchronised(struct books *books, uint64_t since)
{
    lock_take(&books->lock);
    for (struct freelist *list = freelist_next(books, NULL); list; list = freelist_next(books, list))
        pass_before(list, since);
    lock_release(&books->lock);
    if (!freelists_wait(books))
        return;
    SCOPE scope = scope_enter(books->context);
    freelist_end_waits(&books->shared, books, since);
    for (struct books *others = waits_foreign() ? books_next(NULL, -1) : NULL; others; others = books_next(others, -1)) {
        if (others != books)
            freelist_end_waits(&others->shared, books, since);
    }
}

uint64_t freelist_to_pass(struct freelist *list)
{
    list_lock(list);
    uint64_t sequence = list->is_launching ? 0 : list->freed;
    list_unlock(list);
    return sequence;
}

int freelist_synchronised(struct freelist *list, struct stream *stream, uint64_t sequence)
{
    list_lock(list);
    int is_same = __atomic_load_n(&list->stream, __ATOMIC_RELAXED) == stream;
    if (is_same && sequence > list->passed && sequence <= list->freed)
        list->passed = sequence;
    list_unlock(list);
    return is_same;
}

uint64_t freelist_launches(struct freelist *list)
{
    list_expect(list);
    list->is_launching = 1;
    return list->checked = ++list->freed;
}

void freelist_launched(struct freelist *list)
{
    list_lock(list);
    list->is_launching = 0;
    list->freed_at = __atomic_load_n(&waits_clock, __ATOMIC_RELAXED);
    list_unlock(list);
}

int freelist_awaits_check(struct freelist *list)
{
    list_lock(list);
    int awaits = list->checked > list->passed;
    list_unlock(list);
    return awaits;
}

/* ---- for a stream that finds no other memory ---- */

/* The first event behind a free; NULL: there is none yet. Caller holds the list lock. */
static CUevent event_after(const struct freelist *list, uint64_t sequence)
{
    list_expect(list);
    for (unsigned i = 0; i < list->marker_count; i++) {
        if (list->markers[i].sequence >= sequence)
            return list->markers[i].event;
    }
    return NULL;
}

/* Caller holds the list lock. */
static struct block *smallest(struct freelist *list, uint64_t pages, int is_own, CUevent *event)
{
    list_expect(list);
    struct block *block;
    for (unsigned bin = freelist_bin(pages); bin < BINS_PAGES; bin++) {
        DL_FOREACH(list->bins[bin], block)
        {
            if (block->pages < pages)
                continue;
            *event = is_own || block->free_sequence <= list->passed ? NULL : event_after(list, block->free_sequence);
            if (*event || is_own || block->free_sequence <= list->passed)
                return block;
        }
    }
    return NULL;
}

struct block *freelist_borrow(struct books *books, struct freelist *list, uint64_t pages, CUevent *event)
{
    lock_expect(RANK_BOOKS);
    struct block *found = NULL;
    for (struct freelist *from = list; from && !found;) {
        list_lock(from);
        if ((found = smallest(from, pages, from == list, event)) != NULL)
            freelist_pick(from, found);
        list_unlock(from);
        from = freelist_next(books, from == list ? NULL : from);
        if (from == list)
            from = freelist_next(books, from);
    }
    return found;
}

/* ---- creating and giving up lists ---- */

void (*freelist_ends)(struct freelist *list);

/* Caller holds books->lock. */
static struct freelist *make(struct books *books, struct stream *stream, struct pool *pool)
{
    lock_expect(RANK_BOOKS);
    struct freelist *list = books->spares;
    if (list)
        LL_DELETE(books->spares, list);
    else if ((list = line_alloc(sizeof *list)) == NULL)
        return NULL;
    list->books = books;
    list->pool = pool;
    __atomic_store_n(&list->stream, stream, __ATOMIC_RELEASE); /* mark_rest() may still have it from its last stream */
    return list;
}

struct freelist *freelist_make(struct stream *stream)
{
    struct freelist *list;
    struct books *books = stream->context ? books_make(stream->context) : NULL;
    if (!books)
        return NULL;
    HOLD(&books->lock);
    list = __atomic_load_n((struct freelist **)&stream->books, __ATOMIC_ACQUIRE);
    if (!list && (list = make(books, stream, NULL)) != NULL) {
        LL_PREPEND(books->lists, list);
        __atomic_store_n((struct freelist **)&stream->books, list, __ATOMIC_RELEASE);
    }
    return list;
}

struct freelist *freelist_in_pool(struct books *books, struct stream *stream, struct pool *pool)
{
    lock_expect(RANK_BOOKS);
    struct freelist *list;
    for (list = pool->lists; list && list->stream != stream; list = list->next)
        ;
    if (!list && (list = make(books, stream, pool)) != NULL)
        LL_PREPEND(pool->lists, list);
    return list;
}

void freelist_give_up(struct freelist *list)
{
    lock_expect(RANK_BOOKS);
    struct block *all = NULL, *block, *next;
    freelist_take_all(list, &all);
    DL_FOREACH_SAFE(all, block, next)
    {
        DL_DELETE(all, block);
        int has_passed = !list->pool && block->free_sequence <= list->passed;
        block_join(block, NULL);
        if (!has_passed)
            waits_add_context(block, list->books);
        freelist_move(&list->books->shared, block, has_passed ? BLOCK_IDLE : BLOCK_WAITING);
    }
}

void freelist_recycle(struct freelist *list)
{
    lock_expect(RANK_BOOKS);
    struct books *books = list->books;
    freelist_ends(list);
    for (unsigned i = 0; i < list->marker_count; i++)
        event_give(books, list->markers[i].event);
    freelist_absorb(&books->shared, list);
    memset(list, 0, sizeof *list); /* clears the lock too: no other thread can find the list any more */
    list->books = books;
    LL_PREPEND(books->spares, list);
}

void freelist_drain(struct books *books)
{
    lock_expect(RANK_BOOKS);
    struct freelist *list, *next;
    LL_FOREACH_SAFE(books->draining, list, next)
    {
        list_lock(list);
        freelist_ask_markers(list);
        int has_passed = list->passed >= list->freed || !list_has_idle(list);
        list_unlock(list);
        if (!has_passed)
            break; /* most streams end in the order in which they were created */
        books->draining = next;
        freelist_give_up(list);
        freelist_recycle(list);
    }
}

void freelist_end(struct freelist *list)
{
    struct books *books = list->books;
    HOLD(&books->lock);
    __atomic_store_n(&list->stream, NULL, __ATOMIC_RELAXED);
    LL_DELETE(books->lists, list);
    if (list->marked < list->freed) /* no marker will report the last frees */
        freelist_give_up(list);
    list->next = NULL;
    if (books->draining)
        books->draining_last->next = list;
    else
        books->draining = list;
    books->draining_last = list;
    freelist_drain(books);
}
