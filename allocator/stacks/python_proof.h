/*
 * Checks that an interpreter's frames match the layout: walks them once with reads that may fail, before any walk whose reads
 * may not. So a build with different structs (a patched or debug interpreter that reports a known version) is detected here and
 * not by a crash.
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
    PYTHON_IS_UNPROVEN = 0, /* no frame of the program's code to check against */
    PYTHON_IS_PROVEN = 1,   /* also if the system forbids such reads (seccomp) */
};

/* Takes about 50 microseconds. */
enum python_proof python_prove(const struct python_layout *layout, const struct python_types *types, const void *thread_state);

#endif
