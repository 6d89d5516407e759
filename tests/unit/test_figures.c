/* Figures of a buffer's bytes. */
#include "support/test.h"

#include <math.h>

#include "analysis/values/figures.h"

static struct figures of(const void *bytes, size_t size)
{
    struct figures figures = {0};
    struct figures_count *count = figures_begin();
    assert_non_null(count);
    figures_add(count, bytes, size);
    figures_end(count, &figures);
    return figures;
}

static void expect(const struct figures *figures, enum value_type type, double min, double max, double mean)
{
    const struct type_figures *found = &figures->types[type];
    if (found->min != min || found->max != max || fabs(found->mean - mean) > 1e-12 * fabs(mean))
        fail_msg("%s: %g %g %g", value_names[type], found->min, found->max, found->mean);
}

static void expect_counts(const struct figures *figures, enum value_type type, const uint64_t counts[4])
{
    const struct type_figures *found = &figures->types[type];
    assert_int_equal(found->finite, counts[0]);
    assert_int_equal(found->zeros, counts[1]);
    assert_int_equal(found->nans, counts[2]);
    assert_int_equal(found->infinities, counts[3]);
}

TEST(halves_are_converted)
{
    static const struct {
        uint16_t bits;
        double half, bfloat;
    } cases[] = {
        {0x0000, 0, 0},
        {0x3c00, 1, 0x1p-7},
        {0xc000, -2, -2},
        {0x3555, 0.333251953125, 0x1.aap-21},
        {0x7bff, 65504, 0x1.fep+120},
        {0x0400, 0x1p-14, 0x1p-119},
        {0x0001, 0x1p-24, 0x1p-133},          /* the smallest */
        {0x83ff, -0x1.ff8p-15, -0x1.fep-120}, /* denormal as a half alone */
        {0x3f80, 1.875, 1},
        {0x4049, 2.142578125, 3.140625},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(value_of_half(cases[i].bits) == cases[i].half);
        assert_true(value_of_bits(VALUE_FLOAT16, cases[i].bits) == cases[i].half);
        if (value_of_bits(VALUE_BFLOAT16, cases[i].bits) != cases[i].bfloat)
            fail_msg("0x%04x is %a", cases[i].bits, value_of_bits(VALUE_BFLOAT16, cases[i].bits));
    }
    assert_true(signbit(value_of_half(0x8000)));
    assert_true(value_of_half(0x7c00) == INFINITY && value_of_half(0xfc00) == -INFINITY);
    assert_true(isnan(value_of_half(0x7e00)) && isnan(value_of_half(0xffff)) && isnan(value_of_half(0x7c01)));
    static const struct {
        uint8_t bits;
        double e4m3, e5m2;
    } bytes[] = {{0x00, 0, 0},
                 {0x01, 0x1p-9, 0x1p-16},
                 {0x07, 7 * 0x1p-9, 1.75 * 0x1p-14},
                 {0x08, 0x1p-6, 0x1p-13},
                 {0x38, 1, 0.5},
                 {0x3c, 1.5, 1},
                 {0xb8, -1, -0.5},
                 {0x77, 240, 28672},
                 {0x7b, 352, 57344},
                 {0x78, 256, 32768},
                 {0xfb, -352, -57344}};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        if (value_of_bits(VALUE_FLOAT8_E4M3, bytes[i].bits) != bytes[i].e4m3 ||
            value_of_bits(VALUE_FLOAT8_E5M2, bytes[i].bits) != bytes[i].e5m2)
            fail_msg("0x%02x is %a and %a", bytes[i].bits, value_of_bits(VALUE_FLOAT8_E4M3, bytes[i].bits),
                     value_of_bits(VALUE_FLOAT8_E5M2, bytes[i].bits));
    }
    assert_true(value_of_bits(VALUE_FLOAT8_E4M3, 0xfe) == -448 && isnan(value_of_bits(VALUE_FLOAT8_E4M3, 0x7f)));
    assert_true(value_of_bits(VALUE_FLOAT8_E5M2, 0xfc) == -INFINITY && isnan(value_of_bits(VALUE_FLOAT8_E5M2, 0x7d)));
    assert_true(value_of_bits(VALUE_BFLOAT16, 0xff80) == -INFINITY && isnan(value_of_bits(VALUE_BFLOAT16, 0x7fc0)));
}

TEST(every_type_has_figures)
{
    static const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0xfe};
    const struct figures figures = of(bytes, sizeof bytes);
    assert_int_equal(figures.seen, 17);
    assert_memory_equal(figures.first, bytes, sizeof bytes);
    expect(&figures, VALUE_UINT8, 0, 255, (28 + 255 + 254) / 17.0);
    expect(&figures, VALUE_INT8, -2, 7, (28 - 1 - 2) / 17.0);
    expect(&figures, VALUE_UINT16, 0, 0xff07, (0x201 + 0x403 + 0x605 + 0xff07) / 8.0);
    expect(&figures, VALUE_INT16, -0xf9, 0x605, (0x201 + 0x403 + 0x605 - 0xf9) / 8.0);
    expect(&figures, VALUE_UINT32, 0, 0xff070605, ((double)0x4030201 + 0xff070605) / 4);
    expect(&figures, VALUE_INT32, (int32_t)0xff070605, 0x4030201, (0x4030201 + (double)(int32_t)0xff070605) / 4);
    expect(&figures, VALUE_UINT64, 0, (double)0xff07060504030201, (double)0xff07060504030201 / 2);
    expect(&figures, VALUE_INT64, (double)(int64_t)0xff07060504030201, 0, (double)(int64_t)0xff07060504030201 / 2);
    expect_counts(&figures, VALUE_UINT8, (const uint64_t[]){17, 8, 0, 0});
    expect_counts(&figures, VALUE_INT16, (const uint64_t[]){8, 4, 0, 0});
    expect_counts(&figures, VALUE_FLOAT32, (const uint64_t[]){4, 2, 0, 0});
    expect_counts(&figures, VALUE_FLOAT64, (const uint64_t[]){2, 1, 0, 0});
}

TEST(what_is_no_number_is_counted_apart)
{
    const float floats[] = {NAN, 2, -INFINITY, -0.0F, INFINITY, -4, 0, 1e-45F};
    const struct figures figures = of(floats, sizeof floats);
    expect(&figures, VALUE_FLOAT32, -4, 2, (2 - 4 + (double)1e-45F) / 5);
    expect_counts(&figures, VALUE_FLOAT32, (const uint64_t[]){5, 2, 1, 2});
    static const uint16_t halves[] = {0x7c00, 0x7e00, 0xfe01, 0x8000, 0x3c00};
    const struct figures narrow = of(halves, sizeof halves);
    expect(&narrow, VALUE_FLOAT16, 0, 1, 0.5);
    expect_counts(&narrow, VALUE_FLOAT16, (const uint64_t[]){2, 1, 2, 1});
}

TEST(no_bytes)
{
    const struct figures figures = of("", 0);
    assert_int_equal(figures.seen, 0);
    for (enum value_type type = 0; type < VALUE_COUNTED; type++)
        expect_counts(&figures, type, (const uint64_t[]){0, 0, 0, 0});
}

TEST(the_mean_does_not_overflow)
{
    const double large[] = {1.5e308, 1.5e308, 1.2e308}, opposite[] = {-1.5e308, -1.5e308, 1.5e308, 1.5e308, INFINITY};
    const struct figures figures = of(large, sizeof large), balanced = of(opposite, sizeof opposite);
    expect(&figures, VALUE_FLOAT64, 1.2e308, 1.5e308, 1.4e308);
    expect(&balanced, VALUE_FLOAT64, -1.5e308, 1.5e308, 0);
}

TEST(pieces_add_up)
{
    uint8_t bytes[1000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 37 % 251);
    const struct figures whole = of(bytes, sizeof bytes);
    struct figures made = {0};
    struct figures_count *count = figures_begin();
    figures_add(count, bytes, 8);
    figures_add(count, bytes + 8, 512);
    figures_add(count, bytes + 520, 480);
    figures_end(count, &made);
    assert_memory_equal(&made, &whole, sizeof whole);
}
