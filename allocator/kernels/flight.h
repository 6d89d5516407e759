/*
 * The engine for kernels of ours on a stream of the program's. Its users are the slack watch with poison (heap/slack/watch.h: a
 * batch is a flight of the pattern's kernel) and visits to launches (inspect/visits/: a job is a flight of its users' kernels
 * and of the mark behind them).
 *
 *   1. A flight begins: its words, in host memory that the device writes, are set to 0, and the kernels are launched.
 *   2. Each part of the work sets its word when it is done, behind what it has found.
 *   3. Whoever comes by asks whether the flight is over, takes its results, and ends it.
 *
 * The program never waits for a flight. Nobody asks the driver whether it is over, and nothing is submitted to a stream that is
 * capturing.
 *
 * Of a flight that is never over, because its context has ended or a kernel has faulted, the memory must not be used again
 * before the context has ended. A struct flight serves one flight after the other; `turn` tells which.
 *
 * Thread safety: the caller serialises.
 */
#pragma once

#include "kernels.h"

struct flight {
    struct stream_ref on;  /* where it is, or was */
    uint64_t turn;         /* counts the flights */
    const uint32_t *words; /* of its parts; 0: not done yet */
    unsigned count, over;  /* parts; those that are known to be done */
    int is_begun;          /* until flight_end() */
};

/* Begins a flight of `count` parts: clears their words. The kernels are launched after it, or it is ended at once. */
void flight_begin(struct flight *flight, struct stream *stream, uint32_t *words, unsigned count);

/* Whether all parts are done, and the results there. Of one that was not begun, or has ended: yes. */
int flight_is_over(struct flight *flight);

/* The results are collected, or nobody will: the context has ended, or the driver has refused the launch. */
void flight_end(struct flight *flight);

/* A kernel whose only work is to set the first word, for a flight of one part: everything on the stream so far. Loads it into
 * the current context; returns 0 if the driver refuses it. */
int flight_load_mark(CUfunction *mark);
/* Begins such a flight, and launches the kernel. handle: the stream, as the calling thread names it. words: two of them. On an
 * error the flight has ended. */
CUresult flight_mark(struct flight *flight, CUfunction mark, struct stream *stream, CUstream handle, uint32_t *words);

/* ---- results.c: pinned host memory for what our kernels find out, in pieces. Kernels write it at its own address. Each
 * context has its own, allocated in slabs as needed, up to a limit; it ends with the context. ---- */

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
