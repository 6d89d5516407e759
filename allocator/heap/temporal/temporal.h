/*
 * Retires freed blocks (uaf=), and releases memory to the driver.
 */
#pragma once

#include "heap/pack/pack.h"

/* ---- replace.c ---- */

/* If the block is idle in one of the books' lists, has passed and its last buffer is still `id`, a twin takes its place in the
 * list. Returns 1 if so; the caller then holds the block. The block may also have been unmapped and freed by now. needs_twin: 0
 * also takes a block without a twin, and one whose slack is still to be checked. */
int freelists_replace(struct books *books, struct block *block, uint64_t pages, uint64_t id, int needs_twin);

/* ---- reclaim.c ---- */

/* Releases memory of a device to the driver. Level 0: caches; 1: also what has passed; 2: also after synchronising. */
void reclaim_device(const struct context *own, int device, int level); /* own: the caller's context */
void reclaim_graphs(struct books *books);                              /* of graphs that were destroyed. In a scope */
uint64_t reclaim_idle_bytes(struct books *books);                      /* what its lists keep */
uint64_t reclaim_pending_bytes(int device); /* what is idle, and was not released: its streams have not passed */
/* The same of all devices (-1) or one, outside of an allocation. */
void reclaim_unused(int device, enum heap_waits waits);
/* Notes what has passed on streams that are idle, and records markers behind the frees on others: nothing else would show when
 * they have passed. Then finds what has passed by now. checks: also checks what was freed and still waits for that, or it could
 * be neither retired nor released. If ends of streams are not seen, only the legacy stream is certain to exist. In a scope. */
void reclaim_look(struct books *books, int checks);
/* Calls `work` in the scope of a context, unless it has ended. own: the caller's context. Any other may end at any time, and is
 * left out if another thread is in it for longer than `patience_ms`. */
void reclaim_visit(const struct context *own, struct books *books, unsigned patience_ms,
                   void (*work)(struct books *books, void *user), void *user);
#define PATIENCE_MS 2000    /* before memory is refused: the background thread may have thousands of mappings in hand */
#define MOVING_PAUSE_US 200 /* about what it takes to give one back */
#define VISIT_MS 100        /* many times what the background thread takes, unless it waits for a stream whose queue is full */
/* Unmaps the retiring blocks that have passed, of those that are waiting now: others may add some for ever. Returns whether
 * there were any. */
int reclaim_retired(struct books *books);
#define KEPT_ANYWAY (UINT64_C(256) << 20)    /* of a context */
int reclaim_is_behind(struct books *books);  /* whether streams have not passed all frees, as far as is known */
void reclaim_note_peak(struct books *books); /* after a mapping: what is kept is bounded by the most that was used */
void reclaim_old(struct books *books);       /* unmaps blocks idle for too long, or beyond the limit */
/* Whether there is more for the background thread to do once the device has gone on. Lowers *due_ns to when a block will have
 * been idle for too long. */
int reclaim_is_pending(struct books *books, uint64_t *due_ns);

/* ---- adaptive.c ---- */

/* Lets the background thread do its share of work for uaf=adaptive in a context, reclaim_retired() included. In a scope.
 * Returns whether the program is freeing buffers. */
int adaptive_work(struct books *books);
uint64_t adaptive_due_ns(void); /* when there will be more to do although the program does nothing; UINT64_MAX: never */
