/*
 * What the machine code of a kernel tells about its arguments (analysis/sass/operand_uses.h): which of them it writes through,
 * and in which source line. Found out once for each handle, in some milliseconds, from the module that the driver has loaded it
 * from (inspect/code/code.h); PTX is compiled for it.
 *
 * machine_find_out() asks the driver, so it wants a handle that is valid: that of a kernel which is being launched. The others
 * only look up what was found.
 *
 * Thread safety: any thread, after code_keep().
 */
#pragma once

#include "inspect/visits/arguments.h"

void machine_find_out(CUfunction handle, const struct launch_function *function);

/* Whether the code shows that the kernel does not write through this pointer. */
int machine_only_reads(const struct reached *reached);

/* The source line of all stores through this pointer. Returns 0 if the code has several, or no line table. */
struct machine_line {
    const char *file; /* stays valid */
    int line;
};
int machine_line_of_writes(const struct reached *reached, struct machine_line *out);

/* The module or library is about to be unloaded: its handles may become those of other kernels. */
void machine_gone(const void *module);
