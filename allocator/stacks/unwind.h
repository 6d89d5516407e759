/*
 * Walks up a captured stack: by the call frame information of the modules that are loaded (cfi.h), and over code that has none
 * by frame pointers, as long as each is sound.
 *
 * Thread safety: from any thread; holds the loader's lock for short whiles.
 */
#ifndef CUFENCE_STACKS_UNWIND_H
#define CUFENCE_STACKS_UNWIND_H

#include "stack.h"

/* The return addresses, innermost first, the first being stack->pc; where a signal came, one more than the address of the
 * instruction that it came before, so that one less always lies in what was running. Returns how many, at most `max`. */
size_t unwind(const struct stack *stack, uint64_t *pcs, size_t max);

#endif
