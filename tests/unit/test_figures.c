/* Figures of a buffer's bytes: what is added up, and how. test_measure.c has what each kind of number is. */
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
