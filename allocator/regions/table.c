/* The divisions, and look-ups. */
#include "table.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

struct lock regions_table_lock = LOCK(RANK_LEAF);
int regions_are_used;

static struct division *divisions; /* under the lock */

struct division *division_first(void)
{
    lock_expect(RANK_LEAF);
    return divisions;
}

void division_add(struct division *division)
{
    lock_expect(RANK_LEAF);
    DL_APPEND(divisions, division);
    __atomic_store_n(&regions_are_used, 1, __ATOMIC_RELEASE);
}

void division_remove(struct division *division)
{
    lock_expect(RANK_LEAF);
    DL_DELETE(divisions, division);
}

struct division *division_at(uint64_t address)
{
    lock_expect(RANK_LEAF);
    struct division *division;
    DL_FOREACH(divisions, division)
    {
        if (address >= division->start && address - division->start < division->bytes * division->rows)
            return division;
    }
    return NULL;
}

void division_context_gone(const struct context *context)
{
    struct division *division, *next;
    lock_take(&regions_table_lock);
    DL_FOREACH_SAFE(divisions, division, next)
    {
        if (division->context != context)
            continue;
        DL_DELETE(divisions, division);
        free(division);
    }
    lock_release(&regions_table_lock);
}

void division_describe(const struct division *division, uint64_t address, struct region_at *out)
{
    uint64_t from = address - division->start, row = from / division->bytes;
    *out = (struct region_at){.region = division->regions[row],
                              .division = division->number,
                              .buffer = division->buffer,
                              .context = division->context,
                              .start = division->start,
                              .bytes = division->bytes,
                              .rows = division->rows,
                              .row = row,
                              .offset = from % division->bytes,
                              .states = division->states};
    snprintf(out->name, sizeof out->name, "%s", division->name);
}

int region_find(uint64_t address, struct region_at *out)
{
    if (!__atomic_load_n(&regions_are_used, __ATOMIC_ACQUIRE))
        return 0;
    lock_take(&regions_table_lock);
    const struct division *division = division_at(address);
    if (division)
        division_describe(division, address, out);
    lock_release(&regions_table_lock);
    return division != NULL;
}

void regions_walk(uint64_t start, uint64_t end, void (*show)(const struct region_at *at, void *user), void *user)
{
    const struct division *division;
    struct region_at at;
    lock_take(&regions_table_lock);
    DL_FOREACH(divisions, division)
    {
        uint64_t until = division->start + division->bytes * division->rows;
        for (uint64_t row = division->start; division->start < end && until > start && row < until; row += division->bytes) {
            division_describe(division, row, &at);
            show(&at, user);
        }
    }
    lock_release(&regions_table_lock);
}

static uint64_t free_bytes_of(const struct division *division, uint64_t start, uint64_t end)
{
    uint64_t until = division->start + division->bytes * division->rows, bytes = 0;
    uint64_t from = start > division->start ? start : division->start, to = end < until ? end : until;
    if (from >= to || !division->poisoned)
        return 0;
    if (from == division->start && to == until)
        return division->poisoned * division->bytes;
    for (uint64_t row = (from - division->start) / division->bytes; row < division->rows; row++) {
        uint64_t begins = division->start + row * division->bytes, ends = begins + division->bytes;
        if (begins >= to)
            break;
        if (division->regions[row].was_poisoned)
            bytes += (ends < to ? ends : to) - (begins > from ? begins : from);
    }
    return bytes;
}

uint64_t regions_free_bytes(uint64_t start, uint64_t end)
{
    const struct division *division;
    uint64_t bytes = 0;
    if (!__atomic_load_n(&regions_are_used, __ATOMIC_ACQUIRE))
        return 0;
    lock_take(&regions_table_lock);
    DL_FOREACH(divisions, division)
    bytes += free_bytes_of(division, start, end);
    lock_release(&regions_table_lock);
    return bytes;
}

const char *region_text(const struct region_at *at, char *out, size_t size)
{
    const struct region *region = &at->region;
    char of[REGION_TEXT + 8] = "", whose[REGION_TEXT + 8] = "", when[64] = "";
    int is_free = region->state == REGION_FREE;
    if (at->name[0])
        snprintf(of, sizeof of, " of %s", at->name);
    if (region->owner[0])
        snprintf(whose, sizeof whose, "%s%s", is_free ? " by " : ", owner ", region->owner);
    if (is_free)
        snprintf(when, sizeof when, ", released %.1f ms ago", (double)(monotonic_ns() - region->freed_ns) / 1e6);
    snprintf(out, size, "row %" PRIu64 "%s (%s%s%s)", at->row, of, is_free ? "free" : "live", when, whose);
    return out;
}
