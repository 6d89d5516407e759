/*
 * The recent kernel launches of each CUDA context, in a ring for each thread: what was launched, with which arguments, and from
 * where.
 *
 * Recording makes no driver call but for a kernel that was never seen before (its name and the layout of its arguments), takes
 * no lock, and waits for nobody: a launch that finds its place in the ring taken, by a reader or by a writer that is a whole
 * round late, is counted and not kept. A ring's memory, 1.7 KiB for a launch, is taken at its thread's first launch in the
 * context. Of more than sixteen threads some share a ring.
 *
 * Thread safety: every function, from any thread, after launch_open().
 */
#ifndef CUFENCE_LAUNCH_H
#define CUFENCE_LAUNCH_H

#include "analysis/snapshot/snapshot.h"
#include "stacks/stack.h"

#include "contexts/contexts.h"

/* What a launch was called with. Everything is borrowed for the length of the call. */
struct launch_call {
    CUfunction function; /* or a CUkernel in its clothes, as the CUDA runtime passes them */
    uint32_t grid[3], block[3];
    uint32_t cluster[3]; /* zeros if unknown */
    uint32_t shared_bytes;
    CUstream stream;
    void **parameters; /* kernelParams of cuLaunchKernel, may be NULL */
    void **extra;      /* its extra, may be NULL */
    int is_cooperative;
    const void *frame; /* __builtin_frame_address(0) of the function whose caller launches; NULL: of launch_record() */
};

/* How many launches to keep for each context and thread, rounded up to a power of two; 0 keeps none, and counts them all the
 * same. Once, before anything is recorded. */
void launch_open(uint64_t entries);

/* Before or after the launch itself, while `call` is good. A launch without a context (NULL) is counted only. */
void launch_record(struct context *context, const struct launch_call *call);
/* `frame` as above. */
void launch_record_graph(struct context *context, CUgraphExec graph, CUstream stream, const void *frame);

/* Launches recorded in the context (NULL: in none), graphs too, kept or not. Only ever grows while the context lives. */
uint64_t launch_count(const struct context *context);

/* Launches recorded in all contexts, also in those that are gone. */
uint64_t launch_total(void);

/* Whether the context was found idle with `count` launches on record; and that it was. */
int launch_is_settled(const struct context *context, uint64_t count);
void launch_settle(const struct context *context, uint64_t count);

/* Before a module or library is unloaded: a function's handle may come again, and mean another one. */
void launch_forget_functions(void);

/* A context is gone: its launches and all functions are forgotten, its rings serve the next one in its entry. */
void launch_forget_context(struct context *context);

/* Which launches to read. */
struct launch_query {
    const struct context *context; /* NULL: all of them */
    int device;                    /* -1: all of them */
    const char *kernel;            /* the mangled name; NULL: all of them */
    int has_graphs;                /* graphs too, whatever `kernel` says */
};

/* Copies the newest launches, newest first, and where they came from (stacks may be NULL), at most `max`, and returns how many.
 * Those that are being written or read by another thread are skipped. Launches of different threads within one tick of the
 * clock (see snapshot.h) are in no order. */
size_t launch_read(const struct launch_query *query, struct launch_entry *out, struct stack *stacks, size_t max);

#endif
