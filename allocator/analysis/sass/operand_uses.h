/*
 * What a kernel does to the memory that its parameters point to, according to its machine code: which of them it writes
 * through, and where.
 *
 * Every store and atomic is traced back to a parameter (slice.h). Only if that succeeds for all of them, and no instruction may
 * write memory in another way (calls of other functions, bulk copies, surfaces, unknown ones), is it known that the other
 * parameters are not written through. A pointer that is made from the product or shift of another argument is not seen.
 * Pure. The work is bounded for any code.
 */
#pragma once

#include "slice.h"

#define USES_WRITES 16 /* that are kept of a parameter */
#define USES_WORDS 512 /* of the parameters, 4 KiB; a pointer behind them makes the writes unknown */

/* The memory that an 8-byte word of the parameters points to. */
struct operand_use {
    uint32_t write_count;           /* number of instructions that write there */
    uint32_t write_at[USES_WRITES]; /* their offsets in the code, of the first ones */
};

struct operand_uses {
    int knows_writes; /* all writes have been traced: a word without any is not written through */
    struct operand_use words[USES_WORDS];
};

/* Returns a copy of a kernel's code, malloc'ed, in which calls of functions elsewhere end the thread, as those of __assertfail
 * do. NULL if out of memory. */
uint8_t *uses_end_at_calls(struct span code);

/* Fills in *out from the kernel's stores and atomics. `code`: of the kernel, with its functions. */
void uses_find_writes(struct span code, unsigned sm, struct operand_uses *out);
