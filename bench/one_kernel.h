/*
 * The kernel for the benchmarks of recorded launches: an empty one with four arguments, in the first device's primary context.
 */
#pragma once

#include <cuda.h>

#include <stdint.h>

struct one_kernel {
    CUcontext context;
    struct context *entry; /* its entry in contexts/ */
    CUstream stream;
    CUfunction function;
    char device[128]; /* device name */
};

/* Starts cufence on the driver that CUFENCE_DRIVER names, with a ring of `places` launches whatever the options say. Returns
 * NULL, or an error message that is valid until cufence's next error. Call once. */
const char *one_kernel_start(struct one_kernel *out, uint64_t places);

/* Records a launch of it; its first two arguments are i and ~i. */
void one_kernel_record(const struct one_kernel *kernel, uint64_t i);
