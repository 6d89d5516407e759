/*
 * The types that the elements of a buffer may have. Pure; any thread.
 */
#ifndef CUFENCE_ANALYSIS_VALUES_VALUE_H
#define CUFENCE_ANALYSIS_VALUES_VALUE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum value_type {
    VALUE_FLOAT32, /* first: what bytes are taken for if they fit several types */
    VALUE_FLOAT64,
    VALUE_FLOAT16,
    VALUE_BFLOAT16,
    VALUE_INT8,
    VALUE_UINT8,
    VALUE_INT16,
    VALUE_UINT16,
    VALUE_INT32,
    VALUE_UINT32,
    VALUE_INT64,
    VALUE_UINT64,
    VALUE_TYPES
};

size_t value_width(enum value_type type); /* in bytes */
int value_is_float(enum value_type type);
const char *value_name(enum value_type type); /* "float32", "bfloat16", "uint8"; static */

/* How the bits of a floating-point type are divided. */
struct value_format {
    unsigned exponent_bits, mantissa_bits;
};
struct value_format value_format(enum value_type type);

/* Returns the bits of the value at an address, which needs no alignment, in the low bytes of the result. */
uint64_t value_bits(enum value_type type, const uint8_t *at);

/* Inline, for loops over millions of values. */
static inline double value_of_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static inline double value_of_half(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;
    if (exponent == 0) {
        double value = (double)mantissa / 16777216; /* 2^24 */
        return sign ? -value : value;
    }
    exponent = exponent == 0x1f ? 0xff : exponent + 127 - 15;
    return value_of_float(sign | exponent << 23 | mantissa << 13);
}

/* Returns the value: exact, but for integers of 8 bytes that a double cannot hold. */
static inline double value_of_bits(enum value_type type, uint64_t bits)
{
    double wide;
    switch (type) {
    case VALUE_FLOAT32:
        return value_of_float((uint32_t)bits);
    case VALUE_FLOAT64:
        memcpy(&wide, &bits, sizeof wide);
        return wide;
    case VALUE_FLOAT16:
        return value_of_half((uint16_t)bits);
    case VALUE_BFLOAT16:
        return value_of_float((uint32_t)bits << 16);
    case VALUE_INT8:
        return (int8_t)bits;
    case VALUE_INT16:
        return (int16_t)bits;
    case VALUE_INT32:
        return (int32_t)bits;
    case VALUE_INT64:
        return (double)(int64_t)bits;
    default:
        return (double)bits;
    }
}

#endif
