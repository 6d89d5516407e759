#include "poison.h"
#include "watch.h"

#include "base/aside.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/lost_reports.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define PART (UINT64_C(64) << 10) /* bytes of a job, unless there would be more jobs than */
#define PARTS 256u
#define WAIT_MS 1000 /* the most that a free which the program has waited for waits for its check, and anybody for a fill */
#define PAUSE_US 20u

static struct lock lock = LOCK(RANK_LEAF);
static struct poison_piece *pieces; /* by address */
static size_t count, room;          /* count: atomic */
uint64_t poison_unchecked;

/* ---- which bytes ---- */

/* The part of the first piece that has some of the bytes. Returns where the piece is, or `count`. */
static size_t find(uint64_t start, uint64_t end, struct poison_piece *part)
{
    lock_expect(RANK_LEAF);
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
static int put(size_t at, size_t others, struct poison_piece piece, uint64_t start, uint64_t end)
{
    lock_expect(RANK_LEAF);
    size_t own = start < end;
    if (count + own > room + others) {
        struct poison_piece *grown = realloc(pieces, (2 * room + 64) * sizeof *grown);
        if (!grown)
            return 0;
        pieces = grown;
        room = 2 * room + 64;
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

/* Takes that part out, once no other thread checks the piece. Returns 0 if there is none. */
static int take_locked(uint64_t start, uint64_t end, struct poison_piece *part)
{
    size_t at;
    lock_expect(RANK_LEAF);
    for (; (at = find(start, end, part)) < count && pieces[at].checks; lock_take(&lock)) {
        lock_release(&lock);
        aside_sleep(PAUSE_US);
    }
    if (at == count)
        return 0;
    const struct poison_piece whole = pieces[at];
    put(at, 1, whole, part->end, whole.end);
    put(at, 0, whole, whole.start, part->start);
    return 1;
}

static int take(uint64_t start, uint64_t end, struct poison_piece *part)
{
    HOLD(&lock);
    return take_locked(start, end, part);
}

static int look(uint64_t start, uint64_t end, struct poison_piece *part)
{
    HOLD(&lock);
    return find(start, end, part) < count;
}

/* The next piece of the context, which stays until check_ends(). Returns 0 if there is none. */
static int check_begins(const struct context *context, uint64_t from, struct poison_piece *piece)
{
    HOLD(&lock);
    size_t at = find(from, UINT64_MAX, piece);
    while (at < count && pieces[at].context != context)
        at++;
    if (at == count)
        return 0;
    pieces[at].checks++;
    *piece = pieces[at];
    return 1;
}

/* It may have gone with its context. */
static void check_ends(const struct poison_piece *piece)
{
    struct poison_piece part;
    HOLD(&lock);
    size_t at = find(piece->start, piece->end, &part);
    if (at < count && pieces[at].checks)
        pieces[at].checks--;
}

uint64_t poison_bytes(uint64_t start, uint64_t end)
{
    struct poison_piece part;
    uint64_t bytes = 0;
    if (__builtin_expect(!__atomic_load_n(&count, __ATOMIC_RELAXED), 1))
        return 0;
    for (; look(start, end, &part); start = part.end)
        bytes += part.end - part.start;
    return bytes;
}

void poison_is_copied(uint64_t start, uint64_t end, const char *call)
{
    struct poison_piece part;
    if (__builtin_expect(!__atomic_load_n(&count, __ATOMIC_RELAXED), 1))
        return;
    HOLD(&lock);
    for (size_t at; (at = find(start, end, &part)) < count; start = part.end) {
        pieces[at].fact.copy = call;
        pieces[at].fact.copies++;
    }
}

/* ---- launches ---- */

/* That of a context, whose kernel is loaded. NULL: it cannot be had. */
static struct watch *watch_in(struct context *context)
{
    struct watch *watch = watch_make(books_of(context));
    while (watch && !watch_begin(watch)) {
        enum watch_state state = __atomic_load_n(&watch->state, __ATOMIC_ACQUIRE);
        if (state == WATCH_NEW || state == WATCH_OFF)
            return NULL;
        sched_yield(); /* another thread loads it */
    }
    return watch;
}

static size_t describe(const struct batch *batch, struct heap_slack *out, size_t max)
{
    (void)max;
    const struct poison_fact *fact = &batch->piece.fact;
    struct slack_found *all = &out->found;
    out->buffer = (cufence_buffer){.struct_size = sizeof out->buffer,
                                   .id = fact->buffer,
                                   .address = fact->address,
                                   .size = fact->size,
                                   .mapping_start = fact->address,
                                   .mapping_end = fact->address + fact->size,
                                   .device = batch->piece.context->device};
    *all = (struct slack_found){.since_ns = fact->ns, .since_on = fact->stream, .buffers = 1, .poison = *fact};
    for (unsigned i = 0; i < batch->count; i++) {
        const struct pattern_found *found = &batch->jobs[i].found[0];
        if (batch->states[i] != PATTERN_BAD)
            continue;
        if (!all->changed) {
            uint64_t left = batch->jobs[i].check[0].end - found->first;
            all->address = found->first;
            all->byte_count = left < PATTERN_FOUND ? left : PATTERN_FOUND;
            memcpy(all->bytes, found->bytes, all->byte_count);
        }
        all->changed += found->count;
        all->span = found->last - all->address + 1;
    }
    all->byte_count = all->span < all->byte_count ? all->span : all->byte_count;
    return all->changed != 0;
}

/* In a scope. NULL: out of memory. */
static struct batch *make(struct watch *watch, const struct poison_piece *piece, uint32_t does)
{
    uint64_t bytes = piece->end - piece->start, parts = bytes / PART < PARTS ? bytes / PART + 1 : PARTS;
    struct batch *batch = watch ? batch_make(watch, (unsigned)parts) : NULL;
    if (!batch)
        return NULL;
    lock_take(&watch->lock); /* is_filling() looks at all of them */
    batch->on_result = describe;
    batch->piece = *piece;
    batch->piece.fact.until_ns = monotonic_ns();
    batch->is_fill = does == PATTERN_WRITE;
    lock_release(&watch->lock);
    for (uint64_t i = 0; i < parts; i++) {
        const struct pattern_range part = {piece->start + bytes * i / parts, piece->start + bytes * (i + 1) / parts};
        batch->jobs[i] = (struct pattern_job){.check = {part}, .write = {part}, .does = does | PATTERN_NANS};
    }
    return batch;
}

/* On a stream of the program's. Returns whether it is under way. */
static int submit(const struct poison_piece *piece, struct stream *stream, uint32_t does)
{
    struct watch *watch = watch_in(piece->context);
    int is_launched = 0;
    stream_touch_begin(stream);
    struct scope scope = scope_enter_stream(stream);
    struct batch *batch = scope.pushed ? make(watch, piece, does) : NULL;
    if (batch) {
        HOLD(&watch->lock);
        is_launched = batch_launch_on(watch, batch, stream);
        if (!is_launched)
            batch_drop(watch, batch);
    }
    scope_leave(scope);
    stream_touch_end(stream);
    return is_launched;
}

/* On our own stream, behind a synchronisation. Returns whether it is over in time, and what it has found in *out; else, or
 * without `out`, the background thread collects that. */
static int run(const struct poison_piece *piece, uint32_t does, uint64_t until_ms, struct heap_slack *out)
{
    struct watch *watch = watch_in(piece->context);
    SCOPE scope = scope_enter(piece->context);
    struct batch *batch = scope.pushed ? make(watch, piece, does) : NULL;
    if (!batch)
        return 0;
    lock_take(&watch->lock);
    int is_over = batch_launch(watch, batch);
    lock_release(&watch->lock);
    is_over = is_over && pattern_await(&batch->flight, batch->jobs, batch->count, until_ms);
    HOLD(&watch->lock);
    batch->is_launching = 0;
    if (is_over && out && batch_collect(watch, batch, out, 1))
        untold_begin();
    if (!batch->flight.is_begun)
        batch_drop(watch, batch);
    return is_over;
}

static int is_filling(const struct poison_piece *piece)
{
    struct watch *watch = watch_of(books_of(piece->context));
    struct batch *batch;
    if (!watch)
        return 0;
    HOLD(&watch->lock);
    DL_FOREACH(watch->poisons, batch)
    {
        if (batch->is_fill && batch->piece.start < piece->end && batch->piece.end > piece->start &&
            !flight_is_over(&batch->flight))
            return 1;
    }
    return 0;
}

/* Whatever is submitted to the stream comes behind the fills of these bytes. Returns 0 if that cannot be had soon. */
static int order(uint64_t start, uint64_t end, struct stream *stream)
{
    struct poison_piece part;
    int is_over = 1;
    for (uint64_t until = monotonic_ms() + WAIT_MS; is_over && look(start, end, &part); start = part.end) {
        is_over = stream_ref_is_there(&part.on) &&
                  (part.on.stream == stream || stream_waits_for(books_of(part.context), stream, &part.on));
        for (; !is_over && monotonic_ms() < until; aside_sleep(PAUSE_US))
            is_over = !is_filling(&part);
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
static int check_last(struct poison_piece *part, struct stream *stream, uint64_t last)
{
    part->fact.until = last;
    part->fact.until_tid = thread_id();
    part->fact.until_stream = (uintptr_t)stream->handle;
    return submit(part, stream, PATTERN_CHECK);
}

/* Instead of what is there. Returns 0 if the host is out of memory. */
static int put_in_place(const struct poison_piece *piece)
{
    struct poison_piece next;
    HOLD(&lock);
    while (take_locked(piece->start, piece->end, &next))
        continue;
    return put(find(piece->start, UINT64_MAX, &next), 0, *piece, piece->start, piece->end);
}

cufence_status poison_begin(const struct heap_range *range, uint64_t start, uint64_t bytes, CUstream handle, uint64_t last)
{
    struct stream *stream;
    struct poison_piece old, piece = {.start = start, .end = start + bytes, .context = range->context};
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
    while (take(start, piece.end, &old)) /* another thread has freed the buffer, and may have looked for poison before */
        continue;
    return error_set(CUFENCE_ERROR_NOT_FOUND, "buffer #%" PRIu64 " was freed while 0x%" PRIx64 " was poisoned", range->id,
                     start);
}

/* Checks these bytes, which are poisoned no more. */
static void end_all(uint64_t start, uint64_t end, struct stream *stream, enum heap_users users, uint64_t last)
{
    struct poison_piece part;
    while (take(start, end, &part)) {
        int is_checked = users == HEAP_NONE ? run(&part, PATTERN_CHECK, monotonic_ms() + WAIT_MS, NULL)
                                            : users == HEAP_STREAM && check_last(&part, stream, last);
        if (!is_checked)
            __atomic_fetch_add(&poison_unchecked, part.end - part.start, __ATOMIC_RELAXED);
    }
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
    struct poison_piece part;
    if (!__atomic_load_n(&count, __ATOMIC_RELAXED) || !look(address, address + size, &part))
        return;
    if (users == HEAP_STREAM && (stream->context != part.context || !order(address, address + size, stream)))
        users = HEAP_UNKNOWN;
    end_all(address, address + size, stream, users, 0);
}

/* ---- what was found ---- */

int poison_check(const struct watch *watch, uint64_t until_ms, size_t *found)
{
    struct heap_slack slack = {.found.changed = 0};
    struct poison_piece part;
    int is_done = 1;
    for (uint64_t at = 0; is_done && check_begins(watch->books->context, at, &part); at = part.end) {
        slack.found.changed = 0;
        is_done = is_filling(&part) || run(&part, PATTERN_CHECK | PATTERN_RENEW, until_ms, &slack);
        check_ends(&part);
        if (slack.found.changed)
            slack_report_found(watch->books, &slack, 1);
        *found += slack.found.changed != 0;
    }
    return is_done;
}

void poison_context_gone(const struct context *context)
{
    HOLD(&lock);
    for (size_t i = count; i-- > 0;)
        if (pieces[i].context == context)
            put(i, 1, pieces[i], 0, 0);
}
