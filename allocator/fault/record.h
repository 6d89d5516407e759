/*
 * keep=DIR, keep=dump=DIR: saves the core dump and the snapshot of each reported fault, for `cufence explain` on any machine.
 *
 * Thread safety: called by the monitor's thread only, after record_open().
 */
#pragma once

#include "analysis/snapshot/keep.h"
#include "base/files.h"
#include "base/options.h"
#include "rerun/dump_stream.h"

#include <stddef.h>

/* Reads the folder's name from the options. May be called again. Errors: OPTION, OVERFLOW (the name). */
cufence_status record_open(const struct options *options);

int record_is_wanted(void);

/* Creates the folder if necessary and writes files that only their owner can read: NAME.snapshot.json, NAME.core.gz and, with
 * the dump `again` of a second launch, NAME.rerun.core.gz (unpacked, without .gz, where libz.so.1 is missing). Prints a line
 * with the dump's name, or with the error. again and rerun: NULL without a second launch. */
void record_keep(const struct dump *dump, const struct dump *again, const struct fault_memory *memory,
                 const struct rerun_result *rerun, const char *device_name);

/* ---- files.c: the files that are kept of a fault, open to their owner alone; none is overwritten. Any thread. ---- */

/* Writes a dump to STEM.core.gz, or STEM.core without libz.so.1, and the name to `name`. Returns 0 on failure. */
int files_put_dump(char *name, size_t room, const char *stem, const void *dump, size_t size);

/* Returns a snapshot of this process as text (snapshot_write()), NULL if out of host memory. */
char *files_snapshot(const struct fault_memory *memory, const char *device_name, const struct rerun_result *rerun);

/* Says that a file cannot be written; errno: why. */
void files_complain(const char *name);
