/*
 * Walks the calling thread's native frames fast enough for every allocation and launch: 2 to 4 ns a frame, because what the
 * call frame information says about a return address is looked up once and kept (cfi_rule). Follows the stack and the frame
 * pointer only; the walk ends at a frame that needs more, and outside of the thread's stack. Code without such information is
 * crossed by its frame pointer on x86-64, if what that leads to is behind a call; elsewhere the walk ends there.
 *
 * Thread safety: every function, from any thread. Takes no lock, but for return addresses not seen before the loader's.
 */
#pragma once

#include "intern.h"

/* Gets the return addresses above the function that passes its own __builtin_frame_address(0), innermost first, at most
 * `most` (<= INTERNED_DEPTH). Leaves out those in cufence's libraries. Returns their number, and sets *hash to interned_hash()
 * of their frames. */
size_t walk_frames(const void *frame, uint64_t *out, size_t most, uint64_t *hash);

/* Returns where the caller's stack pointer was before it called the function whose __builtin_frame_address(0) is given, which
 * must be a caller of this one: the end of its frame. 0 if that is unknown, which it can't be on x86-64. */
#if defined(__aarch64__)
uint64_t walk_frame_end(const void *frame);
#else
/* System V ABI for x86-64, section 3.2.2: the saved frame pointer, the return address, and the caller's frame. */
static inline uint64_t walk_frame_end(const void *frame)
{
    return (uint64_t)(uintptr_t)frame + 2 * sizeof(uint64_t);
}
#endif

/* The frame of a return address that walk_frames() has just returned. */
struct interned_frame walk_frame(uint64_t pc);
