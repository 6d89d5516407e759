/*
 * Retires freed blocks (uaf=), and releases memory to the driver.
 */
#pragma once

#include "heap/reuse/reuse.h"

/* ---- twins.c ---- */

/*
 * A twin of a block is a second mapping of its memory, in a slot of its own, made ahead by the background thread. When a buffer
 * is freed and its block is to be retired, a twin takes the block's place at once: the program goes on with the same memory at
 * a new address, while the old address is unmapped as soon as the streams have passed. So retiring takes neither time nor
 * memory from the program. The twins of a block are a list; the one that takes its place inherits the others.
 */
uint32_t
twin_add(struct block *block); /* maps one more; returns how many it has then. 0: none, it is being unmapped or retired */
struct block *twin_take(struct block *block);      /* by its holder: a held block that now owns the memory, or NULL */
struct block *twins_take_all(struct block *block); /* its twins, linked by `twin`; they own nothing */
struct block *twins_end(struct block *block);      /* makes a held block past, and takes all its twins */
void twins_hold(void); /* until twins_go_on(), no block that is mapped is unmapped, and no other thread adds twins */
void twins_go_on(void);
uint64_t twins_mapped(void); /* in all */

/* If the block is idle in one of the books' lists, has passed and its last buffer is still `id`, a twin takes its place in the
 * list. Returns 1 if so; the caller then holds the block. The block may also have been unmapped and freed by now. needs_twin: 0
 * also takes a block without a twin, and one whose slack is still to be checked. */
int freelists_replace(struct books *books, struct block *block, uint64_t pages, uint64_t id, int needs_twin);
/* ---- reclaim.c ---- */

/* Releases memory of a device to the driver. Level 0: caches; 1: also what has passed; 2: also after synchronising. */
void reclaim_device(const struct context *own, int device, int level); /* own: the caller's context */
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
