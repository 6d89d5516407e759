#include "books.h"

#include "base/aside.h"
#include "base/clock.h"
#include "base/error.h"
#include "driver/call_checks.h"

#include <pthread.h>
#include <stdlib.h>

#define VISIT_PAUSE_US 50

const struct options *heap_options;

struct books *books_next(const struct books *previous, int device)
{
    struct context *context = context_next(previous ? previous->context : NULL);
    while (context && !((device < 0 || context->device == device) && books_of(context)))
        context = context_next(context);
    return context ? books_of(context) : NULL;
}

struct books *books_make(struct context *context)
{
    struct books *books = books_of(context), *none = NULL;
    if (books)
        return books;
    books = line_alloc(sizeof *books);
    if (!books)
        return NULL;
    books->context = context;
    lock_init(&books->lock, RANK_BOOKS);
    lock_init(&books->visit, RANK_VISIT);
    lock_init(&books->events_lock, RANK_EVENTS);
    lock_init(&books->pack_lock, RANK_PACK);
    books->packing = heap_options->small == SMALL_PACK ? PACKING_ALL : PACKING_NONE;
    books->shared.books = books;
    books->own.context = books->own.within = context;
    lock_init(&books->own.touch, RANK_TOUCH);
    books->shared.passed = UINT64_MAX; /* blocks in the shared list have always passed */
    if (__atomic_compare_exchange_n((struct books **)&context->books[CONTEXT_HEAP], &none, books, 0, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return books;
    free(books);
    return none;
}

struct freelist *freelist_next(struct books *books, const struct freelist *previous)
{
    lock_expect(RANK_BOOKS);
    if (!previous)
        return &books->shared;
    if (previous == &books->shared)
        return books->lists ? books->lists : books->draining;
    if (previous->next)
        return previous->next;
    return __atomic_load_n(&previous->stream, __ATOMIC_RELAXED) ? books->draining : NULL; /* those of destroyed streams */
}

struct stream *books_stream(struct books *books)
{
    struct stream *own = &books->own;
    CUstream made = NULL, none = NULL;
    if (__atomic_load_n(&own->handle, __ATOMIC_ACQUIRE))
        return own;
    if (driver->cuStreamCreate(&made, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return NULL;
    driver_owns(made);
    if (!__atomic_compare_exchange_n(&own->handle, &none, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        driver_disowns(made);
        driver->cuStreamDestroy(made);
    }
    return own;
}

void books_forget_stream(struct books *books)
{
    driver_disowns(__atomic_exchange_n(&books->own.handle, NULL, __ATOMIC_ACQ_REL));
    __atomic_add_fetch(&books->own.generation, 1, __ATOMIC_RELEASE);
}

#define EVENTS_STOCK 64u
#define EVENTS_MOST 4096u

void events_fill(struct books *books)
{
    unsigned missed = __atomic_exchange_n(&books->events_missed, 0, __ATOMIC_RELAXED);
    lock_take(&books->events_lock);
    size_t count = books->event_count, wanted = count < EVENTS_STOCK / 2 || missed ? EVENTS_STOCK + 2 * missed : 0;
    lock_release(&books->events_lock);
    for (wanted = wanted < EVENTS_MOST ? wanted : EVENTS_MOST; count < wanted; count++) {
        CUevent event;
        if (driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
            return;
        event_give(books, event);
    }
}

CUevent event_take(struct books *books)
{
    CUevent event = NULL;
    lock_take(&books->events_lock);
    if (books->event_count)
        event = books->events[--books->event_count];
    lock_release(&books->events_lock);
    if (!event) {
        __atomic_add_fetch(&books->events_missed, 1, __ATOMIC_RELAXED);
        wake_sleeping_worker();
    }
    return event;
}

CUevent event_make(struct books *books)
{
    CUevent event = event_take(books);
    return event || driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS ? event : NULL;
}

/* Without host memory to keep it, the event stays unused: to destroy it may wait. */
void event_give(struct books *books, CUevent event)
{
    HOLD(&books->events_lock);
    if (books->event_count == books->event_capacity) {
        size_t capacity = books->event_capacity ? books->event_capacity * 2 : EVENTS_STOCK;
        CUevent *events = realloc(books->events, capacity * sizeof(CUevent));
        if (!events)
            return;
        books->events = events;
        books->event_capacity = capacity;
    }
    books->events[books->event_count++] = event;
}

/* ---- visits ---- */

/* What the driver does meanwhile may be a cancellation point. */
int visit_begin(struct books *books, unsigned patience_ms)
{
    int cancel_state, is_in = 1;
    uint64_t until = patience_ms && patience_ms != VISIT_FOR_EVER ? monotonic_ms() + patience_ms : 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    if (patience_ms == VISIT_FOR_EVER)
        lock_take(&books->visit);
    else
        while (!(is_in = lock_try(&books->visit)) && until && monotonic_ms() < until)
            aside_sleep(VISIT_PAUSE_US);
    if (is_in)
        books->visit_cancel = cancel_state;
    else
        pthread_setcancelstate(cancel_state, NULL);
    return is_in;
}

void visit_end(struct books *books)
{
    int cancel_state = books->visit_cancel;
    lock_release(&books->visit);
    pthread_setcancelstate(cancel_state, NULL);
}

int books_enter(struct books *books)
{
    __atomic_add_fetch(&books->guests, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&books->is_ending, __ATOMIC_SEQ_CST) && context_is_alive(books->context))
        return 1;
    books_leave(books);
    return 0;
}

void books_leave(struct books *books)
{
    __atomic_sub_fetch(&books->guests, 1, __ATOMIC_SEQ_CST);
}

/* A guest may wait for a stream whose queue is full, so not for ever. */
void books_await_guests(struct books *ending, unsigned patience_ms)
{
    const uint64_t until = monotonic_ms() + patience_ms;
    while (__atomic_load_n(&ending->guests, __ATOMIC_SEQ_CST) && monotonic_ms() < until)
        aside_sleep(VISIT_PAUSE_US);
}

cufence_status heap_check_device(int device)
{
    int devices = 0;
    driver->cuDeviceGetCount(&devices);
    if (device < -1 || device >= devices)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT,
                         "there is no device %d: the driver has %d, counted from 0; -1 means all", device, devices);
    return CUFENCE_OK;
}

/* ---- mappings that reports need ---- */

int books_keeps(const struct books *books, uint64_t base)
{
    int is_kept = 0;
    for (unsigned i = 0; i < KEPT_MOST; i++) {
        const uint64_t kept = figure(&books->kept[i]);
        is_kept |= base ? kept == base : kept != 0;
    }
    return is_kept;
}

int books_keep(struct books *books, uint64_t base)
{
    int is_kept = books_keeps(books, base);
    for (unsigned i = 0; i < KEPT_MOST && !is_kept; i++) {
        uint64_t none = 0;
        is_kept = __atomic_compare_exchange_n(&books->kept[i], &none, base, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
    return is_kept;
}

void books_let_go(struct books *books, uint64_t base)
{
    for (unsigned i = 0; i < KEPT_MOST; i++) {
        if (!base || figure(&books->kept[i]) == base)
            figure_set(&books->kept[i], 0);
    }
}
