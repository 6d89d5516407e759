/*
 * Arms GPU core dumps: makes the FIFO and tells the driver to write dumps to it, lightweight, on every exception, without
 * aborting the process. Thread safety: none; called at the start and the end of the process.
 */
#ifndef CUFENCE_WITNESS_ARMING_H
#define CUFENCE_WITNESS_ARMING_H

#include <cufence.h>

struct dump_fifo {
    char folder[256]; /* a new folder in TMPDIR or /tmp */
    char path[280];
};

/*
 * Makes the FIFO and arms dumps into it, for contexts created from now on. On error, nothing is left behind.
 * Errors: UNSUPPORTED (a driver older than CUDA 12.1; environment variables that override the API; an existing context), SYSTEM
 * (the FIFO cannot be made), DRIVER.
 */
cufence_status dumps_arm(struct dump_fifo *fifo);

/* Makes a new folder with a FIFO in it, open to this user alone. Errors: SYSTEM. */
cufence_status fifo_make(struct dump_fifo *fifo);

void dumps_disarm(void);
void dumps_remove_fifo(const struct dump_fifo *fifo);

#endif
