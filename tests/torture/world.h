/*
 * A world: a program of CUDA calls that a seed plays step by step, and the model of what it may do and must observe.
 *
 * Order. Work submitted to a stream gets a position there. A clock holds, for each stream, the position up to which work is
 * known to be done before something else: before the next work of a stream, or before the host continues. A call advances
 * clocks as far as CUDA promises, never further. An access to a buffer, or its free, is played only if the clock of its stream
 * covers everything that must come before. So every program is correct, and any failure is cufence's.
 *
 * Data. Each buffer has its own value: word i is value + i * step. Checks compare all of it on the device; their results are
 * read once the host's clock covers them.
 *
 * Threads. The threads of a world take turns, so that a seed plays the same program each time; only the devices run freely.
 * Worlds that run at the same time share contexts, but no streams or buffers. Only its own threads use a world.
 */
#pragma once

#include "driver.h"

#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DEVICES = 2,
    CONTEXTS = 6, /* the first DEVICES are the primary ones */
    QUEUES = 64,
    BUFFERS = 48,
    THREADS = 3,
    HOLDS = 64,
    CHECKS = 512,
    STALE = 8,
    POOLS = 4, /* the first DEVICES are the default ones */
    GRAPHS = 4,
    GRAPH_STEPS = 12,
    LINES = 600,
    LINE_BYTES = 160
};

/* What may be left out: --without NAME,... (main.c). */
enum feature {
    FEATURE_CHURN = 1 << 0, /* hundreds of streams and threads */
    FEATURE_POOLS = 1 << 1, /* a pool of another device */
    FEATURE_LARGE = 1 << 2, /* allocations that are too large */
    FEATURE_GRAPH = 1 << 3  /* captures */
};

/* Settings of the whole process; read-only once worlds exist. */
struct settings {
    const char *without_names; /* --without */
    unsigned without;          /* the features among them */
    int is_verbose;
    int devices;
    int is_scarce;     /* small device memory: allocations may fail */
    int is_injected;   /* driver calls fail */
    int is_alone;      /* C API without the preload library */
    int is_surrounded; /* surround.h */
    int is_timed;      /* every hold ends by itself: needed on a real GPU, where streams may share a hardware queue */
    int align;         /* minimum alignment of buffers */
    size_t most_bytes;
    size_t lack_bytes; /* certainly more than a device has */
};

extern struct settings settings;

struct clock {
    uint32_t at[QUEUES];
};

enum queue_kind { QUEUE_LEGACY, QUEUE_OWN_DEFAULT, QUEUE_BLOCKING, QUEUE_NON_BLOCKING };

struct queue {
    int is_used; /* 0: the place is free; positions continue from its last queue */
    int is_live; /* 0: destroyed, or its thread has ended */
    int is_captured;
    enum queue_kind kind;
    int context;
    int thread; /* of QUEUE_OWN_DEFAULT */
    CUstream handle;
    uint32_t position;
    struct clock before;  /* done before its next work */
    struct clock work;    /* the same for its last work; carried on by the rules of the legacy stream */
    struct clock perhaps; /* everything it may wait for, promised or not. Whoever waits for the queue releases these holds */
};

struct context {
    int is_live, is_primary, device;
    CUcontext handle;
    CUgreenCtx green; /* NULL if not green */
    struct kernels kernels;
};

enum buffer_kind { BUFFER_DIRECT, BUFFER_POOL, BUFFER_API };

struct buffer {
    int is_live;
    unsigned id;
    enum buffer_kind kind;
    CUdeviceptr address;
    size_t bytes;
    int context, device, pool;
    int is_filled;
    uint32_t value, step;
    unsigned graphs;       /* one bit per graph that may be launched again with this address in it */
    int owner;             /* 1 + the graph that allocates it at each launch; 0: none */
    uint64_t recorded;     /* one bit per queue named with cufence_record_stream() */
    struct clock uses;     /* must be done before a write or the free */
    struct clock contents; /* must be done before a read */
};

struct hold {
    int is_pending, is_timed;
    int queue;
    uint32_t position;
    struct latch *latch;
};

struct check {
    int is_pending;
    int queue;
    uint32_t position;
    unsigned buffer;
    uint32_t value, step;
    struct result *result;
};

struct graph {
    int is_live;
    CUgraph graph;
    CUgraphExec executable;
    int context;
    unsigned launches;
    struct clock last; /* its launches do not overlap */
    int output;        /* the buffer that it allocates and does not free; -1: none */
    int write_count, check_count;
    struct graph_write {
        int buffer;
        uint32_t value, step;
    } writes[GRAPH_STEPS];         /* what each launch leaves in buffers */
    unsigned checked[GRAPH_STEPS]; /* numbers of the buffers that its checks read; results are in world.graph_results */
};

struct pool {
    int is_live, device;
    CUmemoryPool handle;
};

struct world;
typedef int (*step_function)(struct world *world);

/*
 * A thread that runs body(argument). On a real GPU it sleeps then until the process ends: the driver's own destructor of a
 * thread whose default stream was used may wait for ever (580.159), natively too.
 */
struct thread {
    pthread_t id;
    sem_t is_over;
    void (*body)(void *);
    void *argument;
};

/* A thread of the program. Number 0 plays the world, and has no thread of its own. */
struct actor {
    int is_live;
    struct thread thread;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    step_function step; /* under lock; NULL while idle */
    int result, is_ending;
    struct world *world;
    int number;
};

struct world {
    uint64_t seed, random;
    int number;      /* among worlds of the process that run at once */
    int is_shared;   /* others run at the same time: holds are timed, nothing of theirs is reset */
    int thread;      /* the thread whose turn it is */
    int context;     /* context used by a step_turnover() */
    int subject;     /* and its buffer */
    int depth;       /* steps within a step */
    int lacks;       /* allocations may fail: the device is small, or a call was made to fail */
    int has_outputs; /* graphs have allocated memory that outlives a launch: changes the figures */
    unsigned leaked; /* buffers that cufence counts differently, after an injected error */
    unsigned next_buffer, steps;
    struct clock host;
    struct context contexts[CONTEXTS];
    struct queue queues[QUEUES];
    struct buffer buffers[BUFFERS];
    struct hold holds[HOLDS];
    struct check checks[CHECKS];
    CUdeviceptr stale[STALE]; /* of buffers that were freed; 0: none */
    struct pool pools[POOLS];
    struct graph graphs[GRAPHS];
    struct actor actors[THREADS];
    struct result *results;       /* CHECKS of them */
    struct result *graph_results; /* GRAPHS times GRAPH_STEPS */
    struct latch *latches;        /* HOLDS of them */
    char (*log)[LINE_BYTES];
    unsigned lines;
};

/* ---- the steps: a function step_NAME() of each, which returns whether it has done something ---- */

enum {
    WITHIN = 1,         /* also while a stream is capturing */
    STARTS_THREADS = 2, /* the simulated device has one for each stream */
    IS_CANCELLED = 4    /* has cancellation points of its own */
};

/* X(NAME, weight, weight in hard surroundings, flags) */
#define STEPS(X)                                                                                                               \
    X(allocate, 22, 12, WITHIN)                                                                                                \
    X(use, 20, 6, WITHIN)                                                                                                      \
    X(copy, 8, 4, WITHIN)                                                                                                      \
    X(free, 10, 4, WITHIN)                                                                                                     \
    X(reallocate, 16, 6, WITHIN) /* frees a buffer and at once allocates on another queue */                                   \
    X(record, 5, 0, WITHIN)                                                                                                    \
    X(hold, 8, 2, WITHIN)                                                                                                      \
    X(release, 4, 1, WITHIN)                                                                                                   \
    X(synchronise, 3, 2, 0)                                                                                                    \
    X(stream, 9, 4, WITHIN | STARTS_THREADS)                                                                                   \
    X(context, 2, 4, STARTS_THREADS)                                                                                           \
    X(destroy_context, 1, 2, 0)                                                                                                \
    X(primary, 1, 1, 0)                                                                                                        \
    X(reset, 1, 0, 0)                                                                                                          \
    X(pool, 2, 2, 0)                                                                                                           \
    X(thread, 4, 1, STARTS_THREADS | IS_CANCELLED)                                                                             \
    X(capture, 5, 0, 0)                                                                                                        \
    X(launch_graph, 7, 0, 0)                                                                                                   \
    X(drop_graph, 2, 0, 0)                                                                                                     \
    X(trim, 3, 1, WITHIN)                                                                                                      \
    X(figures, 2, 0, 0)                                                                                                        \
    X(too_large, 1, 0, 0)                                                                                                      \
    X(turnover, 2, 1, STARTS_THREADS | IS_CANCELLED)                                                                           \
    X(stale, 6, 0, WITHIN) /* launches a kernel with a freed pointer that it does not use */                                   \
    X(many, 0, 5, 0)                                                                                                           \
    X(copy_call, 0, 5, 0)                                                                                                      \
    X(set_call, 0, 5, 0)                                                                                                       \
    X(launch_call, 0, 5, 0)                                                                                                    \
    X(unload, 0, 4, 0)                                                                                                         \
    X(host_function, 0, 4, 0)                                                                                                  \
    X(wait_value, 0, 4, 0)                                                                                                     \
    X(host_memory, 0, 4, 0)                                                                                                    \
    X(graph_call, 0, 5, 0)                                                                                                     \
    X(process, 0, 5, IS_CANCELLED)

#define STEP_DECLARED(name, weight, surrounded, flags) int step_##name(struct world *world);
STEPS(STEP_DECLARED)
#undef STEP_DECLARED

/* ---- world.c ---- */

uint64_t draw_from(uint64_t *random);
uint64_t draw(struct world *world);                 /* the next random number */
unsigned pick(struct world *world, unsigned count); /* below count */
int chance(struct world *world, unsigned percent);
/* One of the numbers i below `most` for which the condition holds, -1 if there is none. */
#define PICK_WHERE(world, most, condition)                                                                                     \
    ({                                                                                                                         \
        int found[most], count = 0;                                                                                            \
        for (int i = 0; i < (most); i++) {                                                                                     \
            if (condition)                                                                                                     \
                found[count++] = i;                                                                                            \
        }                                                                                                                      \
        count ? found[pick(world, (unsigned)count)] : -1;                                                                      \
    })

/* Adds a line to the log shown when the seed fails. */
void say(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints the log and ends the process with status 1. In hard surroundings it says nothing: what is compared has the format. */
void fail(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
void must(struct world *world, const char *call, CUresult result);
/* In hard surroundings: notes it for the comparison with the run without cufence. The name is a constant. */
void note(const char *name, uint64_t value);
#define MUST(world, call) must(world, #call, call)

/* Initialises a world. Its first contexts are the primary ones, which all worlds of a process share. */
void world_open(struct world *world, uint64_t seed, int number, int is_shared);
/* Waits for all work, frees everything, and verifies the remaining checks. */
void world_close(struct world *world);
/* Waits until the memory of destroyed graphs stops counting as live: the driver reports their end in the background. Nothing
 * else may be live. */
void await_outputs(void);

/* Allocates more than there is, in every context, so that cufence synchronises and releases what it can. */
void ask_for_too_much(struct world *world);

/* Incremented at each sign of progress in the process; checked by the watchdog. */
extern uint64_t progress; /* atomic */
/* Prints the last lines of every world; for the watchdog. */
void worlds_print(void);

/* ---- order.c ---- */

void clock_join(struct clock *clock, const struct clock *other);
int clock_covers(const struct clock *clock, const struct clock *needed);

int queue_add(struct world *world, enum queue_kind kind, int context, CUstream handle); /* -1: no place */
/* Picks a queue on which the current thread may submit work, in `context` or (-1) in any; -1 if there is none. */
int queue_pick(struct world *world, int context);
/* The current thread's per-thread stream; -1: no place. */
int queue_own_default(struct world *world, int context);
void queue_end(struct world *world, int queue);
void destroy_stream(struct world *world, CUstream stream); /* and tells cufence, if nobody else does */
/* Makes the queue's context current. */
void queue_enter(struct world *world, int queue);
void context_enter(struct world *world, int context);

/* Call before submitting work to a queue: advances its clock. Returns the work's position. */
uint32_t queue_submit(struct world *world, int queue);
/* The same for an allocation or a free. It has a position on the stream, but the rules of the legacy stream ignore it. */
uint32_t queue_mark(struct world *world, int queue);

/* Makes `queue` wait until everything needed is done: by events if possible, else on the host. Returns 0 if neither is
 * possible. */
int queue_wait(struct world *world, int queue, const struct clock *needed);

/* Wait on the host. First release holds that are in the way. */
void sync_queue(struct world *world, int queue);
void sync_context(struct world *world, int context);
/* Between captures_begin() and captures_end(), no other world synchronises a context: the driver refuses that, and the capture
 * is over. */
void captures_begin(void);
void captures_end(void);
int sync_clock(struct world *world, const struct clock *needed);

void hold_queue(struct world *world, int queue);
/* Releases holds that the clock covers; with NULL, a random one. */
void release_holds(struct world *world, const struct clock *clock);
void release_context(struct world *world, int context);
void release_contexts(struct world *world); /* all of them */

/* Gets a place for a check's result. Waits for one; returns NULL if it must not wait. */
struct check *check_add(struct world *world, int queue);
void checks_verify(struct world *world);

/* ---- memory.c ---- */

int buffer_pick(struct world *world);
int buffer_newest(const struct world *world); /* that is live; -1: it is not */
int buffer_is_reachable(const struct world *world, const struct buffer *buffer, int queue);
/* Submit work to the queue; the caller has ordered it. */
void buffer_fill(struct world *world, int buffer, int queue);
void buffer_check(struct world *world, int buffer, int queue);
/* Allocates on a queue, and fills the buffer. Returns whether it succeeded. */
int buffer_make(struct world *world, int queue, size_t bytes);
/* Tells cufence that the queue, which waits for the contents, uses the buffer. */
void buffer_record(struct world *world, int buffer, int queue);
/* Frees the buffer on a queue. Returns whether it succeeded. */
int buffer_free_on(struct world *world, int buffer, int queue);
/* Frees the buffer in a random way. Returns whether it succeeded. */
int buffer_free(struct world *world, int buffer);

/* ---- things.c ---- */

int step_fork(struct world *world);
int child_is_wrong(CUdeviceptr live); /* of a forked process: whether CUDA still works there, with an address to free or 0 */

/* Gives the other devices access to it. */
void pool_open(struct world *world, const struct pool *pool);
CUcontext context_make(struct world *world, int device); /* creates one, and leaves the thread's current one */
/* With `kernels` NULL, loads the kernels. */
void context_add(struct world *world, int context, CUcontext handle, int device, const struct kernels *kernels);
void context_destroy(struct world *world, int context); /* in the driver */
void context_end(struct world *world, int context);     /* in the model: its queues and buffers no longer exist */

/* ---- figures.c ---- */

int step_churn(struct world *world); /* that of the table are above */

/* ---- graphs.c ---- */

void graph_drop(struct world *world, int graph);
/* Checks the results of launches that the host's clock covers. */
void graphs_verify(struct world *world);

/* ---- actors.c ---- */

/* Plays a step on a thread of the world, and waits for it. */
int actor_play(struct world *world, int thread, step_function step);
void actor_start(struct world *world, int thread);
void actor_end(struct world *world, int thread);
void thread_start(struct thread *thread, void (*body)(void *), void *argument);
void thread_await(struct thread *thread);              /* until its body has returned */
void own_streams_end(struct world *world, int thread); /* in the model, with their thread */

/* ---- play.c ---- */

/* Plays `count` seeds, starting with `first`. */
void play(uint64_t first, uint64_t count);
/* Plays the seed of the player (surround.h) to its end. */
void play_surrounded(void) __attribute__((noreturn));
/* Plays one random step that is allowed within another. */
int step_within(struct world *world);
