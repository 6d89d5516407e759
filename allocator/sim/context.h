/*
 * Contexts: the primary one of each device, those created by cuCtxCreate, green ones, and each thread's stack of current
 * contexts.
 *
 * A green context has its own handle, id, default stream and streams. Everything else (memory, modules, events, errors, core
 * dumps) belongs to its home, the primary context of its device. Any other context is its own home.
 *
 * Ownership: a context is never freed, so that a stale handle returns CUDA_ERROR_CONTEXT_IS_DESTROYED. A destroyed one is
 * reused for the next context, with a new id, unless the configuration says reuse=0.
 * Lock order of the whole room: contexts_lock, the queue lock (stream.h), the memory lock (virtual_memory.c), the lock of
 * call.c. No lock is held while a kernel, a host function or a dump runs.
 */
#pragma once

#include "call.h"

/* A stream's work up to and including number `count`. */
struct ticket {
    struct CUstream_st *stream;
    uint64_t count;
};

/* Core dump settings. A context copies them at creation. */
struct dump_settings {
    unsigned char is_enabled, is_user_trigger_enabled;
    unsigned flags; /* CUCoredumpGenerationFlags */
    char file[1024], pipe[1024];
};

#define CONTEXT_PEERS 16

struct CUctx_st {
    struct CUctx_st *next; /* list of all contexts, under contexts_lock */
    struct CUctx_st *home; /* the context that memory, modules, events and errors belong to */
    CUgreenCtx green;      /* NULL if it is not green */
    atomic_ullong id;
    int device;
    int is_primary;
    int is_spent;           /* destroyed, and free for the next context; under contexts_lock */
    atomic_uint references; /* of one that is neither primary nor green, by cuCtxAttach */
    atomic_int is_alive;
    atomic_int error;            /* the sticky CUresult, CUDA_SUCCESS if none */
    atomic_uint faults;          /* number of faults, survived ones included */
    struct dump_settings dump;   /* for faults; written when it is created */
    struct CUstream_st *legacy;  /* its default stream */
    struct CUstream_st *streams; /* of a home: its own and its green contexts' streams; under the queue lock */
    int dumps_in_progress;       /* of a home, under the queue lock, like the next */
    uint64_t stopped;            /* the last work that was submitted when the device stopped (swallow=); 0: it runs */
    unsigned submitters;         /* of a home: threads that wait for room in a queue; under the queue lock */
    uint64_t admissions;         /* of a home: how many have had their turn; under the queue lock */
    /* Of a home, under contexts_lock: ids of the last ones whose memory its device may access, also if they have ended. */
    unsigned long long peers[CONTEXT_PEERS];
    unsigned peer_count;
};

/* The sticky error that the context's calls return. */
CUresult context_error(const struct CUctx_st *context);

/* Returns the calling thread's current context. Errors: INVALID_CONTEXT (there is none), CONTEXT_IS_DESTROYED, its sticky
 * error. */
CUresult context_current(CUcontext *context);
/* Declares a variable with the current context. Returns from the calling function if there is none. */
#define CONTEXT_CURRENT(name)                                                                                                  \
    CUcontext name;                                                                                                            \
    CALL_TRY(context_current(&(name)))

/* For calls that need no context: returns the sticky error of the current context, if there is one. */
CUresult context_check(void);

/* Whether memory of `owner` (NULL: of no context) can be accessed in a context: it is the same device's, or peer access was
 * enabled. */
int context_reaches(CUcontext context, CUcontext owner);

/* Checks that a handle names a live context. Errors: INVALID_CONTEXT, CONTEXT_IS_DESTROYED, its sticky error. */
CUresult context_validate(CUcontext context);

/* trap_dump.c: gets the present process-wide settings. */
void coredump_snapshot(struct dump_settings *settings);

/* trap_dump.c: reads the CUDA_..._COREDUMP variables. Called once, by cuInit(). */
void coredump_load_environment(void);
