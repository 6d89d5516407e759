/*
 * A call on the host that did something wrong with a buffer, as who refused it knows it.
 */
#ifndef CUFENCE_FINDING_MISUSE_H
#define CUFENCE_FINDING_MISUSE_H

#include "analysis/verdict/diagnosis.h"

struct misuse {
    const char *kind;     /* "double free", "invalid free", "host write out of bounds", ... */
    const char *call;     /* the driver function, as documentation names it */
    const char *sentence; /* what it did, beginning with the address or with a verb */
    uint64_t address;
    enum access_kind access; /* ACCESS_UNKNOWN of a free, which has no bytes */
    uint64_t bytes;
    const cufence_description *place; /* what lies at the address */
    uint64_t tid;                     /* who called */
    uint64_t caller;                  /* from where: equal for the same place, for identity.h */
    const struct stack_frame *frames; /* from where, innermost first */
    size_t frame_count;
    uint64_t now_ns;
    struct buffer_frames buffer_frames;
};

#endif
