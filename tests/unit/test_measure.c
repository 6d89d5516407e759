/* The kernels of inspect/ on the host: figures of memory, against figures made one by one; and pointers that are followed. */
#include "support/test.h"

#include "inspect/values/measure.h"
#include "sim/sim.h"
#include "inspect/kernels/reach.h"

#include <math.h>

#define MOST 200000

/* sim/own.cpp */
void own_figures(const cusim_thread *thread, void *const *arguments);
void own_nans(const cusim_thread *thread, void *const *arguments);

static int launches;

static void run_on_host(int is_nans, const struct figures_items *items)
{
    const struct figures_item *last = &items->items[items->count - 1];
    cusim_thread thread = {.grid = {1, 1, 1}};
    void *arguments[] = {(void *)(uintptr_t)items};
    for (thread.block_index[0] = 0; thread.block_index[0] < last->first_block + last->blocks; thread.block_index[0]++)
        is_nans ? own_nans(&thread, arguments) : own_figures(&thread, arguments);
}

/* Stands in for the driver. */
static CUresult launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned shared, CUstream stream, void **arguments, void **extra)
{
    const struct figures_items *items = arguments[0];
    launches++;
    assert_int_equal(gx, items->items[items->count - 1].first_block + items->items[items->count - 1].blocks);
    assert_int_equal(bx, FIGURES_THREADS);
    run_on_host(f != NULL, items);
    return CUDA_SUCCESS;
}

static struct driver fake;
static const struct visit visit;

static uint8_t *results;
static int has_fill;

static struct visit_part part_of(void)
{
    static const CUfunction functions[] = {NULL, (CUfunction)1};
    return (struct visit_part){.visit = &visit, .functions = functions};
}

static struct measured measure(const uint8_t *bytes, size_t size, enum value_type type)
{
    struct visit_part part = part_of();
    struct measured out;
    size_t room = measure_bytes(MEASURE_FIGURES, size);
    results = calloc(1, room);
    measure_submit(&part, MEASURE_FIGURES, &(const struct measure_item){(uintptr_t)bytes, size, type, results}, 1, has_fill);
    measure_read(results, size, type, &out);
    free(results);
    return out;
}

static struct counted count(const uint8_t *bytes, size_t size, enum value_type type)
{
    struct visit_part part = part_of();
    struct counted out;
    results = calloc(1, measure_bytes(MEASURE_NANS, size));
    measure_submit(&part, MEASURE_NANS, &(const struct measure_item){(uintptr_t)bytes, size, type, results}, 1, has_fill);
    measure_count(results, size, &out);
    free(results);
    return out;
}

/* ---- one by one ---- */

static double value_at(const uint8_t *bytes, enum value_type type, size_t index)
{
    return value_of_bits(type, value_bits(type, bytes + index * value_width(type)));
}

/* scale: of the numbers that were added up. */
static void assert_close(double one, long double other, long double scale)
{
    if (!(fabsl((long double)one - other) <= 1e-12L * scale))
        fail_msg("%.17g is not %.17Lg", one, other);
}

static void assert_right(const uint8_t *bytes, size_t size, enum value_type type)
{
    struct measured got = measure(bytes, size, type);
    struct counted counted = value_is_float(type) ? count(bytes, size, type) : (struct counted){0};
    size_t elements = size / value_width(type), finite = 0, zeros = 0, nans = 0, infinities = 0, first_nan = 0, last_nan = 0;
    double min = 0, max = 0;
    long double sum = 0, squares = 0;
    for (size_t i = 0; i < elements; i++) {
        double value = value_at(bytes, type, i);
        if (isnan(value)) {
            first_nan = nans ? first_nan : i;
            last_nan = i;
        }
        nans += isnan(value) != 0;
        infinities += isinf(value) != 0;
        if (!isfinite(value))
            continue;
        min = !finite || value < min ? value : min;
        max = !finite || value > max ? value : max;
        zeros += value == 0;
        sum += (long double)value;
        finite++;
    }
    for (size_t i = 0; i < elements; i++) {
        long double off = (long double)value_at(bytes, type, i) - (finite ? sum / finite : 0);
        squares += isfinite(value_at(bytes, type, i)) ? off * off : 0;
    }
    assert_int_equal(got.count, elements);
    assert_int_equal(got.finite, finite);
    assert_int_equal(got.zeros, zeros);
    assert_int_equal(got.nans, nans);
    assert_int_equal(got.infinities, infinities);
    assert_int_equal(got.first_nan, first_nan);
    assert_int_equal(got.last_nan, last_nan);
    if (finite) {
        assert_true(got.min == min && got.max == max);
        if (type != VALUE_FLOAT64) {
            long double scale = fabsl((long double)min) + fabsl((long double)max);
            assert_close(got.mean, sum / finite, scale);
            assert_close(got.deviation * got.deviation, squares / finite, 1e3L * scale * scale);
        }
    }
    for (size_t i = 0; i < got.ends; i++) {
        size_t width = value_width(type);
        assert_memory_equal(got.first + i * width, bytes + i * width, width);
        assert_memory_equal(got.last + i * width, bytes + (elements - got.ends + i) * width, width);
    }
    if (!value_is_float(type))
        return;
    assert_int_equal(counted.nans, nans);
    assert_int_equal(counted.infinities, infinities);
    assert_int_equal(counted.first_nan, first_nan);
    assert_int_equal(counted.last_nan, last_nan);
}

/* ---- bytes to measure ---- */

static uint64_t seed = 88172645463325252u;

static uint64_t some(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static uint8_t *random_bytes(void)
{
    static uint8_t bytes[MOST + 64];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(some() >> 32);
    return bytes;
}

/* Any bits: each of them is a number of each type, many are none, and some are denormal. */
TEST(any_bits_at_any_place)
{
    static const size_t sizes[] = {1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 33, 64, 100, 1000, 32768, 32769, 100003};
    uint8_t *bytes = random_bytes();
    for (enum value_type type = 0; type < VALUE_TYPES; type++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            for (size_t offset = 0; offset < (sizes[i] < 100 ? 17 : 3); offset++)
                assert_right(bytes + offset, sizes[i], type);
        }
    }
}

TEST(every_number_of_two_bytes)
{
    static uint16_t numbers[65536];
    for (uint32_t i = 0; i < 65536; i++)
        numbers[i] = (uint16_t)i;
    for (enum value_type type = 0; type < VALUE_TYPES; type++) {
        if (value_width(type) == 2)
            assert_right((const uint8_t *)numbers, sizeof numbers, type);
    }
}

TEST(special_numbers)
{
    static const double wide[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, -NAN, 4.9e-324, -4.9e-324, 2.2e-308, 1.0, -1.0, 1e300};
    static const float narrow[] = {0.0f,   -0.0f,   INFINITY, -INFINITY, NAN,      -NAN,
                                   1e-45f, -1e-45f, 1e-38f,   3.4e38f,   -3.4e38f, 1.0f};
    static const int64_t whole[] = {INT64_MIN, INT64_MAX, 0, -1, 1, INT64_MIN + 1};
    assert_right((const uint8_t *)wide, sizeof wide, VALUE_FLOAT64);
    assert_right((const uint8_t *)narrow, sizeof narrow, VALUE_FLOAT32);
    assert_right((const uint8_t *)narrow + 16, 8, VALUE_FLOAT32); /* NaN alone */
    struct measured measured = measure((const uint8_t *)whole, sizeof whole, VALUE_INT64);
    assert_true((int64_t)measured.least == INT64_MIN && (int64_t)measured.greatest == INT64_MAX); /* to the bit */
    measured = measure((const uint8_t *)whole, sizeof whole, VALUE_UINT64);
    assert_true(measured.least == 0 && measured.greatest == UINT64_MAX && measured.zeros == 1);
}

/* The largest numbers of float8_e4m3fn have the exponent that others keep for infinities. */
TEST(numbers_of_one_byte)
{
    static const uint8_t numbers[] = {0x7e, 0xfe, 0x78, 0x00, 0x80, 0x01, 0x38, 0x7f, 0xff, 0x7c};
    struct measured measured = measure(numbers, sizeof numbers, VALUE_FLOAT8_E4M3);
    assert_true(measured.min == -448 && measured.max == 448 && measured.nans == 2 && measured.infinities == 0);
    assert_true(measured.zeros == 2 && measured.finite == 8 && measured.first_nan == 7);
    struct counted counted = count(numbers, sizeof numbers, VALUE_FLOAT8_E4M3);
    assert_true(counted.nans == 2 && counted.infinities == 0 && counted.last_nan == 8);
    measured = measure(numbers, sizeof numbers, VALUE_FLOAT8_E5M2);
    assert_true(measured.min == 0 && measured.max == 32768 && measured.nans == 4 && measured.infinities == 1);
}

/* A plain sum of squares would lose all digits of the deviation. */
TEST(small_deviation_far_from_zero)
{
    static double numbers[10000];
    for (size_t i = 0; i < 10000; i++)
        numbers[i] = 1e9 + (double)(i % 3);
    struct measured measured = measure((const uint8_t *)numbers, sizeof numbers, VALUE_FLOAT64);
    assert_close(measured.mean, 1e9L + 0.9999L, 1e6L);
    assert_close(measured.deviation, sqrtl(1.6665L - 0.9999L * 0.9999L), 1);
}

TEST(the_hash_tells_every_change)
{
    uint8_t *bytes = random_bytes();
    for (size_t size = 1; size < 70; size++) {
        uint64_t before = measure(bytes, size, VALUE_FLOAT16).hash;
        assert_true(measure(bytes, size, VALUE_UINT8).hash == before); /* whatever the type */
        for (size_t i = 0; i < size; i++) {
            bytes[i] ^= 0x10;
            assert_true(measure(bytes, size, VALUE_FLOAT16).hash != before);
            bytes[i] ^= 0x10;
        }
        uint8_t kept = bytes[0];
        if (size > 8 && bytes[0] != bytes[8]) { /* the same words at other places */
            bytes[0] = bytes[8];
            bytes[8] = kept;
            assert_true(measure(bytes, size, VALUE_UINT8).hash != before);
            bytes[8] = bytes[0];
            bytes[0] = kept;
        }
    }
}

TEST(one_nan_is_found_wherever_it_is)
{
    static const enum value_type types[] = {VALUE_FLOAT16, VALUE_BFLOAT16,    VALUE_FLOAT32,
                                            VALUE_FLOAT64, VALUE_FLOAT8_E4M3, VALUE_FLOAT8_E5M2};
    static uint8_t zeros[70016];
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        size_t width = value_width(types[i]), elements = 70000 / width;
        for (size_t at = 0; at < elements; at += 1 + elements / 97) {
            memset(zeros + at * width, 0xff, width); /* NaN in all of them */
            struct counted counted = count(zeros, 70000, types[i]);
            assert_true(counted.nans == 1 && counted.first_nan == at && counted.last_nan == at && !counted.infinities);
            memset(zeros + at * width, 0, width);
        }
        assert_int_equal(count(zeros, 70000, types[i]).nans, 0);
    }
}

/* More than one launch takes. */
TEST(many_pieces)
{
    enum { PIECES = 150 };
    uint8_t *bytes = random_bytes();
    struct measure_item items[PIECES];
    struct visit_part part = part_of();
    size_t each = measure_bytes(MEASURE_FIGURES, 1000);
    uint8_t *room = calloc(PIECES, each);
    for (size_t i = 0; i < PIECES; i++)
        items[i] = (struct measure_item){(uintptr_t)bytes + i, 1000 - i, VALUE_INT8, room + i * each};
    launches = 0;
    measure_submit(&part, MEASURE_FIGURES, items, PIECES, 0);
    assert_int_equal(launches, 3);
    for (size_t i = 0; i < PIECES; i++) {
        struct measured got, alone = measure(bytes + i, 1000 - i, VALUE_INT8);
        measure_read(room + i * each, 1000 - i, VALUE_INT8, &got);
        assert_int_equal(got.type, alone.type);
        assert_memory_equal(&got.count, &alone.count, sizeof got - offsetof(struct measured, count));
    }
    free(room);
}

static int set_up(void **state)
{
    fake.cuLaunchKernel = launch;
    driver = &fake;
    return 0;
}
/* The fill of fresh memory is told apart from other NaN, wherever it lies. */
TEST(the_fill_is_no_nan)
{
    float numbers[1000];
    double wide[3];
    memset(numbers, 0xff, sizeof numbers);
    memset(wide, 0xff, sizeof wide);
    numbers[700] = NAN;
    numbers[0] = 1;
    has_fill = 1;
    struct counted counted = count((const uint8_t *)numbers, sizeof numbers, VALUE_FLOAT32);
    struct measured measured = measure((const uint8_t *)numbers, sizeof numbers, VALUE_FLOAT32);
    struct counted of_wide = count((const uint8_t *)wide, sizeof wide, VALUE_FLOAT64);
    has_fill = 0;
    assert_true(counted.fresh == 998 && counted.nans == 1 && counted.first_nan == 700 && counted.last_nan == 700);
    assert_true(measured.fresh == 998 && measured.nans == 1 && measured.finite == 1 && measured.first_nan == 700);
    assert_true(of_wide.fresh == 3 && of_wide.nans == 0);
    counted = count((const uint8_t *)numbers, sizeof numbers, VALUE_FLOAT32);
    assert_true(counted.fresh == 0 && counted.nans == 999 && counted.first_nan == 1);
}

TEST_GROUP(set_up, NULL)

/* ---- the kernel that follows pointers ---- */

void own_reach(const cusim_thread *thread, void *const *arguments); /* sim/own.cpp */

enum { BUFFERS = 6, WORDS = 64 };

static struct {
    _Alignas(64) uint64_t memory[BUFFERS][WORDS]; /* each buffer is the mapping's last bytes */
    struct reach_buffer table[BUFFERS];
    _Alignas(16) uint8_t before[4096], after[4096];
    union {
        struct reach_queue queue;
        uint32_t words[2 + BUFFERS];
    } found;
} world;

static void run(const struct reach *reach)
{
    const cusim_thread thread = {.block = {1, 1, 1}};
    void *list[] = {(void *)(uintptr_t)reach};
    own_reach(&thread, list);
}

static uint64_t address(size_t buffer, size_t byte)
{
    return (uint64_t)(uintptr_t)world.memory[buffer] + byte;
}

/* Buffer 0 is the only one to begin with. The sizes: 512, 512, 500, ... bytes at the end of the mapping. */
static struct reach start(void)
{
    memset(&world, 0, sizeof world);
    for (size_t i = 0; i < BUFFERS; i++) {
        uint64_t size = sizeof world.memory[i] - (i >= 2 ? 12 : 0);
        world.table[i] = (struct reach_buffer){.start = address(i, 0),
                                               .end = address(i, sizeof world.memory[i]),
                                               .address = address(i, sizeof world.memory[i] - size),
                                               .size = size,
                                               .at = REACH_NONE,
                                               .is_found = i == 0};
    }
    world.found.queue.count = 1;
    return (struct reach){.table = (uint64_t)(uintptr_t)world.table,
                          .queue = (uint64_t)(uintptr_t)&world.found,
                          .out = (uint64_t)(uintptr_t)world.before,
                          .room = sizeof world.before,
                          .each = 4096,
                          .most = 65536,
                          .count = BUFFERS,
                          .first = 1};
}

/* 0 -> 3 -> 1 -> 3 and itself; 2 is only pointed to from 4, which nothing leads to. */
static void tie(void)
{
    world.memory[0][5] = address(3, 100);
    world.memory[0][6] = address(3, 0); /* its slack: the same mapping */
    world.memory[3][63] = address(1, 511);
    world.memory[1][0] = address(3, 8);
    world.memory[1][1] = address(1, 0);
    world.memory[1][2] = address(0, 0);
    world.memory[4][10] = address(2, 20);
    world.memory[1][3] = address(5, 512); /* one past the end of the last */
}

TEST(pointers_are_followed)
{
    struct reach reach = start();
    tie();
    run(&reach);
    assert_int_equal(world.found.queue.count, 3);
    assert_int_equal(world.found.queue.at[1], 3);
    assert_int_equal(world.found.queue.at[2], 1);
    assert_int_equal(world.table[3].at, 0);
    assert_int_equal(world.table[1].at, 512); /* 500 rounded up */
    assert_memory_equal(world.before, (const uint8_t *)world.memory[3] + 12, 500);
    assert_memory_equal(world.before + 512, world.memory[1], 512);
    assert_false(world.table[2].is_found || world.table[4].is_found || world.table[5].is_found);

    world.memory[1][9] = 77;
    world.memory[1][10] = address(4, 0);
    reach.is_again = 1;
    reach.out = (uint64_t)(uintptr_t)world.after;
    run(&reach);
    assert_int_equal(world.found.queue.count, 3);
    assert_memory_equal(world.after + 512, world.memory[1], 512);
    assert_memory_not_equal(world.before + 512, world.after + 512, 512);
    assert_false(world.table[4].is_found);
}

TEST(what_has_no_room_is_left_out)
{
    struct reach reach = start();
    tie();
    reach.room = 1000; /* 500 bytes fit, and 512 more do not */
    run(&reach);
    assert_int_equal(world.found.queue.count, 3);
    assert_int_equal(world.table[3].at, 0);
    assert_true(world.table[1].at == REACH_NONE);
    assert_int_equal(world.before[512], 0);
}

/* The last bytes are searched, at multiples of 8. */
TEST(the_search_has_limits)
{
    struct reach reach = start();
    tie();
    reach.each = 512 - 6 * 8; /* without the words 0 to 5 */
    run(&reach);
    assert_int_equal(world.found.queue.count, 3); /* by word 6 */
    reach = start();
    tie();
    reach.each = 512 - 7 * 8;
    run(&reach);
    assert_int_equal(world.found.queue.count, 1);
    reach = start();
    tie();
    reach.most = 512;
    run(&reach);
    assert_int_equal(world.found.queue.count, 2);
    reach = start();
    memcpy((char *)world.memory[0] + 20, &(uint64_t){address(3, 100)}, 8);
    world.memory[0][63] = address(2, 0) - 1; /* the one before */
    run(&reach);
    assert_int_equal(world.found.queue.count, 2);
    assert_int_equal(world.found.queue.at[1], 1);
}
