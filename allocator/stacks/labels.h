/*
 * Labels: names that a thread gives to what it allocates. Each text is kept once, for ever, so that a buffer can carry it as
 * a pointer; at most LABEL_TEXTS of them, as far as a report shows them: 2 MiB. A program that makes up a label a step gets
 * LABEL_OF_TOO_MANY for those that come after. Thread safety: the stack is the calling thread's own; interning takes a lock, a
 * leaf.
 */
#ifndef CUFENCE_STACKS_LABELS_H
#define CUFENCE_STACKS_LABELS_H

#include <cufence.h>

#define LABEL_DEPTH 32
#define LABEL_BYTES sizeof(((cufence_buffer *)0)->label) /* with the NUL */
#define LABEL_TEXTS 16384u
#define LABEL_OF_TOO_MANY "(not kept: 16384 labels were)"

/* Errors: INVALID_ARGUMENT (NULL, deeper than LABEL_DEPTH), OUT_OF_MEMORY (the host's). */
cufence_status label_push(const char *label);

/* Errors: INVALID_ARGUMENT (nothing was pushed). */
cufence_status label_pop(void);

/* The innermost label of the calling thread, NULL without one. Valid for ever. */
const char *label_current(void);

#endif
