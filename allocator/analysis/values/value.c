#include "value.h"

#include <string.h>

#define NAME(type, name, ...) [VALUE_##type] = name,
const char *const value_names[] = {VALUE_TABLE(NAME)[VALUE_TYPES] = NULL};

#define FORMAT(type, name, width, exponent_bits, mantissa_bits, others)                                                        \
    [VALUE_##type] = {width, exponent_bits, mantissa_bits, others},
static const struct {
    unsigned char width, exponent_bits, mantissa_bits;
    const char *others; /* what else it is called, in kernels' signatures in C++ and by Triton and people */
} types[VALUE_TYPES] = {VALUE_TABLE(FORMAT)};

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

struct scalar value_scalar(enum value_type type, uint64_t bits)
{
    if (value_is_float(type))
        return (struct scalar){.value = value_of_bits(type, bits)};
    int is_huge = !value_is_signed(type) && bits > INT64_MAX;
    return (struct scalar){.whole = value_of_integer(type, bits), .kind = is_huge ? SCALAR_HUGE : SCALAR_WHOLE};
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
    while (type < VALUE_TYPES && !is_among(value_names[type], name, length) && !is_among(types[type].others, name, length))
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
