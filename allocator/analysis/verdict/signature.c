#include "signature.h"

#include <string.h>

/* Finds the argument list: between the last parenthesis and its partner. Returns its start, NULL if there is none. */
static const char *list_of(const char *name, size_t *length)
{
    size_t size = strlen(name), depth = 0;
    if (!size || name[size - 1] != ')')
        return NULL;
    for (size_t i = size; i-- > 0;) {
        depth += name[i] == ')';
        depth -= name[i] == '(';
        if (!depth) {
            *length = size - i - 2;
            return name + i + 1;
        }
    }
    return NULL;
}

/* Returns the end of the argument at `at`: the next comma outside all brackets, or the end of the list. */
static const char *end_of(const char *at, const char *end)
{
    int depth = 0;
    for (; at < end && (depth > 0 || *at != ','); at++)
        depth += (strchr("<([{", *at) != NULL) - (strchr(">)]}", *at) != NULL && at[-1] != '-');
    return at;
}

static int ends_with(const char *start, const char **end, const char *tail)
{
    size_t length = strlen(tail);
    if ((size_t)(*end - start) < length || memcmp(*end - length, tail, length) != 0)
        return 0;
    *end -= length;
    return 1;
}

/* Moves *end in front of what makes it a pointer. Returns 0 if it is none. */
static int is_pointer(const char *start, const char **end, int *is_to_const)
{
    ends_with(start, end, " __restrict");
    if (!ends_with(start, end, "*"))
        return 0;
    ends_with(start, end, " volatile");
    *is_to_const = ends_with(start, end, " const");
    return 1;
}

/* Finds argument `index`. Returns 0 if there is none, or if the list does not have `count` arguments. */
static int find_argument(const char *name, size_t count, size_t index, const char **start, const char **stop)
{
    size_t length = 0, found = 0;
    const char *at = name ? list_of(name, &length) : NULL;
    const char *end = at ? at + length : NULL;
    for (; at && at < end; found++) {
        const char *behind = end_of(at, end);
        if (found == index) {
            *start = at;
            *stop = behind;
        }
        at = behind < end ? behind + 1 : behind;
        at += at < end && *at == ' ';
    }
    return found == count && index < count;
}

int signature_is_const(const char *name, size_t count, size_t index)
{
    const char *start, *end;
    int is_to_const;
    return find_argument(name, count, index, &start, &end) && is_pointer(start, &end, &is_to_const) && is_to_const;
}

static int is_name(const char *start, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(start, name, length) == 0;
}

static enum value_type type_of(const char *start, size_t length)
{
    static const struct {
        const char *name;
        enum value_type type;
    } names[] = {
        {"float", VALUE_FLOAT32},
        {"double", VALUE_FLOAT64},
        {"__half", VALUE_FLOAT16},
        {"_Float16", VALUE_FLOAT16},
        {"c10::Half", VALUE_FLOAT16},
        {"cutlass::half_t", VALUE_FLOAT16},
        {"__nv_bfloat16", VALUE_BFLOAT16},
        {"c10::BFloat16", VALUE_BFLOAT16},
        {"cutlass::bfloat16_t", VALUE_BFLOAT16},
        {"__nv_fp8_e4m3", VALUE_FLOAT8_E4M3},
        {"__nv_fp8x2_e4m3", VALUE_FLOAT8_E4M3},
        {"__nv_fp8x4_e4m3", VALUE_FLOAT8_E4M3},
        {"c10::Float8_e4m3fn", VALUE_FLOAT8_E4M3},
        {"cutlass::float_e4m3_t", VALUE_FLOAT8_E4M3},
        {"__nv_fp8_e5m2", VALUE_FLOAT8_E5M2},
        {"__nv_fp8x2_e5m2", VALUE_FLOAT8_E5M2},
        {"__nv_fp8x4_e5m2", VALUE_FLOAT8_E5M2},
        {"c10::Float8_e5m2", VALUE_FLOAT8_E5M2},
        {"cutlass::float_e5m2_t", VALUE_FLOAT8_E5M2},
        {"char", VALUE_INT8},
        {"signed char", VALUE_INT8},
        {"unsigned char", VALUE_UINT8},
        {"bool", VALUE_UINT8},
        {"short", VALUE_INT16},
        {"unsigned short", VALUE_UINT16},
        {"int", VALUE_INT32},
        {"unsigned int", VALUE_UINT32},
        {"long", VALUE_INT64},
        {"long long", VALUE_INT64},
        {"unsigned long", VALUE_UINT64},
        {"unsigned long long", VALUE_UINT64},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_name(start, length, names[i].name))
            return names[i].type;
    return VALUE_TYPES;
}

enum value_type signature_elements(const char *name, size_t count, size_t index)
{
    const char *start, *end;
    int is_to_const;
    if (!find_argument(name, count, index, &start, &end) || !is_pointer(start, &end, &is_to_const))
        return VALUE_TYPES;
    if (!ends_with(start, &end, "_16a")) /* CUDA 13: double4_16a, double4_32a */
        ends_with(start, &end, "_32a");
    size_t length = (size_t)(end - start);
    if (length && end[-1] == '*') /* of pointers */
        return VALUE_UINT64;
    enum value_type type = type_of(start, length);
    if (type == VALUE_TYPES && length && end[-1] >= '1' && end[-1] <= '4') /* a vector: float2, __half2 */
        type = type_of(start, length - 1);
    return type;
}

enum value_type signature_scalar(const char *name, size_t count, size_t index)
{
    const char *start, *end;
    return find_argument(name, count, index, &start, &end) ? type_of(start, (size_t)(end - start)) : VALUE_TYPES;
}
