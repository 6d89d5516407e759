/*
 * Pinned host memory of a launch that is done again, at the addresses that it had. Pure; any thread.
 */
#ifndef CUFENCE_ANALYSIS_SNAPSHOT_SCENE_PINNED_H
#define CUFENCE_ANALYSIS_SNAPSHOT_SCENE_PINNED_H

#include <stddef.h>
#include <stdint.h>

#define SCENE_PINNED 64                         /* blocks */
#define SCENE_PINNED_BYTES ((uint64_t)64 << 20) /* of all blocks together */

struct scene_range {
    uint64_t address, bytes;
};

/* Whether the memory can be mapped: in order, apart from each other and from cufence's address space, within the host's, and
 * not too much of it. */
int scene_pinned_is_sound(const struct scene_range *ranges, size_t count, uint64_t arena_start, uint64_t arena_end);

#endif
