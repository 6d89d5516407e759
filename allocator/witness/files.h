/*
 * Writes the files that are kept of a fault, beside base/files.h. All are open to their owner alone, and none is overwritten.
 * Thread safety: all functions, any thread.
 */
#ifndef CUFENCE_WITNESS_FILES_H
#define CUFENCE_WITNESS_FILES_H

#include "analysis/snapshot/keep.h"
#include "base/files.h"

#include <stddef.h>

/* Writes a dump to STEM.core.gz, or STEM.core without libz.so.1, and the name to `name`. Returns 0 on failure. */
int files_put_dump(char *name, size_t room, const char *stem, const void *dump, size_t size);

/* Fills in program, options and time. */
void files_complete_origin(struct snapshot_origin *origin);

#endif
