/*
 * What the host and the kernel of tables.cu share. Plain C and CUDA C++.
 *
 * A launch looks at the elements of several tables, with a number of blocks for each, and counts those that name no row. The
 * blocks of a table share its result, which is written only if an element is wrong.
 */
#pragma once

#include <stdint.h>

#define TABLES_KERNEL "cufence_tables"
#define TABLES_THREADS 256u
#define TABLES_MOST_BLOCKS 64u /* of a table */
#define TABLES_ITEMS 24        /* of a launch; its parameters must stay below 4 KiB */
#define TABLES_ALLOWED 4
#define TABLES_FOUND 16

struct tables_item {
    uint64_t start;  /* of the first element, which is a multiple of `width` */
    uint64_t count;  /* of elements: of all runs */
    uint64_t run;    /* elements of a run */
    uint64_t pitch;  /* bytes from one run to the next */
    uint64_t rows;   /* elements are below that */
    uint64_t states; /* a byte a row, 0: it is live. 0: all are */
    uint64_t owned;  /* a byte a row, 1: the table may name it. 0: it may name all that are live */
    uint64_t out;    /* tables_out, zeroed */
    int64_t allow[TABLES_ALLOWED];
    uint32_t allowed, width;      /* width: 4 or 8 */
    uint32_t first_block, blocks; /* of the grid */
};

/* The kernel's only argument, by value. */
struct tables_items {
    struct tables_item items[TABLES_ITEMS];
    uint32_t count, unused;
};

enum tables_why { TABLES_OUTSIDE = 1, TABLES_FREE, TABLES_OTHER };

struct tables_found {
    uint64_t element;
    int64_t value;
    uint64_t why; /* enum tables_why */
};

struct tables_out {
    uint32_t count, unused; /* of wrong elements; the first ones that were found are in the list, in any order */
    struct tables_found found[TABLES_FOUND];
};
