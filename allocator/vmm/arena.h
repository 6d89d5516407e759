/*
 * The arena: one reservation of address space for the whole process, cut into slots in order. A slot is a mapping and the
 * guard behind it; the guard of the slot before it (or the arena's own lead) lies in front. An address is not given out
 * again until the arena has wrapped round, and then the oldest slots without a mapping go first.
 *
 * It knows no buffers. `struct slot` is meant to be embedded as the first member of what its owner knows about the slot.
 *
 * Units: bytes, multiples of the granularity. The arena's lock is not held over driver calls; `visit` and `forget` run under
 * it and take no other.
 */
#ifndef CUFENCE_VMM_ARENA_H
#define CUFENCE_VMM_ARENA_H

#include "driver/driver.h"

struct slot {
    uint64_t base;   /* first byte of the mapping */
    uint64_t mapped; /* bytes of the mapping */
    uint64_t span;   /* mapped + guard */
    CUmemGenericAllocationHandle handle;
    int device;
    int is_mapped; /* written by the slot's owner thread through slot_map/slot_unmap, read under the arena's lock */
};

/*
 * Reserves `bytes`, halved until the driver agrees, down to 256 MiB.
 *   history   how many slots without a mapping are remembered; the oldest are forgotten beyond
 *   forget    called, with the arena's lock held, for a slot that the arena drops; its owner may free it. Must not call the
 *             arena
 * Errors: OUT_OF_ADDRESS_SPACE, DRIVER. Call once, or again after a failure.
 */
cufence_status arena_open(uint64_t bytes, uint64_t history, void (*forget)(struct slot *slot));

void arena_close(void); /* undoes arena_open(); no slot has been cut */

/* From now on `peer` has access to the memory of `device` too, also to what is mapped already. Some context is current. */
void arena_share(int device, int peer);
int arena_is_shared(int device, int peer);

uint64_t arena_start(void); /* 0 before arena_open(). The first guard's worth of it is never mapped */
uint64_t arena_end(void);
uint64_t arena_used(void); /* address space that slots have taken since the last wrap */

/* Gives `slot` address space for `mapped` bytes and a guard. The slot is in the arena's books from now on.
 * Errors: OUT_OF_ADDRESS_SPACE, OUT_OF_MEMORY (the host's). */
cufence_status slot_cut(struct slot *slot, int device, uint64_t mapped, uint64_t guard);

/* Maps physical memory into a cut slot and gives its device access, and those that it is shared with. The content is undefined.
 * Errors: OUT_OF_MEMORY, DRIVER; the slot may be tried again, or abandoned. */
cufence_status slot_map(struct slot *slot);

/* Gives up a slot that was cut and could not be mapped: it becomes one of the past. */
void slot_abandon(struct slot *slot);

/* Unmaps; an access faults from now on. No work on the device may use it any more: the driver does not wait.
 * The physical memory goes to the cache. The slot stays in the books as a slot of the past. */
void slot_unmap(struct slot *slot);

/* The first byte of the mapping that holds the address, 0 without one. */
uint64_t arena_base_of(uint64_t address);

/*
 * Calls visit, in no fixed order, for up to `reach` slots that begin at or below `address` and up to `reach`
 * above it, with the arena's lock held, so that the slots stay. [gap_start, slot->base) is the unmapped address space in front.
 */
void arena_visit(uint64_t address, size_t reach, void (*visit)(struct slot *slot, uint64_t gap_start, void *user), void *user);

/* Calls visit for every slot in the books, newest first, with the arena's lock held, until it returns nonzero. */
void arena_each(int (*visit)(struct slot *slot, void *user), void *user);

#endif
