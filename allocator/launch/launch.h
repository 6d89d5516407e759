/*
 * The recent kernel launches of each CUDA context, in one ring per thread: what was launched, with which arguments, and from
 * where.
 *
 * Recording makes no driver call, except for a kernel seen for the first time (to query its name and argument layout), takes no
 * lock and never waits. If the slot in the ring is held, by a reader or by a writer that is a whole round late, the launch is
 * counted but not kept. A ring takes 1.7 KiB per launch, allocated at its thread's first launch in the context. With more than
 * sixteen threads, some share a ring. Arguments beyond LAUNCH_KEPT_BYTES take memory of their own, which stays with the slot.
 *
 * Thread safety: every function, from any thread, after launch_open().
 */
#pragma once

#include "analysis/snapshot/snapshot.h"
#include "contexts/contexts.h"
#include "stacks/stack.h"

#include <cuda.h>

/* A launch as the program asks for it. The ring (1) copies what a report wants of it, (2) remembers kernels and their argument
 * layout, and (3) shows it to the observers. It never changes, delays or refuses a launch. Everything is borrowed for the
 * duration of the call. */
struct launch_call {
    CUfunction function; /* or a CUkernel cast to it, as the CUDA runtime passes them */
    SHAPE;
    uint32_t shared_bytes;
    CUstream stream;
    void **parameters; /* kernelParams of cuLaunchKernel, may be NULL */
    void **extra;      /* its extra, may be NULL */
    int is_cooperative;
    uint32_t node;     /* as in struct launch_entry */
    const void *frame; /* __builtin_frame_address(0) of the function whose caller launches; NULL: that of launch_record() */
};

/* The buffer of a launch that passes all arguments in one, laid out as the device sees them, and its size, which may be larger
 * than they are. `extra` is cuLaunchKernel's; NULL if it names none. */
const void *launch_buffer(void *const *extra, size_t *size);

/* Bytes of a launch's arguments in which pointers may lie, at multiples of 8 from the first argument. */
struct launch_span {
    const uint8_t *bytes;  /* not aligned */
    uint32_t offset, size; /* from the first argument */
    int is_all;            /* of all arguments: where one begins is unknown */
};

/* Finds the argument `number`, or what there is of all where their layout is unknown. Returns 0 if there is none. */
static inline int launch_span(const struct launch_call *call, const struct launch_function *function, uint32_t number,
                              struct launch_span *out)
{
    int has_layout = function && function->has_layout;
    size_t size = 0;
    const uint8_t *all = call->parameters ? NULL : launch_buffer(call->extra, &size);
    *out = (struct launch_span){.is_all = !has_layout};
    if (!has_layout) {
        out->bytes = number ? NULL : all;
        out->size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
        return out->bytes != NULL;
    }
    if (number >= function->argument_count)
        return 0;
    const struct launch_argument argument = function->arguments[number];
    out->offset = argument.offset;
    if (call->parameters)
        out->bytes = call->parameters[number];
    else if (all && size >= (uint64_t)argument.offset + argument.size)
        out->bytes = all + argument.offset;
    out->size = out->bytes ? argument.size : 0;
    return 1;
}

/* Up to this size, all of a struct's members are taken for set. Large ones have members that a launch does not use, with
 * pointers of earlier launches in them (PyTorch's reductions, its lists of tensors). */
#define LAUNCH_STRUCT_SURE 64u

/* Sets how many launches to keep per context and thread, rounded up to a power of two; with 0, launches are only counted. Call
 * once, before anything is recorded. */
void launch_open(uint64_t entries);

/* Records a launch. Call before or after the launch itself, while `call` is valid. With context NULL the launch is only
 * counted. Returns what is known of the kernel; NULL: nothing, or it is not kept. */
const struct launch_function *launch_record(struct context *context, const struct launch_call *call);
/* The same for a kernel that is put into a graph, or changed there: it may be launched at any time later. It is not counted,
 * and is kept apart from launches, which follow each other faster. */
void launch_record_node(struct context *context, const struct launch_call *call);
/* Records a graph launch. `frame` as above. */
void launch_record_graph(struct context *context, CUgraphExec graph, CUstream stream, const void *frame);

/* Refers to a launch on record. */
struct launch_mark {
    const void *slot; /* NULL: none */
    uint64_t turn;
    const struct launch_function *function; /* NULL: a graph */
    uint32_t python;                        /* the caller's Python frames, see stack_capture_python() */
};

/* Returns the newest launch that the calling thread has recorded in the context, if it is kept. */
struct launch_mark launch_newest(struct context *context);

/* Copies a launch and its stack. Returns 0 if newer launches have taken its slot. */
int launch_read_marked(const struct launch_mark *mark, struct launch_entry *out, struct stack *stack);

/* Returns the number of launches recorded in the context (NULL: without one), including graphs, kept or not. Never decreases
 * while the context lives. */
uint64_t launch_count(const struct context *context);

/* The number of launches recorded in all contexts, destroyed ones included. */
uint64_t launch_total(void);

/* Whether none on the device has been overwritten by newer ones. */
int launch_all_kept(int device);

/* launch_settle() notes that the context was found idle when it had `count` launches; launch_is_settled() tells whether it
 * was. */
int launch_is_settled(const struct context *context, uint64_t count);
void launch_settle(const struct context *context, uint64_t count);

/* Call before unloading a module or library: the driver may reuse a function's handle for another function. */
void launch_forget_functions(void);

/* The context was destroyed: forgets its launches and all functions. Its rings are reused by the next context in the entry. */
void launch_forget_context(struct context *context);

/* Selects the launches to read. */
struct launch_query {
    const struct context *context; /* NULL: all of them */
    int device;                    /* -1: all of them */
    const char *kernel;            /* the mangled name; NULL: all of them */
    int has_graphs;                /* include graphs, whatever `kernel` is */
};

/* Copies the newest launches, newest first, at most `max`, and their stacks (`stacks` may be NULL). Returns their number. Skips
 * launches that another thread is writing or reading. Launches of different threads within one clock tick (see snapshot.h) are
 * in no particular order. */
size_t launch_read(const struct launch_query *query, struct launch_entry *out, struct stack *stacks, size_t max);

/* Copies the arguments of a launch that launch_read() has returned, at most `max` bytes of them, and returns their number: 0 if
 * they are unknown, or if newer launches have taken the slot; LAUNCH_KEPT_BYTES of more if the host had no memory for the
 * others. Padding between arguments is undefined. */
size_t launch_read_arguments(const struct launch_entry *entry, uint8_t *out, size_t max);

/* functions.c: the name and argument layout of a kernel, queried from the driver once per handle. Known handles are found
 * without a lock. NULL: out of host memory. */
const struct launch_function *functions_find(CUfunction handle);
