/*
 * Who called: the Python frames and the native frames of the calling thread, taken cheaply and made readable later.
 *
 * Capturing interns the Python frames (a number stands for them from then on) and, where those alone do not fill a report,
 * copies the top of the native stack as it is; unwinding, symbols and lines are the reader's expense, at a report.
 *
 * Thread safety: every function, from any thread. stack_capture() takes no lock that a reader holds for long, allocates only
 * for frames never seen before, and needs no GIL: it reads the calling thread's own frames.
 */
#ifndef CUFENCE_STACKS_STACK_H
#define CUFENCE_STACKS_STACK_H

#include "analysis/snapshot/snapshot.h"

#include <stddef.h>
#include <stdint.h>

#define STACK_WORDS 160 /* of the native stack at most, copied from the caller's stack pointer upwards; 8 bytes each */

/* Plain data; may be copied. All zero: nothing is known. */
struct stack {
    uint32_t python; /* the interned Python frames, 0: none */
    uint32_t word_count;
    uint64_t pc, sp, fp; /* registers in the frame that the stack begins with */
    uint64_t words[STACK_WORDS];
};

/* Takes the calling thread's stack. */
void stack_capture(struct stack *out);

/* The same from the caller of a function on, which passes its own __builtin_frame_address(0) and has more to do afterwards: so
 * none of the words that are copied are taken up by what lies below. */
void stack_capture_from(struct stack *out, const void *frame);

/* Whether there is an interpreter in this process whose frames can be read. */
int stack_has_python(void);

/* Only the Python part, as a number of at most 16 bits that stack_python_frames() understands; 0 without Python frames. For
 * allocations. */
uint32_t stack_capture_python(void);

/* The frames, innermost first: those of Python where there are any, then native ones, those of cufence itself left out, as many
 * as STACK_SHOWN leaves room for. Returns how many, at most `max`. May take milliseconds
 * and memory: for reports. */
size_t stack_frames(const struct stack *stack, struct stack_frame *out, size_t max);
size_t stack_python_frames(uint32_t python, struct stack_frame *out, size_t max);

/* The same for struct buffer_frames, which needs nothing to read from. */
size_t stack_buffer_frames(const void *unused, uint32_t python, struct stack_frame *out, size_t max);

#endif
