/*
 * What a kernel's demangled name tells about its arguments. Pure; any thread.
 */
#pragma once

#include "analysis/values/value.h"

#include <stddef.h>

/* Returns 1 if argument `index` of `count` is a pointer to const in a name such as "void k<float>(float const*, float*,
 * int)": a store is not meant for such an argument. Returns 0 if the name has no argument list, or one of another length. */
int signature_is_const(const char *name, size_t count, size_t index);

/* Returns the type of the numbers that argument `index` of `count` points to: float32 for "float2 const*", uint64 for
 * "float**". Returns VALUE_TYPES if it points to anything else, or is no pointer, or under the same conditions. */
enum value_type signature_elements(const char *name, size_t count, size_t index);

int signature_is(const char *name, size_t count, size_t index, const char *type);

/* Returns the type of argument `index` of `count` if it is a number itself: int32 for "int". Else VALUE_TYPES. */
enum value_type signature_scalar(const char *name, size_t count, size_t index);
