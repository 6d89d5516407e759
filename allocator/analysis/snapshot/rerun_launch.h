/*
 * A launch of a kernel with all that it takes to do it again.
 */
#ifndef CUFENCE_ANALYSIS_SNAPSHOT_RERUN_LAUNCH_H
#define CUFENCE_ANALYSIS_SNAPSHOT_RERUN_LAUNCH_H

#include <stdint.h>

#define RERUN_LAUNCHES 8            /* that are launched again until one faults */
#define RERUN_ARGUMENTS (32u << 10) /* most bytes of one launch's arguments */

struct rerun_launch {
    uint32_t grid[3], block[3];
    uint32_t cluster[3]; /* zeros if the launch has none */
    uint32_t shared_bytes;
    uint32_t is_cooperative;
    uint32_t argument_bytes;
    const uint8_t *arguments; /* in the device's layout */
};

#endif
