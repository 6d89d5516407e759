/*
 * Pinned host memory for what our kernels find out, in pieces. Kernels write it at its own address. Each context has its own,
 * allocated in slabs as needed, up to a limit; it ends with the context.
 *
 * Thread safety: one thread at a time for a struct results; the caller locks.
 */
#ifndef CUFENCE_KERNELS_RESULTS_H
#define CUFENCE_KERNELS_RESULTS_H

#include <stddef.h>
#include <stdint.h>

struct results {
    struct results_piece *pieces; /* of all slabs, by slab and address */
    struct results_piece *rover;  /* where the search for a free one begins; NULL: at the first */
    size_t bytes, limit;          /* allocated, and the most that may be */
    size_t free;                  /* of those */
};

/* Returns a zeroed piece of at least `size` bytes, aligned to 64; NULL if the limit or the host's memory is reached. In
 * constant time if pieces are given back in the order in which they were taken. The context is current, the thread's capture
 * mode relaxed. */
uint8_t *results_take(struct results *results, size_t size);

void results_give(struct results *results, uint8_t *memory);

/* Whether a piece of that size can ever be had. */
int results_fits(const struct results *results, size_t size);

/* The context ends, and the memory with it. */
void results_forget(struct results *results);

#endif
