/*
 * Puts memory barriers in front of the exits of a kernel, and behind its accesses. A warp that has exited before its store
 * faults is gone when the driver dumps the device; behind a barrier it waits for the store, and is still there. And what held
 * the address of an access has another value once the warp has gone on: a barrier right behind the access keeps it there.
 *
 * Source of the encodings: code of ptxas 13.0 for sm_80 to sm_121, disassembled with nvdisasm 13.5.
 * Pure; any thread.
 */
#pragma once

#include "base/image.h"
#include "sass.h"

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

#define FENCE_NO_ACCESS UINT64_MAX
#define FENCE_STORES (UINT64_MAX - 1) /* all that write, up to FENCE_HELD */
#define FENCE_HELD 64u                /* most accesses with a barrier behind them */

struct fence {
    unsigned fenced; /* exits that now go through the barriers */
    unsigned held;   /* accesses with a barrier behind them: each has moved to a stub, which branches back */
};

/*
 * Changes the cubin in *image, malloc'ed, of *size bytes. Each plain EXIT of the kernel `symbol` becomes a branch to the
 * barriers, with the same predicate; exits of other forms stay. access_at: offset in the kernel of an access that is to be
 * held, with those of its kind and width, up to FENCE_HELD: an unrolled loop has several. FENCE_NO_ACCESS: none. A load that
 * overwrites its own address comes second in its stub: before it, one into no register faults.
 * If the code must move, *image is reallocated, and nothing
 * but its section header and the kernel's symbol says so: the program headers still describe the former place.
 * Nothing is changed without CUFENCE_OK. Errors: CORRUPT, NOT_FOUND (no such kernel), UNSUPPORTED (the encodings of its
 * architecture are not known, or its code ends in an unexpected way), OUT_OF_MEMORY.
 */
cufence_status fence_put(uint8_t **image, size_t *size, const char *symbol, uint64_t access_at, struct fence *fence,
                         struct problem *problem);

/* Returns 1 if what is at `offset` of a kernel's code faults for a held access, and sets that, the offset that it had, and the
 * end of its stub: a warp whose access faults is held in front of that. */
int fence_origin(struct span code, unsigned sm, uint64_t offset, uint64_t *origin, uint64_t *end,
                 struct sass_instruction *access);
