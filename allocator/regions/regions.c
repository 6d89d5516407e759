/* What the C API does to regions, and the end of their buffers. */
#include "watch.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "heap/block/books.h"
#include "launch/launch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FREED_MS 1000 /* the most that a free which the program has waited for waits for the check of free rows */

static uint64_t divided;   /* divisions made; under regions_lock */
static uint64_t changes;   /* numbers given to them; under regions_lock */
static uint64_t unchecked; /* atomic */

uint64_t regions_unchecked(void)
{
    return __atomic_load_n(&unchecked, __ATOMIC_RELAXED);
}

/* ---- the end ---- */

/* Checks the free rows of a division that goes with its buffer, if that can be done in order. */
static void check_last(const struct division *division, struct stream *stream, enum heap_users users)
{
    struct region_at *rows = NULL;
    lock_take(&regions_table_lock);
    size_t count = division_poisoned(division, &rows);
    lock_release(&regions_table_lock);
    int is_ordered = users == HEAP_NONE || (users == HEAP_STREAM && stream->context == division->context);
    if (users == HEAP_STREAM && is_ordered)
        is_ordered = work_follow(stream, rows, count);
    const struct region_work work = {.context = division->context,
                                     .stream = users == HEAP_STREAM ? stream : NULL,
                                     .rows = rows,
                                     .count = is_ordered ? count : 0,
                                     .does = PATTERN_CHECK};
    if (!is_ordered || !rows_check(&work, users == HEAP_NONE ? monotonic_ms() + FREED_MS : 0))
        __atomic_fetch_add(&unchecked, count, __ATOMIC_RELAXED);
    free(rows);
}

/* Takes the first division out that has some of the bytes. */
static struct division *take_within(uint64_t start, uint64_t end)
{
    HOLD(&regions_table_lock);
    struct division *division = division_next(start);
    if (division && division->start >= end)
        division = NULL;
    if (division)
        division_remove(division);
    return division;
}

static void drop(struct division *division)
{
    lock_expect(RANK_REGIONS);
    states_give(division->context, division->states);
    free(division);
}

/* Before a buffer is freed. */
static void buffer_freed(uint64_t address, uint64_t size, struct stream *stream, enum heap_users users)
{
    struct division *division;
    HOLD(&regions_lock);
    while ((division = take_within(address, address + size)) != NULL) {
        check_last(division, stream, users);
        drop(division);
    }
}

static cufence_status none_begins(uint64_t start)
{
    struct region_at at;
    char text[2 * REGION_TEXT + 96];
    if (region_find(start, &at))
        return error_set(CUFENCE_ERROR_NOT_FOUND, "no region begins at 0x%" PRIx64 ": it lies %" PRIu64 " bytes inside %s",
                         start, at.offset, region_text(&at, text, sizeof text));
    return error_set(CUFENCE_ERROR_NOT_FOUND,
                     "no region begins at 0x%" PRIx64 ": divide its buffer with cufence_region() first", start);
}

cufence_status regions_gone(uint64_t start)
{
    lock_take(&regions_lock);
    lock_take(&regions_table_lock);
    struct division *division = division_at(start);
    if (division && division->start != start)
        division = NULL;
    if (division)
        division_remove(division);
    lock_release(&regions_table_lock);
    if (division)
        drop(division);
    lock_release(&regions_lock);
    return division ? CUFENCE_OK : none_begins(start);
}

/* ---- the beginning ---- */

/* Errors: INVALID_ARGUMENT, NOT_FOUND, OVERFLOW. */
static cufence_status check_bytes(uint64_t start, uint64_t bytes, uint64_t rows, struct heap_range *range)
{
    uint64_t all;
    if (!bytes || !rows)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "%" PRIu64 " rows of %" PRIu64 " bytes: neither may be 0", rows,
                         bytes);
    if (__builtin_mul_overflow(bytes, rows, &all) || __builtin_add_overflow(start, all, &all))
        return error_set(CUFENCE_ERROR_OVERFLOW, "%" PRIu64 " rows of %" PRIu64 " bytes do not fit in the address space", rows,
                         bytes);
    if (!heap_range_of(start, range))
        return error_set(CUFENCE_ERROR_NOT_FOUND,
                         "0x%" PRIx64 " lies in no live buffer of cufence: it was freed, or the driver has allocated it "
                         "(cufence_get_unguarded() tells what was left to it)",
                         start);
    if (all > range->address + range->size)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT,
                         "%" PRIu64 " rows of %" PRIu64 " bytes end %" PRIu64 " bytes past the end of buffer #%" PRIu64
                         ", which has %" PRIu64 " bytes",
                         rows, bytes, all - range->address - range->size, range->id, range->size);
    return CUFENCE_OK;
}

/* Adds the division. One of exactly the same bytes is replaced, and returned in *old. */
static cufence_status add(struct division *division, struct division **old)
{
    struct region_at at;
    int is_added = 0;
    lock_take(&regions_table_lock);
    struct division *other = division_next(division->start);
    if (other && other->start >= division_end(division))
        other = NULL;
    if (other && other->start == division->start && division_end(other) == division_end(division)) {
        division_remove(other);
        *old = other;
        other = NULL;
    }
    if (other)
        division_describe(other, other->start, &at);
    else
        is_added = division_add(division);
    lock_release(&regions_table_lock);
    if (other)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT,
                         "the bytes overlap those of \"%s\", %" PRIu64 " rows of %" PRIu64 " bytes from 0x%" PRIx64
                         "; end that division with cufence_region_gone() first",
                         at.name, at.rows, at.bytes, at.start);
    return is_added ? CUFENCE_OK : error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory for a division");
}

cufence_status regions_divide(uint64_t start, size_t bytes, size_t rows, const char *name, const void *divider)
{
    struct heap_range range;
    struct division *division, *old = NULL;
    cufence_status status = check_bytes(start, bytes, rows, &range);
    if (status != CUFENCE_OK)
        return status;
    division =
        rows < SIZE_MAX / sizeof *division->regions ? calloc(1, sizeof *division + rows * sizeof *division->regions) : NULL;
    if (!division)
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory for %zu rows", rows);
    division->buffer = range.id;
    division->start = start;
    division->bytes = bytes;
    division->rows = rows;
    division->context = range.context;
    division->divider = divider;
    snprintf(division->name, sizeof division->name, "%s", name ? name : "");
    HOLD(&regions_lock);
    division->number = ++divided;
    division->states = states_take(range.context, rows);
    __atomic_store_n(&heap_before_free, buffer_freed, __ATOMIC_RELEASE);
    __atomic_store_n(&heap_in_background, regions_collect, __ATOMIC_RELEASE);
    status = add(division, &old);
    if (status != CUFENCE_OK)
        drop(division);
    if (old)
        drop(old);
    return status;
}

/* ---- rows ---- */

#define CHUNK 1024u /* rows that are copied at a time */

/* What is changed: rows of one context, and on which stream. */
struct change {
    struct context *context;
    struct stream *stream;
    uint64_t number;  /* from 1 */
    int is_open;      /* work of ours may be submitted to the stream */
    struct region to; /* of each row: its state, and who has taken or released it */
    struct region_at *rows;
};

static int is_open(struct stream *stream)
{
    struct scope scope = scope_enter_stream(stream);
    int is = scope.pushed;
    scope_leave(scope);
    return is;
}

/* The thread's last launch. */
static uint64_t last_launch(struct context *context)
{
    const struct launch_mark mark = launch_newest(context);
    struct launch_entry entry;
    struct stack stack;
    return mark.slot && launch_read_marked(&mark, &entry, &stack) ? entry.sequence : 0;
}

/* Sets which change has named the row last. Returns which one had. */
static uint64_t set_named(const struct region_at *at, uint64_t number)
{
    HOLD(&regions_table_lock);
    struct region *row = division_row(at);
    uint64_t before = row ? row->named : 0;
    if (row)
        row->named = number;
    return before;
}

/* Whether the row can be changed. Marks it as named. */
static cufence_status check_row(const struct change *change, uint64_t start, struct region_at *at)
{
    char text[2 * REGION_TEXT + 96];
    if (!region_find(start, at) || at->offset)
        return none_begins(start);
    if (at->context != change->context)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT,
                         "0x%" PRIx64 " is a row of GPU %d, and one before it of GPU %d: rows of one call share a context",
                         start, at->context->device, change->context->device);
    if (change->to.state == REGION_FREE && at->region.state == REGION_FREE)
        return error_set(CUFENCE_ERROR_DOUBLE_FREE, "%s is free already", region_text(at, text, sizeof text));
    if (set_named(at, change->number) == change->number && change->to.state == REGION_FREE)
        return error_set(CUFENCE_ERROR_DOUBLE_FREE, "%s is named twice in one list of rows to release",
                         region_text(at, text, sizeof text));
    return CUFENCE_OK;
}

/* After a success, the lock is held. */
static cufence_status begin(const void *const *starts, size_t count, CUstream handle, struct change *change)
{
    struct region_at at;
    cufence_status status = CUFENCE_OK;
    if (!region_find((uintptr_t)starts[0], &at))
        return none_begins((uintptr_t)starts[0]);
    change->context = at.context;
    change->stream = stream_is_default(handle) ? stream_in(at.context, handle) : stream_resolve(handle);
    if (!change->stream)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "the driver does not know stream %p", (void *)handle);
    change->rows = malloc((count < CHUNK ? count : CHUNK) * sizeof *change->rows);
    if (!change->rows)
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory for %zu rows", count);
    lock_take(&regions_lock);
    change->number = ++changes;
    for (size_t i = 0; i < count && status == CUFENCE_OK; i++)
        status = check_row(change, (uintptr_t)starts[i], &at);
    if (status != CUFENCE_OK) {
        lock_release(&regions_lock);
        free(change->rows);
        return status;
    }
    change->is_open = change->stream->context == change->context && is_open(change->stream);
    return CUFENCE_OK;
}

static void note(const struct change *change, const struct region_at *at, uint64_t number)
{
    struct region region = at->region;
    const struct region *by = &change->to;
    region.state = by->state;
    if (by->state == REGION_LIVE) {
        region.taken_ns = by->taken_ns;
        region.taken_stack = by->taken_stack;
        region.taken_tid = by->taken_tid;
        region.taken_after = by->taken_after;
        region.taken_stream = by->taken_stream;
        memcpy(region.owner, by->owner, sizeof region.owner);
    } else {
        region.freed_ns = region.good_ns = by->freed_ns;
        region.freed_stack = by->freed_stack;
        region.freed_tid = by->freed_tid;
        region.freed_after = by->freed_after;
        region.freed_stream = by->freed_stream;
    }
    if (at->region.state == REGION_FREE && !(number && at->region.is_poisoned))
        __atomic_fetch_add(&unchecked, 1, __ATOMIC_RELAXED);
    region.is_poisoned = number && region.state == REGION_FREE;
    region.was_poisoned |= region.is_poisoned;
    region.work = number;
    region.on = stream_ref(number ? change->stream : NULL);
    struct region *to = division_row(at);
    if (to) {
        division_at(at->start)->poisoned += (uint64_t)region.was_poisoned - (uint64_t)to->was_poisoned;
        *to = region;
    }
}

/* Copies the next rows, each once, as many as there is room for. Moves *next behind them. Returns their number. */
static size_t copy(const struct change *change, const void *const *starts, size_t count, size_t *next)
{
    size_t copied = 0;
    for (; *next < count && copied < CHUNK; ++*next) {
        struct region_at *at = &change->rows[copied];
        copied += region_find((uintptr_t)starts[*next], at) && set_named(at, 0) == change->number;
    }
    return copied;
}

/* Submits what the first rows need, as many as a launch has room for, and notes it. Returns their number. */
static size_t make(const struct change *change, const struct region_at *rows, size_t count)
{
    int is_free = change->to.state == REGION_FREE;
    const struct region_work work = {.context = change->context,
                                     .stream = change->stream,
                                     .rows = rows,
                                     .count = work_most(rows, count),
                                     .by = change->to,
                                     .does = is_free ? PATTERN_WRITE : PATTERN_CHECK,
                                     .sets = 1,
                                     .state = change->to.state};
    int is_ordered = change->is_open && work_follow(change->stream, rows, work.count);
    uint64_t number = is_ordered ? work_submit(&work) : 0;
    if (!number)
        work_set_now(rows, work.count, change->to.state);
    HOLD(&regions_table_lock);
    for (size_t i = 0; i < work.count; i++)
        note(change, &rows[i], number);
    return work.count;
}

static cufence_status change_rows(const void *const *starts, size_t count, CUstream handle, struct change *change)
{
    cufence_status status = count ? begin(starts, count, handle, change) : CUFENCE_OK;
    if (status != CUFENCE_OK || !count)
        return status;
    change->to.taken_ns = change->to.freed_ns = monotonic_ns();
    change->to.taken_after = change->to.freed_after = last_launch(change->context);
    for (size_t at = 0; at < count;) {
        size_t copied = copy(change, starts, count, &at);
        for (size_t made = 0; made < copied;)
            made += make(change, change->rows + made, copied - made);
    }
    lock_release(&regions_lock);
    free(change->rows);
    return CUFENCE_OK;
}

cufence_status regions_take(const void *const *starts, size_t count, const char *owner, CUstream stream)
{
    struct change change = {.to = {.state = REGION_LIVE,
                                   .taken_stack = facts_stack(),
                                   .taken_tid = thread_id(),
                                   .taken_stream = (uint64_t)(uintptr_t)stream}};
    snprintf(change.to.owner, sizeof change.to.owner, "%s", owner ? owner : "");
    return change_rows(starts, count, stream, &change);
}

cufence_status regions_release(const void *const *starts, size_t count, CUstream stream)
{
    struct change change = {.to = {.state = REGION_FREE,
                                   .freed_stack = facts_stack(),
                                   .freed_tid = thread_id(),
                                   .freed_stream = (uint64_t)(uintptr_t)stream}};
    return change_rows(starts, count, stream, &change);
}
