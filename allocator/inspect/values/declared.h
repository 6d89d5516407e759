/*
 * What the program's compiler knows of a kernel's arguments: their names and the types of what they point to. Triton's kernels
 * have neither in their names or code; the Python package declares them when Triton or Inductor loads a kernel.
 *
 * Thread safety: any thread.
 */
#pragma once

#include "analysis/values/value.h"
#include "inspect/visits/arguments.h"

/* arguments: "NAME TYPE" of each in order, one a line; types as Triton writes them: "*fp32", "*kbf16" (never written), "i32".
 * They hold for the handle until its module is unloaded. */
void declared_add(CUfunction handle, const char *symbol, const char *arguments);

/* Of a pointer that is an argument by itself. VALUE_TYPES and 0 if it has no declaration that fits the kernel's layout. */
enum value_type declared_elements(const struct reached *reached);
int declared_is_const(const struct reached *reached);
/* NULL if it is unknown. Stays valid. */
const char *declared_name(CUfunction handle, const struct launch_function *function, int argument);

/* The module is about to be unloaded. */
void declared_gone(const void *module);
