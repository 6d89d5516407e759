/*
 * What is known about kernels besides what the driver says: readable names, and the types of what their pointers point to. For
 * each pointer, the first of
 *
 *   the signature       what the compiler has declared (declared.h), or that of the demangled name: "float const*"; a pointer
 *                       to const is not written through
 *   the name            if it speaks of one floating-point type and of no other: "add<c10::Half>"
 *   nothing             then the memory is words of 32 bits
 *
 * Thread safety: any thread. Kernels are never forgotten.
 */
#pragma once

#include "analysis/values/value.h"
#include "inspect/visits/arguments.h"

enum type_from { TYPE_UNKNOWN, TYPE_NAME, TYPE_SIGNATURE };

struct known_type {
    enum value_type type; /* VALUE_WORD if it is unknown */
    enum type_from from;
};

struct kernel_names {
    const char *mangled, *demangled; /* the same if it is no C++ name */
    char plain[160];                 /* without types: "gemm" */
};

/* Returns NULL if out of host memory. The result stays valid. */
const struct kernel_names *types_names(const struct launch_function *function);

struct known_type types_of(const struct launch_function *function, const struct reached *reached);
/* Whether the kernel's signature says that it does not write through this pointer. */
int types_is_const(const struct launch_function *function, const struct reached *reached);
