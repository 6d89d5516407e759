/*
 * The one registry of CUDA contexts and their streams, and what a handle means to its caller: NULL, the legacy and the
 * per-thread stream are streams of the calling thread's current context, a green context is its device's primary one, and a
 * handle that the driver has given out again is another stream or context than before.
 *
 * The other rooms keep what they know of a context or a stream behind its entry (`books`), and name both by their entries from
 * then on. Entries are never freed: they are reused for later contexts and streams, and `generation` tells them apart.
 *
 * Under the preload library the ends of contexts and streams are seen (contexts_watch()); a stream then costs a driver call
 * only for NULL and the per-thread stream (which context is current). Without it, handles are checked by the driver's own
 * numbers (cuCtxGetId: CUDA 12.0), and the program tells of streams that end (cufence_stream_gone()): to ask each time whether
 * a stream is the same (cuStreamGetId) would cost more than the rest, and ends a capture (driver 580.159.04).
 *
 * Thread safety: every function, from any thread, after contexts_open().
 */
#ifndef CUFENCE_CONTEXTS_H
#define CUFENCE_CONTEXTS_H

#include "driver/driver.h"

#include <stdint.h>

/* Thread-local data of the fast path, without a call for its address. It comes out of the little room that the loader keeps
 * for libraries that are opened late: a few words in all. */
#define HOT_TLS __attribute__((tls_model("initial-exec"))) _Thread_local

struct context;

struct stream {
    struct context *context; /* whose memory is allocated on it */
    struct context *within;  /* the same, or the green context that it is of: current where a default stream is named */
    CUstream handle;         /* NULL is the legacy stream, CU_STREAM_PER_THREAD that of `thread` */
    uint64_t thread;         /* with a per-thread stream: whose, by our own count, see stream_is_named_here(); else 0 */
    uint64_t generation;     /* atomic; another one as soon as the stream is gone */
    void *books;             /* atomic; heap/: its free list */
};

enum context_room { CONTEXT_HEAP, CONTEXT_LAUNCHES, CONTEXT_KERNELS, CONTEXT_ROOMS };

struct context {
    CUcontext handle;           /* atomic */
    unsigned long long unique;  /* cuCtxGetId; 0 if the driver has none */
    uint64_t generation;        /* atomic; never that of another context of this process */
    int device;                 /* driver ordinal */
    int is_primary;             /* of its device */
    int is_held;                /* atomic; by us: it cannot end without us */
    int is_alive;               /* atomic */
    CUresult fault;             /* atomic; what a kernel's fault has made the answer to every call; CUDA_SUCCESS: none has */
    struct context *stands_for; /* a green context: its device's primary one; else NULL. Constant */
    struct stream legacy;       /* its legacy default stream */
    struct context *next;       /* in the registry; constant */
    void *books[CONTEXT_ROOMS]; /* atomic; of the rooms above, which keep them for the entry's next context */
};

/* What the other rooms want to be told. */
struct context_events {
    void (*begun)(struct context *context);     /* before its first use, with the context current and RANK_CONTEXTS held */
    void (*ended)(struct context *context);     /* it is gone, or going right now; RANK_CONTEXTS held */
    void (*stream_ends)(struct stream *stream); /* right before, RANK_TOUCH held. By any thread, but for a
                                                   per-thread stream by its own */
};

/* Once, after the driver was loaded. `events` must stay. */
void contexts_open(const struct context_events *events);

/* From now on context_ended() and stream_ended() tell of every end. */
void contexts_watch(void);
int contexts_are_watched(void);

/* In a forked child, which has no CUDA: no thread's end is looked at any more. */
void contexts_close(void);

/* ---- contexts ---- */

/* The calling thread's current one; NULL without one, or when the host has no memory. One driver call. */
struct context *context_current(void);

/* The one all of whose work a synchronisation of the current one waits for. NULL: none, it is a green one, whose work is but a
 * part. */
struct context *context_synchronised(void);

struct context *context_of(CUcontext handle); /* NULL: no context, or the host has no memory */

/* The primary context of a device, held from then on. NULL: *status says why (INVALID_ARGUMENT, UNSUPPORTED, DRIVER,
 * OUT_OF_MEMORY). */
struct context *context_of_device(int device, cufence_status *status);

/* Some context of a device for memory that belongs to the device alone: `near` if it is one, else the primary one, else any;
 * NULL: there is none. Makes none. */
struct context *context_for_pool(int device, struct context *near);

/* The calling thread's current one if it is known: it may be gone, and is not looked at. One driver call. */
struct context *context_known_current(void);

/* All contexts that are alive, but green ones: NULL first. The other one also gives entries whose context is gone. */
struct context *context_next(const struct context *previous);
struct context *context_next_ever(const struct context *previous);

static inline int context_is_alive(const struct context *context)
{
    return __atomic_load_n(&context->is_alive, __ATOMIC_ACQUIRE);
}

/* A handle that stands for the primary context of `device` (cuCtxFromGreenCtx), but for its default streams; and right before
 * the green context is destroyed: its streams end. */
void context_is_green(CUcontext handle, int device);
void context_green_ends(CUcontext handle);

/* The context is gone, or goes right now. Calls events.ended() if it was known. */
void context_ended(CUcontext handle);

/* What `handle` is if it is known, without asking the driver, which may have let it go; else NULL. */
struct context *context_known(CUcontext handle);

/* From now on, contexts of `device` (-1: all) are faulted, but those that are: what CUDA answers to every call in them. */
void contexts_set_faulted(int device, CUresult error);
CUresult context_fault(void); /* the current one's, CUDA_SUCCESS if it is well; a load where all are */

/* Makes a context current and the thread's captures relaxed, for driver calls that must work whatever the caller is doing. */
struct scope {
    CUstreamCaptureMode mode;
    int pushed; /* 0: the context is gone */
};
struct scope scope_enter(const struct context *context);
void scope_leave(struct scope scope);

/* ---- streams ---- */

/* What a handle means to the calling thread. NULL: no context is current, the stream cannot be asked, or the host has no
 * memory. */
struct stream *stream_resolve(CUstream handle);

/* The same, but the default streams are those of `context`: of the green context that stands for it where one is current. */
struct stream *stream_in(struct context *context, CUstream handle);

/* Whether the calling thread can name the stream to the driver: not where it is another thread's own. */
int stream_is_named_here(const struct stream *stream);

static inline int stream_is_default(CUstream handle)
{
    return !handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
}

/* To be called right before a stream is destroyed, by whoever destroys it. Calls events.stream_ends() if it was known. */
void stream_ended(CUstream handle);

/* Around what makes a stream begin or join a capture (its end takes care of itself), and around the touch of a stream by a
 * thread of ours, which asks first whether it is captured. So no thread of ours touches a stream that is gone, or breaks a
 * capture. */
void stream_touch_begin(void);
void stream_touch_end(void);

#endif
