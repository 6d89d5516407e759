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

/* splitmix64, as the heap chooses: another allocation in each run, but one in N. */
static int is_sampled(uint64_t number, uint64_t one_in)
{
    uint64_t mixed = number * UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return one_in <= 1 || (mixed ^ mixed >> 31) % one_in == 0;
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

/* Returns the pages of the buffer's mapping, 0 if it is not guarded. */
static uint32_t map(const struct estimate *estimate, struct estimate_way *way, uint64_t size)
{
    uint64_t pages = (size + estimate->granularity - 1) / estimate->granularity, limit = way->options.max_guarded;
    if (size < way->options.min_size || !is_sampled(estimate->allocations, way->options.sample) ||
        (limit && way->guarded + pages * estimate->granularity > limit)) {
        way->unguarded += native_bytes(size);
        return 0;
    }
    uint64_t reused = reuse(way, pages, estimate->waste), taken = reused ? reused : pages;
    way->idle -= reused * estimate->granularity;
    way->guarded += taken * estimate->granularity;
    way->count++;
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
        way->guarded -= bytes;
        if (buffer->pages[i] >= ESTIMATE_BINS)
            continue;
        way->bins[buffer->pages[i]]++;
        way->idle += bytes;
    }
}
