/*
 * Address space for blocks, and the index of live ones by address.
 */
#pragma once

#include "block.h"

/* address_space.c: address space for blocks, and the index of its pages */
cufence_status space_open(void); /* with a limit, space_need() does it */
void space_close(void);          /* undoes it, only while empty */
cufence_status
space_need(void); /* call before the first block is mapped. Errors: OUT_OF_ADDRESS_SPACE, OUT_OF_MEMORY, DRIVER */

/* index.c: finds live buffers by their first byte or by any address in them */
/* marks_freed: for heap_looks_freed() */
cufence_status index_open(int marks_freed);
void index_close(void);              /* undoes index_open(); only while empty */
void index_add(struct block *block); /* a held one, which becomes live */
struct block *index_find(uint64_t address);
struct block *index_holding(uint64_t address); /* the live buffer that begins closest at or below the address, or NULL */
void index_pack(struct page *page);            /* from now on its cells have entries of their own */
void index_unpack(struct page *page);          /* no cell of it is live */
int index_is_packed(uint64_t address);         /* in a page with such cells */
void index_unmark(uint64_t address);           /* where heap_looks_freed() was wrong */
/* address: in the arena. NULL: no live buffer starts there; else the caller now holds the block. */
struct block *index_claim(uint64_t address);

/* Calls visit for every slot of the arena, under its lock, until visit returns nonzero; of packed pages for their cells
 * instead.
 */
void blocks_each(int (*visit)(struct slot *slot, void *user), void *user);
