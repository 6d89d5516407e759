/*
 * The frames of the CPython interpreter in this process, if there is one, read as they lie in memory: no function of Python's
 * that makes an object or wants the GIL is called. That is safe for the calling thread's own frames, which cannot change while
 * it is in our code, and which hold references to their code objects.
 *
 * Thread safety: every function, from any thread, with the GIL or without.
 */
#ifndef CUFENCE_STACKS_PYTHON_H
#define CUFENCE_STACKS_PYTHON_H

#include "interned.h"
#include "python_layout.h"

/* Whether this process has an interpreter that python_layout.h knows; one that is loaded later may be found later. */
int python_is_there(void);

/* Of the calling thread's innermost INTERNED_DEPTH frames, those of the interpreter's own making left out: interned_hash()
 * of what python_frames() gives. 0 without frames. */
uint64_t python_hash(void);

/* The same frames, innermost first. Returns how many. */
size_t python_frames(struct interned_frame *out);

/* For frames that python_frames() has just given to this thread. */
void python_describe(const struct interned_frame *frame, struct interned_text *out);

/* For tests: the same from a given thread state. `code_type` is the type that a code object must have. */
uint64_t python_hash_of(const struct python_layout *layout, const void *thread_state, const void *code_type);
size_t python_frames_of(const struct python_layout *layout, const void *thread_state, const void *code_type,
                        struct interned_frame *out);

#endif
