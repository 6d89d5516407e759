/*
 * What a thread waits for, according to the code around its PC: a barrier, or a loop that only a loaded value can end. A loop
 * that counts, that looks at a clock, or that writes to memory is work. Pure. The work is bounded for any code.
 */
#pragma once

#include "base/image.h"
#include "sass.h"

enum wait_kind {
    WAIT_NOT,     /* it goes on, or that is not known */
    WAIT_BARRIER, /* of its block */
    WAIT_WARP,    /* for other lanes of its warp */
    WAIT_POLL     /* in a loop: for another value in memory */
};

/* *at: the PC's offset in the code; then that of the barrier, or of the load, whose address is the same in each turn. */
enum wait_kind wait_find(struct span code, uint64_t *at, unsigned sm);
