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
#include <utlist.h>

#define FREED_MS 1000 /* the most that a free which the program has waited for waits for the check of free rows */

static uint64_t divided;   /* divisions made; under regions_lock */
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
    for (size_t i = 0; i < count && users == HEAP_STREAM && is_ordered; i++)
        is_ordered = work_follow(stream, &rows[i]);
    const struct region_work work = {.context = division->context,
                                     .stream = users == HEAP_STREAM ? stream : NULL,
                                     .rows = rows,
                                     .count = is_ordered ? count : 0,
                                     .does = PATTERN_CHECK};
    if (!is_ordered || !rows_check(&work, users == HEAP_NONE ? monotonic_ms() + FREED_MS : 0))
        __atomic_fetch_add(&unchecked, count, __ATOMIC_RELAXED);
    free(rows);
}

static struct division *take_of(uint64_t buffer)
{
    lock_take(&regions_table_lock);
    struct division *division = division_first();
    while (division && division->buffer != buffer)
        division = division->next;
    if (division)
        division_remove(division);
    lock_release(&regions_table_lock);
    return division;
}

static void drop(struct division *division)
{
    lock_expect(RANK_REGIONS);
    states_give(division->context, division->states);
    free(division);
}

/* Before a buffer is freed. */
static void buffer_freed(uint64_t buffer, struct stream *stream, enum heap_users users)
{
    struct division *division;
    lock_take(&regions_lock);
    while ((division = take_of(buffer)) != NULL) {
        check_last(division, stream, users);
        drop(division);
    }
    lock_release(&regions_lock);
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
    uint64_t end = division->start + division->bytes * division->rows;
    struct region_at at;
    struct division *other;
    lock_take(&regions_table_lock);
    for (other = division_first(); other; other = other->next) {
        uint64_t until = other->start + other->bytes * other->rows;
        if (other->start < end && until > division->start)
            break;
    }
    if (other && other->start == division->start && other->start + other->bytes * other->rows == end) {
        division_remove(other);
        *old = other;
        other = NULL;
    }
    if (other)
        division_describe(other, other->start, &at);
    else
        division_add(division);
    lock_release(&regions_table_lock);
    return other ? error_set(CUFENCE_ERROR_INVALID_ARGUMENT,
                             "the bytes overlap those of \"%s\", %" PRIu64 " rows of %" PRIu64 " bytes from 0x%" PRIx64
                             "; end that division with cufence_region_gone() first",
                             at.name, at.rows, at.bytes, at.start)
                 : CUFENCE_OK;
}

cufence_status regions_divide(uint64_t start, size_t bytes, size_t rows, const char *name)
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
    snprintf(division->name, sizeof division->name, "%s", name ? name : "");
    lock_take(&regions_lock);
    division->number = ++divided;
    division->states = states_take(range.context, rows);
    __atomic_store_n(&heap_before_free, buffer_freed, __ATOMIC_RELEASE);
    __atomic_store_n(&heap_in_background, regions_collect, __ATOMIC_RELEASE);
    status = add(division, &old);
    if (status != CUFENCE_OK)
        drop(division);
    if (old)
        drop(old);
    lock_release(&regions_lock);
    return status;
}

/* ---- rows ---- */

/* What is changed: a row, and on which stream. */
struct change {
    struct region_at at; /* as it was */
    struct stream *stream;
    int is_ordered; /* work of ours may be submitted to the stream */
};

static int is_open(struct stream *stream)
{
    struct scope scope = scope_enter_stream(stream);
    int is = scope.pushed;
    scope_leave(scope);
    return is;
}

/* After a success, the lock is held. */
static cufence_status begin(uint64_t start, CUstream handle, struct change *change)
{
    if (!region_find(start, &change->at))
        return none_begins(start);
    struct context *context = change->at.context;
    change->stream = stream_is_default(handle) ? stream_in(context, handle) : stream_resolve(handle);
    if (!change->stream)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "the driver does not know stream %p", (void *)handle);
    lock_take(&regions_lock);
    if (!region_find(start, &change->at) || change->at.offset || change->at.context != context) {
        lock_release(&regions_lock);
        return none_begins(start);
    }
    change->is_ordered =
        change->stream->context == context && is_open(change->stream) && work_follow(change->stream, &change->at);
    return CUFENCE_OK;
}

/* Submits what the change needs, and notes it. */
static void make(const struct change *change, struct region region, uint32_t does)
{
    const struct region_work work = {.context = change->at.context,
                                     .stream = change->stream,
                                     .rows = &change->at,
                                     .count = 1,
                                     .by = region,
                                     .does = does,
                                     .sets = 1,
                                     .state = region.state};
    uint64_t number = change->is_ordered ? work_submit(&work) : 0;
    if (!number)
        work_set_now(&change->at, region.state);
    if (change->at.region.state == REGION_FREE && !(number && does & PATTERN_CHECK))
        __atomic_fetch_add(&unchecked, 1, __ATOMIC_RELAXED);
    region.is_poisoned = number && region.state == REGION_FREE;
    region.was_poisoned |= region.is_poisoned;
    region.work = number;
    region.on = stream_ref(number ? change->stream : NULL);
    lock_take(&regions_table_lock);
    struct division *division = division_at(change->at.start);
    if (division && division->number == change->at.division) {
        division->poisoned += (uint64_t)region.was_poisoned - (uint64_t)division->regions[change->at.row].was_poisoned;
        division->regions[change->at.row] = region;
    }
    lock_release(&regions_table_lock);
}

/* The thread's last launch. */
static uint64_t last_launch(struct context *context)
{
    const struct launch_mark mark = launch_newest(context);
    struct launch_entry entry;
    struct stack stack;
    return mark.slot && launch_read_marked(&mark, &entry, &stack) ? entry.sequence : 0;
}

cufence_status region_take(uint64_t start, const char *owner, CUstream stream)
{
    struct change change;
    cufence_status status = begin(start, stream, &change);
    if (status != CUFENCE_OK)
        return status;
    struct region region = change.at.region;
    region.state = REGION_LIVE;
    region.taken_ns = monotonic_ns();
    region.taken_stack = facts_stack();
    region.taken_tid = thread_id();
    region.taken_after = last_launch(change.at.context);
    region.taken_stream = (uint64_t)(uintptr_t)stream;
    snprintf(region.owner, sizeof region.owner, "%s", owner ? owner : "");
    make(&change, region, change.at.region.is_poisoned ? PATTERN_CHECK : 0);
    lock_release(&regions_lock);
    return CUFENCE_OK;
}

cufence_status region_release(uint64_t start, CUstream stream)
{
    struct change change;
    char text[2 * REGION_TEXT + 96];
    cufence_status status = begin(start, stream, &change);
    if (status != CUFENCE_OK)
        return status;
    if (change.at.region.state == REGION_FREE) {
        status = error_set(CUFENCE_ERROR_DOUBLE_FREE, "%s is free already", region_text(&change.at, text, sizeof text));
    } else {
        struct region region = change.at.region;
        region.state = REGION_FREE;
        region.freed_ns = region.good_ns = monotonic_ns();
        region.freed_stack = facts_stack();
        region.freed_tid = thread_id();
        region.freed_after = last_launch(change.at.context);
        region.freed_stream = (uint64_t)(uintptr_t)stream;
        make(&change, region, PATTERN_WRITE);
    }
    lock_release(&regions_lock);
    return status;
}
