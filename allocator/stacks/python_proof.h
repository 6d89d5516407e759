/*
 * Whether an interpreter's frames lie where a layout says: a walk whose every read may fail, before any whose reads may not. A
 * build with structs of its own (a patched or a debug interpreter that calls itself by a known version) is found out by it
 * and not by a crash.
 *
 * Thread safety: any thread, for its own thread state.
 */
#ifndef CUFENCE_STACKS_PYTHON_PROOF_H
#define CUFENCE_STACKS_PYTHON_PROOF_H

#include "python_layout.h"

struct python_types {
    const void *code, *str, *bytes;
};

enum python_proof {
    PYTHON_IS_OTHERWISE = -1,
    PYTHON_IS_UNPROVEN = 0, /* there is no frame of a program's code to see it by */
    PYTHON_IS_PROVEN = 1,   /* also where the system forbids such reads: seccomp */
};

/* Takes some 50 microseconds. */
enum python_proof python_prove(const struct python_layout *layout, const struct python_types *types, const void *thread_state);

#endif
