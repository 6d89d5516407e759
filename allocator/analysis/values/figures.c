#include "figures.h"

#include <stdlib.h>
#include <string.h>

#define PATTERNS 65536 /* of 16 bits */
#define SMALL 0x1p-64  /* what numbers are multiplied by so that their sum is finite */

/* ---- likeness: how much bytes look like elements of a type. Looks at samples: people's numbers are neither tiny nor huge,
 * their exponents differ little, and neighbours look alike. ---- */

#define BLOCK 256        /* bytes that are looked at in one place ... */
#define BLOCKS 64        /* ... of a large piece */
#define MOST_EXPONENT 66 /* 2^66 is about 1e20 */
#define BYTES_FIT 0.6    /* any bytes are bytes */
#define HALVES 0.4       /* even and odd elements differ if at most this share as many of one kind are not 0 */
#define UNLIKE 0.8       /* for elements that are halves of wider ones */

/* Elements at one position within 8 bytes. */
struct likeness_lane {
    uint64_t seen, zeros, plausible;
    uint64_t normal;              /* those whose exponents are summed up */
    double exponents, exponents2; /* sum, and sum of squares */
};

struct float_likeness {
    struct likeness_lane lanes[4];
    uint64_t significant; /* sum of the numbers of bits in the mantissas */
    uint64_t first;       /* bits of the first element that is not 0, ... */
    int is_varied;        /* ... and whether there are others */
};

struct likeness {
    struct float_likeness floats[4]; /* of the types from VALUE_FLOAT32 to VALUE_BFLOAT16 */
    uint64_t shorts, small_shorts;
    uint64_t ints, small_ints, medium_ints;
    uint64_t longs, small_longs, extended;        /* extended: longs that are small ints */
    uint64_t bytes, flags, low_bytes, high_bytes; /* 0 and 1; near 0; near 255 */
    int has_nonzero;
};

static int bit_count(uint64_t bits)
{
    int count = 0;
    for (; bits; bits &= bits - 1)
        count++;
    return count;
}

/* Returns 1 for an infinity and for a NaN as arithmetic makes it. */
static int is_usual(uint64_t mantissa, unsigned mantissa_bits)
{
    return mantissa == 0 || mantissa == UINT64_C(1) << (mantissa_bits - 1) || mantissa == (UINT64_C(1) << mantissa_bits) - 1;
}

static void look_at_float(struct float_likeness *likeness, struct likeness_lane *lane, struct value_format format,
                          uint64_t bits)
{
    uint64_t mantissa = bits & ((UINT64_C(1) << format.mantissa_bits) - 1);
    int64_t top = ((int64_t)1 << format.exponent_bits) - 1;
    int64_t field = (int64_t)(bits >> format.mantissa_bits) & top, exponent = field - top / 2;
    lane->seen++;
    if (!mantissa && !field) {
        lane->zeros++;
        return;
    }
    likeness->first = likeness->first ? likeness->first : bits;
    likeness->is_varied |= bits != likeness->first;
    likeness->significant += (uint64_t)bit_count(mantissa);
    if (field == top)
        lane->plausible += (uint64_t)is_usual(mantissa, format.mantissa_bits);
    if (field == top || field == 0 || exponent < -MOST_EXPONENT || exponent > MOST_EXPONENT)
        return;
    lane->plausible++;
    lane->normal++;
    lane->exponents += (double)exponent;
    lane->exponents2 += (double)(exponent * exponent);
}

static void look_at_floats(struct float_likeness *likeness, enum value_type type, const uint8_t *bytes, size_t size)
{
    size_t width = value_width(type);
    const struct value_format format = value_format(type);
    for (size_t at = 0; at + width <= size; at += width)
        look_at_float(likeness, &likeness->lanes[at % 8 / width], format, value_bits(type, bytes + at));
}

static int is_within(int64_t value, int64_t limit)
{
    return value < limit && value > -limit;
}

static void look_at_integers(struct likeness *likeness, const uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at + 2 <= size; at += 2, likeness->shorts++)
        likeness->small_shorts += (uint64_t)is_within((int16_t)value_bits(VALUE_INT16, bytes + at), 1 << 12);
    for (size_t at = 0; at + 4 <= size; at += 4, likeness->ints++) {
        int32_t value = (int32_t)value_bits(VALUE_INT32, bytes + at);
        likeness->small_ints += (uint64_t)is_within(value, 1 << 16);
        likeness->medium_ints += (uint64_t)is_within(value, 1 << 24);
    }
    for (size_t at = 0; at + 8 <= size; at += 8, likeness->longs++) {
        int64_t value = (int64_t)value_bits(VALUE_INT64, bytes + at);
        likeness->small_longs += (uint64_t)is_within(value, INT64_C(1) << 48);
        likeness->extended += (uint64_t)is_within(value, 1 << 24);
    }
}

static void look_at_bytes(struct likeness *likeness, const uint8_t *bytes, size_t size)
{
    likeness->bytes += size;
    for (size_t at = 0; at < size; at++) {
        likeness->flags += bytes[at] <= 1;
        likeness->low_bytes += bytes[at] < 64;
        likeness->high_bytes += bytes[at] >= 192;
        likeness->has_nonzero |= bytes[at] != 0;
    }
}

static void look(struct likeness *likeness, const uint8_t *bytes, size_t size)
{
    for (enum value_type type = VALUE_FLOAT32; type <= VALUE_BFLOAT16; type++)
        look_at_floats(&likeness->floats[type], type, bytes, size);
    look_at_integers(likeness, bytes, size);
    look_at_bytes(likeness, bytes, size);
}

/* Looks at some of the bytes. `size` is a multiple of 8 except in the last call. */
static void likeness_add(struct likeness *likeness, const uint8_t *bytes, size_t size)
{
    if (size <= (size_t)BLOCK * BLOCKS) {
        look(likeness, bytes, size);
        return;
    }
    size_t stride = size / BLOCKS / 8 * 8;
    for (size_t i = 0; i < BLOCKS; i++)
        look(likeness, bytes + i * stride, BLOCK);
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

/* Returns the variance of the exponents. */
static double variance(const struct likeness_lane *lane)
{
    double mean = lane->exponents / (double)lane->normal;
    return lane->exponents2 / (double)lane->normal - mean * mean;
}

/* Returns 1 if exponents that differ like these cost nothing, 0 if no numbers are like that. Those of one position must not
 * differ much, nor those of different positions. `usual`: standard deviations up to this are usual. */
static double closeness(const struct float_likeness *likeness, double usual, double most)
{
    double widest = 0, lowest = 1e9, highest = -1e9;
    for (size_t i = 0; i < 4; i++) {
        const struct likeness_lane *lane = &likeness->lanes[i];
        if (!lane->normal)
            continue;
        double mean = lane->exponents / (double)lane->normal;
        widest = variance(lane) > widest ? variance(lane) : widest;
        lowest = mean < lowest ? mean : lowest;
        highest = mean > highest ? mean : highest;
    }
    double apart = highest > lowest ? highest - lowest : 0;
    /* The square of a sum of deviations, without a root. */
    double spread = widest + apart * apart;
    if (spread <= usual * usual)
        return 1;
    return spread >= most * most ? 0 : 1 - (spread - usual * usual) / (most * most - usual * usual);
}

/* Returns 1 if the elements at even positions are 0 where those at odd ones are not: these are halves of wider elements. The
 * other way round, these are halves of integers. */
static int are_halves(const struct float_likeness *likeness, enum value_type type)
{
    uint64_t nonzero[2] = {0};
    for (size_t i = 0; i < 4; i++)
        nonzero[i % 2] += likeness->lanes[i].seen - likeness->lanes[i].zeros;
    return (double)nonzero[0] < HALVES * (double)nonzero[1] ||
           (type != VALUE_FLOAT32 && (double)nonzero[1] < HALVES * (double)nonzero[0]);
}

/* Bytes that repeat fit many types: the plainest number is the likeliest. */
static double oddness(const struct float_likeness *likeness, uint64_t nonzero, uint64_t normal)
{
    double exponents = 0;
    for (size_t i = 0; i < 4; i++)
        exponents += likeness->lanes[i].exponents;
    double mean = normal ? exponents / (double)normal : 0;
    return 0.001 * share(likeness->significant, nonzero) + 0.0001 * (mean < 0 ? -mean : mean);
}

static double fit_of_float(const struct float_likeness *likeness, enum value_type type)
{
    uint64_t seen = 0, good = 0, zeros = 0, normal = 0;
    for (size_t i = 0; i < 4; i++) {
        const struct likeness_lane *lane = &likeness->lanes[i];
        seen += lane->seen;
        zeros += lane->zeros;
        normal += lane->normal;
        good += lane->zeros + lane->plausible;
    }
    /* float16 has few exponents. */
    double fit = share(good, seen) * closeness(likeness, type == VALUE_FLOAT16 ? 2.5 : 3.5, type == VALUE_FLOAT16 ? 8 : 18);
    if (type != VALUE_FLOAT64 && are_halves(likeness, type))
        return fit * UNLIKE;
    if (!likeness->is_varied)
        return fit - oddness(likeness, seen - zeros, normal);
    /* Random bits seldom look like pairs of narrow numbers, but these look like a wide one. */
    return type == VALUE_BFLOAT16 ? 1.02 * fit : type == VALUE_FLOAT16 ? 1.01 * fit : fit;
}

/* Returns a number from 0 to about 1, 0 for types that are never guessed. */
static double likeness_fit(const struct likeness *likeness, enum value_type type)
{
    if (value_is_float(type))
        return fit_of_float(&likeness->floats[type], type);
    if (!likeness->has_nonzero)
        return 0;
    double shorts = share(likeness->small_shorts, likeness->shorts), high = share(likeness->high_bytes, likeness->bytes);
    switch (type) {
    case VALUE_INT8: /* small numbers around 0 */
        return share(likeness->low_bytes + likeness->high_bytes, likeness->bytes) > 0.8 && high > 0.1 ? BYTES_FIT + 0.01 : 0;
    case VALUE_UINT8:
        return likeness->flags == likeness->bytes ? 0.98 : BYTES_FIT;
    case VALUE_INT16: /* pairs of small bytes are often small */
        return 0.98 * shorts * shorts * shorts;
    case VALUE_INT32:
        return share(likeness->small_ints, likeness->ints) * 0.04 + share(likeness->medium_ints, likeness->ints) * 0.96;
    case VALUE_INT64:
        if (likeness->longs >= 2 && likeness->extended == likeness->longs)
            return 1.01;
        return 0.95 * share(likeness->small_longs, likeness->longs);
    default:
        return 0;
    }
}

/* ---- counting ---- */

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
    struct likeness likeness;
    uint64_t seen;
    uint8_t first[32];
    int has_odd; /* the last byte, which belongs to no pair, ... */
    uint8_t odd;
};

struct figures_count *figures_begin(void)
{
    return calloc(1, sizeof(struct figures_count));
}

/* Enters a value that occurs `times` times. */
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
    likeness_add(&count->likeness, bytes, size);
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
    for (enum value_type type = 0; type < VALUE_GUESSED; type++)
        figures->types[type].fit = likeness_fit(&count->likeness, type);
    free(count);
}

enum value_type figures_guess(const struct figures *figures, uint64_t most_width)
{
    enum value_type best = VALUE_TYPES;
    for (enum value_type type = 0; type < VALUE_GUESSED; type++) {
        if (value_width(type) > most_width)
            continue;
        if (best == VALUE_TYPES || figures->types[type].fit > figures->types[best].fit)
            best = type;
    }
    return best == VALUE_TYPES ? VALUE_UINT8 : best;
}
