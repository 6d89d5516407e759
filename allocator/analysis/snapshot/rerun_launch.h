/*
 * A launch of a kernel with all that it takes to do it again, and its pinned host memory, at the addresses that it had. Pure;
 * any thread.
 */
#ifndef CUFENCE_ANALYSIS_SNAPSHOT_RERUN_LAUNCH_H
#define CUFENCE_ANALYSIS_SNAPSHOT_RERUN_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#define RERUN_LAUNCHES 512          /* that are launched again until one faults */
#define BUNDLE_LAUNCHES 8           /* of these, in a bundle */
#define RERUN_ARGUMENTS (32u << 10) /* most bytes of one launch's arguments */

struct rerun_launch {
    uint32_t grid[3], block[3];
    uint32_t cluster[3]; /* zeros if the launch has none */
    uint32_t shared_bytes;
    uint32_t is_cooperative;
    uint32_t argument_bytes;
    const uint8_t *arguments; /* in the device's layout */
};

struct launch_entry;

/* The launch as it is on record, with these arguments. */
struct rerun_launch rerun_launch_of(const struct launch_entry *entry, const uint8_t *arguments);

#define RERUN_VARIABLES 256                      /* of the module */
#define RERUN_VARIABLE_BYTES ((uint32_t)1 << 20) /* of all of them together */

/* A variable of the kernel's module, as the fault left it. */
struct rerun_variable {
    const char *name;
    const uint8_t *value;
    uint32_t bytes;
};

#define RERUN_PINNED 64                         /* blocks */
#define RERUN_PINNED_BYTES ((uint64_t)64 << 20) /* of all blocks together */

struct rerun_range {
    uint64_t address, bytes;
};

/* Whether the memory can be mapped: in order, apart from each other and from cufence's address space, within the host's, and
 * not too much of it. */
int rerun_pinned_is_sound(const struct rerun_range *ranges, size_t count, uint64_t arena_start, uint64_t arena_end);

#endif
