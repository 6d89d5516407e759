/* The tables that are declared, for tables.c. Thread safety: any thread. */
#pragma once

#include "lens/kernels/tables.h"
#include "lens/visits/visits.h"
#include "regions/regions.h"

#include <cufence.h>

#define TABLES_MOST 4096
#define TABLES_OF_LAUNCH 64 /* further ones are not looked at, and counted */

struct table {
    uint64_t start, count, run, pitch; /* as in struct tables_item */
    uint64_t rows;                     /* address of row 0 */
    struct heap_range range, rows_range;
    uint32_t width, allowed;
    int64_t allow[TABLES_ALLOWED];
    char owner[REGION_TEXT]; /* "": any */
    int stops;
};

/* Whether a launch may be given a table and rows: by its arguments alone. */
int tables_may_be_given(const struct launch_function *function, const struct launch_call *call);

/* The tables that a launch is given together with their rows. Returns their number, at most `max`. */
size_t tables_of(const struct visit *visit, struct table *out, size_t max);

/* cufence_index_table(), but for the checks. The one of the same start and rows before is forgotten, and so are all whose
 * buffers are gone. */
cufence_status table_declare(const cufence_table *table);
