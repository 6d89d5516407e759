/*
 * Shared by the entry points of the heap, which the other rooms call, and its background thread. docs/architecture.md has the
 * rooms of the heap; calls between them go down only.
 */
#pragma once

#include "heap/block/places.h"
#include "heap/graphs/graphs.h"
#include "heap/pack/pack.h"
#include "heap/slack/poison.h"
#include "heap/slack/slack.h"
#include "heap/temporal/temporal.h"
#include "heap/unguarded/unguarded.h"

/* ---- obtain.c ---- */

/* Asks the driver, and may wait. cells: the buffer is to share a page; NULL: it need not. On NULL with an OK *status it needs a
 * page of its own. */
struct block *obtain(struct freelist *list, const struct heap_request *wanted, const struct layout *layout,
                     const struct cells *cells, cufence_status *status);

/* ---- out_of_memory.c; in a scope ---- */

/* The last 1/32 of a device's memory is for small buffers that share pages, with small=map for those that the driver allocates;
 * the last 1/64 of it for the driver in any case, if it may. */
#define RESERVE 32
#define RESERVE_DRIVER 64

/* Whether pages for such a buffer would use up what many of them need: less than 1/`reserve` of the memory is free. The driver
 * is asked for that only once most of the device is mapped. */
int memory_is_scarce(const struct books *books, const struct heap_request *wanted, unsigned reserve);
/* Releases memory of a device: see reclaim_device(). */
void memory_release(const struct books *books, int device, int level);
cufence_status memory_still_full(int device, uint64_t size); /* sets the error */
/* Maps a new block. If necessary, releases memory that is kept for reuse on the device. reserve: see memory_is_scarce(). */
struct block *memory_map(struct books *books, const struct heap_request *wanted, const struct layout *layout, int is_captured,
                         unsigned reserve, cufence_status *status);

/* ---- lifetimes.c ---- */

/* The held block, whose context ends or has ended, gets another: that of the stream, or if that is NULL any of its device. 0:
 * there is none; then it can only be dropped. */
int orphan_adopt(struct block *block, const struct stream *stream);
void orphan_drop(struct block *block);

/* ---- worker.c; heap_close() stops it: the thread makes no more driver calls, unless one hangs ---- */

cufence_status worker_start(void);
