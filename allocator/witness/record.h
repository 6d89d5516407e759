/*
 * record=DIR: keeps the core dump and the snapshot of each fault that is reported, for `cufence explain` on any machine.
 *
 * Thread safety: of the monitor's thread, after record_open().
 */
#ifndef CUFENCE_WITNESS_RECORD_H
#define CUFENCE_WITNESS_RECORD_H

#include "analysis/snapshot/keep.h"
#include "base/options.h"

/* Learns the folder's name from the options. Errors: OPTION, OVERFLOW (the name). May be called again. */
cufence_status record_open(const struct options *options);

int record_is_wanted(void);

/* Makes the folder if it is not there, and writes two files for their owner alone, NAME.core.gz (NAME.core where there is no
 * libz.so.1) and NAME.snapshot.json. A line says where, or what went wrong. */
void record_keep(const void *dump, size_t size, const struct fault_memory *memory, struct snapshot_origin *origin);

#endif
