/*
 * The variables of the module whose kernel has faulted, for its second launch. Thread safety: one thread at a time for each
 * struct variables_kept.
 */
#ifndef CUFENCE_WITNESS_VARIABLES_H
#define CUFENCE_WITNESS_VARIABLES_H

#include "rerun/rerun.h"

struct variables_kept {
    struct rerun_variable list[RERUN_VARIABLES]; /* names: in the input's image */
    uint8_t *values;                             /* the caller frees it */
};

/* Reads them from the device, as long as the context answers, and enters them in the rerun's input; those that the kernel uses
 * and that could not be read, in its result. `relocated` is the module's image in the dump. Takes 20 ms at most. */
void variables_keep(struct variables_kept *kept, struct rerun *rerun, struct span relocated, int device);

#endif
