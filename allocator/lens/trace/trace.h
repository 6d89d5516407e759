/*
 * trace=FILE: a line for each launch, with hashes of the buffers that it reaches before and after (analysis/trace/event.h,
 * docs/diff.md). A user of visits: the lines are written on its thread. The file is made at the first launch, so that a process
 * that launches nothing leaves another's alone.
 *
 * Thread safety: trace_open() at the start, before the first launch.
 */
#ifndef CUFENCE_LENS_TRACE_H
#define CUFENCE_LENS_TRACE_H

#include "base/options.h"

/* Does nothing without the option. Errors: OPTION, OVERFLOW (the file's name). */
cufence_status trace_open(const struct options *options);

#endif
