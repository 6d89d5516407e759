/*
 * What a thread waits for, according to the code around its PC: a barrier, or a loop that only a loaded value can end, or a
 * loaded value or a clock. A loop that counts to its end, or that may write something new to memory, is work. Pure. The work is
 * bounded for any code.
 */
#pragma once

#include "sass.h"

enum wait_kind {
    WAIT_NOT,     /* it goes on, or that is not known */
    WAIT_BARRIER, /* of its block */
    WAIT_WARP,    /* for other lanes of its warp */
    WAIT_POLL     /* in a loop: for another value in memory */
};

#define WAIT_BARRIERS 16u /* of a block */

struct wait {
    enum wait_kind kind;
    uint64_t at;      /* the offset in the code of the barrier, or of the load, whose address is the same in each turn */
    int is_timed;     /* POLL: a clock may end the loop too */
    unsigned barrier; /* BARRIER: if it is for all threads of a block, 1 plus its number; else 0 */
};

/* at: the PC's offset in the code. */
struct wait wait_find(struct span code, uint64_t at, unsigned sm);
