/*
 * GPU core dumps: the FIFO that they go to, and the driver's word that it writes them: lightweight, on every exception, without
 * ending the process. Thread safety: none; at the start and the end of the process.
 */
#ifndef CUFENCE_WITNESS_ARMING_H
#define CUFENCE_WITNESS_ARMING_H

#include <cufence.h>

struct dump_fifo {
    char folder[256]; /* of its own, in TMPDIR or /tmp */
    char path[280];
};

/*
 * Makes the FIFO and arms dumps into it, for contexts that are made from now on.
 * Errors, with nothing left behind: UNSUPPORTED (a driver older than CUDA 12.1, variables of the environment that win over the
 * API, a context that exists already), SYSTEM (no place for the FIFO), DRIVER.
 */
cufence_status dumps_arm(struct dump_fifo *fifo);

void dumps_disarm(void);
void dumps_remove_fifo(const struct dump_fifo *fifo);

#endif
