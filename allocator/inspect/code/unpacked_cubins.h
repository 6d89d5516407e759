/*
 * The compressed cubins of fat binaries, unpacked: those used last, for the next kernel that is in one of them. At most
 * UNPACKED_MOST bytes are kept, or a single cubin that is larger.
 *
 * Thread safety: none; the caller (code.c) holds its lock.
 */
#pragma once

#include "analysis/lines/fatbin.h"

#define UNPACKED_MOST (UINT64_C(64) << 20)

/* Returns a cubin's bytes, which stay until the next call; empty if it is damaged, or the host has no memory for it.
 * `owner`: whose bytes it is in, until unpacked_forget(). */
struct span unpacked_find(const void *owner, const struct fatbin_image *cubin);
void unpacked_forget(const void *owner);

/* The number of bytes that are kept. */
uint64_t unpacked_bytes(void);

/* What the driver makes of PTX, which it hands out only if it is asked to link: the code for the current context's device, by
 * the compiler that also compiles modules when they are loaded. It takes as long as that. Returns a cubin, malloc'ed; empty if
 * the driver refuses, or is too old. `ptx` ends with a NUL, which counts. Any thread. */
struct span compiled_from(struct span ptx);
