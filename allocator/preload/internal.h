/*
 * What the files of preload/ share: the hooks, the real functions behind them, and the two questions that most hooks begin
 * with. A hook does nothing of its own before cuInit has started cufence, or where it could not be started.
 */
#ifndef CUFENCE_PRELOAD_INTERNAL_H
#define CUFENCE_PRELOAD_INTERNAL_H

#include "contexts/contexts.h"
#include "driver/driver.h"
#include "finding/misuse.h"
#include "heap/heap.h"

#include "hooks.h" /* last: see there */

/* Our function for each symbol: hook_<symbol>. */
#define DECLARE(symbol, base, version, thread, how, check, parameters, arguments) CUresult hook_##symbol parameters;
PRELOAD_HOOKS(DECLARE)
#undef DECLARE

/* The driver's. NULL where this driver has none; nobody can have asked for its hook then. Constant once a hook was given out.
 */
struct real {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration */
#define MEMBER(symbol, base, version, thread, how, check, parameters, arguments) CUresult(*symbol) parameters;
    PRELOAD_HOOKS(MEMBER)
#undef MEMBER
};
extern struct real real;

/* start.c */
extern int preload_is_active;                 /* atomic: cufence runs. Cleared in a forked child alone */
extern int preload_has_told;                  /* atomic: a call has returned a fault to the program */
extern const struct options *preload_options; /* and the number of devices: constant once it is set */
extern int preload_devices;

static inline int is_active(void)
{
    return __atomic_load_n(&preload_is_active, __ATOMIC_ACQUIRE);
}

/* What the program is told now of the fault that the current context has had; CUDA_SUCCESS: it has had none, or sees it itself.
 */
static inline CUresult failure(void)
{
    CUresult fault = is_active() ? context_fault() : CUDA_SUCCESS;
    if (__builtin_expect(fault != CUDA_SUCCESS, 0))
        __atomic_store_n(&preload_has_told, 1, __ATOMIC_RELAXED);
    return fault;
}

/* Whether the address is in our address space: a buffer of ours, or one that was. */
static inline int is_ours(CUdeviceptr pointer)
{
    return is_active() && heap_owns(pointer);
}

/* What a stream's handle means in the forms for the legacy default stream, and in those for per-thread ones. */
static inline CUstream as_it_is(CUstream stream)
{
    return stream;
}

static inline CUstream own_default(CUstream stream)
{
    return stream ? stream : CU_STREAM_PER_THREAD;
}

/* table.c: finds the real functions. Called before anything else of this room; any thread, any number of times. */
void table_open(void);

/* peers.c: the program gives `peer` access to the memory of `device`. */
void share(int device, int peer);

/* contexts.c: once, at the start. 0: the host has no memory. */
int contexts_count_devices(int devices);
/* To be called with the result of a call that has waited for work of the current context. Learns of the faults that the work
 * has met; returns the result, or what failure() is then. */
CUresult settled(CUresult result, int is_context_idle);
/* Calls a synchronisation of the current context, and settles. `context`: all of whose work it waits for, or NULL. */
CUresult synchronised(struct context *context, CUresult (*function)(void));

/* pools.c: what the program's memory pools hold. An owner is what heap_allocate() takes: 1 and above here. */
#define OWNER_NO_POOL 1u                              /* cuMemAlloc and its like */
unsigned pool_current(const struct context *context); /* its device's; 0: the driver's own business */
unsigned pool_of_handle(CUmemoryPool handle);         /* 0: the driver's own business */
int pool_reserve(unsigned owner, size_t size);        /* counts; 0: more than the pool may have */
void pool_cancel(unsigned owner, size_t size);        /* it came to nothing */
void pool_mapped(unsigned owner, size_t mapped);      /* it came to this much memory */
void pool_freed(const struct heap_freed *freed);      /* both are gone */
int pools_are_used(void);                             /* some buffer has come from one */
CUmemoryPool pool_handle(unsigned owner);             /* NULL for OWNER_NO_POOL */
int pool_device(unsigned owner);                      /* whose memory it has; not of OWNER_NO_POOL */
void pools_forget_context(void);                      /* some context has gone */

/* callers.c: what the code at this address takes for granted of what it allocates. */
struct needs {
    uint32_t alignment; /* bytes; 0: nothing special */
    uint32_t exports;   /* 1: to give it to other processes */
};
struct needs caller_needs(const void *address);

/* A call that a hook has taken. */
struct host_call {
    const char *name;  /* the driver function's, without the suffixes of its symbol: the base in hooks.h */
    const void *frame; /* __builtin_frame_address(0) of the hook: who called stands behind it */
};
#define HOST_CALL(name) (&(const struct host_call){name, __builtin_frame_address(0)}) /* in a hook */

/* misuse.c: reports what a call of this thread did wrong with one of our buffers: `what` tells of its kind, address, access and
 * place, and cufence_error_detail() is its sentence. Returns CUDA_ERROR_INVALID_VALUE. */
CUresult misuse(const struct host_call *call, struct misuse what);

#endif
