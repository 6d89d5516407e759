/*
 * Buffers that are still allocated when the process ends (live=leaks), as a finding. Pure.
 */
#ifndef CUFENCE_FINDING_LEAK_H
#define CUFENCE_FINDING_LEAK_H

#include "finding.h"

struct leak {
    const cufence_buffer *largest; /* of one place of allocation */
    uint64_t buffers, bytes;
    char reason[160]; /* filled in by finding_of_leak() */
    struct buffer_frames frames;
    uint64_t now_ns;
};

/* Fills in *finding; cannot fail. `leak` must outlive it. */
void finding_of_leak(struct finding *finding, struct leak *leak, const struct finding_origin *origin);

#endif
