#include "likeness.h"

#define BLOCK 256        /* bytes that are looked at in one place ... */
#define BLOCKS 64        /* ... of a large piece */
#define MOST_EXPONENT 66 /* 2^66 is about 1e20 */
#define BYTES_FIT 0.6    /* any bytes are bytes */
#define HALVES 0.4       /* even and odd elements differ if at most this share as many of one kind are not 0 */
#define UNLIKE 0.8       /* for elements that are halves of wider ones */

/* ---- looking ---- */

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

void likeness_add(struct likeness *likeness, const uint8_t *bytes, size_t size)
{
    if (size <= (size_t)BLOCK * BLOCKS) {
        look(likeness, bytes, size);
        return;
    }
    size_t stride = size / BLOCKS / 8 * 8;
    for (size_t i = 0; i < BLOCKS; i++)
        look(likeness, bytes + i * stride, BLOCK);
}

/* ---- judging ---- */

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

double likeness_fit(const struct likeness *likeness, enum value_type type)
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
