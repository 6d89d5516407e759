/*
 * The native half of a captured stack: its frames by name.
 *
 * Thread safety: every function, from any thread; native_frames() briefly holds the loader's lock.
 */
#pragma once

#include "libdw.h"
#include "stack.h"

/* Gets the frames, innermost first. Leaves out frames of cufence, leading frames of the CUDA driver and runtime (static or
 * shared) if others follow, and frames in no module (generated code), which have no name. Without libdw, frames have no source
 * lines. Returns their number, at most `max`. */
size_t native_frames(const struct stack *stack, int has_libdw, struct stack_frame *out, size_t max);

/* A return address, and the module that it was in when it was captured: NULL if it still is, "" if it was in none. Path and
 * offset are those of struct module; of a longer path the first NATIVE_PATH_MOST
 * bytes. */
#define NATIVE_PATH_MOST 255
struct native_place {
    uint64_t pc, offset;
    const char *path;
};

/* The same for return addresses, innermost first, at most INTERNED_DEPTH. If another module is there now, or none, the frame
 * has the earlier module and offset only. */
size_t native_frames_at(const struct native_place *places, size_t count, int has_libdw, struct stack_frame *out, size_t max);
