#include "base/lock.h"

#ifndef NDEBUG

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static _Thread_local uint64_t held; /* one bit per rank */

void lock_entered(enum lock_rank rank)
{
    if (held >> rank) {
        fprintf(stderr, "cufence: internal error: a lock of rank %d is taken while one of rank %d is held\n", (int)rank,
                63 - __builtin_clzll(held));
        abort();
    }
    held |= UINT64_C(1) << rank;
}

void lock_left(enum lock_rank rank)
{
    lock_expected(rank, __func__);
    held &= ~(UINT64_C(1) << rank);
}

void lock_expected(enum lock_rank rank, const char *function)
{
    if (held >> rank & 1)
        return;
    fprintf(stderr, "cufence: internal error: %s() is called without a lock of rank %d\n", function, (int)rank);
    abort();
}

#define BIT(rank) (UINT64_C(1) << (rank))
#define OWN                                                                                                                    \
    (BIT(RANK_PROCESS) | BIT(RANK_VISIT) | BIT(RANK_SPACE) | BIT(RANK_CONTEXTS) | BIT(RANK_TOUCH) | BIT(RANK_VALUES) |         \
     BIT(RANK_CODE) | BIT(RANK_DRIVER))

void lock_may_wait(const char *call)
{
    if (!(held & ~OWN))
        return;
    fprintf(stderr, "cufence: internal error: %s() may wait, and is called with a lock of rank %d\n", call,
            63 - __builtin_clzll(held & ~OWN));
    abort();
}

#endif
