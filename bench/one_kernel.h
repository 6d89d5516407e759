/*
 * What the benchmarks of recorded launches launch: an empty kernel with four arguments, in the first device's primary context.
 */
#ifndef CUFENCE_BENCH_ONE_KERNEL_H
#define CUFENCE_BENCH_ONE_KERNEL_H

#include <cuda.h>

#include <stdint.h>

struct one_kernel {
    CUcontext context;
    struct context *entry; /* the same */
    CUstream stream;
    CUfunction function;
    char device[128]; /* its name */
};

/* Starts cufence on what CUFENCE_DRIVER names, with a ring of `places` launches whatever the options say. Returns NULL, or what
 * failed, which stays good until cufence's next error. Once. */
const char *one_kernel_start(struct one_kernel *out, uint64_t places);

/* Puts a launch of it on record; its first two arguments are i and ~i. */
void one_kernel_record(const struct one_kernel *kernel, uint64_t i);

/* Launches it. */
CUresult one_kernel_launch(const struct one_kernel *kernel, uint64_t i);

#endif
