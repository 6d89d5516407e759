/*
 * Pinned host memory of a launch that is done again, at the addresses that it had. Pure; any thread.
 */
#ifndef CUFENCE_ANALYSIS_SNAPSHOT_RERUN_PINNED_H
#define CUFENCE_ANALYSIS_SNAPSHOT_RERUN_PINNED_H

#include <stddef.h>
#include <stdint.h>

#define RERUN_PINNED 64                         /* blocks */
#define RERUN_PINNED_BYTES ((uint64_t)64 << 20) /* of all blocks together */

struct rerun_range {
    uint64_t address, bytes;
};

/* Whether the memory can be mapped: in order, apart from each other and from cufence's address space, within the host's, and
 * not too much of it. */
int rerun_pinned_is_sound(const struct rerun_range *ranges, size_t count, uint64_t arena_start, uint64_t arena_end);

#endif
