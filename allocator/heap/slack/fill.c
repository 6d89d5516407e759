/* fill and poison: sets the bytes of a fresh or a freed buffer, in the order of its stream. */
#include "slack.h"

#include "base/aside.h"

/* Sets the bytes on the stream. Returns 0 where that cannot be done: while the stream captures, or on another thread's own. */
static int set_on(struct stream *stream, uint64_t address, uint64_t size, uint64_t value)
{
    CUstreamCaptureStatus capture;
    int is_set = 0;
    if (!stream_is_named_here(stream))
        return 0;
    struct scope scope = scope_enter(stream->within);
    if (scope.pushed && driver->cuStreamIsCapturing(stream->handle, &capture) == CUDA_SUCCESS &&
        capture == CU_STREAM_CAPTURE_STATUS_NONE)
        is_set = driver->cuMemsetD8Async(address, (unsigned char)value, size, stream->handle) == CUDA_SUCCESS;
    scope_leave(scope);
    return is_set;
}

struct fresh {
    struct books *books;
    uint64_t address, size;
};

static void fill_and_wait(void *argument)
{
    const struct fresh *fresh = argument;
    struct scope scope = scope_enter(fresh->books->context);
    struct stream *own = scope.pushed ? books_stream(fresh->books) : NULL;
    if (own && set_on(own, fresh->address, fresh->size, heap_options->fill))
        driver->cuStreamSynchronize(own->handle);
    scope_leave(scope);
}

void fill_fresh(struct freelist *list, uint64_t address, uint64_t size)
{
    struct fresh fresh = {list->books, address, size};
    if (list->pool)
        return;
    if (list != &list->books->shared) {
        struct stream *stream = __atomic_load_n(&list->stream, __ATOMIC_RELAXED);
        if (stream)
            set_on(stream, address, size, heap_options->fill);
        return;
    }
    aside_call(fill_and_wait, &fresh); /* any stream may use it at once, so it must be done by then */
}

void fill_freed(struct block *block, struct stream *stream)
{
    set_on(stream, block->facts.address, block->facts.size, heap_options->poison);
}

int fill_freed_idle(struct block *block)
{
    struct scope scope = scope_enter(block->books->context);
    struct stream *own = scope.pushed ? books_stream(block->books) : NULL;
    int is_set = own && set_on(own, block->facts.address, block->facts.size, heap_options->poison);
    scope_leave(scope);
    if (is_set)
        waits_add(block, own, __atomic_load_n(&own->generation, __ATOMIC_ACQUIRE));
    return is_set;
}
