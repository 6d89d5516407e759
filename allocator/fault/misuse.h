/*
 * The report of a call on the host that did something wrong with a buffer. Pure; any thread.
 */
#ifndef CUFENCE_FAULT_MISUSE_H
#define CUFENCE_FAULT_MISUSE_H

#include "stacks/stack.h"

#include <cufence.h>

struct misuse {
    const char *kind;     /* "double free", "invalid free", "host write out of bounds", ... */
    const char *call;     /* the driver function */
    const char *sentence; /* what it did */
    uint64_t address;
    const cufence_description *place; /* what lies at the address */
    uint64_t now_ns;
    size_t (*buffer_frames)(uint32_t stack, struct stack_frame *out, size_t max); /* stack_python_frames(), or NULL */
};

/* Returns malloc'ed text in the form of fault_report_text(), which the caller frees; NULL when the host is out of memory. */
char *misuse_text(const struct misuse *misuse, int pid);

#endif
