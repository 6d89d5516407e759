/*
 * Contexts: the primary one of each device, those made by cuCtxCreate, green ones, and each thread's stack of current ones.
 *
 * A green context has a handle, an identity, a default stream and streams of its own. All else (memory, modules, events,
 * errors, core dumps) is its home's, the primary context of its device; another context is its own home.
 *
 * Ownership: a context is never freed, so that a stale handle is answered with CUDA_ERROR_CONTEXT_IS_DESTROYED. A destroyed one
 * is handed out again for the next context, under a new id, unless the configuration says reuse=0.
 * Lock order of the whole room: contexts_lock, then the queue lock (stream.h), then the memory lock (space.c), then the
 * gate's lock (call.c). No lock is held while a kernel, a host function or a dump runs.
 */
#ifndef CUFENCE_SIM_CONTEXT_H
#define CUFENCE_SIM_CONTEXT_H

#include "sim.h"

#include <stdatomic.h>

/* What decides about core dumps. A context takes its copy at creation. */
struct dump_settings {
    int is_enabled;
    unsigned flags; /* CUCoredumpGenerationFlags */
    char file[1024];
    char pipe[1024];
    int is_user_trigger_enabled;
};

struct CUctx_st {
    struct CUctx_st *next;       /* list of all contexts, under contexts_lock */
    struct CUctx_st *next_spent; /* under contexts_lock */
    struct CUctx_st *home;       /* the context that memory, modules, events and errors belong to */
    CUgreenCtx green;            /* NULL for one that is not green */
    atomic_ullong id;
    int device;
    unsigned flags; /* under contexts_lock */
    int is_primary;
    unsigned references; /* of a primary context, under contexts_lock */
    atomic_int is_alive;
    atomic_int error;            /* the sticky CUresult, CUDA_SUCCESS while it is good */
    atomic_uint faults;          /* survived ones too */
    struct dump_settings dump;   /* what faults go by; only `file` and `flags` change, under contexts_lock */
    struct CUstream_st *legacy;  /* its default stream */
    struct CUstream_st *marker;  /* for events of the whole context, on demand, under the queue lock */
    uint64_t held_until;         /* work of the marker that all later work of the context waits for; under the queue lock */
    struct CUstream_st *streams; /* of a home: its streams and its green contexts', under the queue lock */
    unsigned dumps_in_progress;  /* of a home, under the queue lock */
};

/* The sticky error that the context's calls return. */
CUresult context_error(const struct CUctx_st *context);

/* The calling thread's current context. Errors: INVALID_CONTEXT (there is none), CONTEXT_IS_DESTROYED, its sticky error. */
CUresult context_current(CUcontext *context);

/* For calls that need no context: the sticky error of the current one, if there is one. */
CUresult context_check(void);

/* Whether a handle names a live context. Errors: INVALID_CONTEXT, CONTEXT_IS_DESTROYED, its sticky error. */
CUresult context_validate(CUcontext context);

/* Makes a green context, which keeps the device's primary one. Errors: OUT_OF_MEMORY. */
CUresult context_create_green(CUcontext *out, int device, CUgreenCtx green);
/* Errors: CONTEXT_IS_DESTROYED (it went with its primary one). */
CUresult context_destroy_green(CUcontext context);

/* Copies the dump settings that a fault in the context goes by now. */
void context_dump_settings(CUcontext context, struct dump_settings *settings);
void context_set_dump_settings(CUcontext context, const struct dump_settings *settings);

/* coredump.c: the process-wide settings as they are now. */
void coredump_snapshot(struct dump_settings *settings);

/* coredump.c: reads the CUDA_..._COREDUMP variables. Called once, by cuInit(). */
void coredump_load_environment(void);

#endif
