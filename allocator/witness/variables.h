/*
 * The variables of the module whose kernel has faulted, for its second launch. Thread safety: one thread at a time for each
 * struct variables_kept.
 */
#ifndef CUFENCE_WITNESS_VARIABLES_H
#define CUFENCE_WITNESS_VARIABLES_H

#include "rerun/rerun.h"

struct variables_kept;

/* Reads them from the device, as long as the context answers: call it first of all. Takes 20 ms at most. NULL: there are none,
 * or the host is out of memory. The dump must outlive the result. */
struct variables_kept *variables_keep(const struct dump *dump, const struct evidence *evidence, int device);

/* Enters them in the rerun's input, which has its image and symbol; those that the kernel uses and that could not be read, in
 * its result. kept: NULL: none could. */
void variables_give(struct variables_kept *kept, struct rerun *rerun);

void variables_free(struct variables_kept *kept); /* NULL is allowed */

#endif
