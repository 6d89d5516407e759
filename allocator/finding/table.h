/*
 * The finding that an element of a table names no row that it may name (cufence_index()). Pure; any thread.
 */
#ifndef CUFENCE_FINDING_TABLE_H
#define CUFENCE_FINDING_TABLE_H

#include "launched.h"
#include "record/record.h"
#include "region.h"

#define FINDING_TABLE "wrong row"

enum table_why { TABLE_RIGHT, TABLE_OUTSIDE, TABLE_FREE, TABLE_OTHER };

struct table_fact {
    struct launched_fact by;      /* the launch that was given the table and the rows */
    int is_held;                  /* it was held back */
    const cufence_buffer *buffer; /* of the table; id 0: it is gone */
    struct buffer_frames buffer_frames;
    uint64_t address, element; /* of the element, and its number in the table */
    uint64_t count, wrong;     /* elements of the table, and how many of them were wrong */
    uint32_t width;            /* bytes of an element */
    struct scalar value;       /* SCALAR_WHOLE */
    enum table_why why;
    const char *name, *wants; /* of the rows, and the owner that the table is for; "" none */
    uint64_t rows;            /* those that there are, from 0 */
    /* The row, free if it was so at the launch; `taken` is then who has taken it meanwhile. NULL: none, or unknown. */
    const struct region_fact *region;
    uint64_t now_ns;
};

#endif
