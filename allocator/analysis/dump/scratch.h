/*
 * Memory that is taken piece by piece and given back all at once. It grows with what is put in, never with what a file claims.
 * Units: bytes. Ownership: scratch_free() releases every piece. Not thread-safe: one scratch belongs to one thread.
 */
#ifndef CUFENCE_ANALYSIS_DUMP_SCRATCH_H
#define CUFENCE_ANALYSIS_DUMP_SCRATCH_H

#include <stddef.h>

struct scratch_block;

struct scratch {
    struct scratch_block *last; /* NULL: empty */
};

/* Zeroed memory, aligned for any type; NULL when the host has none. */
void *scratch_take(struct scratch *scratch, size_t size);

/* A copy of `text`; NULL when the host has no memory, or for NULL. */
const char *scratch_text(struct scratch *scratch, const char *text);

void scratch_free(struct scratch *scratch);

#endif
