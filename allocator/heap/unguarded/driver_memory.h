/* Shared by passed_buffers.c, which remembers what is not guarded, and driver_memory.c, which has the driver allocate it for
 * the C API. */
#pragma once

#include "unguarded.h"
#include "heap/reuse/reuse.h"
#include "base/hash.h"

/* In the table under its lock; taken out, it belongs to one thread. */
struct passed {
    UT_hash_handle hh;
    uint64_t address, size;
    enum passed_reason why;
    int device;
    struct context *context;
    CUstream stream; /* it was allocated on */
    int is_ours;     /* passed_or_guarded() has allocated it */
    int is_async;    /* in the order of a stream */
    struct stream_ref *recorded;
    size_t recorded_count;
    struct stream_ref freed_on;
    struct passed *next; /* in driver_memory.c's list */
};

/* passed_buffers.c */
void passed_drop(struct passed *passed);
/* Returns 0 if out of host memory: it is counted, but not remembered. */
int passed_remember(uint64_t address, const struct heap_request *wanted, enum passed_reason why, int is_ours, int is_async);

/* Forgets the buffers of a context that was destroyed or reset. */
void passed_forget_context(const struct context *context);
