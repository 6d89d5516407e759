/*
 * What a program's buffers would take if they were guarded: follows its allocations and frees, and counts whole pages for each
 * of several sets of options at once. Pure: no driver, no threads, no globals.
 *
 *   native     the sum of the live buffers, in units of 512 bytes, as drivers and frameworks allocate
 *   guarded    the sum of the mappings of the live guarded buffers: pages(size) = ceil(size / granularity), or up to `waste`
 *              percent more where a freed mapping is reused; and the others, as native
 *   kept       the same and what is freed, which stays mapped for reuse until memory runs out
 *   packed     small buffers lie in cells of shared pages (cells.h), except those whose turn it is. Pages of a class:
 *              ceil(live cells / cells in a page), as if the cells of freed buffers were filled up first
 *
 * The order of streams is left out: every freed mapping counts as reusable at once. Memory: ESTIMATE_BINS * 4 bytes for each
 * set of options.
 */
#pragma once

#include "cells.h"

#include <stddef.h>
#include <stdint.h>

#define ESTIMATE_WAYS 10u
#define ESTIMATE_CELL (UINT32_C(1) << 31)
#define ESTIMATE_BINS 65536u /* pages of the largest mapping that is counted as reusable: 128 GiB */

/* small=map, auto with uaf=strict, auto, pack */
enum estimate_small { ESTIMATE_MAP, ESTIMATE_LATE, ESTIMATE_AUTO, ESTIMATE_PACK };

/* The options that say what is guarded, and what shares pages. */
struct estimate_options {
    uint64_t min_size;    /* bytes; 0: all */
    uint64_t sample;      /* one allocation in this many; 0 or 1: all */
    uint64_t max_guarded; /* bytes; 0: no limit */
    enum estimate_small small;
    uint64_t alone_most; /* LATE, AUTO: with more bytes in pages of small buffers all but a few are packed ... */
    uint64_t taken_most; /* ... and with more in all pages */
    uint64_t align;      /* of buffers; a power of two or 0 */
};

struct estimate_way {
    struct estimate_options options;
    uint64_t guarded;              /* bytes of the mappings of live guarded buffers */
    uint64_t unguarded;            /* bytes of the other live buffers */
    uint64_t idle;                 /* bytes of freed mappings */
    uint64_t peak;                 /* the most of guarded + unguarded */
    uint64_t kept_peak;            /* the most of guarded + unguarded + idle */
    uint64_t count;                /* allocations that are guarded */
    struct cells_turns turns;      /* from now on; 0: nothing is packed */
    uint64_t packed;               /* small allocations since then, but for those whose turn waits for a page */
    uint64_t shared;               /* bytes of shared pages with live buffers; part of guarded */
    uint64_t alone;                /* bytes of pages that have one small buffer; part of guarded */
    uint64_t cells[CELLS_CLASSES]; /* live ones */
    uint32_t *bins;                /* freed mappings by pages */
};

struct estimate {
    uint64_t granularity; /* bytes of a page */
    unsigned waste;       /* percent */
    uint64_t native, native_peak;
    uint64_t allocations, live, live_peak;
    uint64_t small, small_peak; /* live buffers that fill less than an eighth of a page */
    struct estimate_way ways[ESTIMATE_WAYS];
    size_t way_count;
};

/* A live buffer. The caller keeps it until its free. */
struct estimate_buffer {
    uint64_t size;
    uint32_t pages[ESTIMATE_WAYS]; /* of its mapping; 0: not guarded; ESTIMATE_CELL and a class: it shares a page */
};

/* Begins with nothing allocated. count <= ESTIMATE_WAYS. Returns 0 if out of host memory; then nothing is left to close. */
int estimate_open(struct estimate *estimate, uint64_t granularity, unsigned waste, const struct estimate_options *ways,
                  size_t count);
void estimate_close(struct estimate *estimate);

/* The program has allocated, or freed, a buffer. size > 0. */
struct estimate_buffer estimate_allocated(struct estimate *estimate, uint64_t size);
void estimate_freed(struct estimate *estimate, const struct estimate_buffer *buffer);
