/*
 * Cells: a page that small buffers share is cut into cells of one size, one for each buffer. Pure, like layout.h.
 *
 *   cell:  | redzone, at least 256 bytes | buffer | redzone, at least 256 bytes |
 *
 * Sizes come in classes: the number of cells in a page is at most 15, or has three bits behind its first one, so that a cell is
 * at most an eighth larger than its buffer and its redzones need. The bytes that the division leaves over belong to the first
 * cell. Units: bytes.
 */
#pragma once

#include "layout.h"

#define CELLS_REDZONE 256u           /* on each side of a buffer, the least */
#define CELLS_UNIT 512u              /* cells begin at multiples of it. PyTorch relies on no larger alignment */
#define CELLS_SIZE_MOST (512u << 10) /* of a buffer: three of them share a page of 2 MiB */
#define CELLS_LEAST 3u               /* in a page: with fewer, little is saved */
#define CELLS_CLASSES 128u

struct cells {
    uint32_t class;    /* below CELLS_CLASSES */
    uint32_t count;    /* in a page */
    uint64_t bytes;    /* of a cell, a multiple of CELLS_UNIT */
    uint64_t leftover; /* bytes of the page in front of the cells */
};

/* One in so many of a place's allocations that could be cells has a page of its own, flush with its guard, as long as these
 * pages are no more than `least`, or that part of the mappings beside which they are counted. */
struct cells_turns {
    uint32_t round;
    uint32_t least; /* pages */
    uint32_t part;  /* one in so many bytes */
};
#define CELLS_HALF ((struct cells_turns){2, 64, 16}) /* small=auto while there is room, beside all mappings */
#define CELLS_ALL ((struct cells_turns){16, 4, 8})   /* otherwise, beside the shared pages */

/* Whether one more page of `page` bytes may be for one small buffer, if `alone` bytes are, beside `mapped` bytes. */
int cells_may_be_alone(struct cells_turns turns, uint64_t page, uint64_t alone, uint64_t mapped);

/* Chooses the cells for a buffer in a page of `page` bytes. `align`: a power of two. Returns 0 if it needs a page of its own:
 * because of its size (0, or above CELLS_SIZE_MOST), its alignment (above CELLS_UNIT), or a page that is too small. */
int cells_for(uint64_t page, uint64_t size, uint64_t align, struct cells *out);

uint64_t cells_bytes(uint64_t page, uint32_t class);

/* Returns the offset of a buffer in a cell of `bytes` bytes, of the class that cells_for() has chosen or with a leftover. */
uint64_t cells_offset(uint64_t bytes, uint64_t size, uint64_t align, enum layout_side side);

/* Returns the number of the cell that contains the byte at `offset` of the page. */
uint32_t cells_at(const struct cells *cells, uint64_t offset);
