/*
 * An arena: pieces are allocated one by one and released all at once. It grows with the data put in, never with the sizes that
 * a file claims.
 * Units: bytes. Ownership: scratch_free() releases every piece. Thread safety: none; one thread per scratch.
 */
#ifndef CUFENCE_ANALYSIS_DUMP_SCRATCH_H
#define CUFENCE_ANALYSIS_DUMP_SCRATCH_H

#include <stddef.h>

struct scratch_block;

struct scratch {
    struct scratch_block *last; /* NULL if empty */
};

/* Returns zeroed memory, aligned for any type; NULL if out of host memory. */
void *scratch_take(struct scratch *scratch, size_t size);

/* Returns a copy of `text`; NULL if out of host memory, or if text is NULL. */
const char *scratch_text(struct scratch *scratch, const char *text);

void scratch_free(struct scratch *scratch);

#endif
