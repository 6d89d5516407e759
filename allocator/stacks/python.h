/*
 * Reads the frames of this process's CPython interpreter, if there is one, straight from memory. Calls no Python function that
 * creates an object or needs the GIL. This is safe for the calling thread's own frames: they cannot change while the thread is
 * in our code, and they hold references to their code objects.
 *
 * Thread safety: every function, from any thread, with the GIL or without.
 */
#pragma once

#include "intern.h"
#include "python_layout.h"

/* Returns interned_hash() of the frames that python_frames() returns, 0 if there are none. */
uint64_t python_hash(void);

/* Gets the calling thread's innermost frames, innermost first, at most INTERNED_DEPTH; the interpreter's internal frames are
 * left out. Returns their number. */
size_t python_frames(struct interned_frame *out);

/* Describes a frame that python_frames() has just returned to this thread. */
void python_describe(const struct interned_frame *frame, struct interned_text *out);

/* For tests: the same for a given thread state. `code_type` is the type that code objects must have. */
uint64_t python_hash_of(const struct python_layout *layout, const void *thread_state, const void *code_type);
size_t python_frames_of(const struct python_layout *layout, const void *thread_state, const void *code_type,
                        struct interned_frame *out);

/* Likewise: a frame's byte offset in the bytecode of its code object, negative before the first instruction. */
int64_t python_position_of(const struct python_layout *layout, const struct interned_frame *frame);
#define PYTHON_NOWHERE INT64_MAX /* the instruction is in no copy of the bytecode */
