/*
 * The heap: manages buffers in the slots of vmm/. Allocation, stream-ordered free, reuse of mapped slots, retirement of freed
 * ones (uaf=strict), memory of CUDA graphs, and the index of live and past buffers.
 *
 * The contracts of the public functions are in cufence.h; this header adds what the other rooms need.
 * Thread safety: all functions, from any thread, once heap_open() has returned.
 */
#pragma once

#include "contexts/contexts.h"
#include "base/options.h"
#include "finding/slack_finding.h"

/*
 * Opens the arena and starts the background thread. The driver is loaded. `options` must stay valid. After a failure nothing is
 * left behind, and the call may be retried.
 */
cufence_status heap_open(const struct options *options);

/* Stops the background thread; everything else keeps working. Call before the driver shuts down at exit. */
void heap_close(void);

/* Who has allocated a buffer: the C API (0), the program's own calls, or PyTorch's class. What a call of the program's
 * allocates from a pool belongs to no context, and outlives the one that it was allocated in. */
#define HEAP_PLAIN 1u /* cuMemAlloc and the like; above: from pools */
#define HEAP_TORCH 255u

struct heap_request {
    size_t size;             /* bytes; 0 gives NULL */
    struct context *context; /* whose memory it will be */
    int device;              /* whose physical memory: the context's, except for a pool of another device */
    struct stream *stream;   /* may use it at once; NULL or a stream of another context: any stream may */
    uint8_t owner;           /* 0, HEAP_PLAIN, HEAP_TORCH, or the caller's own number of a pool; returned at the free */
    int is_last_try;         /* 1: release whatever can be, even if the device was full a moment ago */
    uint32_t align;          /* minimum alignment, a power of two; 0: the option `align` alone decides */
    CUdeviceptr node;        /* of a capture: what stands for the buffer in the driver's own graph; 0: nothing does */
};

/* Whether the caller may wait as the driver would for what the heap does: the C API and PyTorch's class. The program's own
 * calls must not where they natively don't. */
static inline int may_wait(const struct heap_request *wanted)
{
    return !wanted->owner || wanted->owner == HEAP_TORCH;
}

/* mapped   receives the number of bytes mapped for it, as in heap_freed.mapped; may be NULL */
cufence_status heap_allocate(void **pointer, const struct heap_request *wanted, uint64_t *mapped);

/* Allocates, guarded or by the driver, as the options say. For callers that have no allocation of the driver to pass on: the C
 * API. frame: as in passed_why() (unguarded.h). Errors: those of heap_allocate(). */
cufence_status passed_or_guarded(void **pointer, const struct heap_request *wanted, const void *frame);

/* Whether a buffer can't be guarded for want of memory or address space; the driver may have room for it without its page. */
static inline int heap_lacks_room(cufence_status status)
{
    return status == CUFENCE_ERROR_OUT_OF_MEMORY || status == CUFENCE_ERROR_OUT_OF_ADDRESS_SPACE;
}

/* A live buffer that one thread has taken out of the index to free it. No other thread can find it any more. */
struct heap_claim {
    struct block *block;
    struct context *context; /* whose memory it is */
    unsigned owner;          /* from heap_request, like the next */
    CUdeviceptr node;
    cufence_description where; /* after a failure: what is at the address */
};

/* pointer: one that heap_owns(). Errors: DOUBLE_FREE, INVALID_FREE. Every claim must be passed to heap_free(), or to
 * heap_unclaim(): it is not freed after all. */
cufence_status heap_claim(void *pointer, struct heap_claim *claim);
/* No live buffer starts at the pointer: sets and returns an error that says what is there instead. */
cufence_status heap_refuse_free(const void *pointer, cufence_description *where);
void heap_unclaim(const struct heap_claim *claim);

/* Like heap_record_stream(), for a claimed buffer. */
cufence_status heap_claim_record(const struct heap_claim *claim, struct stream *stream);

/* Who may still be using a buffer when it is freed. */
enum heap_users {
    HEAP_STREAM,  /* work submitted to the stream so far, whichever context it is in */
    HEAP_NONE,    /* nobody: the caller has synchronised the buffer's context */
    HEAP_CONTEXT, /* any work in its context: wait for a synchronisation of that context */
    HEAP_UNKNOWN  /* any work: wait for a synchronisation of every context */
};

/* The live buffer at the address lacks an alignment that a call of the driver needs: those of its place of allocation get it
 * from now on. Returns 0 if that was known. align: bytes, a power of two. */
int heap_wants_alignment(uint64_t address, uint32_t align);

/* Describes the freed buffer. */
struct heap_freed {
    uint64_t size;   /* as requested */
    uint64_t mapped; /* including its slack */
    unsigned owner;  /* from heap_request.owner */
};

/* Frees a claimed buffer. Never fails, and never waits. stream: only with HEAP_STREAM, else NULL. freed: may be NULL. */
void heap_free(const struct heap_claim *claim, struct stream *stream, enum heap_users users, struct heap_freed *freed);

/* Default streams mean those of the buffer's own context. Errors: NOT_FOUND, OUT_OF_MEMORY, INVALID_ARGUMENT (the driver does
 * not know the stream). */
cufence_status heap_record_stream(void *pointer, CUstream stream);

cufence_status pool_begin(int device, const uint64_t id[2], cufence_pool_filter contains, void *user, void (*destroy)(void *));
cufence_status pool_end(int device, const uint64_t id[2]);

/* What else may be asked of a pool. RETAIN: counts one more user, and creates it; RELEASE: one less; LEND, KEEP: whether what
 * it keeps for reuse may be given to others when the device is full. users: receives the number of its users; may be NULL.
 * Errors: as pool_begin(); NOT_FOUND (not of RETAIN). */
enum pool_request { POOL_RETAIN, POOL_RELEASE, POOL_LEND, POOL_KEEP, POOL_ASK };
cufence_status pool_request(int device, const uint64_t id[2], enum pool_request what, int *users);

/* Makes a buffer of a pool live again that was freed, as heap_mappings() had described it: at the same address. Its memory is
 * the pool's, which keeps it. Errors: NOT_FOUND (the pool, or the memory is in use or not its own), as pool_begin(). */
cufence_status heap_revive(int device, const uint64_t id[2], const cufence_buffer *was);

/* Whether an address is in cufence's address space: in a buffer, live or freed, or in a guard. */
int heap_owns(uint64_t address);

/* A live buffer, found by an address in it. */
struct heap_range {
    uint64_t id, address, size;
    struct context *context;
    int device; /* where its physical memory is */
    unsigned owner;
    uint64_t stream;  /* it was allocated on, as a number */
    uint64_t pool[2]; /* as for pool_begin(); zeros: none */
};
int heap_range_of(uint64_t address, struct heap_range *out); /* 0: the address is in no live buffer */
void heap_claimed(const struct heap_claim *claim, struct heap_range *out);

/*
 * Buffers whose synchronous copies and sets the program wants to be awaited, also where they natively need not be
 * (allocate.c). heap_set_synchronous() returns 0 if the address is in no live buffer; the free of the buffer ends it.
 * heap_is_synchronous() costs a load as long as there was none.
 */
extern int heap_has_synchronous; /* atomic */
int heap_set_synchronous(uint64_t address, int is_on);
int heap_asks_synchronous(uint64_t address);
static inline int heap_is_synchronous(uint64_t address)
{
    return __builtin_expect(__atomic_load_n(&heap_has_synchronous, __ATOMIC_RELAXED), 0) && heap_asks_synchronous(address);
}

/*
 * A pointer that a launch is given, and that may lie in a buffer that was freed and whose memory serves no other yet.
 * heap_looks_freed() costs a few ns, and is wrong at times. heap_retire_freed() then unmaps the buffer, so that the launch
 * faults if it uses the pointer: call it before the launch, on its thread. Nothing is unmapped before the streams have passed
 * the free. may_wait: waits for that, within a share of the time that keeps the program going whatever its streams wait for.
 * With uaf=off nothing looks freed, nor do small buffers that share a page and memory of graphs.
 */
int heap_looks_freed(uint64_t address);
void heap_retire_freed(uint64_t address, int may_wait);

/*
 * The same for nodes of graphs and textures, which are used long after they were given a pointer. heap_given_for_later(): call
 * for each of them; its buffer is then unmapped when it is freed, unless it returns 0: it is of those above, or no live one.
 * heap_before_graph(): call before a graph is launched, to wait for that within the same share of the time.
 * heap_given_frees(): the number of such buffers that were freed. heap_given_is_gone(): whether the buffer with this number, at
 * this address, was, and neither a graph nor anybody else has its memory.
 */
int heap_given_for_later(uint64_t address);
void heap_before_graph(void);
uint64_t heap_given_frees(void);
int heap_given_is_gone(uint64_t address, uint64_t id);

void heap_describe(uint64_t address, cufence_description *description);

/* The same for an address passed to a free: prefers a freed buffer that began exactly there, even if another buffer has reused
 * its memory. */
void heap_describe_free(uint64_t address, cufence_description *description);

/* Copies the buffers at and around `address`: those (live and freed) of the slot that contains it, and the nearest live ones on
 * both sides. Returns their number, at most `max`. */
size_t heap_near(uint64_t address, cufence_buffer *out, size_t max);

/* Copies the live buffers of a device (-1: all), newest first, at most `max`. *total receives the number of all of them. */
size_t heap_live(int device, cufence_buffer *out, size_t max, uint64_t *total);

/* The live buffers of one place of allocation: a stack and a label, or one of them, or neither. */
struct heap_use {
    uint64_t buffers, bytes; /* as requested */
    uint64_t mapped_bytes;   /* with the slack in their pages */
    cufence_buffer largest;  /* has the stack, the label and the device */
};

/* Gets the live buffers of a device (-1: all) by place and device, those with most memory first, without those that only a
 * graph keeps. Returns the number of places; *out is malloc'ed, NULL if out of host memory. */
size_t heap_use(int device, struct heap_use **out);

/* Writes "train.py:12 in forward, label "x"" to `out`, cut to fit; "an unknown place" if nothing is known. */
void heap_use_name(const struct heap_use *use, char *out, size_t size);

/* Gets what is mapped on a device (-1: all), in no order. *out is malloc'ed. Errors: OUT_OF_MEMORY (the host's). */
cufence_status heap_mappings(int device, cufence_mapping **out, size_t *count);

/* Returns OK if the device exists, or for -1; else INVALID_ARGUMENT. */
cufence_status heap_check_device(int device);

/* Gets the statistics of a device (-1: all). Errors: INVALID_ARGUMENT (no such device). */
cufence_status heap_stats(int device, cufence_stats *stats);
/* Gives `peer` access to all buffers of `device`, present and future, if the hardware can. Any context must be current. */
void heap_share(int device, int peer);

/* Bytes in the slack of a buffer that were changed, with slack=on. */
struct heap_slack {
    cufence_buffer buffer; /* the last one that had the memory; guard_start is where its mapping starts */
    struct slack_found found;
};

/* Sets what is called for each, without locks held: on the background thread, or on a thread that calls heap_check_slack().
 * Call before heap_open(). */
void heap_on_slack(void (*report)(const struct heap_slack *found));

/*
 * Checks the slack of all buffers of a device (-1: all), live and freed, and reports what has changed since the last check.
 * waits: synchronises the contexts first; else the caller has. *found: number of reports made.
 * Errors: INVALID_ARGUMENT (no such device), UNSUPPORTED (slack=off and no buffers share pages, or a stream is capturing),
 * FAULTED, DRIVER, TIMEOUT (the device was too busy).
 */
cufence_status heap_check_slack(int device, int waits, unsigned timeout_ms, size_t *found);
/* The same for a context that the caller has synchronised. */
cufence_status heap_check_context(struct context *context, unsigned timeout_ms);
/* Reports what checks of slack have found by now. Returns whether some are under way. Not under a lock. */
int heap_collect(void);

/* Whether bytes around any buffers are watched: with slack=on, or around those that share pages. */
int heap_watches(void);

/* Whether the stream, or for the legacy stream any of its context, was idle when the background thread had slack checked on it,
 * and that is not over. */
int heap_is_alone_on(const struct stream *stream);

/* Figures of the slack watch, of all devices. */
struct heap_slack_figures {
    uint64_t launches, checked; /* launches of the kernel, and buffers that they checked */
    uint64_t missed;            /* buffers that were never checked: their memory was used for another one at once */
    uint64_t late;              /* buffers whose pattern came after cuMemAlloc had returned: a write may have been before it */
};
struct heap_slack_figures heap_slack_figures(void);

/*
 * What the program has freed is kept for its next allocations, but it is the device's (shed.c), in bytes:
 *   heap_kept()       how much of a device's memory another could have at once if the heap gave it back
 *   heap_shed()       after cuMemFree: releases what goes beyond a share of what the context uses
 *   heap_keep_only()  at the end of a pool, or its trim: releases all idle memory but so much
 *   heap_returns()    how often memory was given back so far
 *   heap_give_back()  releases everything, because the driver has refused a call; `since` is heap_returns() before it. Returns
 *                     whether there is more by now
 * The others bracket a synchronisation of a stream or a context that succeeds: what was freed before is done, and what goes
 * beyond that share, and `may_keep` on top of it, is released.
 */
extern void (*heap_gives_back)(int device, uint64_t left); /* called when so much is left of what was kept; NULL: nothing */
uint64_t heap_kept(int device);
void heap_shed(struct context *context, uint64_t may_keep);
void heap_keep_only(struct context *context, uint64_t bytes);
uint64_t heap_returns(void);
int heap_give_back(uint64_t since);
uint64_t heap_stream_sync_begins(struct stream *stream);
void heap_stream_sync_ended(struct stream *stream, uint64_t since, uint64_t may_keep);
uint64_t heap_sync_begins(struct context *context);
void heap_sync_ended(struct context *context, uint64_t since, uint64_t may_keep);

/* Releases memory that is no longer used. WAITS_FOR_POOLS: synchronises contexts in which blocks wait for that, unless a stream
 * is capturing; WAITS_FOR_WORK: also those in which freed memory only waits for its streams. */
enum heap_waits { WAITS_FOR_NOTHING, WAITS_FOR_POOLS, WAITS_FOR_WORK };
cufence_status heap_trim(int device, enum heap_waits waits);

/* Physical memory of a context's buffers, in bytes. */
struct heap_figures {
    uint64_t mapped;                  /* live, idle and waiting */
    uint64_t mappings, peak_mappings; /* their number */
    uint64_t fresh, fresh_bytes;      /* mappings made since the start */
    uint64_t peak;                    /* peak of `mapped` since the last heap_reset_peak() */
    uint64_t idle;                    /* part of `mapped` that is kept for reuse */
    uint64_t cached;                  /* without a mapping, kept for the device's next mapping */
};
struct heap_figures heap_figures(struct context *context); /* NULL: zeros */
void heap_reset_peak(struct context *context);
/* From now on the context's mappings may take no more than that; 0: no limit. */
cufence_status heap_limit(struct context *context, uint64_t bytes);

/*
 * Captures in progress (progress.c), during which the heap never synchronises. heap_capture_begins(): call before a stream
 * begins one. heap_capture_may_end(): call on the thread that has tried to begin or to end one, which asks the driver whether
 * the stream captures. heap_capture_ends(): the stream certainly does not any more. All three with the stream touched, from the
 * call before to the one after: what another thread hears of the driver in between is out of date when it acts on it.
 *
 * heap_captures(): whether one is in progress; asks the driver. heap_may_capture(): costs a load, and is also 1 for a while
 * after a capture whose end was not seen.
 */
extern size_t heap_capture_count; /* atomic */
void heap_capture_begins(struct stream *stream);
void heap_capture_may_end(struct stream *stream);
void heap_capture_ends(struct stream *stream);
int heap_captures(void);
/* cuCtxSynchronize() of the current context, unless a stream captures: it would end that. One that begins a capture right now
 * waits a moment. */
CUresult heap_synchronise(void);
static inline int heap_may_capture(void)
{
    return __atomic_load_n(&heap_capture_count, __ATOMIC_RELAXED) != 0;
}
void heap_captures_are_seen(void); /* every capture that begins from now on: with none, no stream is queried */

/*
 * Memory that is allocated or freed during a stream capture stays mapped, because each launch of the graph uses the same
 * addresses. If the capture is followed, the memory is released once no graph, executable or launch derived from it is left:
 * buffers freed within the capture at once, the others when the program has freed them. Otherwise it stays until the process
 * ends.
 *
 * heap_follow_capture(): call right after a capture of the stream began, on the thread that began it. Does nothing if the
 * capture cannot be followed (drivers before CUDA 11.3). is_into_own: the graph is the program's, and stays if the stream goes.
 */
void heap_follow_capture(struct stream *stream, int is_into_own);
/* The dependencies of the stream's capture were changed by hand: memory freed in it is not reused within it. */
void heap_reordered(struct stream *stream);
/* Call right before a capture begins: puts markers on the streams, so that memory idle by then can be released during the
 * capture. */
void heap_prepare_capture(struct context *context);
/* What stands for the live buffer of a capture in the driver's graph (heap_request.node), and the buffer that it stands for; 0:
 * none. heap_graph_frees(): another graph has a node that frees the buffer. */
CUdeviceptr heap_node_of(uint64_t address);
uint64_t heap_at_node(CUdeviceptr node);
void heap_graph_frees(uint64_t address, CUgraph graph);
/* Whether graphs may have that much more of the device. Their memory stays mapped, which the driver's own graphs share. */
int heap_has_room_for_graph(const struct heap_request *wanted);
/*
 * A graph launch re-allocates those of its buffers that the program has freed. Call heap_graph_launched() after each launch
 * that succeeds, heap_graph_instantiated() after each instantiation that does, and heap_executable_gone() before an executable
 * is destroyed. heap_graph_made(): the program has made a graph, whose handle may have been that of a captured one.
 * heap_graph_joins(): the graph becomes part of another. heap_graph_wants(): `wanted`, what the driver allocates for the
 * graph's nodes.
 */
void heap_graph_launched(CUgraphExec executable);
void heap_graph_made(CUgraph graph);
void heap_graph_joins(CUgraph graph);
void heap_graph_instantiated(CUgraphExec executable, CUgraph graph, size_t wanted);
void heap_executable_gone(CUgraphExec executable);
size_t heap_graph_wants(CUgraphExec executable);
int heap_graph_allocates(CUgraph graph); /* whether it was captured, and memory of ours is its own */

/* Call right before a stream is destroyed, with RANK_TOUCH held: its freed buffers become available to other streams once its
 * work is done. */
void heap_stream_ends(struct stream *stream);

/* Bracket the destruction of a context. In between, no thread enters it that does not work in it, or queries one of its events.
 * is_certain: it will be destroyed; else a thread of ours in it is not waited for for long. NULL: none ends. heap_hold()
 * returns what heap_go_on() takes, which may be NULL; call that without a lock, for it tells the users of pools that have ended
 * with the context (destroy() of pool_begin()). */
struct books *heap_hold(struct context *ending, int is_certain);
void heap_go_on(struct books *held);

/* Call when a context begins, before others see it: makes ready what would wait for its streams later. In a scope. */
void heap_context_begun(struct context *context);

/* The context was destroyed or reset, and its buffers with it. */
void heap_context_gone(struct context *context);
