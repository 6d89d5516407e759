/*
 * The inspector: what looks at launches that do not fault (the room inspect/, for values=, nan= and save_values=). It registers
 * this table at the start where an option asks for it, or to keep the code of modules; nobody else knows more of it.
 *
 * Thread safety: inspector_now() changes once at most; its functions run on any thread, several at once.
 */
#pragma once

#include "launch.h"

/* A launch that the preload library hooks, borrowed for the duration of a call. */
struct launch_event {
    struct context *context;        /* the current one; NULL: the launch is neither recorded nor shown */
    const struct launch_call *call; /* NULL: a graph launch */
    CUgraphExec graph;              /* NULL: a kernel launch */
    CUstream stream;                /* as the hook means it: NULL is the legacy stream */
    const void *frame;              /* of the hook, for stack_capture_from() */
};

struct inspector {
    /* Before and after a launch, on the launching thread, without locks held; they may submit work of their own to the stream.
     * `result` is the driver's. NULL: not wanted. */
    void (*launch_begins)(const struct launch_event *event);
    void (*launch_ended)(CUresult result);
    void (*context_begun)(struct context *context); /* it is current */
    void (*context_gone)(struct context *context);  /* or about to be destroyed */
    /* A module, or a library, was loaded from these bytes, or from this file. NULL: not wanted. */
    void (*loaded)(const void *handle, int is_library, const void *image);
    void (*loaded_file)(const void *handle, int is_library, const char *path);
    void (*unloads)(const void *handle); /* it is about to be unloaded */
    void (*graph_made)(CUgraph graph);   /* by the program: its handle may have been that of a captured one */
    void (*graph_instantiated)(CUgraphExec executable, CUgraph graph);
    void (*executable_gone)(CUgraphExec executable); /* about to be */
    void (*host_writes)(uint64_t address);           /* is about to, with a copy or a set. NULL: not wanted */
    int (*fetches)(CUfunction, const char *symbol, int device, uint32_t at); /* may read that argument's texture; or NULL */
    /* What the program's compiler knows of a kernel's arguments; see inspect/values/types.h. */
    void (*kernel_declared)(CUfunction handle, const char *symbol, const char *arguments);
    int (*await)(unsigned ms);  /* waits until what it has seen of work that is done is reported; 0: not by then */
    void (*close)(unsigned ms); /* once, at exit: waits at most so long for what it looks at */
};

extern const struct inspector *inspector_registered; /* atomic */

static inline const struct inspector *inspector_now(void) /* NULL: it is not wanted */
{
    return __atomic_load_n(&inspector_registered, __ATOMIC_ACQUIRE);
}

/* For those of its functions that may be NULL. */
#define INSPECTOR_WANTS(function) (__builtin_expect(inspector_now() != NULL, 0) && inspector_now()->function)
