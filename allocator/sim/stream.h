/*
 * Streams: FIFO queues, each run by a thread of its own that starts with the first work.
 *
 * Thread safety: one lock for all queues (queue_lock), which also guards events and captures. Functions named _locked want
 * it held. Waiting gives it up.
 */
#ifndef CUFENCE_SIM_STREAM_H
#define CUFENCE_SIM_STREAM_H

#include "operation.h"

#include <pthread.h>

struct capture;
struct work;

struct CUstream_st {
    struct CUstream_st *next; /* of its context's home */
    CUstream handle;          /* what the program has; not the address of this, which lives on while work and events need it */
    CUcontext home; /* whose list it is on, though its context may be in use again for another by the time its thread ends */
    CUcontext context;
    int is_detached; /* its green context is destroyed: every call but the work that is queued fails */
    unsigned flags;
    int priority;
    unsigned long long id;
    unsigned long owner; /* the thread (thread_number()) whose default stream it is, 0 for others */
    unsigned references; /* the handle, the worker, events, dependencies, a capture */
    int is_closed;       /* destroyed: the worker ends when the queue is empty */
    int has_worker;
    struct work *first, *last;
    uint64_t submitted, completed; /* pieces of work */
    pthread_cond_t wake;
    struct capture *capture; /* NULL while it is not captured */
    unsigned participant;    /* its number in the capture */
};

/* Work up to and with the given number of a stream. */
struct ticket {
    struct CUstream_st *stream;
    uint64_t count;
};

void queue_lock(void);
void queue_unlock(void);

/* A small number for the calling thread, from 1, never given out twice. */
unsigned long thread_number(void);

/* NULL without memory. The context's list holds it until it is destroyed and idle. */
CUstream stream_create(CUcontext context, unsigned flags, int priority);
/* The default stream: as stream_create(). */
CUstream stream_create_legacy(CUcontext context);
/* Runs all work of the context to its end, then closes its streams. */
void stream_destroy_all(CUcontext context);
/* Leaves the streams of a green context to its home: what is queued runs, and calls are answered with
 * CUDA_ERROR_CONTEXT_IS_DESTROYED. Waits for nothing. Captures of the streams are invalidated. */
void stream_detach_all(CUcontext context);
struct CUstream_st *stream_retain_locked(struct CUstream_st *stream);
void stream_release_locked(struct CUstream_st *stream);

/* Finds what a handle means to a thread in a context: NULL and 1 are the legacy stream, 2 the thread's own.
 * Errors: INVALID_HANDLE (a green context has no per-thread stream), CONTEXT_IS_DESTROYED, OUT_OF_MEMORY. */
CUresult stream_find_locked(CUcontext context, CUstream handle, CUstream *stream);

/* Appends work behind everything it must wait for: the stream's order, the legacy stream's rules and *after (may be NULL).
 * Takes a reference of its own. *ticket (may be NULL) is the work's. Errors: OUT_OF_MEMORY. */
CUresult stream_enqueue_locked(CUstream stream, struct operation *operation, const struct ticket *after, struct ticket *ticket);

/* Marks the end of all that the context's streams hold now; of a primary context, its green ones' too. */
CUresult stream_mark_context_locked(CUcontext context, struct operation *operation, struct ticket *ticket);
/* Makes all later work of the context (and of a primary one's green ones) wait. */
CUresult stream_hold_context_locked(CUcontext context, struct operation *operation, const struct ticket *after);

enum submit_mode { SUBMIT_ASYNC, SUBMIT_AND_WAIT };

/* The way of most calls: resolves the handle in the current context, records the operation if the stream is being captured,
 * else enqueues it. Consumes the caller's reference; NULL is CUDA_ERROR_OUT_OF_MEMORY. */
CUresult stream_submit(CUstream handle, struct operation *operation, enum submit_mode mode);

int ticket_is_done_locked(const struct ticket *ticket);
void ticket_wait_locked(const struct ticket *ticket);
/* Whether all work that a synchronisation of the stream waits for is done. */
int stream_is_idle_locked(CUstream stream);
void stream_wait_locked(CUstream stream);
void context_wait_locked(CUcontext context);

/* What the NULL stream means to the calling thread: its own default stream, or the legacy one (as at first). */
void stream_use_own_default(int is_own);

/* A dump of the context is being written: synchronisations wait for it. */
void stream_dump_begin(CUcontext context);
void stream_dump_end(CUcontext context);

#endif
