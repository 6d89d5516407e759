/*
 * The arena: one reservation of address space for the whole process, cut into slots in ascending order. A slot is a mapping and
 * the guard behind it. In front of it is the previous slot's guard, or the unmapped lead at the start of the arena. An address
 * is reused only after the arena has wrapped around; then the oldest slots without a mapping go first.
 *
 * The arena knows nothing about buffers. Embed `struct slot` as the first member of the owner's struct.
 *
 * Units: bytes, multiples of the granularity. The arena lock is not held across driver calls. `visit` and `forget` run under it
 * and must not take other locks.
 */
#pragma once

#include "driver/driver.h"

struct slot {
    uint64_t base;   /* first byte of the mapping */
    uint64_t mapped; /* bytes of the mapping */
    uint64_t span;   /* mapped + guard */
    uint64_t lead;   /* bytes in front of `base` that stay unmapped, beside the guard of the slot before it */
    CUmemGenericAllocationHandle handle;
    int device;
    int is_second; /* its physical memory is another slot's: unmapping it does not give that up */
    int is_mapped; /* written by the owner thread through slot_map/slot_unmap, read under the arena lock */
};

/* Where a slot lies and on which device: what another thread than its owner may read, under the arena lock. */
static inline struct slot slot_described(const struct slot *slot)
{
    return (struct slot){
        .base = slot->base, .mapped = slot->mapped, .span = slot->span, .device = slot->device, .is_mapped = slot->is_mapped};
}

/*
 * Reserves `bytes` of address space, or half as much until the driver succeeds, down to 64 MiB.
 *   history   how many slots without a mapping to remember; beyond that the oldest are dropped
 *   forget    called under the arena lock for each slot that the arena drops. The owner may free it. Must not call the arena
 * Errors: OUT_OF_ADDRESS_SPACE, DRIVER. Call once; may be retried after a failure.
 */
cufence_status arena_open(uint64_t bytes, uint64_t history, void (*forget)(struct slot *slot));

void arena_close(void); /* undoes arena_open(); only before the first slot_cut() */

/* Gives `peer` access to all memory of `device`, present and future. Any context must be current. */
void arena_share(int device, int peer);
int arena_is_shared(int device, int peer);

uint64_t arena_start(void); /* 0 before arena_open(). The lead at its start is never mapped */
uint64_t arena_end(void);
int arena_contains(uint64_t address); /* also while another thread opens it */
uint64_t arena_used(void);            /* address space taken since the last wrap */
/* Whether most of the address space would be free if each mapped slot took `span` bytes. With `ulimit -v` it often is not. */
int arena_is_roomy(uint64_t span);
int arena_is_scarce(void); /* less than a quarter of it is free */

/* Assigns address space for `mapped` bytes and a guard to `slot`, and registers it in the arena. The guard is smaller where it
 * would take too much of what is free, but at least 2 MiB: slot->span tells. From 2 GiB on, where a 32-bit index can wrap, up
 * to 16 GiB on both sides are unmapped, if there is room. Errors: OUT_OF_ADDRESS_SPACE, OUT_OF_MEMORY (the host's). */
cufence_status slot_cut(struct slot *slot, int device, uint64_t mapped, uint64_t guard);

/* Maps physical memory into a cut slot and gives access to its device and that device's peers. The content is undefined.
 * Errors: OUT_OF_MEMORY, DRIVER; then retry or call slot_abandon(). */
cufence_status slot_map(struct slot *slot);

/* Maps the physical memory of a mapped slot of the same size and device also into a cut slot, for the same devices. The caller
 * keeps `of` mapped meanwhile. Errors: DRIVER; then call slot_abandon(). */
cufence_status slot_map_second(struct slot *slot, const struct slot *of);

/* `to` was mapped with slot_map_second() from `from`: from now on it owns the physical memory, and `from` is the second. */
void slot_hand_over(struct slot *from, struct slot *to);

/* Gives up a slot that was cut but could not be mapped. It becomes a past slot. */
void slot_abandon(struct slot *slot);

/* Unmaps the slot; accesses fault from now on. The caller makes sure that no work on the device still uses it: the driver does
 * not wait. The physical memory goes to the cache, unless another slot owns it. The slot stays registered as a past slot. */
void slot_unmap(struct slot *slot);

/* Returns the start of the mapping that contains the address, 0 if there is none. */
uint64_t arena_base_of(uint64_t address);

/* Memory that can be mapped by another process. */
struct slot_export {
    uint64_t base, mapped; /* as in struct slot */
    int device;
    int fd; /* a POSIX descriptor of the physical memory, for cuMemImportFromShareableHandle(); the caller closes it */
};

/* Exports the mapping that contains the address. The memory lives at least as long as the descriptor, even if its slot is
 * unmapped; it may then serve another slot. Takes 40 us while any such descriptor is open, else 0.6 ms (H100). `out` is
 * unchanged on errors: INVALID_ARGUMENT (nothing is mapped there), UNSUPPORTED (see physical_is_shareable()), DRIVER (also if
 * it was unmapped meanwhile), FAULTED. */
cufence_status arena_export(uint64_t address, struct slot_export *out);

/*
 * Calls visit, in no particular order, for up to `reach` slots that begin at or below `address` and up to `reach` above it. The
 * arena lock is held, so that the slots stay. [gap_start, slot->base) is the guard in front of the slot: the unmapped address
 * space behind the slot before it.
 */
void arena_visit(uint64_t address, size_t reach, void (*visit)(struct slot *slot, uint64_t gap_start, void *user), void *user);

/* Calls visit for up to `count` registered slots, oldest first, from the one at position `from` on, with the arena lock held,
 * until visit returns nonzero. Returns the position to go on with, 0 behind the last slot. Positions shift when slots are
 * forgotten. */
size_t arena_some(size_t from, size_t count, int (*visit)(struct slot *slot, void *user), void *user);

/* Returns the slot that is mapped at the address, NULL if there is none. It stays valid only as long as the caller keeps
 * it mapped. */
struct slot *arena_slot_at(uint64_t address);
