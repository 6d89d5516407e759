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

/* *at: the PC's offset in the code; then that of the barrier, or of the load, whose address is the same in each turn.
 * *is_timed: POLL: a clock may end the loop too. */
enum wait_kind wait_find(struct span code, uint64_t *at, unsigned sm, int *is_timed);

/* Whether a barrier is for all threads of a block. */
int wait_is_whole(struct sass_instruction barrier);
