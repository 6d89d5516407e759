/*
 * Figures of a buffer's bytes: minimum, maximum, mean, and the numbers of zeros, NaN and infinities, for each type that its
 * elements may have. Pure functions; any thread, one at a time for a count.
 */
#pragma once

#include "value.h"

struct type_figures {
    double min, max, mean; /* of the finite values; 0 if there is none */
    uint64_t finite;       /* number of these, zeros included */
    uint64_t zeros, nans, infinities;
};

struct figures {
    uint64_t address, bytes; /* what they are about */
    uint64_t seen;           /* number of bytes that were looked at: fewer in a large buffer */
    uint8_t first[32];       /* the first bytes, as many as there are */
    struct type_figures types[VALUE_COUNTED];
};

/* Counting: begin, add the bytes piece by piece, end. All pieces but the last have a multiple of 8 bytes. */
struct figures_count;
struct figures_count *figures_begin(void); /* NULL if out of host memory */
void figures_add(struct figures_count *count, const uint8_t *bytes, size_t size);

/* Fills in `seen`, `first` and `types`, and frees the count. */
void figures_end(struct figures_count *count, struct figures *figures);

/* Those of a type that is counted, or of words. */
const struct type_figures *figures_for(const struct figures *figures, enum value_type type);
