/* Pending uses of a freed block: events of any context, and contexts to be synchronised. */
#include "reuse.h"

#include <stdlib.h>

uint64_t waits_clock = 1;
static unsigned foreign; /* atomic: number of waits for another context than the block's */

uint64_t waits_now(void)
{
    return __atomic_add_fetch(&waits_clock, 1, __ATOMIC_ACQ_REL);
}

unsigned waits_foreign(void)
{
    return __atomic_load_n(&foreign, __ATOMIC_RELAXED);
}

static uint64_t generation_of(const struct books *books)
{
    return __atomic_load_n(&books->context->generation, __ATOMIC_RELAXED);
}

/* Guards against a context being destroyed while another thread queries one of its events. */
static struct lock ending_lock = LOCK(RANK_WAITS);

void waits_set_ending(struct books *books, int is_ending)
{
    HOLD(&ending_lock);
    __atomic_store_n(&books->is_ending, is_ending, __ATOMIC_SEQ_CST);
}

/* Whether the context still exists. A buffer kept by a graph may have outlived it; end_foreign_waits() does not find those. */
static int is_there(const struct wait *wait)
{
    return context_is_alive(wait->of->context) && generation_of(wait->of) == wait->generation;
}

/* Bracket access to a wait. look_begins() returns 0 if the event must not be used. The block's own context needs no check: the
 * caller works in it, so it is not destroyed meanwhile. */
static int look_begins(const struct block *block, const struct wait *wait)
{
    if (wait->of == block->books)
        return 1;
    lock_take(&ending_lock);
    return !wait->of->is_ending;
}

static void look_ends(const struct block *block, const struct wait *wait)
{
    if (wait->of != block->books)
        lock_release(&ending_lock);
}

static void give_event(const struct block *block, const struct wait *wait)
{
    if (look_begins(block, wait) && wait->event && is_there(wait))
        event_give(wait->of, wait->event);
    look_ends(block, wait);
}

static int is_over(const struct block *block, const struct wait *wait)
{
    int may_ask = look_begins(block, wait);
    int is = !is_there(wait) || (may_ask && wait->event && driver->cuEventQuery(wait->event) == CUDA_SUCCESS);
    look_ends(block, wait);
    return is;
}

static int append(struct block *block, struct books *of, CUevent event)
{
    block->waiting_since = waits_now();
    struct wait *grown =
        block->wait_count < UINT16_MAX ? realloc(block->waits, (block->wait_count + 1u) * sizeof *grown) : NULL;
    if (!grown)
        return 0;
    grown[block->wait_count++] = (struct wait){of, generation_of(of), event};
    block->waits = grown;
    if (of != block->books)
        __atomic_add_fetch(&foreign, 1, __ATOMIC_RELAXED);
    return 1;
}

/* Removes a wait; does not keep the order. */
static void cross_out(struct block *block, unsigned i)
{
    if (block->waits[i].of != block->books)
        __atomic_sub_fetch(&foreign, 1, __ATOMIC_RELAXED);
    block->waits[i] = block->waits[--block->wait_count];
    if (!block->wait_count) {
        free(block->waits);
        block->waits = NULL;
    }
}

void waits_add_context(struct block *block, struct books *of)
{
    if (of == block->books) {
        block->waiting_since = waits_now();
        block->awaits_context |= AWAITS_OWN;
    } else if (!append(block, of, NULL)) {
        block->awaits_context |= AWAITS_FOR_EVER;
    }
}

void waits_add_all(struct block *block)
{
    for (struct context *context = context_next(NULL); context; context = context_next(context)) {
        struct books *of = books_make(context);
        if (of)
            waits_add_context(block, of);
        else
            block->awaits_context |= AWAITS_FOR_EVER;
    }
}

/* Records an event behind the work submitted to the stream. may_create: as in event_make(). NULL if it can't: the stream was
 * destroyed, is capturing, or is another thread's own. */
static CUevent event_behind(struct stream_ref on, struct books *of, int may_create)
{
    CUevent event = NULL;
    stream_touch_begin(on.stream);
    /* A green context ends with its streams, and must not be made current after that. */
    struct scope scope = scope_enter_stream(stream_ref_is_there(&on) ? on.stream : NULL);
    if (scope.pushed)
        event = may_create ? event_make(of) : event_take(of);
    if (event && driver->cuEventRecord(event, on.stream->handle) != CUDA_SUCCESS) {
        event_give(of, event);
        event = NULL;
    }
    scope_leave(scope);
    stream_touch_end(on.stream);
    return event;
}

void waits_add(struct block *block, struct stream_ref on)
{
    struct context *context = on.stream->context;
    struct books *of = context ? books_make(context) : block->books;
    CUevent event = of ? event_behind(on, of, block_may_wait(block)) : NULL;
    if (!of) {
        waits_add_all(block);
    } else if (!event) {
        waits_add_context(block, of);
    } else if (!append(block, of, event)) {
        event_give(of, event);
        waits_add_context(block, of);
    }
}

/* The caller owns what is returned. */
static struct stream_ref *take_recorded(struct block *block, unsigned *count)
{
    recorded_lock(block);
    struct stream_ref *recorded = block->recorded;
    *count = block->recorded_count;
    block->recorded = NULL;
    block->recorded_count = 0;
    block_unmark(block, RARE_RECORDED);
    recorded_unlock(block);
    return recorded;
}

void waits_add_recorded(struct block *block)
{
    unsigned count;
    struct stream_ref *recorded = take_recorded(block, &count);
    for (unsigned i = 0; i < count; i++)
        waits_add(block, recorded[i]);
    free(recorded);
}

void recorded_drop(struct block *block)
{
    unsigned count;
    free(take_recorded(block, &count));
}

int waits_are_over(struct block *block)
{
    for (unsigned i = block->wait_count; i-- > 0;) {
        struct wait wait = block->waits[i];
        if (!is_over(block, &wait))
            return 0;
        cross_out(block, i);
        give_event(block, &wait);
    }
    return !block->awaits_context && !books_keeps(block->books, block->slot.base);
}

int waits_synchronised(struct block *block, const struct books *of, uint64_t since)
{
    if (block->waiting_since > since)
        return 0;
    if (of == block->books)
        block->awaits_context &= ~(uint32_t)AWAITS_OWN;
    for (unsigned i = block->wait_count; i-- > 0;) {
        struct wait wait = block->waits[i];
        if (wait.of != of)
            continue;
        cross_out(block, i);
        give_event(block, &wait);
    }
    return !block->wait_count && waits_are_over(block);
}

void waits_forget(struct block *block)
{
    while (block->wait_count) {
        struct wait wait = block->waits[block->wait_count - 1u];
        cross_out(block, block->wait_count - 1u);
        give_event(block, &wait);
    }
    block->awaits_context = 0;
}

void waits_drop_context(struct block *block, const struct books *of)
{
    for (unsigned i = block->wait_count; i-- > 0;) {
        if (block->waits[i].of == of)
            cross_out(block, i);
    }
    if (of == block->books)
        block->awaits_context &= ~(uint32_t)AWAITS_OWN;
}

void waits_adopt(struct block *block, struct books *books)
{
    block_adopt(block, books);
    for (unsigned i = block->wait_count; i-- > 0;) {
        if (block->waits[i].of != books)
            continue;
        __atomic_sub_fetch(&foreign, 1, __ATOMIC_RELAXED);
        if (block->waits[i].event)
            continue;
        block->awaits_context |= AWAITS_OWN;
        cross_out(block, i);
    }
}

int stream_waits_for(struct books *books, struct stream *stream, const struct stream_ref *other)
{
    if (!other->stream)
        return 0;
    CUevent event = event_behind(*other, books, 1);
    if (!event)
        return 0;
    stream_touch_begin(stream);
    struct scope own = scope_enter_stream(stream);
    int is_done = own.pushed && driver->cuStreamWaitEvent(stream->handle, event, 0) == CUDA_SUCCESS;
    scope_leave(own);
    stream_touch_end(stream);
    event_give(books, event);
    return is_done;
}
