/*
 * What the host and the kernels of elements.cu share. Plain C and CUDA C++.
 *
 * A launch looks at several pieces of memory, with a number of blocks for each. Each block writes its part of the result; the
 * host adds them up.
 */
#pragma once

#include <stdint.h>

#define FIGURES_KERNEL "cufence_figures"
#define NANS_KERNEL "cufence_nans"
#define FIGURES_THREADS 128u
#define FIGURES_ITEMS 64
#define FIGURES_ENDS 32 /* bytes shown of the beginning and of the end */

/* How bits are divided: floating point if exponent_bits is not 0. Without infinities (float8_e4m3fn), NaN has all bits but the
 * sign set, and other numbers with the highest exponent are finite. */
#define FIGURES_FORMAT(width, exponent_bits, mantissa_bits, is_signed, has_infinity)                                           \
    ((uint32_t)(width) | (uint32_t)(exponent_bits) << 8 | (uint32_t)(mantissa_bits) << 16 | (uint32_t)(is_signed) << 24 |      \
     (uint32_t)(has_infinity) << 25)
#define FIGURES_SIGNED 1u /* of bits 24 and up */
#define FIGURES_HAS_INFINITY 2u

struct figures_item {
    uint64_t address; /* of any alignment */
    uint64_t bytes;   /* those behind the last whole element count for the hash only */
    uint64_t out;     /* figures_head and then figures_part[blocks], or nans_part[blocks]; zeroed */
    uint32_t format;
    uint32_t first_block, blocks; /* of the grid */
    uint32_t unused;
};

/* The kernels' only argument, by value. */
struct figures_items {
    struct figures_item items[FIGURES_ITEMS];
    uint32_t count;
    uint32_t has_fill; /* a NaN of which all bits are set is the fill of fresh memory (fill=nan): counted as that, not as NaN */
};

struct figures_head {
    uint8_t first[FIGURES_ENDS], last[FIGURES_ENDS]; /* whole elements; the last ones end with the last element */
};

/* Of the elements that one block has seen. Keys are ordered as the values are: see elements.cu. */
struct figures_part {
    uint64_t finite, zeros, nans, infinities, fresh;
    uint64_t low, high;           /* keys of the least and the greatest finite value, if there is one */
    double sum, squares;          /* of the finite values less the first element (0 if that is not finite) */
    uint64_t first_nan, last_nan; /* index + 1; 0: none */
    uint64_t hash;                /* of the bytes and their places; the parts' sum is that of all */
};

/* Written by blocks that have found something only. */
struct nans_part {
    uint64_t nans, infinities, fresh;
    uint64_t first_nan, first_infinity; /* index + 1 of the first element; 0: none */
    uint64_t last_nan, last_infinity;
};
