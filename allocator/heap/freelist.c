#include "internal.h"

#include <stdlib.h>

#define MARK_FREES 256     /* a marker costs about 500 ns in all (H100): 2 ns a free */
#define MARK_NS 5000000ull /* and one comes at least this often while frees come */
#define SCAN 16            /* blocks looked at in a bin of mixed sizes */
#define WAITING_SCAN 64

static unsigned bin_of(uint64_t pages)
{
    if (pages <= BINS_EXACT)
        return (unsigned)pages - 1;
    unsigned power = 63u - (unsigned)__builtin_clzll(pages); /* at least 6 */
    unsigned bin = BINS_EXACT + (power - 6) * 8 + (unsigned)((pages >> (power - 3)) & 7);
    return bin < BINS ? bin : BINS - 1;
}

static void put_idle(struct freelist *list, struct block *block)
{
    struct block **bin = &list->bins[bin_of(block->pages)];
    DL_PREPEND(*bin, block);
    list->idle_pages += block->pages;
}

static void remove_idle(struct freelist *list, struct block *block)
{
    DL_DELETE(list->bins[bin_of(block->pages)], block);
    list->idle_pages -= block->pages;
}

/* Keeps the facts of the buffer that was in a block, before another one takes its place. Expects the list's lock. */
static void remember(struct freelist *list, const struct facts *facts)
{
    const size_t most = (size_t)heap_options->history;
    if (list->history_count == list->history_capacity && list->history_capacity < most) {
        size_t capacity = list->history_capacity ? list->history_capacity * 2 : 64;
        capacity = capacity < most ? capacity : most;
        struct facts *grown = realloc(list->history, capacity * sizeof *grown);
        if (!grown)
            return;
        list->history = grown; /* the ring had not wrapped: it was not full before */
        list->history_position = list->history_count;
        list->history_capacity = capacity;
    }
    if (!list->history_capacity)
        return;
    list->history[list->history_position] = *facts;
    list->history_position = list->history_position + 1 == list->history_capacity ? 0 : list->history_position + 1;
    if (list->history_count < list->history_capacity)
        list->history_count++;
}

void freelist_recall(struct freelist *list, uint64_t address, int exact, struct facts *out)
{
    list_lock(list);
    for (size_t i = 0; i < list->history_count; i++) {
        const struct facts *facts = &list->history[i];
        if (facts->id > out->id &&
            (exact ? facts->address == address : address >= facts->address && address - facts->address < facts->size))
            *out = *facts;
    }
    list_unlock(list);
}

/* The first block of at least `pages` and not more than `waste` percent larger that was freed at `sequence` or before. */
static struct block *search(struct freelist *list, uint64_t pages, uint64_t waste, uint64_t sequence)
{
    uint64_t most = pages + pages * waste / 100;
    for (unsigned bin = bin_of(pages), last = bin_of(most); bin <= last; bin++) {
        struct block *block;
        unsigned seen = 0;
        DL_FOREACH(list->bins[bin], block)
        {
            if (block->pages >= pages && block->pages <= most && block->free_sequence <= sequence) {
                remove_idle(list, block);
                remember(list, &block->facts);
                return block;
            }
            if (++seen == SCAN)
                break;
        }
    }
    return NULL;
}

/* Bytes by which a list's own sum may differ from what the context knows: the peak is exact to as much for each stream, and
 * threads that allocate small buffers do not wait for each other's cache line. */
#define UNKNOWN_BYTES (1 << 20)

/* Expects the list's lock. */
static void count_bytes(struct freelist *list, int64_t bytes)
{
    struct heap_context *context = list->context;
    list->live_bytes += bytes;
    if (list->live_bytes < UNKNOWN_BYTES && list->live_bytes > -UNKNOWN_BYTES)
        return;
    int64_t live = __atomic_add_fetch(&context->live_bytes, list->live_bytes, __ATOMIC_RELAXED);
    int64_t peak = __atomic_load_n(&context->peak_live_bytes, __ATOMIC_RELAXED);
    while (live > peak &&
           !__atomic_compare_exchange_n(&context->peak_live_bytes, &peak, live, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    list->live_bytes = 0;
}

void freelist_count(struct freelist *list, uint64_t size)
{
    list_lock(list);
    list->allocations++;
    count_bytes(list, (int64_t)size);
    list_unlock(list);
}

struct block *freelist_take(struct freelist *list, uint64_t pages, uint64_t waste, uint64_t size)
{
    list_lock(list);
    struct block *block = search(list, pages, waste, UINT64_MAX);
    if (block) {
        list->allocations++;
        count_bytes(list, (int64_t)size);
    }
    list_unlock(list);
    return block;
}

int freelist_put(struct freelist *list, struct block *block, enum freed_state state, uint64_t now)
{
    list_lock(list);
    block->free_sequence = ++list->freed;
    list->frees++;
    count_bytes(list, -(int64_t)block->facts.size);
    if (state == FREED_GONE) {
        list->passed = list->freed;
    } else if (state == FREED_IDLE) {
        put_idle(list, block);
        if (list_stream(list) == HEAP_SYNCHRONISED)
            list->passed = list->freed;
    } else if (state == FREED_WAITING) {
        DL_APPEND(list->waiting, block);
        list->waiting_count++;
    } else {
        DL_APPEND(list->retiring, block);
        __atomic_add_fetch(&list->retiring_count, 1, __ATOMIC_RELAXED);
    }
    int due = !list->pool && list_stream(list) != HEAP_SYNCHRONISED &&
              (list->freed - list->marked >= MARK_FREES || now - list->marked_ns >= MARK_NS);
    list_unlock(list);
    return due;
}

/* Expects the list's lock. */
static void advance_markers(struct freelist *list)
{
    unsigned done = 0;
    while (done < list->marker_count && driver->cuEventQuery(list->markers[done].event) == CUDA_SUCCESS) {
        if (list->markers[done].sequence > list->passed)
            list->passed = list->markers[done].sequence;
        event_give(list->context, list->markers[done].event);
        done++;
    }
    list->marker_count -= done;
    for (unsigned i = 0; i < list->marker_count; i++)
        list->markers[i] = list->markers[i + done];
}

void freelist_mark(struct freelist *list, uint64_t now)
{
    CUstreamCaptureStatus capture;
    list_lock(list);
    if (list->marker_count == MARKERS)
        advance_markers(list);
    int due = list->marker_count < MARKERS;
    uint64_t sequence = list->freed;
    if (due) {
        list->marked = sequence;
        list->marked_ns = now;
    }
    list_unlock(list);
    if (!due)
        return;
    /* Also refuses where a stream that synchronises with this one is being captured. */
    if (driver->cuStreamIsCapturing(list_stream(list), &capture) != CUDA_SUCCESS || capture != CU_STREAM_CAPTURE_STATUS_NONE)
        return;
    CUevent event = event_take(list->context);
    if (!event)
        return;
    int recorded = driver->cuEventRecord(event, list_stream(list)) == CUDA_SUCCESS;
    list_lock(list);
    recorded = recorded && list->marker_count < MARKERS;
    if (recorded)
        list->markers[list->marker_count++] = (struct marker){.event = event, .sequence = sequence};
    list_unlock(list);
    if (!recorded)
        event_give(list->context, event);
}

void freelist_mark_rest(struct freelist *list, uint64_t now)
{
    CUstream stream = list_stream(list);
    if (list->pool || stream == HEAP_SYNCHRONISED || stream == HEAP_UNORDERED || stream == CU_STREAM_PER_THREAD)
        return; /* another thread's own stream cannot be named */
    list_lock(list);
    int due = list->freed != list->marked && list->freed > list->passed;
    list_unlock(list);
    if (due)
        freelist_mark(list, now);
}

struct block *freelist_take_passed(struct freelist *list, uint64_t pages, uint64_t waste)
{
    list_lock(list);
    advance_markers(list);
    struct block *block = search(list, pages, waste, list->passed);
    list_unlock(list);
    return block;
}

/* Whether every event of a block has passed; they are given back then. A block without events cannot be known to. */
static int has_passed(struct block *block)
{
    if (!block->event_count)
        return 0;
    for (uint32_t i = 0; i < block->event_count; i++) {
        if (driver->cuEventQuery(block->events[i]) != CUDA_SUCCESS)
            return 0;
    }
    return 1;
}

void block_forget_events(struct block *block)
{
    for (uint32_t i = 0; i < block->event_count; i++)
        event_give(block->context, block->events[i]);
    free(block->events);
    block->events = NULL;
    block->event_count = 0;
}

void freelist_advance(struct freelist *list)
{
    struct block *block, *next;
    unsigned seen = 0;
    list_lock(list);
    advance_markers(list);
    DL_FOREACH_SAFE(list->waiting, block, next)
    {
        if (seen++ == WAITING_SCAN)
            break;
        if (has_passed(block)) {
            block_forget_events(block);
            DL_DELETE(list->waiting, block);
            list->waiting_count--;
            put_idle(list, block);
        }
    }
    list_unlock(list);
}

void freelist_retire(struct freelist *list)
{
    for (;;) {
        list_lock(list);
        struct block *block = list->retiring;
        if (block && has_passed(block)) {
            block_forget_events(block);
            DL_DELETE(list->retiring, block);
            __atomic_sub_fetch(&list->retiring_count, 1, __ATOMIC_RELAXED);
        } else {
            block = NULL;
        }
        list_unlock(list);
        if (!block)
            return;
        block_unmap(block);
    }
}

struct block *freelist_take_idle(struct freelist *list)
{
    struct block *block = NULL;
    list_lock(list);
    for (unsigned bin = 0; list->idle_pages && bin < BINS && !block; bin++)
        block = list->bins[bin];
    if (block)
        remove_idle(list, block);
    list_unlock(list);
    return block;
}

struct block *freelist_take_any(struct freelist *list)
{
    list_lock(list);
    struct block *block = list->waiting ? list->waiting : list->retiring;
    if (block && block == list->waiting) {
        DL_DELETE(list->waiting, block);
        list->waiting_count--;
    } else if (block) {
        DL_DELETE(list->retiring, block);
        __atomic_sub_fetch(&list->retiring_count, 1, __ATOMIC_RELAXED);
    }
    list_unlock(list);
    return block ? block : freelist_take_idle(list);
}

uint64_t freelist_trim(struct freelist *list, uint64_t before_ns, uint64_t bytes)
{
    uint64_t trimmed = 0;
    if (list->pool && pool_is_held(list->pool))
        return 0;
    while (trimmed < bytes) {
        struct block *oldest = NULL;
        list_lock(list);
        advance_markers(list);
        for (unsigned bin = 0; bin < BINS; bin++) {
            /* utlist keeps the tail behind the head's prev: the one that has been idle longest. */
            struct block *block = list->bins[bin] ? list->bins[bin]->prev : NULL;
            if (block && block->free_sequence <= list->passed && block->facts.freed_ns <= before_ns &&
                (!oldest || block->facts.freed_ns < oldest->facts.freed_ns))
                oldest = block;
        }
        if (oldest)
            remove_idle(list, oldest);
        list_unlock(list);
        if (!oldest)
            break;
        trimmed += oldest->slot.mapped;
        block_unmap(oldest);
    }
    return trimmed;
}

void freelist_begin_sync(struct freelist *list)
{
    list_lock(list);
    list->snapshot = list->freed;
    list_unlock(list);
}

void freelist_end_sync(struct freelist *list)
{
    struct block *block, *next;
    if (list->pool && pool_is_held(list->pool))
        return;
    list_lock(list);
    if (list->snapshot > list->passed)
        list->passed = list->snapshot;
    DL_FOREACH_SAFE(list->waiting, block, next)
    {
        if (block->free_sequence <= list->snapshot) {
            block_forget_events(block);
            DL_DELETE(list->waiting, block);
            list->waiting_count--;
            put_idle(list, block);
        }
    }
    list_unlock(list);
}
