/*
 * Streams: FIFO queues, each run by a thread of its own that starts with the first work. The memory of one that is closed and
 * idle goes to the next one, and is never freed.
 *
 * Thread safety: one lock for all queues (queue_lock), which also guards events and captures. Functions named _locked require
 * it. Waiting releases it.
 */
#pragma once

#include "context.h"

/*
 * One piece of work for a stream: a launch, a copy, a set and so on. Immutable once created, so that a graph can run it many
 * times. Reference counted; the last release frees the operation and what it holds.
 */
struct block;
struct recording;

enum operation_kind {
    OPERATION_NOTHING, /* carries dependencies only */
    OPERATION_KERNEL,
    OPERATION_COPY,
    OPERATION_SET,
    OPERATION_HOST,
    OPERATION_CALLBACK,
    OPERATION_EVENT,
    OPERATION_GRAPH,
    OPERATION_WAIT,
    OPERATION_FREE,
    OPERATION_ALLOCATE, /* these two are nodes of graphs alone */
    OPERATION_RELEASE
};

/* Starts a thread of the device's own. Returns what pthread_create() does. */
int worker_start(const char *name, void *(*function)(void *), void *argument);

struct transfer_end {
    CUmemorytype type; /* UNIFIED: the address tells whether it is on a device. Never an array */
    uint64_t address;
    size_t pitch;      /* from one row to the next */
    size_t slice;      /* from one slice to the next */
    CUcontext context; /* whose device must have access; NULL: the stream's */
};

/* A copy, or a set: that has no `from`. */
struct transfer {
    struct transfer_end to, from;
    size_t bytes; /* of a row */
    size_t rows, slices;
    unsigned width; /* bytes of the value to set; 0: it is a copy */
    uint32_t value;
};

struct launch {
    const struct CUfunc_st *function; /* functions are never freed */
    uint32_t grid[3], block[3];
    uint32_t host_tid;
    void **arguments; /* function->argument_count pointers into parameters */
    unsigned char *parameters;
    size_t parameter_bytes;
};

struct operation {
    atomic_uint references;
    enum operation_kind kind;
    const void *node; /* its handle in a graph; NULL: its own address */
    union {
        struct launch launch;
        struct {
            struct transfer transfer;
            void *staging; /* copy of a host source, or NULL; owned; one row only */
        } copy;            /* and set */
        struct {
            CUhostFn function;
            CUstreamCallback callback;
            CUstream stream;
            void *user;
        } host;
        struct {
            struct CUevent_st *event;
            uint64_t generation;
        } event;
        struct {
            uint64_t address;
            uint32_t value;
        } wait;
        struct {
            struct recording *recording;
            CUgraph handle;        /* of a node's child, or NULL; owned */
            struct block **memory; /* of each memory node of a launch, or NULL; owned */
            int frees_first;       /* what has not been freed since the last launch */
        } graph;
        struct {
            struct block *block;
            struct block *address; /* of memory of a graph, else NULL; reference held */
        } freed;
        struct block *block; /* OPERATION_ALLOCATE, OPERATION_RELEASE; reference held */
    };
};

static inline int operation_is_of_memory(const struct operation *operation)
{
    return operation->kind == OPERATION_ALLOCATE || operation->kind == OPERATION_RELEASE;
}

/* One reference. */
struct operation *operation_create(enum operation_kind kind);
struct operation *operation_retain(struct operation *operation);
void operation_release(struct operation *operation);

/* Declares a variable that gives up its reference at the end of the block. */
#define OPERATION(name, value) struct operation *const name __attribute__((cleanup(operation_end))) = (value)

static inline void operation_end(struct operation *const *operation)
{
    operation_release(*operation);
}

/* Runs the operation on the calling thread, a stream's worker, without locks. */
void operation_run(struct operation *operation, CUcontext context);

/* Creates the operation of a launch, without a stream. Errors: INVALID_HANDLE, INVALID_VALUE. */
CUresult launch_create(struct operation **out, CUfunction function, const uint32_t grid[3], const uint32_t block[3],
                       uint32_t shared_bytes, void **parameters, void **extra);

struct capture;
struct work;

struct CUstream_st {
    struct CUstream_st *next; /* in the list of its context's home */
    CUstream handle; /* the program's handle: not this struct's address, since work and events may outlive the handle */
    CUcontext home;  /* whose list it is in; its context may have been reused for another by the time its thread ends */
    CUcontext context;
    int is_detached; /* its green context was destroyed: queued work continues, but every call fails */
    unsigned flags;
    unsigned long long id;
    unsigned long owner; /* thread_number() of the thread whose default stream it is, 0 for others */
    int is_closed;       /* destroyed: the worker ends when the queue is empty */
    int has_worker;
    struct work *first, *last;
    uint64_t submitted, completed; /* number of pieces of work, also of streams whose memory it had: a ticket stays good */
    unsigned submitters;           /* threads that wait for room */
    pthread_cond_t wake;
    struct capture *capture; /* NULL while not capturing */
    unsigned component;      /* where it counts its work in the clocks of the capture */
};

extern pthread_mutex_t queue_lock;
extern pthread_cond_t queue_progress; /* work was completed, or a dump was written */

/* Returns a small number for the calling thread, from 1, never reused. */
unsigned long thread_number(void);

/* The context's list holds it until it is destroyed and idle. */
CUstream stream_create(CUcontext context, unsigned flags);
/* Waits for all work of the context, then closes its streams. */
void stream_destroy_all(CUcontext context);
/* Moves the streams of a green context to its home: queued work runs, and calls return CUDA_ERROR_CONTEXT_IS_DESTROYED. Does
 * not wait. Captures of the streams are invalidated. */
void stream_detach_all(CUcontext context);

/* Resolves a handle. NULL and 1 are the current context's legacy stream, 2 the thread's own there; for another stream no
 * context need be current. Errors: INVALID_HANDLE (a green context has no per-thread stream), INVALID_CONTEXT,
 * CONTEXT_IS_DESTROYED, the sticky error of the stream's context. */
CUresult stream_find_locked(CUstream handle, CUstream *stream);
/* Likewise, and waits until the stream's queue has room for more work, unless it is capturing. */
CUresult stream_find_ready_locked(CUstream handle, CUstream *stream);
/* Common to calls about one stream: declare a variable with it, and hold the queue lock until the end of the block. */
#define STREAM_HELD(name, handle)                                                                                              \
    CUstream name;                                                                                                             \
    HOLD(&queue_lock);                                                                                                         \
    CALL_TRY(stream_find_locked(handle, &(name)))
#define STREAM_READY(name, handle)                                                                                             \
    CUstream name;                                                                                                             \
    HOLD(&queue_lock);                                                                                                         \
    CALL_TRY(stream_find_ready_locked(handle, &(name)))
/* Waits until a thread that waits for room in the context has had its turn, if there is one. Measured: the driver holds a lock
 * of the context meanwhile, which creating and destroying streams and events take, and allocating memory. */
void stream_await_submitters_locked(CUcontext context);
void stream_await_submitters(CUcontext context);

/* Appends work behind everything it must wait for: the stream's order, the legacy stream's rules and *after (may be NULL).
 * Takes its own reference. *ticket (may be NULL) receives the work's ticket. Errors: OUT_OF_MEMORY. */
CUresult stream_enqueue_locked(CUstream stream, struct operation *operation, const struct ticket *after, struct ticket *ticket);

enum submit_mode { SUBMIT_ASYNC, SUBMIT_AND_WAIT };

/* Used by most calls: resolves the handle in the current context, and records the operation if the stream is capturing, else
 * enqueues it. Consumes the caller's reference. */
#define stream_submit(handle, operation, mode) stream_submit_behind(handle, operation, mode, NULL)
/* The work is also behind *last, which becomes its own ticket. */
CUresult stream_submit_behind(CUstream handle, struct operation *operation, enum submit_mode mode, struct ticket *last);

int ticket_is_done_locked(const struct ticket *ticket);
void ticket_wait_locked(struct ticket ticket);
/* Whether all work that a synchronisation of the stream would wait for is done. */
int stream_is_idle_locked(CUstream stream);
void stream_wait_locked(CUstream stream);
void context_wait_locked(CUcontext context);
void context_wait(CUcontext context);

/* Until the second call, the device runs nothing more, and says that all work submitted before is done. */
void stream_stop(CUcontext context, int is_stopped);
/* Counts the core dumps of the context that are being written: synchronisations wait for them. */
void stream_count_dumps(CUcontext context, int change);

/* transfer.c: copies or sets memory. A copy with `is_sync` set has ended when it returns, if the host has a part in it. Errors:
 * INVALID_VALUE (not entirely mapped, or out of reach), and those of stream_submit(). */
CUresult transfer_submit(const struct transfer *transfer, CUstream stream, int is_sync);
CUresult transfer_row(uint64_t to, CUmemorytype to_type, uint64_t from, CUmemorytype from_type, size_t bytes, CUstream stream,
                      int is_sync);
/* Creates the operation only, for a graph that runs in the context; there is something to copy or set. */
CUresult transfer_create(struct operation **out, const struct transfer *transfer, CUcontext context);
/* Describe what sets `rows` rows of `count` values of `width` bytes; or copies as CUDA_MEMCPY3D(_PEER) says, which may be NULL.
 * Errors: INVALID_VALUE, NOT_SUPPORTED (arrays). */
CUresult transfer_set(struct transfer *set, CUdeviceptr to, size_t pitch, uint32_t value, unsigned width, size_t count,
                      size_t rows);
CUresult transfer_volume(struct transfer *transfer, const void *copy, int is_peer);
