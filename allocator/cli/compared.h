/*
 * Two states of a buffer, element by element. Thread safety: any thread.
 */
#pragma once

#include "opened.h"

#include "analysis/values/value.h"

#include <stdint.h>

struct difference {
    const struct bundle_buffer *buffer;
    enum value_type type; /* of the elements; VALUE_UINT8 if it is unknown */
    uint64_t elements, different, first;
    char saved[32], now[32]; /* the first one that differs */
    double largest;          /* difference of two finite elements */
};

/* Where the bytes of a state are. */
struct compared {
    int file;
    uint64_t offset;
};

/* Of two states of the buffer that are equal so far. */
struct difference compared_begin(const struct bundle_buffer *buffer);

/* Counts the elements that differ. Returns 0 if one of the files cannot be read. */
int compared_files(struct difference *difference, struct compared saved, struct compared now);
