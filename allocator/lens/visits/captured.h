/*
 * Which kernels a CUDA graph launches, and which memory it was given when it was captured. Graphs that are built node by node,
 * or whose nodes are changed later, are not known, or known as they were.
 *
 * Thread safety: any thread.
 */
#ifndef CUFENCE_LENS_CAPTURED_H
#define CUFENCE_LENS_CAPTURED_H

#include "arguments.h"

#define CAPTURED_KERNELS 64 /* different ones of a graph; later ones are left out */
#define CAPTURED_POINTERS 512

/* What a graph is known to use. */
struct captured {
    uint32_t users;                                            /* of visits: those that want launches of such kernels */
    const struct launch_function *functions[CAPTURED_KERNELS]; /* in the order of their first launches */
    size_t function_count;
    struct reached reached[CAPTURED_POINTERS]; /* buffers as they were at the capture */
    size_t reached_count;
};

/* A kernel is launched into a capture: that of this number, into this graph. reached: its arguments'. */
void captured_note(CUgraph graph, uint64_t capture, const struct launch_function *function, uint32_t users,
                   const struct reached *reached, size_t count);

/* An executable was made of the graph, or is about to be destroyed. */
void captured_instantiated(CUgraphExec executable, CUgraph graph);
void captured_executable_gone(CUgraphExec executable);

/* Which users want launches of the executable: 0 if it is not known. */
uint32_t captured_users(CUgraphExec executable);

/* Copies what is known about an executable. Returns 0 if nothing is. */
int captured_read(CUgraphExec executable, struct captured *out);

#endif
