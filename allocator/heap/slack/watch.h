/*
 * Slack watch (slack=on; and for cells of packed pages always): the bytes around a buffer within its mapping hold a pattern,
 * which kernels check. Shared by slack.c (the buffers), poison.c (bytes that the program poisons), batches.c (the launches),
 * check.c (all at once) and pack.c (new pages); the entry points are in slack.h and poison.h.
 *
 * A block's pattern fits one layout: the address and size of a buffer. The next buffer with that layout finds it there. For
 * any other, it is written anew, and that of the last one is checked first. Both wait in the queue of a free list, and are
 * launched together on its stream, so they are in order with the program's work there. A block that another list hands out has
 * no launch left: its free waits for that (slack_release()), and a launch for idle blocks counts as one more free of their
 * list, which has not passed before the launch has.
 *
 * One lock for each context. A launch on a stream of the program's is made without it, since the stream may be full, but with
 * the stream touched: whoever hands out a block that is being launched there waits for that.
 */
#pragma once

#include "slack.h"
#include "kernels/flight.h"
#include "kernels/pattern.h"

#include "base/tunables.h"

#define SLACK_MOST 128u             /* jobs in a launch, the upper limit of slack_every */
#define QUEUE_MOST 1024u            /* what waits on a stream while all batches are in flight */
#define BATCHES 32u                 /* in flight, per context */
#define PINNED (UINT64_C(64) << 20) /* bytes that poison has in flight, per context */
#define CREDIT_MOST 16u             /* launches out of turn that a free list can save up */

/* The layout that the pattern fits. */
struct slack_layout {
    uint64_t address, size; /* size 0: there is no pattern */
};

/* What the watch knows about a block. Guarded by the lock of the watch, except that the block's holder reads `layout`. */
struct slack {
    struct block *block;
    struct slack_layout layout;  /* size: atomic */
    struct slack_layout checked; /* for PATTERN_CHECK | PATTERN_WRITE: the one before */
    int is_written; /* the pattern's launch was submitted. 0 for a live block, and it waits in no queue: that was full */
    struct slack_queue *queue; /* atomic; where it waits, or NULL */
    struct slack *ahead, *behind;
    unsigned does;               /* there; PATTERN_CHECK, PATTERN_WRITE or both */
    struct batch *batch;         /* atomic; the last launch for it, ... */
    uint64_t turn;               /* ... unless the batch is in another flight now */
    uint64_t since_ns, since_on; /* when it was last checked or written, and by what, as in struct slack_found */
    uint64_t buffers, first_id;  /* that had the memory since then: how many were freed, and the first of them */
    struct facts facts;          /* of the last one of them */
    struct slack *prev, *next;   /* of the context */
};

/* What waits to be launched on the stream of a free list. */
struct slack_queue {
    unsigned count, credit; /* count: written atomically. credit: in frees; a launch out of turn takes slack_every of them */
    struct slack *first;
};

/* A buffer in a launch. */
struct batch_buffer {
    struct facts facts;
    struct slot slot; /* a copy */
    uint64_t since_ns, since_on, buffers, first_id;
};

/* Poisoned bytes, which are one buffer's. */
struct poison_piece {
    uint64_t start, end;
    struct context *context;
    struct stream_ref on; /* where they were filled */
    struct poison_fact fact;
    unsigned checks; /* by poison_check(), under way: it is not unpoisoned meanwhile, not even by a free */
};

/* A launch of the pattern's kernel: for slack, one of the BATCHES of a context, used again and again; for poison, made for it.
 */
struct batch {
    struct flight flight;     /* its words are states[]; it ends when its findings are collected */
    struct pattern_job *jobs; /* memory that the device reads and writes, like states[] */
    uint32_t *states;
    CUdeviceptr device_jobs, device_states;
    unsigned count;               /* jobs */
    int is_launching;             /* atomic; for poison: the thread that has made it still uses it */
    int is_alone;                 /* nothing else was on the stream */
    struct freelist *list;        /* on whose stream; NULL: on the watch's own, or the stream was destroyed */
    struct batch_buffer *buffers; /* of the jobs; NULL: all are parts of `piece` */
    size_t (*on_result)(const struct batch *batch, struct heap_slack *out, size_t max); /* returns how much it has found */
    struct poison_piece piece;
    int is_fill;               /* of a piece: the jobs write */
    struct batch *prev, *next; /* for poison, of the context */
};

enum watch_state { WATCH_NEW, WATCH_BEGINS, WATCH_READY, WATCH_OFF /* the kernel cannot be loaded */ };

struct watch {
    struct lock lock;
    struct books *books;
    enum watch_state state; /* atomic */
    CUfunction kernel, fill;
    void *memory;           /* of all batches; registered with the context */
    unsigned next, in_vain; /* waits for a pattern that did not come in time */
    struct slack *slacks;
    uint64_t launches, checked, missed; /* missed: buffers that were not checked, because their memory was used again at once */
    uint64_t late;                      /* atomic: buffers that cuMemAlloc gave out before their pattern was written */
    struct batch batches[BATCHES];
    struct batch_buffer buffers[BATCHES][SLACK_MOST]; /* of the batches */
    struct batch *poisons;                            /* in flight */
    struct results results;                           /* their memory */
};

/* ---- batches.c; caller holds the lock, unless it says otherwise ---- */

struct watch *watch_make(struct books *books); /* NULL: out of host memory. Without the lock */
struct watch *watch_of(struct books *books);   /* NULL: nothing is to be watched, or out of host memory. Without the lock */
/* Loads the kernel in the context, once. Returns 0 if it is not there, or not yet. Without the lock. */
int watch_begin(struct watch *watch);
struct batch *batch_take(struct watch *watch);                                       /* one that is not in flight, or NULL */
void batch_add(struct watch *watch, struct batch *batch, const struct slack *slack); /* what it `does`; there is room */
/* One for poison, with so many jobs, which the caller sets like on_result and `piece`, and launches. NULL: out of memory. In a
 * scope. Without the lock. */
struct batch *batch_make(struct watch *watch, unsigned jobs);
void batch_drop(struct watch *watch, struct batch *batch); /* one of those */
/* The context ends. Waits, without the lock, for threads that launch batches for poison. */
void batches_forget(struct watch *watch);
/* Launches it on the watch's own stream. In a scope. Returns 0 if the driver refuses. */
int batch_launch(struct watch *watch, struct batch *batch);
/* Launches it on a stream of the program's, which is touched; gives the lock up meanwhile. Likewise. */
int batch_launch_on(struct watch *watch, struct batch *batch, struct stream *stream);
/* Launches it on the watch's own stream, and waits for it (pattern_await()). Likewise. */
int batch_run(struct watch *watch, struct batch *batch, uint64_t until_ms);
/* Launches what is in the list's queue. is_alone: nothing else is on the stream, which is touched. In a scope. Without the lock
 */
void slack_launch(struct watch *watch, struct freelist *list, struct stream *stream, int is_alone);
/* Copies what the batch has found, at most `max`, and makes it available again. Returns the number. */
size_t batch_collect(struct watch *watch, struct batch *batch, struct heap_slack *out, size_t max);

/* Reports what the thread has collected, and calls untold_end(). Not under a lock. */
void slack_report_found(struct books *books, const struct heap_slack *found, size_t count);

/* ---- poison.c ---- */

/* Checks all poisoned bytes of the context, which the caller has synchronised, and reports what has changed. *found grows.
 * Returns 0 if not all could be checked in time. In a scope; not under a lock. */
int poison_check(const struct watch *watch, uint64_t until_ms, size_t *found);

/* ---- queue.c; likewise ---- */

void slack_ranges(const struct block *block, struct slack_layout layout, struct pattern_range ranges[2]);
struct slack_queue *slack_queue_of(struct freelist *list); /* NULL: out of host memory */
/* Returns 0, and does nothing, without a queue or if it is full. */
int slack_enqueue(struct slack_queue *queue, struct slack *slack, unsigned does);
/* Until the block is put into a list again: whoever holds it frees it or hands it out, and does not unmap it. */
void slack_keep(struct slack *slack);
void slack_dequeue(struct slack *slack);                            /* out of its queue; what was not written is forgotten */
void slack_discard(struct slack *slack);                            /* there is no pattern any more */
void slack_watched(struct slack *slack, uint64_t now, uint64_t on); /* it is being checked or written: counts from there */
struct batch_buffer slack_described(const struct slack *slack);

static inline int slack_is_kept(const struct slack *slack)
{
    return !slack->block->free_sequence;
}

static inline int watch_is_ready(const struct watch *watch)
{
    return __atomic_load_n(&watch->state, __ATOMIC_ACQUIRE) == WATCH_READY;
}

static inline int slack_is_over(const struct slack *slack)
{
    return !slack->batch || slack->batch->flight.turn != slack->turn || flight_is_over(&slack->batch->flight);
}
