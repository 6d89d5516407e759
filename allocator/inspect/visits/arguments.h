/*
 * The arguments of a launch as the device sees them, and the buffers that they point to.
 * Thread safety: any thread; `call` is the caller's.
 */
#pragma once

#include "heap/heap.h"
#include "launch/launch.h"

/* A pointer among a launch's arguments, and the live buffer that it points into. */
struct reached {
    const struct launch_function *function; /* whose argument it is; NULL if it is unknown */
    CUfunction handle;                      /* its: of several kernels with one name, each has its own */
    int argument;                           /* number of the argument, from 0; -1 if the driver does not tell the layout */
    uint32_t at;       /* where the pointer is in the argument, in bytes; without a layout, in all of them */
    uint64_t pointer;  /* into the buffer */
    uint64_t bytes;    /* from there to the buffer's end */
    int is_out_of_way; /* kernels of the launch's device have no access to it: it may be named, not read */
    struct heap_range range;
};

/* Puts the launch's arguments into `out`, laid out as the device sees them, at most `max` bytes. Returns their number; 0 if
 * there are none, or if their layout is unknown (drivers before CUDA 12.4). Padding is 0. `function`: may be NULL. */
size_t arguments_pack(const struct launch_call *call, const struct launch_function *function, uint8_t *out, size_t max);

/* Finds the pointers in arguments that arguments_pack() has returned, in order, also those inside structs. Returns their
 * number, at most `max`. device: of the launch. */
size_t arguments_reach(const uint8_t *bytes, size_t size, const struct launch_function *function, CUfunction handle, int device,
                       struct reached *out, size_t max);

/* Fills in all but function, argument and at. Returns 0 if the pointer is into no live buffer. */
int arguments_reach_one(uint64_t pointer, int device, struct reached *out);

/* Describes the buffer of a range. Returns 0, and sets the number to 0, if it is gone. */
int arguments_describe(const struct heap_range *range, cufence_buffer *out);
