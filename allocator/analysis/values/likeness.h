/*
 * How much bytes look like elements of a type. Looks at samples: people's numbers are neither tiny nor huge, their exponents
 * differ little, and neighbours look alike. Pure; any thread.
 */
#ifndef CUFENCE_ANALYSIS_VALUES_LIKENESS_H
#define CUFENCE_ANALYSIS_VALUES_LIKENESS_H

#include "value.h"

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

/* Looks at some of the bytes. `size` is a multiple of 8 except in the last call. */
void likeness_add(struct likeness *likeness, const uint8_t *bytes, size_t size);

/* Returns a number from 0 to about 1, 0 for types that are never guessed. */
double likeness_fit(const struct likeness *likeness, enum value_type type);

#endif
