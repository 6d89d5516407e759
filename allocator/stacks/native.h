/*
 * The native half of a captured stack: taking it, and unwinding it later.
 *
 * Thread safety: every function, from any thread; native_frames() briefly holds the loader's lock.
 */
#ifndef CUFENCE_STACKS_NATIVE_H
#define CUFENCE_STACKS_NATIVE_H

#include "libdw.h"
#include "stack.h"

/* Fills in pc, sp, fp and the words above sp: at most `most` (<= STACK_WORDS), and never beyond the end of the thread's stack.
 * `sp` is the stack pointer in the frame of `pc` after the call returns, `fp` the frame pointer register. On a stack unknown to
 * the thread library (a coroutine's), the copy ends at the page boundary. */
void native_capture(struct stack *out, uint64_t pc, const uint64_t *sp, uint64_t fp, size_t most) __attribute__((nonnull));

/* Gets the frames, innermost first. Leaves out frames of cufence, leading frames of the CUDA driver and runtime (static or
 * shared) if others follow, and frames in no module (generated code), which have no name. Without `libdw` (NULL), frames have
 * no source lines. Returns their number, at most `max`. */
size_t native_frames(const struct stack *stack, const struct libdw *libdw, struct stack_frame *out, size_t max);

#endif
