/*
 * What is known about kernels besides what the driver says: readable names, and the types of what their pointers point to. For
 * each pointer, the first of
 *
 *   the signature       what the compiler has declared (declared_add()), or that of the demangled name: "float const*"; a
 * pointer to const is not written through the name            if it speaks of one floating-point type and of no other:
 * "add<c10::Half>" nothing             then the memory is words of 32 bits
 *
 * Thread safety: any thread. Kernels are never forgotten.
 */
#pragma once

#include "analysis/values/value.h"
#include "finding/launch_finding.h"
#include "inspect/visits/visits.h"

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

/* Writes the name of the launch's kernel, or those of a graph's kernels: "gemm, softmax". */
void names_kernels(const struct visit *visit, char *out, size_t room);
/* What a finding says of the launch. It borrows frames and `plain`, which receive its stack and names_kernels(). */
void names_launched(const struct visit *visit, struct launched_fact *out, struct stack_frame frames[STACK_READ], char *plain,
                    size_t room);

struct known_type types_of(const struct launch_function *function, const struct reached *reached);
/* Whether the kernel's signature says that it does not write through this pointer. */
int types_is_const(const struct launch_function *function, const struct reached *reached);

/* ---- what the program's compiler declares of a kernel's arguments: their names and the types of what they point to. Triton's
 * kernels have neither in their names or code; the Python package declares them when Triton or Inductor loads a kernel ---- */

/* arguments: "NAME TYPE" of each in order, one a line; types as Triton writes them: "*fp32", "*kbf16" (never written), "i32".
 * They hold for the handle until its module is unloaded. */
void declared_add(CUfunction handle, const char *symbol, const char *arguments);

/* NULL if it is unknown. Stays valid. */
const char *declared_name(CUfunction handle, const struct launch_function *function, int argument);

/* The module is about to be unloaded. */
void declared_gone(const void *module);
