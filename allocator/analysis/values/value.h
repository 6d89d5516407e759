/*
 * The types that the elements of a buffer may have. Pure; any thread.
 */
#pragma once

#include "base/shape.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The types: name, bytes, bits of exponent and mantissa, and other names. Of the first twelve there are figures (figures.h).
 * FLOAT8_E4M3: of OCP, as PyTorch's float8_e4m3fn: it has NaN and no infinities. WORD: of unknown type, printed in hex and as
 * float32, and its figures are those of float32. */
/* clang-format off */
#define VALUE_TABLE(ROW) \
    ROW(FLOAT32, "float32", 4, 8, 23, "f32,fp32,float") \
    ROW(FLOAT64, "float64", 8, 11, 52, "f64,fp64,double") \
    ROW(FLOAT16, "float16", 2, 5, 10, "f16,fp16,half,__half,_Float16,c10::Half,cutlass::half_t") \
    ROW(BFLOAT16, "bfloat16", 2, 8, 7, "bf16,__nv_bfloat16,c10::BFloat16,cutlass::bfloat16_t") \
    ROW(INT8, "int8", 1, 0, 0, "i8,char,signed char") \
    ROW(UINT8, "uint8", 1, 0, 0, "u8,i1,bool,unsigned char") \
    ROW(INT16, "int16", 2, 0, 0, "i16,short") \
    ROW(UINT16, "uint16", 2, 0, 0, "u16,unsigned short") \
    ROW(INT32, "int32", 4, 0, 0, "i32,int") \
    ROW(UINT32, "uint32", 4, 0, 0, "u32,unsigned int") \
    ROW(INT64, "int64", 8, 0, 0, "i64,long,long long") \
    ROW(UINT64, "uint64", 8, 0, 0, "u64,unsigned long,unsigned long long") \
    ROW(FLOAT8_E4M3, "float8_e4m3fn", 1, 4, 3, "f8e4m3,fp8e4nv,__nv_fp8_e4m3,__nv_fp8x2_e4m3," \
        "__nv_fp8x4_e4m3,c10::Float8_e4m3fn,cutlass::float_e4m3_t") \
    ROW(FLOAT8_E5M2, "float8_e5m2", 1, 5, 2, "f8e5m2,fp8e5,__nv_fp8_e5m2,__nv_fp8x2_e5m2," \
        "__nv_fp8x4_e5m2,c10::Float8_e5m2,cutlass::float_e5m2_t") \
    ROW(WORD, "word32", 4, 8, 23, "")
/* clang-format on */

#define VALUE_TYPE(type, ...) VALUE_##type,
enum value_type { VALUE_TABLE(VALUE_TYPE) VALUE_TYPES, VALUE_COUNTED = VALUE_FLOAT8_E4M3 };

size_t value_width(enum value_type type); /* in bytes */
int value_is_float(enum value_type type);
extern const char *const value_names[]; /* of the types: "float32", "bfloat16", "uint8"; ends with NULL */

/* Returns the type of that name, long or short ("float16", "f16", "half", "c10::Half"); VALUE_TYPES if there is none. */
enum value_type value_named(const char *name, size_t length);

/* How the bits of a floating-point type are divided. */
struct value_format {
    unsigned exponent_bits, mantissa_bits;
    int has_infinity; /* 0: where all bits but the sign are set is NaN, and the other numbers with the highest exponent are
                         finite */
};
struct value_format value_format(enum value_type type);

/* Returns the bits of the value at an address, which needs no alignment, in the low bytes of the result. */
uint64_t value_bits(enum value_type type, const uint8_t *at);

/* Of an integer type: whether it has negative numbers, and the number of these bits, of uint64 modulo 2^64. */
int value_is_signed(enum value_type type);
int64_t value_of_integer(enum value_type type, uint64_t bits);

struct scalar value_scalar(enum value_type type, uint64_t bits);

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

static inline double value_of_byte(enum value_type type, uint8_t bits)
{
    if (type == VALUE_FLOAT8_E5M2) /* the high byte of a float16 */
        return value_of_half((uint16_t)(bits << 8));
    uint32_t sign = (uint32_t)(bits & 0x80) << 24, exponent = bits >> 3 & 0xf, mantissa = bits & 7;
    if (exponent == 0)
        return (sign ? -1.0 : 1.0) * mantissa / 512;
    exponent = (bits & 0x7f) == 0x7f ? 0xff : exponent + 127 - 7;
    return value_of_float(sign | exponent << 23 | mantissa << 20);
}

/* Returns the value: exact, but for integers of 8 bytes that a double cannot hold. */
static inline double value_of_bits(enum value_type type, uint64_t bits)
{
    double wide;
    switch (type) {
    case VALUE_FLOAT32:
    case VALUE_WORD:
        return value_of_float((uint32_t)bits);
    case VALUE_FLOAT64:
        memcpy(&wide, &bits, sizeof wide);
        return wide;
    case VALUE_FLOAT16:
        return value_of_half((uint16_t)bits);
    case VALUE_BFLOAT16:
        return value_of_float((uint32_t)bits << 16);
    case VALUE_FLOAT8_E4M3:
    case VALUE_FLOAT8_E5M2:
        return value_of_byte(type, (uint8_t)bits);
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
