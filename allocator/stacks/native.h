/*
 * The native half of a captured stack: taking it, and unwinding it later.
 *
 * Thread safety: every function, from any thread; native_frames() holds the loader's lock for short whiles.
 */
#ifndef CUFENCE_STACKS_NATIVE_H
#define CUFENCE_STACKS_NATIVE_H

#include "libdw.h"
#include "stack.h"

/* Fills in pc, sp, fp and the words above sp, at most `most` (<= STACK_WORDS), never beyond the end of the thread's stack. `sp`
 * is the stack pointer that the frame of `pc` has after its call, `fp` its frame pointer register. On a stack that the thread
 * library does not know (of a coroutine), the words end with the page. */
void native_capture(struct stack *out, uint64_t pc, const uint64_t *sp, uint64_t fp, size_t most) __attribute__((nonnull));

/* The frames, innermost first, those of cufence left out, and those of the CUDA driver and runtime (a static one too) where
 * others follow. What lies in no module (code made at run time) has nothing to be named by and is left out. `libdw` may be
 * NULL: the frames are the same then, without source lines. Returns how many, at most `max`. */
size_t native_frames(const struct stack *stack, const struct libdw *libdw, struct stack_frame *out, size_t max);

#endif
