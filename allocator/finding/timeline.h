/*
 * What happened before a fault: the newest launches, allocations and frees that cufence knows of, in order of time. Pure; any
 * thread.
 */
#ifndef CUFENCE_FINDING_TIMELINE_H
#define CUFENCE_FINDING_TIMELINE_H

#include "analysis/snapshot/snapshot.h"

#define TIMELINE_MOST 32

struct timeline_event {
    uint64_t time_ns;
    const char *what;                  /* one of timeline_words */
    const struct launch_entry *launch; /* NULL: of a buffer */
    char kernel[256];                  /* its short name, "" if unknown */
    int has_kernel;                    /* it is no graph */
    int has_faulted;
    const cufence_buffer *buffer;
    int is_free; /* of the buffer; else its allocation */
    uint64_t id, size;
    const char *label;
    uint64_t tid, stream;
};

extern const char *const timeline_words[];

/*
 * Gets the newest events, oldest first, into *out, which the caller frees. Returns their number; 0 if out of host memory.
 * Events of one clock tick, of up to 10 ms, are in no particular order, but for launches of one thread. They borrow from
 * `memory`. faulted: the launch that faulted, NULL if it is unknown.
 */
size_t timeline_of(const struct fault_memory *memory, const struct launch_entry *faulted, struct timeline_event **out);

#endif
