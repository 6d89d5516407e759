/*
 * The registry of CUDA contexts and their streams, which resolves handles as the calling thread means them: NULL, the legacy
 * and the per-thread stream belong to the thread's current context; a green context counts as its device's primary context; a
 * handle that the driver has reused is a new stream or context.
 *
 * The other rooms keep their data about a context or a stream behind its entry (`books`), and refer to both by entry only.
 * Entries are never freed. They are reused for later contexts and streams, and `generation` tells the difference.
 *
 * Under the preload library, every destruction of a context or stream is seen (contexts_watch()). Resolving a stream then needs
 * a driver call only for NULL and the per-thread stream, to get the current context. Without the preload library, contexts are
 * checked by the driver's unique id (cuCtxGetId: CUDA 12.0), and the program reports destroyed streams and contexts
 * (cufence_stream_gone(), cufence_context_gone()).
 * Checking each stream with cuStreamGetId would cost more than everything else, and it ends a capture (driver 580.159.04).
 *
 * Thread safety: every function, from any thread, after contexts_open().
 */
#pragma once

#include "base/lock.h"
#include "base/thread.h"
#include "driver/driver.h"

#include <stdint.h>

struct context;

struct stream {
    struct context *context; /* the context that owns memory allocated on the stream */
    struct context *within;  /* the same, or a green context: the stream's, or current when a default stream was named */
    CUstream handle;         /* NULL: the legacy default stream; CU_STREAM_PER_THREAD: that of `thread` */
    uint64_t thread;         /* per-thread streams: our own number of the thread, see stream_is_named_here(); others: 0 */
    uint64_t generation;     /* atomic; changes when the stream is destroyed */
    void *books;             /* atomic; its free list in heap/ */
    unsigned tracked;        /* atomic; 1 + its index in order/, 0: none yet */
    uint64_t behind_ns;      /* atomic; see stream_used_behind() */
    struct lock touch;       /* see stream_touch_begin() */
};

enum context_room { CONTEXT_HEAP, CONTEXT_LAUNCHES, CONTEXT_KERNELS, CONTEXT_VALUES, CONTEXT_ROOMS };

/*
 * An entry of the registry. It (1) says which context a handle means to its caller, and under which generation, (2) keeps each
 * room's data about the context, and (3) tells the rooms of its begin and its end. It never makes or destroys a context of the
 * program's, and is itself never freed.
 */
struct context {
    CUcontext handle;           /* atomic */
    unsigned long long unique;  /* atomic; from cuCtxGetId; 0 if the driver lacks it */
    uint64_t generation;        /* atomic; unique in this process */
    int device;                 /* driver ordinal */
    int is_primary;             /* of its device */
    int is_held;                /* atomic; retained by us, so it lasts until we release it */
    int is_alive;               /* atomic */
    int ending;                 /* atomic; how many threads are between context_ends() and context_ended() */
    int attached;               /* atomic; how often the program has attached to it and not detached */
    CUresult fault;             /* atomic; after a kernel fault: the error that every call returns; else CUDA_SUCCESS */
    struct context *stands_for; /* a green context: its device's primary context; else NULL. Constant */
    struct stream legacy;       /* its legacy default stream */
    struct context *next;       /* in the registry; constant */
    void *books[CONTEXT_ROOMS]; /* atomic; data of the rooms above, kept for the entry's next context */
};

/* Callbacks into the other rooms. */
struct context_events {
    void (*begun)(struct context *context);     /* before its first use; it is current, RANK_CONTEXTS is held */
    void (*ended)(struct context *context);     /* it is destroyed, or about to be; RANK_CONTEXTS held */
    void (*stream_ends)(struct stream *stream); /* right before it ends, RANK_TOUCH held; a per-thread stream: on its thread */
};

/* Call once, after the driver was loaded. `events` must stay valid. */
void contexts_open(const struct context_events *events);

/* From now on, context_ended() and stream_ended() are called for every context and stream destroyed. */
void contexts_watch(void);
extern int contexts_watched; /* atomic */
static inline int contexts_are_watched(void)
{
    return __atomic_load_n(&contexts_watched, __ATOMIC_RELAXED);
}

/* Call in a forked child, which has no CUDA: ends of threads are ignored from then on. */
void contexts_close(void);

/* ---- contexts ---- */

/* Returns the calling thread's current context; NULL if there is none or the host is out of memory. One driver call. */
struct context *context_current(void);

/* Returns the context all of whose work a synchronisation of the current context waits for. NULL if there is none, or the
 * current one is a green context: its work is only part of the primary's. */
struct context *context_synchronised(void);

struct context *context_of(CUcontext handle); /* NULL: no context, or out of host memory */

/* Returns the primary context of a device and retains it for good. On NULL, *status is the reason (INVALID_ARGUMENT,
 * UNSUPPORTED, DRIVER, OUT_OF_MEMORY). */
struct context *context_of_device(int device, cufence_status *status);

/* Returns a context of `device` for memory that belongs to the device, not to a context: `near` if it is on that device, else
 * the primary context, else any; NULL if there is none. Never creates one. */
struct context *context_for_pool(int device, struct context *near);

/* Returns the calling thread's current context if it is registered, without checking that it still exists. One driver call. */
struct context *context_known_current(void);

/* The primary context of a device, NULL if it is not active: never creates it. The device of a context that the driver knows,
 * -1 if it can't tell. */
CUcontext context_primary_of(CUdevice device);
CUdevice context_device_of(CUcontext handle);

/* Iterate over the contexts, except green ones; NULL starts. context_next() gives living ones only, context_next_ever() also
 * entries whose context has ended. */
struct context *context_next(const struct context *previous);
struct context *context_next_ever(const struct context *previous);

static inline int context_is_alive(const struct context *context)
{
    return __atomic_load_n(&context->is_alive, __ATOMIC_ACQUIRE);
}

/* `handle` (from cuCtxFromGreenCtx) stands for the primary context of `device`, but has default streams of its own. */
void context_is_green(CUcontext handle, int device);

/* Bracket a call of the driver that may end a context. Before it returns, other threads may get the context's handle, and those
 * of its streams, for new ones: in between, look-ups ask the driver, which has ids of contexts from CUDA 12.0 on.
 * context_ends() ends the streams of a green context. context_ended() calls events.ended() if it was registered, except for one
 * that `may_be_there` and is. */
struct context_end {
    struct context *context; /* NULL: it was not registered */
    uint64_t generation;
};
struct context_end context_ends(CUcontext handle);
void context_ended(struct context_end end, int may_be_there);

/* Ends one that still exists and that the program is about to end. Gives back what context_of_device() has retained, so that
 * the program's last release ends it. */
void context_given_up(CUcontext handle);

/* Hold a context that is not the caller's own before making it current: without the preload library, it may have ended
 * unannounced. Only a primary context can be asked for without touching it; it is then retained until context_let_go(), so that
 * the program's last release does not end it meanwhile. Every other one counts as there. A few driver calls, none under the
 * preload library. Take no lock. */
enum context_hold { CONTEXT_HAS_ENDED, CONTEXT_COUNTS_AS_THERE, CONTEXT_IS_RETAINED };
enum context_hold context_hold(const struct context *context);
void context_let_go(const struct context *context, enum context_hold hold);

/* Returns the entry of `handle` if it is registered, else NULL. Calls the driver, which may have destroyed the context already,
 * only while another thread ends it. */
struct context *context_known(CUcontext handle);

/* Marks all contexts of `device` (-1: all devices) as faulted with `error`, which CUDA calls in them return from now on.
 * Contexts that are already marked keep their error. */
void contexts_set_faulted(int device, CUresult error);
CUresult context_fault(void); /* of the current context, CUDA_SUCCESS if none; a single load while no context is faulted */

/* Makes a context current and sets the thread's capture mode to relaxed, for driver calls that must work whatever the caller is
 * doing. */
struct scope {
    CUstreamCaptureMode mode;
    int is_entered, pushed;     /* 0: there is nothing to leave; the context no longer exists */
    const struct context *held; /* by scope_visit(), let go when it is left; else NULL */
};
struct scope scope_enter(const struct context *context);
/* For a context that is not the caller's own: also holds it, and calls events.ended() for one that has ended. */
struct scope scope_visit(struct context *context);
void scope_leave(struct scope scope);

/* SCOPE scope = scope_enter(...): left at the end of the block. */
#define SCOPE struct scope __attribute__((cleanup(scope_end), unused))
static inline void scope_end(struct scope *scope)
{
    scope_leave(*scope);
}

/* ---- streams ---- */

/* Returns the stream that the calling thread means by `handle`. NULL: a default stream without a current context, the driver
 * can't tell, or out of host memory. */
struct stream *stream_resolve(CUstream handle);

/* The same, but default streams are those of `context`, or of a green context that stands for it if that one is current. */
struct stream *stream_in(struct context *context, CUstream handle);

/* A stream as it was when this was made. */
struct stream_ref {
    struct stream *stream; /* NULL: none */
    uint64_t generation;
};

/* NULL is allowed. */
static inline struct stream_ref stream_ref(struct stream *stream)
{
    return (struct stream_ref){stream, stream ? __atomic_load_n(&stream->generation, __ATOMIC_ACQUIRE) : 0};
}

/* Whether it was not destroyed since. */
static inline int stream_ref_is_there(const struct stream_ref *ref)
{
    return ref->stream && __atomic_load_n(&ref->stream->generation, __ATOMIC_ACQUIRE) == ref->generation;
}

/* Adds a stream to an array of `count`, unless it is in there. Returns how many there are then. 0: no memory, or more than
 * `most`. */
size_t stream_refs_add(struct stream_ref **refs, size_t count, size_t most, struct stream *stream);

static inline int stream_ref_is(const struct stream_ref *one, const struct stream_ref *other)
{
    return one->stream == other->stream && one->generation == other->generation;
}

/* Whether the calling thread can name the stream to the driver. False for another thread's per-thread stream. */
int stream_is_named_here(const struct stream *stream);

/* Whether work can be submitted to the stream that the calling thread means by `handle`: it is not capturing. 0 also where the
 * driver may not be asked, as for a default stream while one that synchronises with it is capturing. */
int stream_is_open(CUstream handle);

/* As scope_enter(), for work of ours on the stream. `pushed` is 0 if the calling thread cannot name the stream, or if it is not
 * open. NULL is allowed: 0. On a stream of the program's, between stream_touch_begin() and stream_touch_end(). */
struct scope scope_enter_stream(const struct stream *stream);

static inline int stream_is_default(CUstream handle)
{
    return !handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
}

/* Call right before destroying a stream. Calls events.stream_ends() if it was registered. */
void stream_ended(CUstream handle);

/* Bracket calls that make this stream begin or join a capture (ends of captures need none), and every use of it by another
 * thread than the one that has named it, which first checks that the stream is not capturing. So no thread of ours uses a
 * destroyed stream, or invalidates a capture. Each stream has a lock of its own: a submission to a stream whose queue is full
 * waits in the driver, and others must not wait for it. One stream at a time. Entries are never freed: whoever comes late finds
 * another stream in it, or none. stream_touch_try(): 0, at once, if another thread has it. */
void stream_touch_begin(struct stream *stream);
int stream_touch_try(struct stream *stream);
void stream_touch_end(struct stream *stream);

/* Whether every stream of the context says that its work is done. 0 also where one cannot be asked: it captures, or is another
 * thread's own, or in use by another thread. Asks the driver about each. */
int context_is_idle(struct context *context);
int context_is_busy(struct context *context); /* whether one of them says that it is not done */

/* stream_used_behind(): call before the background thread gives the stream work of ours. stream_behind_ns(): when that was last
 * (of the monotonic clock, 0: never), to this stream or, for the legacy stream, to any of its context. Shortly after it the
 * stream may be busy although the program has just synchronised with it. */
void stream_used_behind(struct stream *stream);
uint64_t stream_behind_ns(const struct stream *stream);
