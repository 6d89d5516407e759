/*
 * Layout arithmetic: computes pages, the buffer's offset in them and the slack from size, alignment and side. Pure: no driver,
 * no state, no allocation. All sizes are checked for overflow here and nowhere else.
 *
 *   mapping:  | head slack | buffer | tail slack | guard (unmapped)
 *
 * side end:   the buffer's aligned end is the end of the mapping; tail slack = round_up(size, align) - size < align
 * side start: the buffer begins at the start of the mapping; head slack is 0
 */
#pragma once

#include "base/error.h"

#include <cufence.h>

enum layout_side { LAYOUT_END, LAYOUT_START };

struct layout_request {
    uint64_t size;  /* bytes; 0 is an error */
    uint64_t align; /* a power of two up to the granularity, or 0: the largest power of two that divides size, at most 512 */
    enum layout_side side;
    uint64_t granularity; /* of physical allocations, a power of two: 2 MiB on all hardware so far */
    uint64_t guard_min;   /* bytes */
    uint64_t guard_max;   /* bytes, at least guard_min */
};

struct layout {
    uint64_t align;  /* the alignment used */
    uint64_t mapped; /* bytes of the mapping: a multiple of the granularity */
    uint64_t pages;  /* mapped / granularity */
    uint64_t offset; /* offset of the buffer in the mapping */
    uint64_t guard;  /* bytes, a multiple of the granularity: max(guard_min, min(mapped, guard_max)) rounded up */
    uint64_t span;   /* mapped + guard: the address space taken */
};

/* Errors: INVALID_ARGUMENT (size 0, alignment or granularity not a power of two, guard_max < guard_min), OVERFLOW (the span
 * does not fit into 64 bits). *layout is unchanged on error. */
cufence_status layout_compute(const struct layout_request *request, struct layout *layout, struct problem *problem);

/* Returns the offset of a buffer of `size` bytes in a mapping of `mapped` bytes, which may be larger than layout_compute()
 * would choose. The caller has checked that the buffer fits. `align` as in struct layout. */
uint64_t layout_offset(uint64_t mapped, uint64_t size, uint64_t align, enum layout_side side);

/* The bytes in front of a buffer and behind it that are watched: within its mapping, at most LAYOUT_WATCHED on each side.
 * `offset` is the buffer's in the mapping. */
#define LAYOUT_WATCHED 4096
struct layout_slack {
    uint64_t head, tail;
};
struct layout_slack layout_slack(uint64_t mapped, uint64_t offset, uint64_t size);

/* Returns the alignment for align=auto: the largest power of two that divides size, at most 512; 1 for odd sizes. size > 0. */
uint64_t layout_auto_align(uint64_t size);

/* Locates `address` relative to a buffer [start, start + size). Returns INSIDE, PAST_END or BEFORE_START, and stores the
 * distance, as cufence_place defines it, in *offset. */
cufence_place layout_classify(uint64_t address, uint64_t start, uint64_t size, uint64_t *offset);
