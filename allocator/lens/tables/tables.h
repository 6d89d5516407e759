/*
 * Tables of row numbers: what cufence_index() declares. Before each launch that is given both a table and the rows that it
 * names, a kernel of ours (kernels/tables.h) looks on the launch's stream for elements that name no row, a free one, or one of
 * another owner. Its results are there before the launch is done, so they are told also if that faults.
 *
 * A launch of a CUDA graph is looked at as a whole, before it: what it was given when it was captured. A table that the graph
 * itself writes is seen as it was before.
 *
 * tables_declare() adds the user of visits at its first call; until then nothing of it is there. A launch that is given no
 * table then costs a look at its arguments, against the bounds of all tables.
 *
 * Thread safety: any thread.
 */
#ifndef CUFENCE_LENS_TABLES_H
#define CUFENCE_LENS_TABLES_H

#include "base/options.h"

#include <cufence.h>

/* Implements cufence_index_table(). */
cufence_status tables_declare(const cufence_table *table, const struct options *options);

#endif
