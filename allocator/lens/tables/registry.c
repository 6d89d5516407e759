#include "registry.h"

#include "base/error.h"
#include "base/list.h"
#include "base/lock.h"
#include "heap/heap.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The addresses of buffers that a kind of pointer leads to: no pointer outside is one. */
struct bounds {
    uint64_t low, high; /* each atomic */
};

static struct {
    struct lock lock; /* guards the list */
    struct table *list;
    size_t count;
    struct bounds tables, rows; /* they only grow, unless the list becomes empty */
} known = {.lock = LOCK(RANK_LEAF)};

/* ---- the list ---- */

static void widen(struct bounds *bounds, const struct heap_range *range)
{
    uint64_t low = __atomic_load_n(&bounds->low, __ATOMIC_RELAXED), high = __atomic_load_n(&bounds->high, __ATOMIC_RELAXED);
    if (!high || range->address < low)
        __atomic_store_n(&bounds->low, range->address, __ATOMIC_RELAXED);
    if (range->address + range->size > high)
        __atomic_store_n(&bounds->high, range->address + range->size, __ATOMIC_RELAXED);
}

static int is_within(const struct bounds *bounds, uint64_t address)
{
    return address >= __atomic_load_n(&bounds->low, __ATOMIC_RELAXED) &&
           address < __atomic_load_n(&bounds->high, __ATOMIC_RELAXED);
}

/* Whether the table's buffer, and that of its rows, are still there. */
static int is_there(const struct table *table)
{
    struct heap_range range;
    return heap_range_of(table->start, &range) && range.id == table->range.id && heap_range_of(table->rows, &range) &&
           range.id == table->rows_range.id;
}

static void forget(const struct table *wanted)
{
    size_t kept = 0;
    HOLD(&known.lock);
    for (size_t i = 0; i < known.count; i++) {
        const struct table *table = &known.list[i];
        if (table->start != wanted->start || table->rows != wanted->rows)
            known.list[kept++] = *table;
    }
    known.count = kept;
}

/* Those whose buffers are gone. Not under the lock: the heap has its own. */
static void forget_gone(void)
{
    size_t count = 0;
    lock_take(&known.lock);
    struct table *all = known.count ? malloc(known.count * sizeof *all) : NULL;
    for (; all && count < known.count; count++)
        all[count] = known.list[count];
    lock_release(&known.lock);
    for (size_t i = 0; i < count; i++) {
        if (!is_there(&all[i]))
            forget(&all[i]);
    }
    free(all);
}

static cufence_status add(const struct table *table)
{
    lock_take(&known.lock);
    int has_room = known.count < TABLES_MOST, is_made = has_room && list_make_room(&known.list, known.count, sizeof *table);
    if (is_made) {
        widen(&known.tables, &table->range);
        widen(&known.rows, &table->rows_range);
        known.list[known.count++] = *table;
    }
    lock_release(&known.lock);
    if (!has_room)
        return error_set(CUFENCE_ERROR_OVERFLOW, "there are %d tables: declare fewer, or free their buffers", TABLES_MOST);
    return is_made ? CUFENCE_OK : error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory for a table");
}

size_t tables_of(const struct visit *visit, struct table *out, size_t max)
{
    size_t count = 0;
    HOLD(&known.lock);
    for (size_t i = 0; i < known.count && count < max; i++) {
        const struct table *table = &known.list[i];
        int has_table = 0, has_rows = 0;
        for (size_t at = 0; at < visit->reached_count; at++) {
            has_table |= visit->reached[at].range.id == table->range.id && !visit->reached[at].is_out_of_way;
            has_rows |= visit->reached[at].range.id == table->rows_range.id;
        }
        if (has_table && has_rows)
            out[count++] = *table;
    }
    return count;
}

int tables_may_be_given(const struct launch_function *function, const struct launch_call *call)
{
    struct launch_span span;
    int has_table = 0, has_rows = 0;
    for (uint32_t i = 0; launch_span(call, function, i, &span); i++) {
        for (uint32_t at = (8 - span.offset % 8) % 8; at + 8 <= span.size; at += 8) {
            uint64_t word;
            memcpy(&word, span.bytes + at, sizeof word);
            has_table |= is_within(&known.tables, word);
            has_rows |= is_within(&known.rows, word);
        }
    }
    return has_table && has_rows;
}

/* ---- the declaration ---- */

static cufence_status check(const cufence_table *table, uint64_t bytes, struct table *made)
{
    const uint64_t start = (uintptr_t)table->start, width = table->width;
    if (width != 4 && width != 8)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "elements of %" PRIu64 " bytes: they must have 4 or 8", width);
    if (!bytes)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "%zu elements in %zu runs: too many", table->count, table->runs);
    if (start % width || table->pitch % width)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT,
                         "0x%" PRIx64 ": elements of %" PRIu64 " bytes must lie at multiples of that", start, width);
    if (table->allowed > TABLES_ALLOWED || (table->allowed && !table->allow))
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "%zu values in allow: at most %d", table->allowed, TABLES_ALLOWED);
    if (table->owner && strlen(table->owner) >= REGION_TEXT)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "the owner's name has %zu bytes: at most %d", strlen(table->owner),
                         REGION_TEXT - 1);
    if (!heap_range_of(start, &made->range))
        return error_set(CUFENCE_ERROR_NOT_FOUND, "0x%" PRIx64 " is in no live buffer that cufence guards", start);
    if (bytes > made->range.size - (start - made->range.address))
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT,
                         "the table's %" PRIu64 " bytes at 0x%" PRIx64 " go past the end of its buffer", bytes, start);
    return CUFENCE_OK;
}

/* Bytes from the first element to the end of the last. Returns 0 if there are too many to count, or none. */
static uint64_t span_of(const cufence_table *table, struct table *made)
{
    uint64_t run, all;
    made->run = table->count;
    made->count = made->run;
    made->pitch = made->run * table->width;
    if (__builtin_mul_overflow((uint64_t)table->count, table->width, &run) || table->runs <= 1)
        return table->count < UINT64_MAX / 8 ? run : 0;
    made->pitch = table->pitch;
    if (__builtin_mul_overflow(table->runs - 1, table->pitch, &all) || __builtin_add_overflow(all, run, &all) ||
        __builtin_mul_overflow(table->runs, made->run, &made->count))
        return 0;
    return all;
}

cufence_status table_declare(const cufence_table *table)
{
    struct table made = {.start = (uintptr_t)table->start,
                         .rows = (uintptr_t)table->rows,
                         .width = (uint32_t)table->width,
                         .allowed = (uint32_t)table->allowed,
                         .stops = table->stops};
    struct region_at at;
    forget(&made);
    forget_gone();
    if (!table->count)
        return CUFENCE_OK;
    cufence_status status = check(table, span_of(table, &made), &made);
    if (status != CUFENCE_OK)
        return status;
    if (!heap_range_of(made.rows, &made.rows_range) || !region_find(made.rows, &at) || at.offset)
        return error_set(CUFENCE_ERROR_NOT_FOUND,
                         "no row begins at 0x%" PRIx64 ": divide its buffer with cufence_region() first", made.rows);
    for (size_t i = 0; i < table->allowed; i++)
        made.allow[i] = table->allow[i];
    if (table->owner)
        memcpy(made.owner, table->owner, strlen(table->owner) + 1);
    return add(&made);
}
