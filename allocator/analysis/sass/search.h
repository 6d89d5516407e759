/*
 * Follows the threads of a launch through the kernel's code, one by one, until one performs an access outside of the memory,
 * for kernels whose culprit is in no core dump. Loads read the memory as the fault left it: what other threads
 * write meanwhile is not seen, nor what the thread itself has written. So the result is derived, and no more.
 *
 * The last block comes first, then the first one, then the others from the end on: most overruns are at the end.
 * Pure. The work is bounded by is_over().
 */
#pragma once

#include "emulate.h"

#define SEARCH_LANES 32

enum search_region {
    SEARCH_INSIDE,  /* the memory is there */
    SEARCH_OUTSIDE, /* an access faults */
    SEARCH_UNKNOWN
};

struct search {
    /* For the caller to fill in. */
    const struct emulate_launch *launch;
    const struct sass_access *access;
    uint64_t access_pc;
    enum search_region (*region)(void *user, uint64_t address, uint64_t bytes);
    int (*is_over)(void *user); /* asked now and then; 1: no more work */
    void *user;

    /* Results. */
    struct evidence_lane lanes[SEARCH_LANES]; /* of one warp: those whose access is outside */
    size_t lane_count;                        /* 0: none was found */
    uint32_t block[3];                        /* the warp's */
    uint64_t followed;                        /* threads, to their end or to the access outside */
    uint64_t lost;                            /* threads whose way, or whose access, depends on what is not known ... */
    uint64_t lost_at;                         /* ... the first of them at this offset in the kernel */
    int is_over_before;                       /* threads are left that were not followed */
};

/* Of several accesses of one launch, with the same callbacks: each thread is followed once, past what it has found. Returns 0
 * if the host has no memory, or they are 65,536 or more. */
int search_all(struct search *searches, size_t count);
