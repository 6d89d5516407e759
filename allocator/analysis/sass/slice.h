/*
 * Determines the source of an access's address from the kernel's machine code alone. Starts at the base register pair and goes
 * back through moves, sums, shifts and constant loads, along every path that leads to the access, to the kernel's parameters or
 * to memory.
 *
 * Products and shifted values are taken for an index and not traced. Unsupported instructions make the source unknown, and so
 * does a pointer that depends on the path.
 * Pure. The work is bounded for any code.
 */
#pragma once

#include "analysis/dump/evidence.h"
#include "sass.h"

/* Number of 8-byte words of the parameter bytes that a result can name: as many as a launch record keeps, minus one. */
#define SLICE_WORDS 31

/* `code`: of a kernel, with its functions; `at`: the offset of the access in it. */
struct address_source slice_address(struct span code, uint64_t at, const struct sass_access *access, unsigned sm);

/* Whether an instruction of the code may read through the texture whose handle is the parameter at `offset`: its handle is
 * that one, or it is not known which. (A query of a texture reads no memory of it.) */
int slice_fetches(struct span code, unsigned sm, uint64_t offset);

/* Returns the offset of the parameters in constant bank 0, as in code of ptxas 13.0 for sm_75, 80, 86, 89, 90, 100 and 120. */
uint64_t slice_parameters_at(unsigned sm);
