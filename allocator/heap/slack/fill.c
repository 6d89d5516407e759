/* fill and poison: sets the bytes of a fresh or a freed buffer, in the order of its stream. */
#include "slack.h"

#include "base/aside.h"

/* Sets the bytes on the stream. Returns 0 where that cannot be done: while the stream captures, or on another thread's own. */
static int set_on(const struct stream *stream, uint64_t address, uint64_t size, uint64_t value)
{
    SCOPE scope = scope_enter_stream(stream);
    return scope.pushed && driver->cuMemsetD8Async(address, (unsigned char)value, size, stream->handle) == CUDA_SUCCESS;
}

struct fresh {
    struct books *books;
    uint64_t address, size;
};

static void fill_and_wait(void *argument)
{
    const struct fresh *fresh = argument;
    SCOPE scope = scope_enter(fresh->books->context);
    struct stream *own = scope.pushed ? books_stream(fresh->books) : NULL;
    if (own && set_on(own, fresh->address, fresh->size, heap_options->fill))
        driver->cuStreamSynchronize(own->handle);
}

void fill_fresh(struct freelist *list, uint64_t address, uint64_t size)
{
    struct fresh fresh = {list->books, address, size};
    if (list->pool)
        return;
    if (list != &list->books->shared) {
        set_on(__atomic_load_n(&list->stream, __ATOMIC_RELAXED), address, size, heap_options->fill);
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
        waits_add(block, stream_ref(own));
    return is_set;
}
