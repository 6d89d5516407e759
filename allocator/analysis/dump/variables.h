/*
 * The variables of a module (__device__, __constant__, __managed__), and which of them a kernel uses. Pure; any thread.
 */
#ifndef CUFENCE_ANALYSIS_DUMP_VARIABLES_H
#define CUFENCE_ANALYSIS_DUMP_VARIABLES_H

#include "base/image.h"

#define VARIABLES_MOST 256

struct variable {
    const char *name; /* in the cubin */
    uint64_t size;
    uint64_t address; /* see variables_locate() */
    int is_used;      /* an instruction of the kernel names it */
};

/* Lists the variables of a cubin that has no addresses, those that the kernel `symbol` uses first, without strings of assert()
 * and printf(). Returns their number. A damaged cubin has less. */
size_t variables_of(struct span cubin, const char *symbol, struct variable out[VARIABLES_MOST]);

/* Fills in where the driver has put the variables, according to the relocated cubin; 0 where that does not say. Returns how
 * many are there. */
size_t variables_locate(struct span relocated, struct variable *variables, size_t count);

/* Returns whether a value has an address in the relocated cubin's own code or data, which is another one where it is loaded
 * again. */
int variables_lead_inside(struct span relocated, const uint8_t *value, size_t size);

/* In a copy of a relocated cubin, variables have the addresses that the driver has given them, but their sections have none.
 * Gives them offsets in their sections, so that it can be loaded again. */
void variables_settle(uint8_t *copy, size_t size);

#endif
