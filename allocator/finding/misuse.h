/*
 * A call on the host that misused a buffer, as reported by the code that refused it.
 */
#ifndef CUFENCE_FINDING_MISUSE_H
#define CUFENCE_FINDING_MISUSE_H

#include "analysis/verdict/diagnosis.h"

struct misuse {
    const char *kind;     /* "double free", "invalid free", "host write out of bounds", ... */
    const char *call;     /* the driver function, as in the CUDA documentation */
    const char *sentence; /* what the call did, beginning with the address or with a verb */
    uint64_t address;
    enum access_kind access; /* ACCESS_UNKNOWN for a free, which accesses nothing */
    uint64_t bytes;
    const cufence_description *place; /* what is at the address */
    uint64_t tid;                     /* the calling thread */
    uint64_t caller;                  /* the call site: equal for the same place, for identity.h */
    const struct stack_frame *frames; /* of the caller, innermost first */
    size_t frame_count;
    uint64_t now_ns;
    struct buffer_frames buffer_frames;
};

#endif
