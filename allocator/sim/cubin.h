/*
 * Machine code of simulated kernels: the ELF file for sm_90 that a core dump contains, with one function, one instruction of
 * which is the faulting access; and such files read again, as a program loads them, changed or not.
 *
 * As nvcc ends a kernel, EXIT is followed by a branch to itself and by NOPs.
 */
#pragma once

#include "kernel.h"

#define CUBIN_ADDRESS_REGISTER 2 /* R2:R3 */
#define CUBIN_REGISTERS 32

/* What the simulation has to know of a function's code. Offsets are from the function's entry. */
struct code {
    uint64_t size;
    uint64_t fault;       /* offset of the access */
    uint64_t origin;      /* the same in the compiler's code, if it was moved and a branch leads to it */
    uint64_t resume;      /* where a faulting lane is by then: a little later, as on hardware */
    int is_fenced;        /* a memory barrier before each EXIT: a warp whose access faults is still there */
    unsigned char *bytes; /* NULL for code that no program has loaded: cubin_create() makes it up */
};

/* Returns the function's code, as loaded or as made up. */
struct code cubin_code(const struct CUfunc_st *function);

/* Width of the access in bytes: 1, 2, 4, 8 or 16. */
uint32_t cubin_access_bytes(const struct CUfunc_st *function);

/* Returns a malloc'ed file. Pure. */
unsigned char *cubin_create(const struct CUfunc_st *function, int is_write, size_t *size);

/* image.c: the kernels of a file. */
struct image;

/* Copies the kernels of an ELF file for CUDA; what else the bytes may be is not looked at, and *image is NULL: such a module
 * contains every kernel. Like the driver it has to trust the file's own offsets. Errors: INVALID_IMAGE. */
CUresult image_read(struct image **image, const void *bytes);
/* Returns the code of a kernel, which lives as long as the image, or NULL. */
const struct code *image_find(struct image *image, const char *name);
/* Lets the code live on after the image. */
void image_keep(struct image *image, const struct code *code);
void image_free(struct image *image); /* NULL: nothing happens */
