/*
 * Labels: names that a thread gives to what it allocates. Each text is kept once, for ever, so that a buffer can carry it as
 * a pointer. Thread safety: the stack is the calling thread's own; interning takes a lock, a leaf.
 */
#ifndef CUFENCE_STACKS_LABELS_H
#define CUFENCE_STACKS_LABELS_H

#include <cufence.h>

#define LABEL_DEPTH 32

/* Errors: INVALID_ARGUMENT (NULL, deeper than LABEL_DEPTH), OUT_OF_MEMORY (the host's). */
cufence_status label_push(const char *label);

/* Errors: INVALID_ARGUMENT (nothing was pushed). */
cufence_status label_pop(void);

/* The innermost label of the calling thread, NULL without one. Valid for ever. */
const char *label_current(void);

#endif
