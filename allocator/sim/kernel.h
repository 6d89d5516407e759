/*
 * Registered kernels as driver functions. As in the driver, a launch also takes a CUkernel: it belongs to no context and runs
 * in that of the stream. A CUfunction belongs to the context that it was looked up in.
 *
 * Ownership: a function is never freed, and only its attributes change. Thread safety: any thread.
 */
#pragma once

#include "sim.h"

#include <stdatomic.h>

struct code;

struct CUfunc_st {
    struct CUfunc_st *next;
    cusim_kernel kernel;      /* owns its strings and array */
    size_t *argument_offsets; /* in the parameter buffer, each aligned to its size, as nvcc lays them out */
    size_t parameter_bytes;
    uint64_t entry;          /* address of its code, as in core dumps */
    const struct code *code; /* of the image that it was loaded from; NULL: not from one with code. Never freed */
    atomic_int attributes[CU_FUNC_ATTRIBUTE_MAX];
    const void *_Atomic owner;     /* the module of a CUfunction, or the library of a CUkernel, that it was last looked up in */
    const struct CUfunc_st *of;    /* the kernel that it is with other code, or in a context; NULL: as registered */
    unsigned long long context_id; /* of a CUfunction; 0: it is a CUkernel */
};

/* Whether this is a valid CUfunction or CUkernel. */
int kernel_is_valid(const void *function);

/* Takes the kernels of the program, and opens the library in CUSIM_KERNELS, if that is set. Errors: INVALID_VALUE, with a
 * message on stderr. */
CUresult kernel_load_library(void);

/* What cusim_declare_variable() has declared. */
struct kernel_variable {
    const char *name;    /* NULL: none */
    CUdeviceptr address; /* 0 before the first module is loaded */
};
extern struct kernel_variable kernel_variable; /* under the lock of kernel.c until it has an address */

/* builtin.c */
extern const cusim_kernel builtin_kernels[];
extern const size_t builtin_kernel_count;

/* own.cpp: cufence's kernels. The first thread of a block does all of its work. */
void own_figures(const cusim_thread *thread, void *const *arguments);
void own_nans(const cusim_thread *thread, void *const *arguments);
void own_reach(const cusim_thread *thread, void *const *arguments);
void own_pattern(const cusim_thread *thread, void *const *arguments);
void own_pattern_fill(const cusim_thread *thread, void *const *arguments);
