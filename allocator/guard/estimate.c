#include "estimate.h"

#include <stdlib.h>

#define UNIT UINT64_C(512)
#define SMALL 8 /* parts of a page */

static uint64_t native_bytes(uint64_t size)
{
    return (size + UNIT - 1) / UNIT * UNIT;
}

static void raise_to(uint64_t *peak, uint64_t value)
{
    if (value > *peak)
        *peak = value;
}

int estimate_open(struct estimate *estimate, uint64_t granularity, unsigned waste, const struct estimate_options *ways,
                  size_t count)
{
    *estimate = (struct estimate){.granularity = granularity, .waste = waste, .way_count = count};
    for (size_t i = 0; i < count; i++) {
        estimate->ways[i].options = ways[i];
        estimate->ways[i].bins = calloc(ESTIMATE_BINS, sizeof *estimate->ways[i].bins);
        if (!estimate->ways[i].bins) {
            estimate_close(estimate);
            return 0;
        }
    }
    return 1;
}

void estimate_close(struct estimate *estimate)
{
    for (size_t i = 0; i < estimate->way_count; i++)
        free(estimate->ways[i].bins);
    *estimate = (struct estimate){0};
}

/* Takes the smallest freed mapping that is large enough, and at most `waste` percent too large. Returns its pages, 0 if there
 * is none. */
static uint64_t reuse(struct estimate_way *way, uint64_t pages, unsigned waste)
{
    uint64_t most = pages + pages * waste / 100;
    for (uint64_t i = pages; i <= most && i < ESTIMATE_BINS; i++) {
        if (way->bins[i]) {
            way->bins[i]--;
            return i;
        }
    }
    return 0;
}

/* Puts so many more cells of a class into pages, or fewer. */
static void fill_cells(const struct estimate *estimate, struct estimate_way *way, const struct cells *cells, int change)
{
    uint64_t *live = &way->cells[cells->class], before = (*live + cells->count - 1) / cells->count;
    *live += (uint64_t)(int64_t)change;
    uint64_t bytes = ((*live + cells->count - 1) / cells->count - before) * estimate->granularity;
    way->shared += bytes;
    way->guarded += bytes;
}

/* Whether the buffer shares a page, and in which cells. */
static int is_packed(const struct estimate *estimate, struct estimate_way *way, uint64_t size, struct cells *cells)
{
    const struct estimate_options *options = &way->options;
    uint64_t page = estimate->granularity;
    if (options->small == ESTIMATE_MAP || !cells_for(page, size, options->align ? options->align : 1, cells))
        return 0;
    uint64_t mapped = way->guarded + way->idle;
    int is_idle = way->bins[1] != 0;
    if (options->small == ESTIMATE_PACK ||
        (!is_idle && (way->alone + page > options->alone_most || way->guarded + way->unguarded + page > options->taken_most)))
        way->turns = CELLS_ALL;
    else if (options->small == ESTIMATE_AUTO && !way->turns.round && !is_idle &&
             !cells_may_be_alone(CELLS_HALF, page, way->alone, mapped))
        way->turns = CELLS_HALF;
    if (!way->turns.round)
        return 0;
    int is_due = way->packed % way->turns.round == 0;
    if (is_due && !is_idle &&
        !cells_may_be_alone(way->turns, page, way->alone, way->turns.round == CELLS_HALF.round ? mapped : way->shared))
        return 1;
    way->packed++;
    return !is_due;
}

/* Returns the pages of the buffer's mapping, or its cell, 0 if it is not guarded. */
static uint32_t map(const struct estimate *estimate, struct estimate_way *way, uint64_t size)
{
    struct cells cells = {0};
    uint64_t pages = (size + estimate->granularity - 1) / estimate->granularity, limit = way->options.max_guarded;
    if (size < way->options.min_size || !layout_is_sampled(estimate->allocations, way->options.sample) ||
        (limit && way->guarded + pages * estimate->granularity > limit)) {
        way->unguarded += native_bytes(size);
        return 0;
    }
    way->count++;
    if (is_packed(estimate, way, size, &cells)) {
        fill_cells(estimate, way, &cells, 1);
        return ESTIMATE_CELL | cells.class;
    }
    uint64_t reused = reuse(way, pages, estimate->waste), taken = reused ? reused : pages;
    way->idle -= reused * estimate->granularity;
    way->guarded += taken * estimate->granularity;
    way->alone += size <= CELLS_SIZE_MOST ? taken * estimate->granularity : 0;
    return (uint32_t)taken;
}

struct estimate_buffer estimate_allocated(struct estimate *estimate, uint64_t size)
{
    struct estimate_buffer buffer = {.size = size};
    estimate->native += native_bytes(size);
    raise_to(&estimate->native_peak, estimate->native);
    raise_to(&estimate->live_peak, ++estimate->live);
    estimate->small += size < estimate->granularity / SMALL;
    raise_to(&estimate->small_peak, estimate->small);
    for (size_t i = 0; i < estimate->way_count; i++) {
        struct estimate_way *way = &estimate->ways[i];
        buffer.pages[i] = map(estimate, way, size);
        raise_to(&way->peak, way->guarded + way->unguarded);
        raise_to(&way->kept_peak, way->guarded + way->unguarded + way->idle);
    }
    estimate->allocations++;
    return buffer;
}

void estimate_freed(struct estimate *estimate, const struct estimate_buffer *buffer)
{
    estimate->native -= native_bytes(buffer->size);
    estimate->live--;
    estimate->small -= buffer->size < estimate->granularity / SMALL;
    for (size_t i = 0; i < estimate->way_count; i++) {
        struct estimate_way *way = &estimate->ways[i];
        uint64_t bytes = buffer->pages[i] * estimate->granularity;
        if (!bytes) {
            way->unguarded -= native_bytes(buffer->size);
            continue;
        }
        struct cells cells;
        if (buffer->pages[i] & ESTIMATE_CELL) {
            cells_for(estimate->granularity, buffer->size, way->options.align ? way->options.align : 1, &cells);
            fill_cells(estimate, way, &cells, -1);
            continue;
        }
        way->guarded -= bytes;
        way->alone -= buffer->size <= CELLS_SIZE_MOST ? bytes : 0;
        if (buffer->pages[i] >= ESTIMATE_BINS)
            continue;
        way->bins[buffer->pages[i]]++;
        way->idle += bytes;
    }
}
