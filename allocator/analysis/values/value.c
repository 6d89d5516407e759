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
    [VALUE_TYPES] = NULL,
};

static const struct {
    unsigned char width, exponent_bits, mantissa_bits;
} types[VALUE_TYPES] = {
    [VALUE_FLOAT32] = {4, 8, 23},    [VALUE_FLOAT64] = {8, 11, 52},   [VALUE_FLOAT16] = {2, 5, 10},
    [VALUE_BFLOAT16] = {2, 8, 7},    [VALUE_INT8] = {1, 0, 0},        [VALUE_UINT8] = {1, 0, 0},
    [VALUE_INT16] = {2, 0, 0},       [VALUE_UINT16] = {2, 0, 0},      [VALUE_INT32] = {4, 0, 0},
    [VALUE_UINT32] = {4, 0, 0},      [VALUE_INT64] = {8, 0, 0},       [VALUE_UINT64] = {8, 0, 0},
    [VALUE_FLOAT8_E4M3] = {1, 4, 3}, [VALUE_FLOAT8_E5M2] = {1, 5, 2},
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

const char *value_name(enum value_type type)
{
    return value_names[type];
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
