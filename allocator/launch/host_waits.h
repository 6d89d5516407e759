/*
 * Which threads wait in a call of CUDA, and where they called it: for a kernel that hangs (fault/stuck.c). A hook notes its
 * thread before the driver waits, and takes the note back behind that.
 *
 * Thread safety: all functions, any thread. They allocate nothing, and take a leaf lock for the time of a copy.
 */
#pragma once

#include "stacks/stack.h"

#define HOST_WAITS 256 /* threads; further ones are not noted */

struct host_wait {
    const char *call; /* a literal */
    uint32_t tid;
    uint64_t since_ns; /* monotonic_ns() */
    struct stack stack;
};

/* Notes the calling thread. frame: as for stack_capture_from(). Returns a number for host_wait_ends(). */
unsigned host_wait_begins(const char *call, const void *frame);
void host_wait_ends(unsigned number);

/* Copies the waits of threads that have not ended, the longest first. Returns their number. */
size_t host_waits_read(struct host_wait out[HOST_WAITS]);
