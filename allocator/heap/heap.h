/*
 * The heap: buffers over the slots of vmm/. Allocation, stream-ordered free, reuse of mapped slots, retirement of freed ones
 * (uaf=strict), memory of CUDA graphs, and the index of live and past buffers.
 *
 * Contracts of the public functions are in cufence.h; here is what the other rooms need beside them.
 * Thread safety: all functions, from any thread, once heap_open() has returned.
 */
#ifndef CUFENCE_HEAP_H
#define CUFENCE_HEAP_H

#include "driver/driver.h"
#include "options.h"

/*
 * Opens the arena and starts the background thread. The driver is loaded. `options` must stay.
 *   on_context  called once for each CUDA context before its first buffer, with the context current and the lock held that
 *               guards the making of contexts: it must not call the heap
 * Nothing is left of a failed opening, and it may be tried again.
 */
cufence_status heap_open(const struct options *options, void (*on_context)(CUcontext context, int device));

/* Stops the background thread; the rest goes on working. Before the driver is taken down at exit. */
void heap_close(void);

/* Not a stream: what is allocated on it may be used by any stream at once, and what is freed on it is in use by none any more,
 * because the caller has synchronised the buffer's context. */
#define HEAP_SYNCHRONISED ((CUstream) ~(uintptr_t)0)

/* Not a stream, for frees only: nothing says which work still uses the buffer. It waits for a synchronisation of the context.
 */
#define HEAP_UNORDERED ((CUstream) ~(uintptr_t)1)

/* What was freed. */
struct heap_freed {
    uint64_t size;   /* as requested */
    uint64_t mapped; /* with its slack */
    unsigned owner;  /* as its allocation named it */
};

struct heap_request {
    size_t size;     /* bytes; 0 gives NULL */
    int device;      /* -1: the current context's */
    CUstream stream; /* or HEAP_SYNCHRONISED */
    uint8_t owner;   /* any number that the caller wants to have back at the free; 0 where it does not care */
    uint32_t align;  /* a power of two that the buffer needs, whatever the option align says; 0: what that says */
};

/* mapped   gets the bytes mapped for it, as heap_freed.mapped will tell; may be NULL */
cufence_status heap_allocate(void **pointer, const struct heap_request *wanted, uint64_t *mapped);
/* freed   may be NULL; untouched on failure */
cufence_status heap_free(void *pointer, CUstream stream, struct heap_freed *freed);
cufence_status heap_record_stream(void *pointer, CUstream stream);

cufence_status pool_begin(int device, const uint64_t id[2], cufence_pool_filter contains, void *user, void (*destroy)(void *));
cufence_status pool_end(int device, const uint64_t id[2]);
cufence_status pool_release(int device, const uint64_t id[2]);

/* Whether an address lies in cufence's address space: in a buffer, live or freed, or in a guard. */
int heap_owns(uint64_t address);

/* The live buffer that holds an address. */
struct heap_range {
    uint64_t id, address, size;
    CUcontext context;
    int device;
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

/* Errors: INVALID_ARGUMENT for a device that does not exist. -1: all. */
cufence_status heap_stats(int device, cufence_stats *stats);
/* From now on `peer` has access to the buffers of `device`, if the hardware can; also to those that are there. Some context is
 * current. */
void heap_share(int device, int peer);

/* With may_wait the contexts are synchronised where no stream is captured, and what was freed last goes as well. */
cufence_status heap_trim(int device, int may_wait);

/* Bytes of physical memory that the current context's buffers take. */
struct heap_figures {
    uint64_t mapped; /* live, idle and waiting */
    uint64_t peak;   /* the most of it since the last heap_reset_peak() */
    uint64_t idle;   /* of it, kept for reuse */
    uint64_t cached; /* without a mapping, kept for the next one on the device */
};
struct heap_figures heap_figures(void); /* zeros without a current context */
void heap_reset_peak(void);

/* Counts captures that begin (1) and end (-1): while one is under way, the heap does not synchronise. */
void heap_count_captures(int change);
int heap_captures(void);

/*
 * What a stream's capture allocates and frees stays mapped, because each launch of the graph uses the same addresses. Of a
 * capture that is followed, it goes once no graph, executable or launch is left that came of it: at once what was freed within
 * the capture, the rest when the program has freed it. Of others it stays until the process ends.
 *
 * To be called when a capture of the stream has just begun, by the thread that began it and in the context that its memory is
 * to be in. Where the capture cannot be followed (a driver before CUDA 11.3, a context without buffers), nothing happens.
 */
void heap_follow_capture(CUstream stream);
/* To be called when a capture is about to begin: what lies idle by then can be given back while it goes on. */
void heap_prepare_capture(void);
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

/* From now on, allocations in contexts of `device` (-1: all) give FAULTED. */
void heap_set_faulted(int device);
int heap_is_faulted(void); /* the current context is one of them; a load where nothing has faulted */

/* Makes the current context known, if there is one, as its first buffer would. */
void heap_enter_context(void);

/* Before a stream is destroyed: its freed buffers are given to others once its work is done. */
void heap_stream_gone(CUstream stream);

/* Between these the background thread leaves every context alone: around the end of one. */
void heap_hold(void);
void heap_go_on(void);

/* After a context was destroyed or reset: its buffers are gone. */
void heap_context_gone(CUcontext context);

/* Calls visit for every context that has or had buffers. */
void heap_each_context(void (*visit)(CUcontext context, int device, void *user), void *user);

#endif
