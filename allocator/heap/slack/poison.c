#include "poison.h"
#include "watch.h"

#include "base/aside.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/lost_reports.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PART (UINT64_C(64) << 10) /* bytes of a job, unless there would be more jobs than */
#define PARTS 256u
#define PINNED (UINT64_C(64) << 20)
#define WAIT_MS 1000 /* the most that a free which the program has waited for waits for its check, and anybody for a fill */
#define PAUSE_US 20u

struct piece {
    uint64_t start, end;
    struct context *context;
    struct stream_ref on; /* where it was filled */
    struct poison_fact fact;
};

/* What is kept of a context. */
struct within {
    CUfunction pattern, fill;
    struct results results;
};

/* A launch in the air. */
struct work {
    struct flight flight;
    struct piece piece;
    struct within *within;
    struct pattern_job *jobs; /* pinned, and behind them a state each */
    unsigned parts;
    int is_fill;
    int is_asked; /* by poison_check(), which counts what it finds */
    struct work *prev, *next;
};

static struct lock lock = LOCK(RANK_POISON); /* not held across launches on streams of the program's */
static struct piece *pieces;                 /* by address */
static size_t count, room;                   /* atomic */
static struct work *flying;
uint64_t poison_unchecked;

/* ---- which bytes ---- */

/* The part of the first piece that has some of the bytes. Returns where the piece is, or `count`. */
static size_t find(uint64_t start, uint64_t end, struct piece *part)
{
    lock_expect(RANK_POISON);
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (pieces[middle].end > start)
            high = middle;
        else
            low = middle + 1;
    }
    if (low == count || start >= end || pieces[low].start >= end)
        return count;
    *part = pieces[low];
    part->start = start > part->start ? start : part->start;
    part->end = end < part->end ? end : part->end;
    return low;
}

/* Puts the bytes of a piece in the place of so many others. Returns 0, and has done nothing, if the host is out of memory. */
static int put(size_t at, size_t others, struct piece piece, uint64_t start, uint64_t end)
{
    lock_expect(RANK_POISON);
    size_t own = start < end;
    if (count + own > room + others) {
        struct piece *grown = realloc(pieces, (2 * room + 64) * sizeof *grown);
        if (!grown)
            return 0;
        pieces = grown;
        __atomic_store_n(&room, 2 * room + 64, __ATOMIC_RELAXED);
        heap_mark(RARE_POISON);
    }
    piece.start = start;
    piece.end = end;
    memmove(&pieces[at + own], &pieces[at + others], (count - at - others) * sizeof *pieces);
    if (own)
        pieces[at] = piece;
    __atomic_store_n(&count, count + own - others, __ATOMIC_RELAXED);
    return 1;
}

/* Takes that part out. Returns 0 if there is none. */
static int take(uint64_t start, uint64_t end, struct piece *part)
{
    size_t at = find(start, end, part);
    if (at == count)
        return 0;
    const struct piece whole = pieces[at];
    put(at, 1, whole, part->end, whole.end);
    put(at, 0, whole, whole.start, part->start);
    return 1;
}

static int look(uint64_t start, uint64_t end, struct piece *part)
{
    HOLD(&lock);
    return find(start, end, part) < count;
}

int poison_is_used(void)
{
    return __atomic_load_n(&room, __ATOMIC_RELAXED) != 0;
}

uint64_t poison_bytes(uint64_t start, uint64_t end)
{
    struct piece part;
    uint64_t bytes = 0;
    if (__builtin_expect(!__atomic_load_n(&count, __ATOMIC_RELAXED), 1))
        return 0;
    for (; look(start, end, &part); start = part.end)
        bytes += part.end - part.start;
    return bytes;
}

/* ---- launches ---- */

static void drop(struct work *work)
{
    lock_expect(RANK_POISON);
    DL_DELETE(flying, work);
    flight_end(&work->flight);
    results_give(&work->within->results, (uint8_t *)work->jobs);
    free(work);
}

/* In a scope. NULL: out of memory, or the driver refuses the kernel. */
static struct work *make(const struct piece *piece, struct stream *stream, uint32_t does)
{
    lock_expect(RANK_POISON);
    struct within *within = piece->context->books[CONTEXT_POISON];
    struct work *work = calloc(1, sizeof *work);
    uint64_t bytes = piece->end - piece->start, parts = bytes / PART < PARTS ? bytes / PART + 1 : PARTS;
    if (!within)
        piece->context->books[CONTEXT_POISON] = within = calloc(1, sizeof *within);
    if (within && !within->pattern && pattern_load(&within->pattern, &within->fill))
        within->results.limit = PINNED;
    if (work && within)
        work->jobs = (void *)results_take(&within->results, parts * (sizeof *work->jobs + sizeof(uint32_t)));
    if (!work || !work->jobs) {
        free(work);
        return NULL;
    }
    work->piece = *piece;
    work->piece.fact.until_ns = monotonic_ns();
    work->within = within;
    work->parts = (unsigned)parts;
    work->is_fill = does == PATTERN_WRITE;
    for (uint64_t i = 0; i < parts; i++) {
        const struct pattern_range part = {piece->start + bytes * i / parts, piece->start + bytes * (i + 1) / parts};
        work->jobs[i] = (struct pattern_job){.check = {part}, .write = {part}, .does = does | PATTERN_NANS};
    }
    flight_begin(&work->flight, stream, (void *)(work->jobs + parts), work->parts);
    DL_APPEND(flying, work);
    return work;
}

static int launch(const struct work *work, const struct stream *stream)
{
    CUdeviceptr jobs = (uintptr_t)work->jobs, states = (uintptr_t)(work->jobs + work->parts);
    wake_sleeping_worker(); /* collects what it finds */
    return pattern_launch(work->within->pattern, stream->handle, jobs, states, work->parts) == CUDA_SUCCESS;
}

/* On a stream of the program's. Returns whether it is under way. */
static int submit(const struct piece *piece, struct stream *stream, uint32_t does)
{
    struct work *work = NULL, made; /* once it is launched, another thread may collect it */
    stream_touch_begin(stream);
    struct scope scope = scope_enter_stream(stream);
    lock_take(&lock);
    if (scope.pushed && (work = make(piece, stream, does)))
        made = *work;
    lock_release(&lock);
    int is_launched = work && launch(&made, stream);
    scope_leave(scope);
    stream_touch_end(stream);
    HOLD(&lock);
    if (work && !is_launched)
        drop(work);
    return is_launched;
}

/* On our own stream, behind a synchronisation. Returns whether it is over in time. */
static int run(const struct piece *piece, uint32_t does, uint64_t until_ms)
{
    lock_expect(RANK_POISON);
    SCOPE scope = scope_enter(piece->context);
    struct stream *own = scope.pushed ? books_stream(books_of(piece->context)) : NULL;
    struct work *work = own ? make(piece, own, does) : NULL;
    if (work)
        work->is_asked = (does & PATTERN_RENEW) != 0;
    if (work && !launch(work, own))
        drop(work);
    else if (work)
        return pattern_await(&work->flight, work->jobs, work->parts, until_ms);
    return 0;
}

static int is_filling(const struct piece *piece)
{
    lock_expect(RANK_POISON);
    struct work *work;
    DL_FOREACH(flying, work)
    {
        if (work->is_fill && work->piece.start < piece->end && work->piece.end > piece->start && !flight_is_over(&work->flight))
            return 1;
    }
    return 0;
}

/* Whatever is submitted to the stream comes behind the fills of these bytes. Returns 0 if that cannot be had soon. */
static int order(uint64_t start, uint64_t end, struct stream *stream)
{
    struct piece part;
    int is_over = 1;
    for (uint64_t until = monotonic_ms() + WAIT_MS; is_over && look(start, end, &part); start = part.end) {
        is_over = stream_ref_is_there(&part.on) &&
                  (part.on.stream == stream || stream_waits_for(books_of(part.context), stream, &part.on));
        for (; !is_over && monotonic_ms() < until; aside_sleep(PAUSE_US)) {
            HOLD(&lock);
            is_over = !is_filling(&part);
        }
    }
    return is_over;
}

/* ---- the functions of the C API, and the free of a buffer ---- */

static cufence_status find_stream(const struct heap_range *range, uint64_t start, uint64_t bytes, CUstream handle,
                                  struct stream **stream)
{
    *stream = stream_is_default(handle) ? stream_in(range->context, handle) : stream_resolve(handle);
    if (!*stream || (*stream)->context != range->context)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "stream %p is not one of the context of buffer #%" PRIu64,
                         (void *)handle, range->id);
    if (!order(start, start + bytes, *stream))
        return error_set(CUFENCE_ERROR_TIMEOUT,
                         "stream %p cannot wait for the one on which 0x%" PRIx64 " was poisoned; synchronise that one before",
                         (void *)handle, start);
    return CUFENCE_OK;
}

/* Submits a check of bytes that are about to be something else. */
static int check_last(struct piece *part, struct stream *stream, uint64_t last)
{
    part->fact.until = last;
    part->fact.until_tid = thread_id();
    return submit(part, stream, PATTERN_CHECK);
}

/* Instead of what is there. Returns 0 if the host is out of memory. */
static int put_in_place(const struct piece *piece)
{
    struct piece next;
    HOLD(&lock);
    while (take(piece->start, piece->end, &next))
        continue;
    return put(find(piece->start, UINT64_MAX, &next), 0, *piece, piece->start, piece->end);
}

cufence_status poison_begin(const struct heap_range *range, uint64_t start, uint64_t bytes, CUstream handle, uint64_t last)
{
    struct stream *stream;
    struct piece old, piece = {.start = start, .end = start + bytes, .context = range->context};
    cufence_status status = find_stream(range, start, bytes, handle, &stream);
    if (status != CUFENCE_OK)
        return status;
    piece.on = stream_ref(stream);
    piece.fact = (struct poison_fact){start,
                                      bytes,
                                      range->id,
                                      range->address,
                                      range->size,
                                      monotonic_ns(),
                                      .stream = (uintptr_t)handle,
                                      .tid = thread_id(),
                                      .after = last,
                                      .stack = facts_stack()};
    int is_well = 1;
    for (uint64_t at = start; is_well && look(at, piece.end, &old); at = old.end)
        is_well = check_last(&old, stream, last); /* a fill covers up what was written */
    if (!is_well || !submit(&piece, stream, PATTERN_WRITE))
        return error_set(CUFENCE_ERROR_UNSUPPORTED,
                         "0x%" PRIx64 " is not poisoned: stream %p is capturing or has failed, or memory has run out", start,
                         (void *)handle);
    if (!put_in_place(&piece))
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory for poisoned bytes");
    const struct block *block = index_find(range->address);
    if (block && facts_read(block).id == range->id)
        return CUFENCE_OK;
    lock_take(&lock); /* another thread has freed the buffer, and may have looked for poison before */
    while (take(start, piece.end, &old))
        continue;
    lock_release(&lock);
    return error_set(CUFENCE_ERROR_NOT_FOUND, "buffer #%" PRIu64 " was freed while 0x%" PRIx64 " was poisoned", range->id,
                     start);
}

/* Checks these bytes, which are poisoned no more. */
static void end_all(uint64_t start, uint64_t end, struct stream *stream, enum heap_users users, uint64_t last)
{
    struct piece part;
    lock_take(&lock);
    while (take(start, end, &part)) {
        int is_checked = users == HEAP_NONE && run(&part, PATTERN_CHECK, monotonic_ms() + WAIT_MS);
        lock_release(&lock);
        if (!is_checked && !(users == HEAP_STREAM && check_last(&part, stream, last)))
            __atomic_fetch_add(&poison_unchecked, part.end - part.start, __ATOMIC_RELAXED);
        lock_take(&lock);
    }
    lock_release(&lock);
}

cufence_status poison_end(const struct heap_range *range, uint64_t start, uint64_t bytes, CUstream handle, uint64_t last)
{
    struct stream *stream;
    cufence_status status = find_stream(range, start, bytes, handle, &stream);
    if (status == CUFENCE_OK && !poison_bytes(start, start + bytes))
        return error_set(CUFENCE_ERROR_NOT_FOUND, "none of the %" PRIu64 " bytes at 0x%" PRIx64 " is poisoned", bytes, start);
    if (status == CUFENCE_OK)
        end_all(start, start + bytes, stream, HEAP_STREAM, last);
    return status;
}

void poison_freed(uint64_t address, uint64_t size, struct stream *stream, enum heap_users users)
{
    struct piece part;
    if (!look(address, address + size, &part))
        return;
    if (users == HEAP_STREAM && (stream->context != part.context || !order(address, address + size, stream)))
        users = HEAP_UNKNOWN;
    end_all(address, address + size, stream, users, 0);
}

/* ---- what was found ---- */

static void gather(const struct work *work, struct heap_slack *out)
{
    const uint32_t *states = (const void *)(work->jobs + work->parts);
    const struct poison_fact *fact = &work->piece.fact;
    struct slack_found *all = &out->found;
    out->buffer = (cufence_buffer){.id = fact->buffer,
                                   .address = fact->address,
                                   .size = fact->size,
                                   .mapping_start = fact->address,
                                   .mapping_end = fact->address + fact->size,
                                   .device = work->piece.context->device};
    *all = (struct slack_found){.since_ns = fact->ns, .buffers = 1, .poison = *fact};
    for (unsigned i = 0; i < work->parts; i++) {
        const struct pattern_found *found = &work->jobs[i].found[0];
        if (states[i] != PATTERN_BAD)
            continue;
        if (!all->changed) {
            uint64_t left = work->jobs[i].check[0].end - found->first;
            all->address = found->first;
            all->byte_count = left < PATTERN_FOUND ? left : PATTERN_FOUND;
            memcpy(all->bytes, found->bytes, all->byte_count);
        }
        all->changed += found->count;
        all->span = found->last - all->address + 1;
    }
    all->byte_count = all->span < all->byte_count ? all->span : all->byte_count;
}

/* Takes one out that is over. Returns 0 if there is none. */
static int take_over(struct heap_slack *out, int takes_asked, int *is_pending)
{
    struct work *work;
    HOLD(&lock);
    *is_pending = 0;
    DL_FOREACH(flying, work)
    {
        if (work->is_asked && !takes_asked)
            continue;
        if (flight_is_over(&work->flight))
            break;
        *is_pending |= __atomic_load_n(&work->piece.context->fault, __ATOMIC_RELAXED) == CUDA_SUCCESS;
    }
    if (!work)
        return 0;
    gather(work, out);
    drop(work);
    if (out->found.changed)
        untold_begin();
    return 1;
}

static size_t collect(int takes_asked, int *is_pending)
{
    struct heap_slack slack;
    size_t found = 0;
    while (take_over(&slack, takes_asked, is_pending)) {
        if (slack.found.changed)
            slack_report_found(&slack, 1);
        found += slack.found.changed != 0;
    }
    return found;
}

size_t poison_collect(int *is_pending)
{
    return collect(0, is_pending);
}

int poison_check(const struct context *context, uint64_t until_ms, size_t *found)
{
    struct work *work;
    struct piece part;
    int is_done = 1, is_pending;
    lock_take(&lock);
    for (uint64_t at = 0; is_done && find(at, UINT64_MAX, &part) < count; at = part.end) {
        if (part.context == context && !is_filling(&part))
            is_done = run(&part, PATTERN_CHECK | PATTERN_RENEW, until_ms);
    }
    lock_release(&lock);
    *found += collect(1, &is_pending);
    HOLD(&lock);
    DL_FOREACH(flying, work) /* those that took too long */
    work->is_asked = 0;
    return is_done;
}

void poison_context_gone(struct context *context)
{
    struct within *within = context->books[CONTEXT_POISON];
    struct work *work, *next;
    HOLD(&lock);
    for (size_t i = count; i-- > 0;)
        if (pieces[i].context == context)
            put(i, 1, pieces[i], 0, 0);
    DL_FOREACH_SAFE(flying, work, next)
    if (work->within == within)
        drop(work);
    if (within) {
        results_forget(&within->results);
        *within = (struct within){0};
    }
}
