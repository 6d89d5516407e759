/*
 * The launch that a finding is about, where no core dump tells of it. Pure; any thread.
 */
#ifndef CUFENCE_FINDING_LAUNCHED_H
#define CUFENCE_FINDING_LAUNCHED_H

#include "analysis/snapshot/snapshot.h"

struct launched_fact {
    const char *kernel, *symbol; /* demangled and mangled; NULL: a graph */
    const char *graph_kernels;   /* of a graph: as `plain`; else NULL */
    const char *plain;           /* the kernel without types; of a graph: its kernels */
    uint32_t grid[3], block[3];
    uint64_t launch, stream, tid;     /* number of the launch; its stream; its thread */
    const struct stack_frame *frames; /* of the launch, innermost first */
    size_t frame_count;
};

#endif
