/* What a sequence of allocations and frees would take guarded. */
#include "support/test.h"

#include "guard/estimate.h"

#define MIB (UINT64_C(1) << 20)
#define PAGE (2 * MIB)

static struct estimate estimate;

static void begin(unsigned waste, const struct estimate_options *ways, size_t count)
{
    assert_true(estimate_open(&estimate, PAGE, waste, ways, count));
}

static int end(void **state)
{
    estimate_close(&estimate);
    return 0;
}

TEST_WITH(whole_pages_are_counted, NULL, end)
{
    static const struct estimate_options all[1];
    static const uint64_t sizes[] = {1, 512, 513, PAGE - 1, PAGE, PAGE + 1, 5 * PAGE};
    static const uint64_t pages[] = {1, 1, 1, 1, 1, 2, 5}, native[] = {512, 512, 1024, PAGE, PAGE, PAGE + 512, 5 * PAGE};
    uint64_t taken = 0, natively = 0;
    begin(12, all, 1);
    for (size_t i = 0; i < 7; i++) {
        struct estimate_buffer buffer = estimate_allocated(&estimate, sizes[i]);
        taken += pages[i] * PAGE;
        natively += native[i];
        assert_int_equal(buffer.pages[0], pages[i]);
        assert_int_equal(estimate.ways[0].peak, taken);
        assert_int_equal(estimate.native_peak, natively);
    }
    assert_int_equal(estimate.allocations, 7);
    assert_int_equal(estimate.small_peak, 3);
}

/* A freed mapping serves the next buffer of its size class, and one that is at most `waste` percent smaller. */
TEST_WITH(freed_mappings_are_reused, NULL, end)
{
    static const struct estimate_options all[1];
    begin(12, all, 1);
    struct estimate_way *way = &estimate.ways[0];
    struct estimate_buffer large = estimate_allocated(&estimate, 10 * PAGE);
    estimate_freed(&estimate, &large);
    assert_int_equal(way->guarded, 0);
    assert_int_equal(way->idle, 10 * PAGE);
    struct estimate_buffer fits = estimate_allocated(&estimate, 9 * PAGE); /* 9 and 12 % of it is 10 */
    assert_int_equal(fits.pages[0], 10);
    assert_int_equal(way->guarded, 10 * PAGE);
    assert_int_equal(way->kept_peak, 10 * PAGE);
    estimate_freed(&estimate, &fits);
    struct estimate_buffer smaller = estimate_allocated(&estimate, 8 * PAGE); /* 8 and 12 % of it is not 10 */
    assert_int_equal(smaller.pages[0], 8);
    assert_int_equal(way->idle, 10 * PAGE);
    assert_int_equal(way->peak, 10 * PAGE);
    assert_int_equal(way->kept_peak, 18 * PAGE);
}

TEST_WITH(without_waste_only_equal_ones_are, NULL, end)
{
    static const struct estimate_options all[1];
    begin(0, all, 1);
    struct estimate_buffer large = estimate_allocated(&estimate, 10 * PAGE);
    estimate_freed(&estimate, &large);
    assert_int_equal(estimate_allocated(&estimate, 9 * PAGE).pages[0], 9);
    assert_int_equal(estimate_allocated(&estimate, 10 * PAGE - 5).pages[0], 10);
    assert_int_equal(estimate.ways[0].idle, 0);
}

TEST_WITH(options_leave_buffers_out, NULL, end)
{
    static const struct estimate_options ways[] = {{0}, {.min_size = 4096}, {.max_guarded = 3 * PAGE}, {.sample = 4}};
    struct estimate_buffer buffers[400];
    begin(12, ways, 4);
    for (size_t i = 0; i < 400; i++)
        buffers[i] = estimate_allocated(&estimate, i % 2 ? 4096 : 4095);
    assert_int_equal(estimate.ways[0].peak, 400 * PAGE);
    assert_int_equal(estimate.ways[1].peak, 200 * PAGE + 200 * 4096);
    assert_int_equal(estimate.ways[1].count, 200);
    assert_int_equal(estimate.ways[2].peak, 3 * PAGE + 397 * 4096);
    assert_in_range(estimate.ways[3].count, 60, 140);
    assert_int_equal(estimate.ways[3].peak, estimate.ways[3].count * PAGE + (400 - estimate.ways[3].count) * 4096);
    for (size_t i = 0; i < 400; i++)
        estimate_freed(&estimate, &buffers[i]);
    for (size_t k = 0; k < 4; k++) {
        assert_int_equal(estimate.ways[k].guarded, 0);
        assert_int_equal(estimate.ways[k].unguarded, 0);
    }
    assert_int_equal(estimate.native, 0);
    assert_int_equal(estimate.live, 0);
    assert_int_equal(estimate.small, 0);
    assert_int_equal(estimate.live_peak, 400);
}

/* 448 cells of 4608 bytes in a page; one buffer in 16 has a page of its own, as long as there are four of these at most. */
TEST_WITH(small_buffers_share_pages, NULL, end)
{
    static const struct estimate_options ways[] = {{.small = ESTIMATE_MAP}, {.small = ESTIMATE_PACK}};
    struct estimate_buffer buffers[1000];
    begin(12, ways, 2);
    const struct estimate_way *map = &estimate.ways[0], *pack = &estimate.ways[1];
    for (size_t i = 0; i < 1000; i++)
        buffers[i] = estimate_allocated(&estimate, 4096);
    assert_int_equal(map->peak, 1000 * PAGE);
    assert_int_equal(pack->alone, 4 * PAGE);
    assert_int_equal(pack->shared, 3 * PAGE); /* for 996 */
    assert_int_equal(pack->peak, 7 * PAGE);
    assert_int_equal(pack->count, 1000);
    assert_int_equal(estimate_allocated(&estimate, (512 << 10) + 1).pages[1], 1); /* too large for a cell */
    estimate_freed(&estimate, &(struct estimate_buffer){.size = (512 << 10) + 1, .pages = {1, 1}});
    for (size_t i = 0; i < 1000; i++)
        estimate_freed(&estimate, &buffers[i]);
    assert_int_equal(pack->guarded, 0);
    assert_int_equal(pack->shared, 0);
    assert_int_equal(pack->alone, 0);
    assert_int_equal(pack->peak, 8 * PAGE);
}

TEST_WITH(packing_begins_when_pages_are_scarce, NULL, end)
{
    static const struct estimate_options ways[] = {
        {.small = ESTIMATE_AUTO, .alone_most = 10 * PAGE, .taken_most = UINT64_MAX},
        {.small = ESTIMATE_AUTO, .alone_most = UINT64_MAX, .taken_most = 20 * PAGE},
        {.small = ESTIMATE_AUTO, .alone_most = UINT64_MAX, .taken_most = UINT64_MAX},
        {.small = ESTIMATE_PACK, .align = 1024}, /* no cell begins at multiples of it */
    };
    begin(12, ways, 4);
    for (size_t i = 0; i < 100; i++)
        estimate_allocated(&estimate, 1000);
    assert_int_equal(estimate.ways[0].peak, 11 * PAGE);
    assert_int_equal(estimate.ways[1].peak, 21 * PAGE);
    assert_int_equal(estimate.ways[2].peak, 65 * PAGE); /* 64, and a shared one */
    assert_int_equal(estimate.ways[3].peak, 100 * PAGE);
    assert_int_equal(estimate.ways[0].turns.round, 16);
    assert_int_equal(estimate.ways[1].turns.round, 16);
    assert_int_equal(estimate.ways[2].turns.round, 2);
}

/* Beyond the last bin nothing is reused, and nothing is lost count of. */
TEST_WITH(huge_buffers, NULL, end)
{
    static const struct estimate_options all[1];
    begin(12, all, 1);
    struct estimate_buffer huge = estimate_allocated(&estimate, ESTIMATE_BINS * PAGE);
    assert_int_equal(huge.pages[0], ESTIMATE_BINS);
    estimate_freed(&estimate, &huge);
    assert_int_equal(estimate.ways[0].guarded, 0);
    assert_int_equal(estimate.ways[0].idle, 0);
    assert_int_equal(estimate_allocated(&estimate, ESTIMATE_BINS * PAGE).pages[0], ESTIMATE_BINS);
}
