/*
 * What is kept of a kernel launch, as plain data.
 */
#ifndef CUFENCE_LAUNCH_ENTRY_H
#define CUFENCE_LAUNCH_ENTRY_H

#include "stacks/stack.h"

#define LAUNCH_KEPT_BYTES 256 /* of the arguments of one launch */

/* Where an argument lies in the parameter bytes, as the device sees them. */
struct launch_argument {
    uint32_t offset, size;
};

/* A kernel. There is one of these for each name and layout, and it is never freed: pointers to it stay good. */
struct launch_function {
    const char *name;        /* mangled; "" where the driver does not tell */
    int has_layout;          /* the rest is known (CUDA 12.4 and later) */
    uint32_t argument_bytes; /* where the last argument ends */
    uint32_t argument_count;
    struct launch_argument arguments[];
};

struct launch_entry {
    uint64_t sequence;                      /* of its thread in its context, from 1; higher is newer */
    uint64_t time_ns;                       /* CLOCK_MONOTONIC, up to one tick of the kernel (1 to 10 ms) early */
    const struct launch_function *function; /* NULL for a graph */
    uint64_t graph;                         /* CUgraphExec, 0 for a kernel */
    uint64_t stream;
    uint32_t tid; /* of the launching thread */
    int device;   /* the driver's ordinal, -1 if unknown */
    int is_cooperative;
    uint32_t grid[3], block[3];
    uint32_t cluster[3]; /* zeros: the launch did not say */
    uint32_t shared_bytes;
    uint32_t argument_bytes; /* of the launch, kept or not; 0 if they are not known */
    uint32_t kept_bytes;     /* in bytes[]: the first ones. Between arguments lies what happens to lie there */
    uint8_t bytes[LAUNCH_KEPT_BYTES];
    struct stack stack;
};

#endif
