/* Statistics of the heap. */
#include "heap/block/places.h"
#include "heap/reuse/reuse.h"

#include "base/error.h"
#include "base/options.h"
#include "vmm/physical.h"

#include <string.h>

struct sums {
    uint64_t idle_bytes, allocations, frees;
    int64_t live_bytes, most_bytes;
};

static void add_list(struct freelist *list, struct sums *sums)
{
    list_lock(list);
    sums->idle_bytes += list->pool ? 0 : list_idle_bytes(list);
    sums->live_bytes += list->live_bytes;
    sums->most_bytes += list->most_bytes;
    sums->allocations += list->allocations;
    sums->frees += list->frees;
    list_unlock(list);
}

static struct sums sums_of(struct books *books)
{
    const int64_t counted = __atomic_load_n(&books->live_bytes, __ATOMIC_RELAXED);
    struct sums sums = {.live_bytes = counted, .most_bytes = counted};
    struct freelist *list;
    struct pool *pool;
    HOLD(&books->lock);
    for (list = freelist_next(books, NULL); list; list = freelist_next(books, list))
        add_list(list, &sums);
    LL_FOREACH(books->pools, pool)
    {
        LL_FOREACH(pool->lists, list)
        add_list(list, &sums);
    }
    return sums;
}

static void add_books(struct books *books, cufence_stats *stats)
{
    struct sums sums = sums_of(books);
    int64_t live = sums.live_bytes, peak = __atomic_load_n(&books->peak_live_bytes, __ATOMIC_RELAXED);
    stats->idle_bytes += sums.idle_bytes;
    stats->allocations += sums.allocations;
    stats->frees += sums.frees;
    stats->live_bytes += live > 0 ? (uint64_t)live : 0;
    peak = sums.most_bytes > peak ? sums.most_bytes : peak;
    stats->peak_live_bytes += peak > 0 ? (uint64_t)peak : 0;
    stats->mapped_bytes += figure(&books->mapped_bytes);
    stats->captured_bytes += figure(&books->captured_bytes);
    stats->fresh_mappings += figure(&books->fresh);
    stats->packed_buffers += figure(&books->packed_buffers);
    stats->packed_bytes += figure(&books->packed_bytes);
    stats->packed_mapped_bytes += figure(&books->packed_mapped);
    stats->packed_allocations += figure(&books->packed_ever);
    stats->retired_mappings += figure(&books->retired);
}

cufence_status heap_stats(int device, cufence_stats *stats)
{
    cufence_status status = heap_check_device(device);
    if (status != CUFENCE_OK)
        return status;
    memset(stats, 0, sizeof *stats);
    for (struct context *context = context_next_ever(NULL); context; context = context_next_ever(context)) {
        struct books *books = books_of(context);
        if (!books || (device >= 0 && context->device != device))
            continue;
        if (heap_options->uaf == UAF_STRICT) /* before the frees, or there could be more than those */
            stats->tested_buffers += figure(&books->shared.retired);
        add_books(books, stats);
    }
    const struct place_counts places = places_counts();
    stats->freed_places = places.places;
    stats->tested_places = places.tested;
    stats->tested_buffers += places.retired;
    stats->tested_rounds = places.rounds;
    stats->live_buffers = stats->allocations > stats->frees ? stats->allocations - stats->frees : 0;
    int devices = 0;
    driver->cuDeviceGetCount(&devices);
    for (int i = device < 0 ? 0 : device; i < (device < 0 ? devices : device + 1); i++)
        stats->cached_bytes += physical_cached_bytes(i);
    stats->reserved_address_bytes = arena_end() - arena_start();
    stats->used_address_bytes = arena_used();
    return CUFENCE_OK;
}

struct heap_figures heap_figures(struct context *context)
{
    struct books *books = context ? books_of(context) : NULL;
    if (!books)
        return (struct heap_figures){0};
    return (struct heap_figures){.idle = sums_of(books).idle_bytes,
                                 .mappings = figure(&books->mappings),
                                 .fresh = figure(&books->fresh),
                                 .fresh_bytes = figure(&books->fresh_bytes),
                                 .peak_mappings = figure(&books->peak_mappings),
                                 .peak = figure(&books->peak_mapped_bytes),
                                 .mapped = figure(&books->mapped_bytes),
                                 .cached = physical_cached_bytes(context->device)};
}

void heap_reset_peak(struct context *context)
{
    struct books *books = context ? books_of(context) : NULL;
    if (books)
        figure_set(&books->peak_mappings, figure(&books->mappings));
    if (books)
        figure_set(&books->peak_mapped_bytes, figure(&books->mapped_bytes));
}

cufence_status heap_limit(struct context *context, uint64_t bytes)
{
    struct books *books = books_make(context);
    if (!books)
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory to keep track of a context");
    figure_set(&books->limit, bytes);
    return CUFENCE_OK;
}
