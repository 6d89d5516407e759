#include "figures.h"

#include <stdlib.h>
#include <string.h>

#define PATTERNS 65536 /* of 16 bits */
#define SMALL 0x1p-64  /* what numbers are multiplied by so that their sum is finite */

struct tally {
    double min, max, sum;
    double small_sum; /* of the values times SMALL, if they are float64 */
    uint64_t finite, zeros, nans, infinities;
};

struct whole_tally {
    int64_t min, max;
    uint64_t unsigned_min, unsigned_max;
    int64_t high_sum; /* of the high halves, or of numbers of 4 bytes ... */
    uint64_t low_sum; /* ... and of the low halves of numbers of 8 bytes */
    uint64_t count, zeros, negatives;
};

struct figures_count {
    uint64_t patterns[PATTERNS]; /* how often each occurs: these give all figures for types of one and two bytes */
    struct tally float32, float64;
    struct whole_tally whole32, whole64;
    uint64_t seen;
    uint8_t first[32];
    int has_odd; /* the last byte, which belongs to no pair, ... */
    uint8_t odd;
};

struct figures_count *figures_begin(void)
{
    return calloc(1, sizeof(struct figures_count));
}

static inline void enter(struct tally *tally, double value, uint64_t times)
{
    if (value - value != 0) { /* neither NaN nor an infinity is 0 then */
        *(value != value ? &tally->nans : &tally->infinities) += times;
        return;
    }
    if (!tally->finite || value < tally->min)
        tally->min = value;
    if (!tally->finite || value > tally->max)
        tally->max = value;
    tally->finite += times;
    tally->zeros += value == 0 ? times : 0;
    tally->sum += value * (double)times;
}

/* Each call of the next two has constants for type and width: these loops see every byte. */
#define EACH static inline __attribute__((always_inline)) void

EACH enter_floats(struct tally *to, enum value_type type, size_t width, const uint8_t *bytes, size_t size)
{
    struct tally tally = *to;
    for (size_t at = 0; at + width <= size; at += width) {
        uint64_t bits = 0;
        memcpy(&bits, bytes + at, width);
        double value = value_of_bits(type, bits);
        enter(&tally, value, 1);
        if (type == VALUE_FLOAT64)
            tally.small_sum += value - value == 0 ? value * SMALL : 0;
    }
    *to = tally;
}

static inline void enter_whole(struct whole_tally *tally, int64_t value, uint64_t bits)
{
    if (!tally->count)
        *tally = (struct whole_tally){.min = value, .max = value, .unsigned_min = bits, .unsigned_max = bits};
    tally->count++;
    tally->min = value < tally->min ? value : tally->min;
    tally->max = value > tally->max ? value : tally->max;
    tally->unsigned_min = bits < tally->unsigned_min ? bits : tally->unsigned_min;
    tally->unsigned_max = bits > tally->unsigned_max ? bits : tally->unsigned_max;
    tally->zeros += bits == 0;
    tally->negatives += value < 0;
}

EACH enter_wholes(struct whole_tally *to, size_t width, const uint8_t *bytes, size_t size)
{
    struct whole_tally tally = *to;
    for (size_t at = 0; at + width <= size; at += width) {
        uint64_t bits = 0;
        memcpy(&bits, bytes + at, width);
        int64_t value = width == 4 ? (int32_t)bits : (int64_t)bits;
        enter_whole(&tally, value, bits);
        tally.high_sum += width == 4 ? value : value >> 32;
        tally.low_sum += width == 4 ? 0 : (uint32_t)bits;
    }
    *to = tally;
}

static void count_patterns(struct figures_count *count, const uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at + 2 <= size; at += 2) {
        uint16_t bits;
        memcpy(&bits, bytes + at, sizeof bits);
        count->patterns[bits]++;
    }
    count->has_odd = size % 2 != 0;
    count->odd = count->has_odd ? bytes[size - 1] : 0;
}

void figures_add(struct figures_count *count, const uint8_t *bytes, size_t size)
{
    if (count->seen < sizeof count->first) {
        size_t room = sizeof count->first - (size_t)count->seen;
        memcpy(count->first + count->seen, bytes, size < room ? size : room);
    }
    count->seen += size;
    count_patterns(count, bytes, size);
    enter_floats(&count->float32, VALUE_FLOAT32, 4, bytes, size);
    enter_floats(&count->float64, VALUE_FLOAT64, 8, bytes, size);
    enter_wholes(&count->whole32, 4, bytes, size);
    enter_wholes(&count->whole64, 8, bytes, size);
}

/* ---- the result ---- */

static struct type_figures of_tally(const struct tally *tally)
{
    struct type_figures made = {.min = tally->min,
                                .max = tally->max,
                                .finite = tally->finite,
                                .zeros = tally->zeros,
                                .nans = tally->nans,
                                .infinities = tally->infinities};
    double count = (double)tally->finite;
    if (tally->finite)
        made.mean = tally->sum - tally->sum == 0 ? tally->sum / count : tally->small_sum / count / SMALL;
    return made;
}

static struct type_figures of_whole(const struct whole_tally *tally, int is_wide, int is_signed)
{
    struct type_figures made = {.finite = tally->count, .zeros = tally->zeros};
    double sum = is_wide ? (double)tally->high_sum * 0x1p32 + (double)tally->low_sum : (double)tally->high_sum;
    made.min = is_signed ? (double)tally->min : (double)tally->unsigned_min;
    made.max = is_signed ? (double)tally->max : (double)tally->unsigned_max;
    if (!is_signed)
        sum += (double)tally->negatives * (is_wide ? 0x1p64 : 0x1p32);
    made.mean = tally->count ? sum / (double)tally->count : 0;
    return made;
}

/* Makes the figures for types of which all patterns were counted. */
static void make(struct figures *figures, const enum value_type *types, size_t count, const uint64_t *times, uint32_t patterns)
{
    struct tally tallies[4] = {0};
    for (uint32_t bits = 0; bits < patterns; bits++) {
        for (size_t i = 0; times[bits] && i < count; i++)
            enter(&tallies[i], value_of_bits(types[i], bits), times[bits]);
    }
    for (size_t i = 0; i < count; i++)
        figures->types[types[i]] = of_tally(&tallies[i]);
}

void figures_end(struct figures_count *count, struct figures *figures)
{
    static const enum value_type pairs[] = {VALUE_FLOAT16, VALUE_BFLOAT16, VALUE_INT16, VALUE_UINT16},
                                 singles[] = {VALUE_INT8, VALUE_UINT8};
    uint64_t bytes[256] = {0};
    figures->seen = count->seen;
    memcpy(figures->first, count->first, sizeof count->first);
    bytes[count->odd] += count->has_odd != 0;
    for (uint32_t bits = 0; bits < PATTERNS; bits++) {
        bytes[bits & 0xff] += count->patterns[bits];
        bytes[bits >> 8] += count->patterns[bits];
    }
    make(figures, pairs, 4, count->patterns, PATTERNS);
    make(figures, singles, 2, bytes, 256);
    figures->types[VALUE_FLOAT32] = of_tally(&count->float32);
    figures->types[VALUE_FLOAT64] = of_tally(&count->float64);
    figures->types[VALUE_INT32] = of_whole(&count->whole32, 0, 1);
    figures->types[VALUE_UINT32] = of_whole(&count->whole32, 0, 0);
    figures->types[VALUE_INT64] = of_whole(&count->whole64, 1, 1);
    figures->types[VALUE_UINT64] = of_whole(&count->whole64, 1, 0);
    free(count);
}

const struct type_figures *figures_for(const struct figures *figures, enum value_type type)
{
    return &figures->types[type == VALUE_WORD ? VALUE_FLOAT32 : type];
}
