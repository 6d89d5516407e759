/*
 * What happened before a fault: the newest launches, allocations and frees that cufence knows of, in order of time. Pure; any
 * thread.
 */
#ifndef CUFENCE_FINDING_TIMELINE_H
#define CUFENCE_FINDING_TIMELINE_H

#include "json_members.h"
#include "analysis/snapshot/snapshot.h"

#define TIMELINE_MOST 32

struct timeline_event {
    uint64_t time_ns;
    const struct launch_entry *launch; /* NULL: of a buffer */
    const cufence_buffer *buffer;
    int is_free; /* of the buffer; else its allocation */
};

/* Gets the newest events, oldest first. Returns their number. Events of one clock tick, of up to 10 ms, are in no particular
 * order, but for launches of one thread. They borrow from `memory`. */
size_t timeline_of(const struct fault_memory *memory, struct timeline_event out[TIMELINE_MOST]);

/* Adds the member "timeline". faulted: the launch that faulted, NULL if it is unknown. */
void json_put_timeline(struct members report, const struct fault_memory *memory, const struct launch_entry *faulted);

#endif
