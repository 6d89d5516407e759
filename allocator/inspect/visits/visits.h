/*
 * Visits to launches: work of ours on a launch's own stream, before and after it, whose results go through pinned host memory
 * to a thread of ours, in order. The program is never synchronised.
 *
 * A user (values, nan, ...) says which launches it wants, how much memory it needs for its results, submits kernels and
 * copies, and later gets the results. A visit costs what its users submit, and one small kernel that says that all of it is
 * done. Launches that no user wants cost a look-up. Nothing is submitted to a stream that is capturing; what is captured is
 * remembered, and the launches of the graph are visited as a whole.
 *
 * Memory: at most VISITS_PINNED bytes of pinned memory a context (visits_need() for more), and one record for each visit that
 * is not finished. Where that is full, the launching thread waits for visits to finish, at most VISIT_WAIT_MS, and never again
 * until there is room; then the launch goes on without a visit, and its users learn of it (VISIT_NO_ROOM).
 *
 * Order: visits are finished in the order of their launches. One that is not done VISIT_PATIENCE_MS after its launch lets later
 * ones pass: those of its own stream cannot be done before it.
 *
 * Thread safety: visits_add() and visits_need() before the first launch, at the start; everything else as said there.
 */
#pragma once

#include "arguments.h"
#include "order/order.h"

#include "base/filter.h"
#include "launch/inspect_table.h"

#define VISIT_USERS 4
#define VISIT_KERNELS 4 /* of a user */
#define VISITS_PINNED (UINT64_C(64) << 20)
#define VISIT_WAIT_MS 1000
#define VISIT_PATIENCE_MS 100

/* A launch. Constant after its users' wants(), but for `result`. */
struct visit {
    uint64_t number;         /* of the launch in this process, from 1: kernels and graphs, of every thread, visited or not */
    struct context *context; /* of the stream; a green context counts as its device's primary context */
    struct stream_ref stream;
    CUstream handle; /* the stream, as the launching thread names it */
    int device;
    uint32_t tid;
    uint64_t time_ns;                       /* CLOCK_MONOTONIC */
    const struct launch_function *function; /* never freed; NULL: a graph launch */
    CUfunction kernel;                      /* its handle, or a CUkernel's */
    CUgraphExec graph;
    const struct launch_function *const *graph_functions; /* of a graph: the different kernels in it, as far as known */
    size_t graph_function_count;
    SHAPE;
    uint32_t shared_bytes;
    int is_cooperative;
    const char *label; /* the thread's innermost one (labels.h), NULL if none; valid for ever */
    struct stack stack;
    const uint8_t *arguments;      /* of the kernel, as the device sees them */
    size_t argument_bytes;         /* 0: unknown, or none */
    const struct reached *reached; /* of a graph: by the arguments of all its kernels */
    size_t reached_count;
    CUresult result; /* of the launch; from after() on, like where it is among the work of other streams */
    struct order_position position;
};

/* The first pointer of visit->reached that is the same as that one, or that leads into the same buffer. */
#define VISIT_FIRST(visit, index, member)                                                                                      \
    ({                                                                                                                         \
        size_t visit_at = 0;                                                                                                   \
        while ((visit)->reached[visit_at].member != (visit)->reached[index].member)                                            \
            visit_at++;                                                                                                        \
        visit_at;                                                                                                              \
    })
#define visit_first_pointer(visit, index) VISIT_FIRST(visit, index, pointer)
#define visit_first_of_buffer(visit, index) VISIT_FIRST(visit, index, range.id)

/* A user's part in a visit, while work is submitted: on the launching thread, whose context is the stream's. */
struct visit_part {
    const struct visit *visit;
    uint8_t *memory; /* pinned, zeroed; as many bytes as size() has asked for. Kernels use the same address */
    size_t bytes;
    const CUfunction *functions; /* of its kernels */
    CUresult failure;            /* of what has been submitted: the first error */
};

/* What each user's part of the memory is a multiple of, and may use for pieces of its own. */
static inline uint64_t visit_rounded(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

enum visit_end {
    VISIT_DONE,    /* the results are complete */
    VISIT_LOST,    /* a kernel has faulted, or the context or the process has ended, before they were */
    VISIT_FAILED,  /* the driver has refused the launch, or work of ours */
    VISIT_NO_ROOM, /* nothing was submitted: see above */
};

struct visit_user {
    const char *ptx; /* kernels, made by ./dev ptx; NULL: none */
    const char *kernels[VISIT_KERNELS];
    int waits;        /* the launching thread waits until the visit is finished: the stream is synchronised after each launch */
    int looks_at_all; /* so many launches that their buffers are not kept from reuse by other streams (uaf=off) */

    /* Which launches; NULL: all. Constant. */
    const struct filter *filter;
    /* Whether it wants launches of graphs that were captured with such kernels in them. */
    int wants_graphs;
    /* Of those that the filter may choose, whether it may want this launch, which costs the least to ask. NULL: yes. */
    int (*wants_number)(const struct launch_function *function);
    /* Of those that the filter chooses, whether it wants this launch; and how many bytes of pinned memory it needs for it. On
     * the launching thread. NULL: all; 0. */
    int (*wants)(const struct visit *visit);
    size_t (*size)(const struct visit *visit);
    /* Submit work to the stream, before and after the launch. */
    void (*before)(struct visit_part *part);
    void (*after)(struct visit_part *part);
    /* The visit is over, on our thread. `results`: a copy of the memory, which the function may change; NULL unless VISIT_DONE.
     */
    void (*finished)(const struct visit *visit, uint8_t *results, size_t bytes, enum visit_end how);
    /* Called when all visits are finished, at the process's end. NULL: nothing to do. */
    void (*closed)(void);
};

/* Adds a user, which must stay valid. The first one makes cufence look at launches. At most VISIT_USERS. */
void visits_add(const struct visit_user *user);
int visits_have_users(void);
/* Raises the limit of pinned memory of each context. */
void visits_need(uint64_t pinned_bytes);
/* Whether buffers are unmapped when they are freed (uaf=strict): set at the start. */
void visits_open(const struct options *options);

/* In before() and after(): launch the user's kernel of that index with blocks x threads, or copy device memory to `to` in the
 * part's memory. On an error they remember it, and the visit ends with VISIT_FAILED. */
void visit_launch(struct visit_part *part, unsigned kernel, uint32_t blocks, uint32_t threads, void **arguments);
void visit_copy(struct visit_part *part, uint8_t *to, uint64_t from, size_t bytes);

/* As the inspector's functions of these names. */
void visits_launch_begins(const struct launch_event *event);
void visits_launch_ended(CUresult result);

/* Loads our kernels into a context. It is current. */
void visits_context_begun(struct context *context);
/* The context is destroyed, or about to be: its visits are over. */
void visits_context_gone(struct context *context);

/* Waits at most `ms` until the visits that are done are finished, gives up the others, and calls closed() of each user. No
 * visit begins any more. Called once, at exit. */
int visits_await(unsigned ms); /* as the inspector's await() */
void visits_close(unsigned ms);

/* ---- beside.c: what else wrote while a launch ran, as far as order/ follows it ---- */

void beside_note(struct visit *visit); /* by the thread that has submitted the launch */

/* In finished(): whether a launch or copy on another stream, which nothing orders, may have written to these bytes of a buffer
 * meanwhile. beside_named(): its name and stream, "" for none. */
int beside_find(const struct visit *visit, const struct heap_range *buffer, uint64_t from, uint64_t to, struct order_details *);
void beside_named(const struct visit *visit, const struct heap_range *buffer, uint64_t from, uint64_t to, char out[192]);

/* ---- graph_kernels.c: which kernels a CUDA graph launches, and which memory it was given when it was captured. Graphs that
 * are built node by node, or whose nodes are changed later, are not known, or known as they were. Any thread. ---- */

#define GRAPH_KERNELS 64 /* different ones of a graph; later ones are left out */
#define GRAPH_POINTERS 512

/* What a graph is known to use. */
struct graph_kernels {
    uint32_t users;                                         /* of visits: those that want launches of such kernels */
    const struct launch_function *functions[GRAPH_KERNELS]; /* in the order of their first launches */
    size_t function_count;
    struct reached reached[GRAPH_POINTERS]; /* buffers as they were at the capture */
    size_t reached_count;
};

/* A kernel is launched into a capture: that of this number, into this graph. reached: its arguments'. */
void graph_kernels_note(CUgraph graph, uint64_t capture, const struct launch_function *function, uint32_t users,
                        const struct reached *reached, size_t count);

/* The handle is another graph's from now on. */
void graph_kernels_forget(CUgraph graph);

/* An executable was made of the graph, or is about to be destroyed. */
void graph_kernels_instantiated(CUgraphExec executable, CUgraph graph);
void graph_kernels_gone(CUgraphExec executable);

/* Which users want launches of the executable: 0 if it is not known. */
uint32_t graph_kernels_users(CUgraphExec executable);

/* Copies what is known about an executable. Returns 0 if nothing is. */
int graph_kernels_read(CUgraphExec executable, struct graph_kernels *out);
