#include "value.h"

#include <string.h>

static const struct {
    const char *name;
    unsigned char width, exponent_bits, mantissa_bits;
} types[VALUE_TYPES] = {
    [VALUE_FLOAT32] = {"float32", 4, 8, 23},
    [VALUE_FLOAT64] = {"float64", 8, 11, 52},
    [VALUE_FLOAT16] = {"float16", 2, 5, 10},
    [VALUE_BFLOAT16] = {"bfloat16", 2, 8, 7},
    [VALUE_INT8] = {"int8", 1, 0, 0},
    [VALUE_UINT8] = {"uint8", 1, 0, 0},
    [VALUE_INT16] = {"int16", 2, 0, 0},
    [VALUE_UINT16] = {"uint16", 2, 0, 0},
    [VALUE_INT32] = {"int32", 4, 0, 0},
    [VALUE_UINT32] = {"uint32", 4, 0, 0},
    [VALUE_INT64] = {"int64", 8, 0, 0},
    [VALUE_UINT64] = {"uint64", 8, 0, 0},
    [VALUE_FLOAT8_E4M3] = {"float8_e4m3fn", 1, 4, 3},
    [VALUE_FLOAT8_E5M2] = {"float8_e5m2", 1, 5, 2},
};

size_t value_width(enum value_type type)
{
    return types[type].width;
}

int value_is_float(enum value_type type)
{
    return types[type].exponent_bits != 0;
}

const char *value_name(enum value_type type)
{
    return types[type].name;
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
