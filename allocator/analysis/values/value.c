#include "value.h"

#include <string.h>

const char *const value_names[] = {
    [VALUE_FLOAT32] = "float32",
    [VALUE_FLOAT64] = "float64",
    [VALUE_FLOAT16] = "float16",
    [VALUE_BFLOAT16] = "bfloat16",
    [VALUE_INT8] = "int8",
    [VALUE_UINT8] = "uint8",
    [VALUE_INT16] = "int16",
    [VALUE_UINT16] = "uint16",
    [VALUE_INT32] = "int32",
    [VALUE_UINT32] = "uint32",
    [VALUE_INT64] = "int64",
    [VALUE_UINT64] = "uint64",
    [VALUE_FLOAT8_E4M3] = "float8_e4m3fn",
    [VALUE_FLOAT8_E5M2] = "float8_e5m2",
    [VALUE_WORD] = "word32",
    [VALUE_TYPES] = NULL,
};

/* What else they are called, in kernels' signatures in C++ and by Triton and people. */
static const char *const others[VALUE_TYPES] = {
    [VALUE_FLOAT32] = "f32,fp32,float",
    [VALUE_FLOAT64] = "f64,fp64,double",
    [VALUE_FLOAT16] = "f16,fp16,half,__half,_Float16,c10::Half,cutlass::half_t",
    [VALUE_BFLOAT16] = "bf16,__nv_bfloat16,c10::BFloat16,cutlass::bfloat16_t",
    [VALUE_INT8] = "i8,char,signed char",
    [VALUE_UINT8] = "u8,i1,bool,unsigned char",
    [VALUE_INT16] = "i16,short",
    [VALUE_UINT16] = "u16,unsigned short",
    [VALUE_INT32] = "i32,int",
    [VALUE_UINT32] = "u32,unsigned int",
    [VALUE_INT64] = "i64,long,long long",
    [VALUE_UINT64] = "u64,unsigned long,unsigned long long",
    [VALUE_FLOAT8_E4M3] =
        "f8e4m3,fp8e4nv,__nv_fp8_e4m3,__nv_fp8x2_e4m3,__nv_fp8x4_e4m3,c10::Float8_e4m3fn,cutlass::float_e4m3_t",
    [VALUE_FLOAT8_E5M2] = "f8e5m2,fp8e5,__nv_fp8_e5m2,__nv_fp8x2_e5m2,__nv_fp8x4_e5m2,c10::Float8_e5m2,cutlass::float_e5m2_t",
    [VALUE_WORD] = "",
};

static const struct {
    unsigned char width, exponent_bits, mantissa_bits;
} types[VALUE_TYPES] = {
    [VALUE_FLOAT32] = {4, 8, 23},    [VALUE_FLOAT64] = {8, 11, 52},   [VALUE_FLOAT16] = {2, 5, 10},
    [VALUE_BFLOAT16] = {2, 8, 7},    [VALUE_INT8] = {1, 0, 0},        [VALUE_UINT8] = {1, 0, 0},
    [VALUE_INT16] = {2, 0, 0},       [VALUE_UINT16] = {2, 0, 0},      [VALUE_INT32] = {4, 0, 0},
    [VALUE_UINT32] = {4, 0, 0},      [VALUE_INT64] = {8, 0, 0},       [VALUE_UINT64] = {8, 0, 0},
    [VALUE_FLOAT8_E4M3] = {1, 4, 3}, [VALUE_FLOAT8_E5M2] = {1, 5, 2}, [VALUE_WORD] = {4, 8, 23},
};

size_t value_width(enum value_type type)
{
    return types[type].width;
}

int value_is_float(enum value_type type)
{
    return types[type].exponent_bits != 0;
}

int value_is_signed(enum value_type type)
{
    return type == VALUE_INT8 || type == VALUE_INT16 || type == VALUE_INT32 || type == VALUE_INT64;
}

int64_t value_of_integer(enum value_type type, uint64_t bits)
{
    unsigned spare = (unsigned)(64 - 8 * value_width(type));
    return value_is_signed(type) ? (int64_t)(bits << spare) >> spare : (int64_t)bits;
}

static int is_among(const char *names, const char *name, size_t length)
{
    for (const char *end = names; *end; names = end + 1) {
        end = strchrnul(names, ',');
        if ((size_t)(end - names) == length && !memcmp(names, name, length))
            return 1;
    }
    return 0;
}

enum value_type value_named(const char *name, size_t length)
{
    enum value_type type = 0;
    while (type < VALUE_TYPES && !is_among(value_names[type], name, length) && !is_among(others[type], name, length))
        type++;
    return type;
}

struct value_format value_format(enum value_type type)
{
    return (struct value_format){types[type].exponent_bits, types[type].mantissa_bits, type != VALUE_FLOAT8_E4M3};
}

uint64_t value_bits(enum value_type type, const uint8_t *at)
{
    uint64_t bits = 0;
    memcpy(&bits, at, value_width(type));
    return bits;
}
