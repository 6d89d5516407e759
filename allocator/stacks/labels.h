/*
 * Labels: names that a thread gives to its allocations. Each text is stored once, for ever, so that a buffer can refer to it by
 * pointer. At most LABEL_TEXTS texts are stored, cut to the length that reports show: 2 MiB in all. Labels after that (from a
 * program that makes up a new one each step, say) become LABEL_OF_TOO_MANY. Thread safety: the stack is per thread; interning
 * takes a lock, a leaf.
 */
#pragma once

#include <cufence.h>

#define LABEL_DEPTH 32
#define LABEL_BYTES sizeof(((cufence_buffer *)0)->label) /* with the NUL */
#define LABEL_TEXTS 16384u
#define LABEL_OF_TOO_MANY "(not kept: more than 16384 different labels)"

/* Errors: INVALID_ARGUMENT (NULL, deeper than LABEL_DEPTH), OUT_OF_MEMORY (the host's). */
cufence_status label_push(const char *label);

/* Errors: INVALID_ARGUMENT (nothing was pushed). */
cufence_status label_pop(void);

/* Returns the calling thread's innermost label, NULL if there is none. Valid for ever. */
const char *label_current(void);
