/*
 * record=DIR: saves the core dump and the snapshot of each reported fault, for `cufence explain` on any machine.
 *
 * Thread safety: called by the monitor's thread only, after record_open().
 */
#ifndef CUFENCE_WITNESS_RECORD_H
#define CUFENCE_WITNESS_RECORD_H

#include "analysis/snapshot/keep.h"
#include "base/options.h"

/* Reads the folder's name from the options. May be called again. Errors: OPTION, OVERFLOW (the name). */
cufence_status record_open(const struct options *options);

int record_is_wanted(void);

/* Creates the folder if necessary and writes two files that only their owner can read: NAME.snapshot.json and NAME.core.gz
 * (NAME.core without libz.so.1). Prints a line with the file name, or with the error. */
void record_keep(const void *dump, size_t size, const struct fault_memory *memory, struct snapshot_origin *origin);

#endif
