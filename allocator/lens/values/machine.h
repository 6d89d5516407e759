/*
 * What the machine code of a kernel tells about its arguments (analysis/sass/uses.h): which of them it writes through, in which
 * source line, and what its accesses and arithmetic say about the elements. Found out once for each handle, in some
 * milliseconds, from the module that the driver has loaded it from (lens/code/code.h); PTX is compiled for it.
 *
 * machine_find_out() asks the driver, so it wants a handle that is valid: that of a kernel which is being launched. The others
 * only look up what was found.
 *
 * Thread safety: any thread, after code_keep().
 */
#pragma once

#include "analysis/values/value.h"
#include "lens/visits/arguments.h"

void machine_find_out(CUfunction handle, const struct launch_function *function);

/* Whether the code shows that the kernel does not write through this pointer. */
int machine_only_reads(const struct reached *reached);

/* The source line of all stores through this pointer. Returns 0 if the code has several, or no line table. */
struct machine_line {
    const char *file; /* stays valid */
    int line;
};
int machine_line_of_writes(const struct reached *reached, struct machine_line *out);

/* What elements there may be. */
struct machine_elements {
    unsigned widest;      /* bytes of an element, at most; 0: any */
    enum value_type type; /* the floating-point type that it computes with; VALUE_TYPES if none, or several */
};
struct machine_elements machine_elements_of(const struct reached *reached);

/* The module or library is about to be unloaded: its handles may become those of other kernels. */
void machine_gone(const void *module);
