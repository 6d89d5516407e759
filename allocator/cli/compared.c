/* Two states of a buffer, element by element. */
#include "compared.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT_ONCE ((size_t)1 << 20) /* a multiple of every element's size */

struct difference compared_begin(const struct bundle_buffer *buffer)
{
    struct difference difference = {.buffer = buffer, .type = VALUE_UINT8};
    for (int type = 0; type < VALUE_TYPES; type++)
        if (!strcmp(value_names[(enum value_type)type], buffer->type))
            difference.type = (enum value_type)type;
    uint64_t width = value_width(difference.type);
    difference.elements = (buffer->size + width - 1) / width;
    return difference;
}

static void print_value(enum value_type type, const uint8_t *at, char out[32])
{
    uint64_t bits = value_bits(type, at);
    if (type == VALUE_WORD)
        snprintf(out, 32, "0x%08" PRIx64 " (%.9g)", bits, value_of_bits(type, bits));
    else if (value_is_float(type))
        snprintf(out, 32, "%.*g", type == VALUE_FLOAT64 ? 17 : 9, value_of_bits(type, bits));
    else if (value_is_signed(type))
        snprintf(out, 32, "%" PRId64, value_of_integer(type, bits));
    else
        snprintf(out, 32, "%" PRIu64, bits);
}

/* An element of which bytes differ. */
static void enter(struct difference *difference, enum value_type type, const uint8_t *saved, const uint8_t *now, uint64_t index)
{
    double apart = fabs(value_of_bits(type, value_bits(type, now)) - value_of_bits(type, value_bits(type, saved)));
    if (!difference->different++) {
        difference->first = index;
        print_value(type, saved, difference->saved);
        print_value(type, now, difference->now);
    }
    if (isfinite(apart) && apart > difference->largest)
        difference->largest = apart;
}

/* Bytes that differ as the two fills do. */
static int is_fresh(const uint8_t *zeros, const uint8_t *others, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (zeros[i] != others[i] && !is_fresh_byte(zeros[i], others[i]))
            return 0;
    return 1;
}

/* The last bytes may be no whole element: they are compared as bytes, and count as one. */
static void compare_part(struct difference *difference, const uint8_t *saved, const uint8_t *now, size_t size, uint64_t index,
                         int has_two_fills)
{
    enum value_type type = difference->type;
    size_t width = value_width(type);
    if (!memcmp(saved, now, size))
        return;
    for (size_t at = 0; at < size; at += width, index++) {
        size_t bytes = size - at < width ? size - at : width;
        if (memcmp(saved + at, now + at, bytes) != 0 && !(has_two_fills && is_fresh(saved + at, now + at, bytes)))
            enter(difference, bytes == width ? type : VALUE_UINT8, saved + at, now + at, index);
    }
}

int compared_files(struct difference *difference, struct compared saved, struct compared now, int has_two_fills)
{
    uint8_t *parts = malloc(2 * AT_ONCE);
    uint64_t at = 0, size = difference->buffer->size, width = value_width(difference->type);
    while (parts && at < size) {
        size_t bytes = size - at < AT_ONCE ? (size_t)(size - at) : AT_ONCE;
        if (pread(saved.file, parts, bytes, (off_t)(saved.offset + at)) != (ssize_t)bytes ||
            pread(now.file, parts + AT_ONCE, bytes, (off_t)(now.offset + at)) != (ssize_t)bytes)
            break;
        compare_part(difference, parts, parts + AT_ONCE, bytes, at / width, has_two_fills);
        at += bytes;
    }
    free(parts);
    return at == size;
}
