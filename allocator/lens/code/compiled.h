/*
 * What the driver makes of PTX, which it hands out only if it is asked to link: the code for the current context's device, by
 * the compiler that also compiles modules when they are loaded. It takes as long as that.
 *
 * Thread safety: any thread.
 */
#ifndef CUFENCE_LENS_COMPILED_H
#define CUFENCE_LENS_COMPILED_H

#include "base/reader.h"

/* Returns a cubin, malloc'ed; empty if the driver refuses, or is too old. `ptx` ends with a NUL, which counts. */
struct span compiled_from(struct span ptx);

#endif
