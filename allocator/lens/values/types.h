/*
 * What is known about kernels besides what the driver says: readable names, and the types of what their pointers point to. For
 * each pointer, the first of
 *
 *   values_type=        what the user says
 *   the signature       what the compiler has declared (declared.h), or that of the demangled name: "float const*"; a pointer
 *                       to const is not written through
 *   a guess             from the bytes that were seen there, and the kernel's code (code.h); until then, candidates
 *
 * Thread safety: any thread. Kernels are never forgotten.
 */
#pragma once

#include "analysis/values/value.h"
#include "lens/visits/arguments.h"

enum type_from { TYPE_UNKNOWN, TYPE_GUESSED, TYPE_SIGNATURE, TYPE_OPTION };

struct known_type {
    enum value_type type; /* VALUE_TYPES if it is unknown */
    enum type_from from;
};

struct kernel_names {
    const char *mangled, *demangled; /* the same if it is no C++ name */
    char plain[160];                 /* without types: "gemm" */
};

/* Reads values_type=: [KERNEL[/ARGUMENT]:]TYPE, joined by +; KERNEL is a glob. Returns 0, or writes what is wrong. */
int types_override(const char *text, char *problem, size_t size);

/* Returns NULL if out of host memory. The result stays valid. */
const struct kernel_names *types_names(const struct launch_function *function);

struct known_type types_of(const struct launch_function *function, const struct reached *reached);
/* Whether the kernel's signature says that it does not write through this pointer. */
int types_is_const(const struct launch_function *function, const struct reached *reached);

/* Guesses from the first bytes of such memory, and remembers it for the kernel's pointer, unless the bytes are few or all 0,
 * fit another type better than the one that the code or the name speaks for, or may be of a wider one. Returns what to take the
 * bytes for now; VALUE_TYPES if they look like nothing. */
enum value_type types_guess(const struct launch_function *function, const struct reached *reached, const uint8_t *bytes,
                            size_t size);

/* Whether the kernel's code or name speaks for wider elements than those that were guessed, which may then be halves. */
int types_may_be_wider(const struct launch_function *function, const struct reached *reached, enum value_type guess);

/* Types that an unknown one may be: its figures are all made, and the guess chooses. */
#define TYPE_CANDIDATES 7
extern const enum value_type type_candidates[TYPE_CANDIDATES]; /* floating-point ones first */
#define TYPE_FLOATS 4
