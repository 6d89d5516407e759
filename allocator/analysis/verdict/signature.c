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

static int is_pointer_to_const(const char *start, const char *end)
{
    ends_with(start, &end, " __restrict");
    if (!ends_with(start, &end, "*"))
        return 0;
    ends_with(start, &end, " volatile");
    return ends_with(start, &end, " const");
}

int signature_is_const(const char *name, size_t count, size_t index)
{
    size_t length = 0, found = 0;
    int is_const = 0;
    const char *at = name ? list_of(name, &length) : NULL;
    const char *end = at ? at + length : NULL;
    for (; at && at < end; found++) {
        const char *stop = end_of(at, end);
        if (found == index)
            is_const = is_pointer_to_const(at, stop);
        at = stop < end ? stop + 1 : stop;
        at += at < end && *at == ' ';
    }
    return found == count && is_const;
}
