#include "books.h"

#include "base/error.h"

#include <stdlib.h>

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
    lock_init(&books->events_lock, RANK_EVENTS);
    lock_init(&books->pack_lock, RANK_PACK);
    books->packing = heap_options->small == SMALL_PACK ? PACKING_ALL : PACKING_NONE;
    books->shared.books = books;
    books->own.context = books->own.within = context;
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
    if (!__atomic_compare_exchange_n(&own->handle, &none, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        driver->cuStreamDestroy(made);
    return own;
}

void books_forget_stream(struct books *books)
{
    __atomic_store_n(&books->own.handle, NULL, __ATOMIC_RELEASE);
    __atomic_add_fetch(&books->own.generation, 1, __ATOMIC_RELEASE);
}

CUevent event_take(struct books *books)
{
    CUevent event = NULL;
    lock_take(&books->events_lock);
    if (books->event_count)
        event = books->events[--books->event_count];
    lock_release(&books->events_lock);
    if (!event && driver->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        event = NULL;
    return event;
}

void event_give(struct books *books, CUevent event)
{
    lock_take(&books->events_lock);
    if (books->event_count == books->event_capacity) {
        size_t capacity = books->event_capacity ? books->event_capacity * 2 : 64;
        CUevent *events = realloc(books->events, capacity * sizeof(CUevent));
        if (events) {
            books->events = events;
            books->event_capacity = capacity;
        }
    }
    int kept = books->event_count < books->event_capacity;
    if (kept)
        books->events[books->event_count++] = event;
    lock_release(&books->events_lock);
    if (!kept)
        driver->cuEventDestroy(event);
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
