/* Pieces of pinned memory: apart from each other, zeroed, within the limit, and found soon in the order of use; and what
 * becomes of jobs in them that nobody waits for any longer. */
#include "support/test.h"

#include "base/clock.h"
#include "driver/driver.h"
#include "kernels/pattern.h"

#define MIB ((size_t)1 << 20)

static const struct driver *usual;
static void *slabs[64];
static size_t slab_count;

static CUresult allocate(void **out, size_t bytes, unsigned flags)
{
    if (slab_count == sizeof slabs / sizeof slabs[0] || !(*out = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(*out, 0xaa, bytes);
    slabs[slab_count++] = *out;
    return CUDA_SUCCESS;
}

static int set_up(void **state)
{
    static struct driver simple;
    simple.cuMemHostAlloc = allocate;
    usual = driver;
    driver = &simple;
    return 0;
}

static int tear_down(void **state)
{
    driver = usual;
    while (slab_count)
        free(slabs[--slab_count]);
    return 0;
}

static uint8_t *take(struct results *results, size_t size, uint8_t fill)
{
    uint8_t *memory = results_take(results, size);
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % 64, 0);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(memory[i], 0);
    memset(memory, fill, size);
    return memory;
}

static void expect(const uint8_t *memory, size_t size, uint8_t fill)
{
    for (size_t i = 0; i < size; i++)
        assert_int_equal(memory[i], fill);
}

/* Taken and given back in any order, no piece touches another, and all of it can be had again at the end. */
TEST_WITH(pieces_lie_apart, set_up, tear_down)
{
    struct results results = {.limit = 4 * MIB};
    uint8_t *held[100] = {0};
    size_t sizes[100];
    unsigned seed = 7;
    for (unsigned i = 0; i < 20000; i++) {
        seed = seed * 1664525 + 1013904223;
        unsigned k = (seed >> 16) % 100;
        if (held[k]) {
            expect(held[k], sizes[k], (uint8_t)(k + 1));
            results_give(&results, held[k]);
            held[k] = NULL;
        } else {
            sizes[k] = 1 + (seed >> 8) % 3000;
            held[k] = take(&results, sizes[k], (uint8_t)(k + 1));
        }
    }
    for (unsigned k = 0; k < 100; k++) {
        if (held[k])
            results_give(&results, held[k]);
    }
    assert_int_equal(results.free, results.bytes);
    results_give(&results, take(&results, 4 * MIB - 64, 1));
    assert_int_equal(slab_count, 1);
    results_forget(&results);
}

TEST_WITH(the_limit_is_kept, set_up, tear_down)
{
    struct results results = {.limit = 9 * MIB};
    uint8_t *memory[9];
    for (unsigned i = 0; i < 8; i++)
        memory[i] = take(&results, MIB - 64, 1);
    memory[8] = take(&results, MIB - 64, 1); /* a slab of what is left */
    assert_null(results_take(&results, 1));
    assert_false(results_fits(&results, 9 * MIB));
    assert_true(results_fits(&results, 9 * MIB - 64));
    results_give(&results, memory[3]);
    assert_null(results_take(&results, MIB));
    assert_ptr_equal(results_take(&results, MIB - 64), memory[3]);
    results_forget(&results);
    assert_int_equal(results.bytes, 0);
}

/* First in, first out, with ten thousand that wait, around the end too. */
TEST_WITH(the_oldest_is_next, set_up, tear_down)
{
    enum { WAITING = 10000, SIZE = 64 };
    static uint8_t *waiting[WAITING];
    struct results results = {.limit = (size_t)WAITING * 2 * SIZE};
    for (unsigned i = 0; i < WAITING; i++)
        waiting[i] = results_take(&results, SIZE);
    assert_non_null(waiting[WAITING - 1]);
    assert_int_equal(results.free, 0);
    for (unsigned i = 0; i < 3 * WAITING; i++) {
        uint8_t *oldest = waiting[i % WAITING];
        results_give(&results, oldest);
        assert_ptr_equal(waiting[i % WAITING] = results_take(&results, SIZE), oldest);
    }
    results_forget(&results);
}

TEST(jobs_that_do_not_begin_in_time_are_cancelled)
{
    enum { JOBS = 3 };
    uint32_t words[JOBS] = {PATTERN_GOOD, PATTERN_OPEN, PATTERN_GOOD};
    struct pattern_job jobs[JOBS] = {{.does = PATTERN_CHECK}, {.does = PATTERN_CHECK}, {.does = PATTERN_WRITE}};
    struct flight flight = {.words = words, .count = JOBS, .is_begun = 1};
    uint64_t until = monotonic_ms() + 2;
    assert_false(pattern_await(&flight, jobs, JOBS, until));
    assert_true(monotonic_ms() >= until);
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(jobs[i].does, 0);
    words[1] = PATTERN_BAD;
    jobs[0].does = PATTERN_CHECK;
    assert_true(pattern_await(&flight, jobs, JOBS, 0));
    assert_int_equal(jobs[0].does, PATTERN_CHECK);
}
