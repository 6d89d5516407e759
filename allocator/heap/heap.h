/*
 * The heap: buffers over the slots of vmm/. Allocation, stream-ordered free, reuse of mapped slots, retirement of freed ones
 * (uaf=strict), memory of CUDA graphs, and the index of live and past buffers.
 *
 * Contracts of the public functions are in cufence.h; here is what the other rooms need beside them.
 * Thread safety: all functions, from any thread, once heap_open() has returned.
 */
#ifndef CUFENCE_HEAP_H
#define CUFENCE_HEAP_H

#include "contexts/contexts.h"
#include "base/options.h"

/*
 * Opens the arena and starts the background thread. The driver is loaded. `options` must stay.
 * Nothing is left of a failed opening, and it may be tried again.
 */
cufence_status heap_open(const struct options *options);

/* Stops the background thread; the rest goes on working. Before the driver is taken down at exit. */
void heap_close(void);

struct heap_request {
    size_t size;             /* bytes; 0 gives NULL */
    struct context *context; /* whose memory it is to be */
    int device;              /* whose physical memory: the context's, but for a pool of another device */
    struct stream *stream;   /* that may use it at once; NULL, or another context's: any may */
    uint8_t owner;           /* any number that the caller wants to have back at the free; 0 where it does not care */
    uint32_t align;          /* a power of two that the buffer needs, whatever the option align says; 0: what that says */
};

/* mapped   gets the bytes mapped for it, as heap_freed.mapped will tell; may be NULL */
cufence_status heap_allocate(void **pointer, const struct heap_request *wanted, uint64_t *mapped);

/* A live buffer in the hands of one thread, which is going to free it: nobody else finds it any more. */
struct heap_claim {
    struct block *block;
    struct context *context;   /* whose memory it is */
    cufence_description place; /* where there is none: what lies there */
};

/* Errors: DOUBLE_FREE, INVALID_FREE. Each claim is to be freed. */
cufence_status heap_claim(void *pointer, struct heap_claim *claim);

/* As heap_record_stream(). */
cufence_status heap_claim_record(const struct heap_claim *claim, struct stream *stream);

/* Who may still use a buffer that is freed. */
enum heap_users {
    HEAP_STREAM,  /* what the stream has got by now, whichever context it is of */
    HEAP_NONE,    /* nobody: the caller has synchronised the buffer's context */
    HEAP_CONTEXT, /* anybody in its context: it waits for a synchronisation of that */
    HEAP_UNKNOWN  /* anybody: it waits for a synchronisation of every context */
};

/* What was freed. */
struct heap_freed {
    uint64_t size;   /* as requested */
    uint64_t mapped; /* with its slack */
    unsigned owner;  /* as its allocation named it */
};

/* Never fails, and never waits. stream: with HEAP_STREAM; else NULL. freed: may be NULL */
void heap_free(const struct heap_claim *claim, struct stream *stream, enum heap_users users, struct heap_freed *freed);

/* The default streams are those of the buffer's own context. Errors: NOT_FOUND, OUT_OF_MEMORY, INVALID_ARGUMENT (the driver
 * does not know the stream). */
cufence_status heap_record_stream(void *pointer, CUstream stream);

cufence_status pool_begin(int device, const uint64_t id[2], cufence_pool_filter contains, void *user, void (*destroy)(void *));
cufence_status pool_end(int device, const uint64_t id[2]);
cufence_status pool_release(int device, const uint64_t id[2]);

/* Whether an address lies in cufence's address space: in a buffer, live or freed, or in a guard. */
int heap_owns(uint64_t address);

/* The live buffer that holds an address. */
struct heap_range {
    uint64_t id, address, size;
    struct context *context;
    int device; /* whose physical memory it is */
    unsigned owner;
};
int heap_range_of(uint64_t address, struct heap_range *out); /* 0: no live buffer holds it */

void heap_describe(uint64_t address, cufence_description *description);

/* The same, of an address that is to be freed: a freed buffer that began there is what was meant, also where its memory serves
 * another one by now. */
void heap_describe_free(uint64_t address, cufence_description *description);

/* Copies what lies at and around `address`: the buffers (live and freed) of the slot that holds it, and the nearest live
 * ones on both sides. Returns how many, at most `max`. */
size_t heap_near(uint64_t address, cufence_buffer *out, size_t max);

/* Copies live buffers of a device (-1: all), newest first, at most `max`; *total gets how many there are. */
size_t heap_live(int device, cufence_buffer *out, size_t max, uint64_t *total);

/* OK for a device that exists, and for -1; else INVALID_ARGUMENT. */
cufence_status heap_check_device(int device);

/* Errors: INVALID_ARGUMENT for a device that does not exist. -1: all. */
cufence_status heap_stats(int device, cufence_stats *stats);
/* From now on `peer` has access to the buffers of `device`, if the hardware can; also to those that are there. Some context is
 * current. */
void heap_share(int device, int peer);

/* Gives back what nobody uses any more. With may_wait, contexts in which that is not known otherwise are synchronised where no
 * stream is captured. */
cufence_status heap_trim(int device, int may_wait);

/* Around a synchronisation of a context by the program, which tells what is not used any more. The first returns 0 where there
 * is nothing to learn, and else what the second is to be given after a success. */
uint64_t heap_sync_begins(struct context *context);
void heap_sync_ended(struct context *context, uint64_t since);

/* Bytes of physical memory that a context's buffers take. */
struct heap_figures {
    uint64_t mapped; /* live, idle and waiting */
    uint64_t peak;   /* the most of it since the last heap_reset_peak() */
    uint64_t idle;   /* of it, kept for reuse */
    uint64_t cached; /* without a mapping, kept for the next one on the device */
};
struct heap_figures heap_figures(struct context *context); /* NULL: zeros */
void heap_reset_peak(struct context *context);

/* Counts captures that begin (1) and end (-1): while one is under way, the heap does not synchronise. */
void heap_count_captures(int change);
int heap_captures(void);
void heap_captures_are_counted(void); /* from now on every capture is counted: without one, no stream is asked */

/*
 * What a stream's capture allocates and frees stays mapped, because each launch of the graph uses the same addresses. Of a
 * capture that is followed, it goes once no graph, executable or launch is left that came of it: at once what was freed within
 * the capture, the rest when the program has freed it. Of others it stays until the process ends.
 *
 * To be called when a capture of the stream has just begun, by the thread that began it. Where the capture cannot be followed
 * (a driver before CUDA 11.3), nothing happens.
 */
void heap_follow_capture(struct stream *stream);
/* The order of the stream's capture was changed by hand: what it frees is not used again within it. */
void heap_reordered(struct stream *stream);
/* To be called when a capture is about to begin: what lies idle by then can be given back while it goes on. */
void heap_prepare_capture(struct context *context);
/* For good: graphs are made in ways that may hide from us what holds their memory. */
void heap_keep_captures(void);
/*
 * A launch of a graph allocates again what the program has freed of the graph's memory; to be called before each. The other two
 * tell which graph it is: the one behind an instantiation that has succeeded, the other before an executable is destroyed.
 *   is_auto_freed   each launch frees what the one before it has left: what the program has freed once, it need not free again
 */
void heap_graph_launch(CUgraphExec executable);
void heap_graph_instantiated(CUgraphExec executable, CUgraph graph, int is_auto_freed);
void heap_executable_gone(CUgraphExec executable);

/* Right before a stream is gone: its freed buffers are given to others once its work is done. RANK_TOUCH is held. */
void heap_stream_ends(struct stream *stream);

/* Around the end of a context, NULL: it is not known which ends, if any. Between these no thread visits a context that it does
 * not work in, and none asks an event of the one that ends. */
void heap_hold(struct context *ending);
void heap_go_on(void);

/* A context was destroyed or reset: its buffers are gone. */
void heap_context_gone(struct context *context);

#endif
