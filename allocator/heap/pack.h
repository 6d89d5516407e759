/* Part of internal.h, which includes this: small buffers that share pages (small=pack, small=auto). */
#ifndef CUFENCE_HEAP_PACK_H
#define CUFENCE_HEAP_PACK_H

#include "guard/cells.h"

struct books;
struct freelist;

/*
 * A packed page is a held block whose mapping is cut into cells (guard/cells.h). Each cell is a block too: its slot is a piece
 * of the page's, so it is freed, reused, waited for, watched and described as any other block, and no part of that knows more
 * about it than block_is_cell(). What differs: it lies in a bin of its class, its redzones are watched also with slack=off, it
 * is never retired (only a page can be unmapped), and where others are unmapped it is given back to its page, which is unmapped
 * with its last cell.
 *
 * A new page is filled with the pattern first. Its cells then lie in the free list on whose stream that was done, as if they
 * had been freed there; those of the shared list are in the page until the pattern is there. A cell that is in its page is held
 * by it, and nobody uses it.
 */
struct page {
    struct block *block;
    struct cells cells;
    struct page *prev, *next;   /* pages of the class that have cells in them; under RANK_PACK, like everything to is_written */
    struct block *cells_inside; /* linked by `next` */
    uint32_t inside;            /* their number */
    int is_listed;
    int is_written;       /* the pattern was there, or in the order of the cells' list */
    struct block *blocks; /* the cells.count cells */
    uint64_t entries[];   /* of the index, for each cell */
};

/* block.pages of a cell: this, plus its class. No mapping is as large. */
#define CELL_PAGES (1u << 21)

static inline int block_is_cell(const struct block *block)
{
    return block->pages >= CELL_PAGES;
}

/* ---- pack.c: pages and their cells ---- */

/*
 * All in a scope, except pack_count() and blocks_each().
 *
 * pack_may_cut(): whether the pattern of a new page could be written for the list now.
 */
int pack_may_cut(struct freelist *list);
/* Takes a cell that is in a page. If its pattern is still being written, waits for that, but not for long: the device may be
 * busy with work that waits for this thread. NULL: there is none, or (*is_pending) that took too long. */
struct block *pack_take(struct books *books, const struct cells *cells, int *is_pending);
/* Cuts the mapping of a held block into cells, and returns one. NULL: its pattern cannot be written now; the page is unmapped,
 * or kept for a later allocation. */
struct block *pack_cut(struct freelist *list, const struct cells *cells, struct block *block);
void pack_give_back(struct block *cell);         /* a held one, which nobody uses; instead of unmapping it */
void pack_trim(struct books *books);             /* unmaps the pages whose cells are all in them */
void pack_context_gone(struct books *books);     /* the context was destroyed */
void pack_count(struct block *cell, int change); /* a buffer in it was allocated (1) or freed (-1) */

/* As arena_each(), with the cells of packed pages instead of the pages. */
void blocks_each(int (*visit)(struct slot *slot, void *user), void *user);

/* ---- packing.c: what is packed ---- */

/* Whether a buffer could be a cell: it is small, of the context's own device, and no stream captures. align: of its layout. */
int packing_may(const struct freelist *list, const struct heap_request *wanted, uint64_t align, struct cells *out);
/* Whether an allocation is to be one, once packing has begun: unless its place of allocation is due to meet the hardware.
 * label: of its facts. */
int packing_wants(struct freelist *list, const struct heap_request *wanted, uint64_t align, uint64_t label, struct cells *out);
int packing_is_due(struct books *books); /* small=auto: with one more, the pages for small buffers exceed max_overhead */
enum packing_why { PACKING_SHARE, PACKING_SCARCE, PACKING_SPACE };
void packing_begin(struct books *books, enum packing_why why); /* and says so */

#endif
