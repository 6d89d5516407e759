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
    enum value_type type = value_named(start, length);
    if (type == VALUE_TYPES && length && end[-1] >= '1' && end[-1] <= '4') /* a vector: float2, __half2 */
        type = value_named(start, length - 1);
    return type;
}

int signature_is(const char *name, size_t count, size_t index, const char *type)
{
    const char *start, *end;
    return find_argument(name, count, index, &start, &end) && ends_with(start, &end, type) && start == end;
}

enum value_type signature_scalar(const char *name, size_t count, size_t index)
{
    const char *start, *end;
    return find_argument(name, count, index, &start, &end) ? value_named(start, (size_t)(end - start)) : VALUE_TYPES;
}
