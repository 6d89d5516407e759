/*
 * Buffers that are not guarded: those that the options leave out (skip), and those for
 * whose pages there is no room. The driver allocates them. Each is counted by its reason, and remembered until it is
 * freed.
 *
 * Thread safety: every function, from any thread, after heap_open().
 */
#pragma once

#include "heap/heap.h"
#include "analysis/bundle/snapshot.h"

enum passed_reason {
    PASSED_NOT,       /* it is guarded */
    PASSED_NO_MEMORY, /* no room for its pages */
    PASSED_NO_SPACE,  /* no address space for them */
    PASSED_SMALL,     /* skip=smaller:BYTES */
    PASSED_SKIPPED,   /* skip */
    PASSED_EXPORTED,  /* ipc=driver, or a library that exports it to other processes */
    PASSED_GRAPH,     /* of a graph, beyond the part of the device that graphs may have */
    PASSED_REASONS
};

struct passed_figures {
    uint64_t count, bytes;           /* since the start */
    uint64_t live_count, live_bytes; /* not freed yet */
};

/* Returns the figures of a reason, and the sums of all. */
struct passed_figures passed_figures(enum passed_reason why);
struct passed_figures passed_sums(void);

/* Returns how users read the reason: "smaller than skip=smaller". */
const char *passed_word(enum passed_reason why);

void passed_open(void);      /* reads the options that choose what is guarded */
extern int passed_is_wanted; /* an option leaves buffers out; constant after heap_open() */
enum passed_reason passed_judge(const struct heap_request *wanted, const void *frame);

/* Whether the options leave an allocation out. frame: __builtin_frame_address(0) of the function that the program has called;
 * must not be a tail call. */
static inline enum passed_reason passed_why(const struct heap_request *wanted, const void *frame)
{
    return __builtin_expect(passed_is_wanted, 0) ? passed_judge(wanted, frame) : PASSED_NOT;
}

/* The reason to leave to the driver what heap_allocate() has no room for. PASSED_NOT: it fails. */
enum passed_reason passed_after(cufence_status status);

/* Counts a buffer that the driver has allocated, and says so on stderr the first time that room is the reason. Returns 0 if
 * out of host memory: it is counted, but not remembered. */
int passed_add(uint64_t address, const struct heap_request *wanted, enum passed_reason why);

/* Takes the buffer at an address out before it is freed: another thread may be given the address right after that. NULL: there
 * is none. Costs one load while there are none at all. passed_freed(): whether it could be freed; if not, it is there again. */
struct passed *passed_take(uint64_t address);
void passed_freed(struct passed *passed, int is_freed);

/* Describes the buffer that begins at an address; 0: there is none. */
int passed_where(const void *pointer, struct heap_range *out);

/* For a buffer that there was no memory for: whether the driver may have room for it without its page. Otherwise it is not
 * asked, because it would wait for other streams before it says no. Any thread. */
int passed_may_fit(const struct heap_request *wanted);

/* Allocates from the driver. Returns 0 if that has no memory either, or the memory would be a graph's. Sets no error: the
 * caller has a better one. */
int passed_leave(void **pointer, const struct heap_request *wanted, enum passed_reason why);

/* Frees what passed_or_guarded() has left to the driver, in the order of the stream and of those recorded for it; if one of
 * them is capturing, later. context: whose default streams are meant; NULL: the current one's. Returns 0, and does nothing, for
 * any other pointer. */
int passed_free(void *pointer, struct context *context, CUstream handle);

/* Frees those of which a capture is over, oldest first, up to one that cannot be freed yet. may_wait: also synchronises. */
void passed_settle(int may_wait);

/* As heap_record_stream(), for such a buffer. Returns 0 for any other pointer. */
int passed_record(void *pointer, CUstream handle);

/* The context was destroyed or reset, and its buffers with it. */
void passed_context_gone(const struct context *context);

/* Releases what the driver's own pool keeps of freed buffers, if any buffer was left to the driver. In a scope. */
void passed_trim(int device);

/* Such buffers on a device (-1: all), and the one closest to the address. */
struct unguarded_buffers passed_live(int device, uint64_t address);
