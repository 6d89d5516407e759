/*
 * Captures the Python and native frames of the calling thread cheaply, to be made readable later.
 *
 * A capture interns the Python frames as a number. Unless those alone fill a report, it also takes the native return addresses.
 * Symbols and lines are left to the report.
 *
 * Thread safety: every function, from any thread. A capture takes no lock that is held for long, allocates only for
 * frames not seen before, and needs no GIL: it reads the calling thread's own frames.
 */
#pragma once

#include "analysis/snapshot/snapshot.h"

#include <stddef.h>
#include <stdint.h>

/* A captured stack. A capture (1) walks the calling thread's frames, (2) interns those of Python, (3) leaves names and lines to
 * the report. It never takes the GIL, runs no code of the program's, and follows no pointer outside the thread's own stack and
 * frames. Plain data; may be copied. All zero: nothing is known. */
struct stack {
    uint32_t python; /* the interned Python frames, 0: none */
    uint32_t count;  /* of the native return addresses, innermost first */
    uint64_t pcs[STACK_READ];
};

/* Captures the calling thread's stack. */
void stack_capture(struct stack *out);

/* The same, starting at the caller of the function that passes its own __builtin_frame_address(0). That function must not
 * tail-call this one. */
void stack_capture_from(struct stack *out, const void *frame);

/* The same, but the native half only, which is there whatever Python's half shows. */
void stack_capture_native(struct stack *out, const void *frame);

/* Gets the native frames of a captured stack, innermost first, without those of cufence and CUDA. Returns their number, at most
 * `max`. May take milliseconds. */
size_t stack_native_frames(const struct stack *stack, struct stack_frame *out, size_t max);

/* Returns a number that is equal for equal native stacks, but for odd chances. */
uint64_t stack_native_hash(const struct stack *stack);

/* Whether this process has an interpreter whose frames can be read (python_layout.h). One that is loaded later may be found
 * later. */
int stack_has_python(void);

/* Captures the Python frames only. Returns a number of at most 16 bits for stack_interned_frames(); 0 if there are no Python
 * frames. */
uint32_t stack_capture_python(void);

/* The same, or in a process without an interpreter the native frames. Used for allocations and frees. */
uint32_t stack_capture_interned(void);

/* Gets the frames, innermost first: Python frames, then as many native ones as STACK_SHOWN leaves room for, without those of
 * cufence itself. Returns their number, at most `max`. May take milliseconds and allocate: for reports only. */
size_t stack_frames(const struct stack *stack, struct stack_frame *out, size_t max);
size_t stack_interned_frames(uint32_t number, struct stack_frame *out, size_t max);

/* Call at the end of a report: gives back what is kept to name several stacks quickly. */
void stack_frames_done(void);

/* The same for struct buffer_frames, which passes a pointer that is not needed here. */
size_t stack_buffer_frames(const void *unused, uint32_t number, struct stack_frame *out, size_t max);
