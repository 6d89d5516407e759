/*
 * Unwinds a captured stack with the call frame information of the loaded modules (cfi.h), and through code without any by frame
 * pointers, as long as each one is plausible.
 *
 * Thread safety: any thread; briefly holds the loader's lock.
 */
#ifndef CUFENCE_STACKS_UNWIND_H
#define CUFENCE_STACKS_UNWIND_H

#include "stack.h"

/* Gets the return addresses, innermost first; the first is stack->pc. For a frame interrupted by a signal it is the address of
 * the next instruction to run plus one, so that the value minus one is always inside the running code. Returns their number, at
 * most `max`. */
size_t unwind(const struct stack *stack, uint64_t *pcs, size_t max);

#endif
