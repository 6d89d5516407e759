/*
 * Small buffers that share pages (small=pack, small=auto).
 */
#pragma once

#include "heap/reuse/reuse.h"

/* ---- pages and their cells ---- */

/*
 * All in a scope, except pack_count().
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
/* Unmaps a held block that nobody uses, with its twins; a cell goes back to its page instead. The other: a list of them. */
void block_release(struct block *block);
void blocks_release(struct block *first);
void pack_trim(struct books *books);             /* unmaps the pages whose cells are all in them */
void pack_context_gone(struct books *books);     /* the context was destroyed */
void pack_count(struct block *cell, int change); /* a buffer in it was allocated (1) or freed (-1) */

/* ---- what is packed ---- */

/* Whether a buffer could be a cell: it is small, of the context's own device, and no stream captures. align: of its layout. */
int packing_may(const struct freelist *list, const struct heap_request *wanted, uint64_t align, struct cells *out);
/* Whether an allocation is to be one, once packing has begun: unless its place of allocation is due to meet the hardware.
 * label: of its facts. */
int packing_wants(struct freelist *list, const struct heap_request *wanted, uint64_t align, uint64_t label, struct cells *out);
/* small=auto, unless uaf=strict is to retire everything: begins to pack every second one if the pages for small buffers, with
 * one more, exceed their part of all that is mapped (CELLS_HALF). Returns whether it has begun just now. */
int packing_begin_half(struct books *books);
int packing_is_due(struct books *books); /* small=auto: with one more, the pages for small buffers exceed max_overhead */
enum packing_why { PACKING_SHARE, PACKING_SCARCE, PACKING_SPACE };
void packing_begin(struct books *books, enum packing_why why); /* and says so */
