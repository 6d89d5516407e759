#include "bundle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[6] = "\x93NUMPY";
enum { PREFIX = 10 }; /* magic, version, 16 bits of length */

int npy_has(enum value_type type)
{
    return type != VALUE_BFLOAT16 && type != VALUE_FLOAT8_E4M3 && type != VALUE_FLOAT8_E5M2;
}

static char letter_of(enum value_type type)
{
    if (value_is_float(type) && npy_has(type))
        return 'f';
    return value_is_signed(type) ? 'i' : 'u';
}

void npy_write(enum value_type type, uint64_t count, char header[NPY_HEADER])
{
    char text[NPY_HEADER];
    size_t width = value_width(type);
    int length = snprintf(text, sizeof text, "{'descr': '%c%c%zu', 'fortran_order': False, 'shape': (%" PRIu64 ",), }",
                          width == 1 ? '|' : '<', letter_of(type), width, count);
    memset(header, ' ', NPY_HEADER);
    memcpy(header, magic, sizeof magic);
    header[6] = 1; /* version 1.0 */
    header[7] = 0;
    header[8] = NPY_HEADER - PREFIX;
    header[9] = 0;
    memcpy(header + PREFIX, text, (size_t)length);
    header[NPY_HEADER - 1] = '\n';
}

/* Finds the text of the header. Returns 0 if it is not there. */
static int find_text(const uint8_t *at, size_t size, uint64_t *begin, uint64_t *length)
{
    if (size < PREFIX || memcmp(at, magic, sizeof magic) != 0 || at[6] < 1 || at[6] > 3)
        return 0;
    *begin = at[6] == 1 ? PREFIX : PREFIX + 2;
    *length = (uint64_t)at[8] | (uint64_t)at[9] << 8;
    if (at[6] > 1) {
        if (size < PREFIX + 2)
            return 0;
        *length |= (uint64_t)at[10] << 16 | (uint64_t)at[11] << 24;
    }
    return *length < NPY_MOST && *length <= size - *begin;
}

/* Returns the text behind `'key':` and blanks, NULL if there is none. */
static const char *value_of(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    at = at ? at + strlen(key) : NULL;
    return at && *at == ':' ? at + 1 + strspn(at + 1, " ") : NULL;
}

/* The size of an element: '<f4', '|u1', '<c16', '|V2'. Returns 0 for others. */
static uint64_t element_bytes(const char *text)
{
    const char *at = text ? value_of(text, "'descr'") : NULL;
    if (!at || *at++ != '\'' || !*at || !strchr("<>=|", *at++) || !*at || !strchr("biufcV", *at++))
        return 0;
    char *end;
    uint64_t bytes = *at >= '1' && *at <= '9' ? strtoull(at, &end, 10) : 0;
    return bytes && bytes <= 4096 && *end == '\'' ? bytes : 0;
}

/* Multiplies *bytes by the numbers of "(2, 3)". Returns 0 if that is no such list, or the product too large. */
static int multiply(const char *text, uint64_t *bytes)
{
    const char *at = value_of(text, "'shape'");
    if (!at || *at++ != '(')
        return 0;
    for (at += strspn(at, " "); *at >= '0' && *at <= '9'; at += strspn(at, ", ")) {
        char *end;
        uint64_t count = strtoull(at, &end, 10);
        if (count > INT64_MAX || (count && *bytes > (uint64_t)INT64_MAX / count))
            return 0;
        *bytes *= count;
        at = end;
    }
    return *at == ')';
}

cufence_status npy_read(const void *start, size_t size, uint64_t *offset, uint64_t *bytes, struct problem *problem)
{
    uint64_t begin, length;
    if (!find_text(start, size, &begin, &length))
        return problem_set(problem, CUFENCE_ERROR_CORRUPT, "it is not a .npy file");
    char *text = malloc(length + 1);
    if (!text)
        return problem_set(problem, CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory");
    memcpy(text, (const char *)start + begin, length);
    text[length] = '\0';
    *offset = begin + length;
    const char *descr = value_of(text, "'descr'"), *order = value_of(text, "'fortran_order'");
    int is_swapped = descr && !strncmp(descr, "'>", 2), is_fortran = !order || strncmp(order, "False", 5) != 0;
    *bytes = element_bytes(text);
    int is_known = *bytes != 0, is_ok = is_known && multiply(text, bytes);
    free(text);
    if (!is_known)
        return problem_set(problem, CUFENCE_ERROR_UNSUPPORTED, "its elements are not plain numbers");
    if (is_swapped)
        return problem_set(problem, CUFENCE_ERROR_UNSUPPORTED,
                           "its numbers are big-endian; save array.astype(array.dtype.newbyteorder('<')) instead");
    if (is_fortran)
        return problem_set(problem, CUFENCE_ERROR_UNSUPPORTED,
                           "its elements are in Fortran's order; save numpy.ascontiguousarray(array) instead");
    return is_ok ? CUFENCE_OK : problem_set(problem, CUFENCE_ERROR_CORRUPT, "its header is damaged");
}
