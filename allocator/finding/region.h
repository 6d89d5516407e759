/*
 * A row of a divided buffer (regions/), as a finding tells it. Pure; any thread.
 */
#pragma once

#include "analysis/snapshot/snapshot.h"

#define FINDING_REGION "write to a free region"

/* When a row was taken or released. The frames are borrowed, innermost first. */
struct region_event {
    uint64_t ns; /* 0: it was not, or nobody knows */
    uint64_t tid, stream;
    const char *owner; /* who took it; of a release, who had it before. "" and NULL: unknown */
    const struct stack_frame *frames;
    size_t frame_count;
};

enum region_state_word { REGION_IS_LIVE = 1, REGION_IS_FREE };

struct region_fact {
    const char *name;   /* of the division, "" if it has none */
    uint64_t row, rows; /* its number, and how many there are */
    uint64_t bytes;     /* size of a row */
    uint64_t offset;    /* of the address, in the row */
    enum region_state_word state;
    struct region_event released, taken;
};
