/*
 * Where the address of an access comes from, by the kernel's machine code alone: from the register pair of its base back over
 * moves, sums, shifts and constant loads, along every way that leads to the access, to the kernel's parameters or to memory.
 *
 * A product and a shifted value are taken for an index into something else and not followed. What is not understood makes the
 * answer unknown, and so does a pointer that differs by the way taken.
 * Thread safety: pure. The work is bounded, whatever the code.
 */
#ifndef CUFENCE_ANALYSIS_SASS_SLICE_H
#define CUFENCE_ANALYSIS_SASS_SLICE_H

#include "analysis/dump/evidence.h"
#include "base/image.h"
#include "sass.h"

/* Words of the parameter bytes, 8 bytes each, that an answer can name. As many as a launch on record keeps but for the last. */
#define SLICE_WORDS 31

/* `code` of a kernel, its functions included; `at` the access's offset in it. */
struct address_source slice_address(struct span code, uint64_t at, const struct sass_access *access, unsigned sm);

/* The offset of the parameters in constant bank 0: by ptxas 13.0's code for sm_75, 80, 86, 89, 90, 100 and 120. */
uint64_t slice_parameters_at(unsigned sm);

#endif
