/* The divisions, and look-ups. */
#include "table.h"

#include "base/clock.h"
#include "launch/launch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lock regions_table_lock = LOCK(RANK_LEAF);
int regions_are_used;

static struct division **divisions; /* by address; under the lock, as what follows */
static size_t count, room;

uint64_t division_end(const struct division *division)
{
    return division->start + division->bytes * division->rows;
}

/* The index of the first one that ends behind the address. */
static size_t find_behind(uint64_t address)
{
    lock_expect(RANK_LEAF);
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (division_end(divisions[middle]) > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

int division_add(struct division *division)
{
    size_t at = find_behind(division->start), more = room ? 2 * room : 16;
    struct division **grown = count < room ? divisions : realloc(divisions, more * sizeof *grown);
    if (!grown)
        return 0;
    room = count < room ? room : more;
    divisions = grown;
    memmove(divisions + at + 1, divisions + at, (count++ - at) * sizeof *divisions);
    divisions[at] = division;
    __atomic_store_n(&regions_are_used, 1, __ATOMIC_RELEASE);
    return 1;
}

void division_remove(const struct division *division)
{
    size_t at = find_behind(division->start);
    memmove(divisions + at, divisions + at + 1, (--count - at) * sizeof *divisions);
}

struct division *division_next(uint64_t address)
{
    size_t at = find_behind(address);
    return at < count ? divisions[at] : NULL;
}

struct division *division_at(uint64_t address)
{
    struct division *division = division_next(address);
    return division && division->start <= address ? division : NULL;
}

struct region *division_row(const struct region_at *at)
{
    struct division *division = division_at(at->start);
    return division && division->number == at->division ? &division->regions[at->row] : NULL;
}

void division_context_gone(const struct context *context)
{
    size_t kept = 0;
    HOLD(&regions_table_lock);
    for (size_t i = 0; i < count; i++) {
        if (divisions[i]->context == context)
            free(divisions[i]);
        else
            divisions[kept++] = divisions[i];
    }
    count = kept;
}

void division_describe(const struct division *division, uint64_t address, struct region_at *out)
{
    uint64_t from = address - division->start, row = from / division->bytes;
    *out = (struct region_at){.region = division->regions[row],
                              .division = division->number,
                              .divider = division->divider,
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

int region_next(uint64_t address, struct region_at *out)
{
    lock_take(&regions_table_lock);
    const struct division *division = division_next(address);
    if (division)
        division_describe(division, division->start, out);
    lock_release(&regions_table_lock);
    return division != NULL;
}

void regions_walk(uint64_t start, uint64_t end, void (*show)(const struct region_at *at, void *user), void *user)
{
    struct region_at at;
    HOLD(&regions_table_lock);
    for (const struct division *division = division_next(start); division && division->start < end;
         division = division_next(division_end(division))) {
        uint64_t row = start > division->start ? (start - division->start) / division->bytes : 0;
        for (; row < division->rows && division->start + row * division->bytes < end; row++) {
            division_describe(division, division->start + row * division->bytes, &at);
            show(&at, user);
        }
    }
}

static uint64_t free_bytes_of(const struct division *division, uint64_t start, uint64_t end)
{
    uint64_t until = division_end(division), bytes = 0;
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
    uint64_t bytes = 0;
    if (!__atomic_load_n(&regions_are_used, __ATOMIC_ACQUIRE))
        return 0;
    HOLD(&regions_table_lock);
    for (const struct division *division = division_next(start); division && division->start < end;
         division = division_next(division_end(division)))
        bytes += free_bytes_of(division, start, end);
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
