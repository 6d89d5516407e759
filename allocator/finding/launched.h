/*
 * Findings about a launch of which no core dump tells: it has made a NaN, or an infinity, of inputs that had none; it is given
 * a table (cufence_index()) with an element that names no row which it may name; what it has written depends on bytes that
 * nobody had written before, because it was made twice, where these bytes were 0x00 and where they were 0x4b, and wrote two
 * results. Pure; any thread.
 */
#pragma once

#include "analysis/values/value.h"
#include "record/record.h"
#include "slack.h"

/* The launch. */
struct launched_fact {
    const char *kernel, *symbol; /* demangled and mangled; NULL: a graph */
    const char *graph_kernels;   /* of a graph: as `plain`; else NULL */
    const char *plain;           /* the kernel without types; of a graph: its kernels */
    uint32_t grid[3], block[3];
    uint64_t launch, stream, tid;     /* number of the launch; its stream; its thread */
    const struct stack_frame *frames; /* of the launch, innermost first */
    size_t frame_count;
};

#define FINDING_NAN "first NaN"
#define FINDING_INF "first Inf"
#define NAN_INPUTS 16

/* Memory that the launch was given, as it was before. */
struct nan_input {
    int argument; /* -1 if unknown */
    uint32_t at;  /* of the pointer, in the argument */
    uint64_t buffer, offset, count;
    const char *label; /* NULL: none */
    enum value_type type;
    int is_unwritten; /* nobody was seen to write it */
    uint64_t nans, infinities;
    uint64_t free_bytes;    /* in rows (regions/) that are or were free, and may hold NaN since then */
    uint64_t finite, zeros; /* finite: 0 if there is none, or the figures are unknown; those below are then not valid */
    double min, max, mean, deviation;
};

struct nan_fact {
    const char *kind;            /* FINDING_NAN or FINDING_INF */
    struct launched_fact by;     /* the launch that has made it */
    uint64_t index, made, count; /* the first such element, their number, and that of all elements */
    uint64_t pointer;            /* where the elements begin */
    int argument;                /* that points there, -1 if unknown */
    const char *file;            /* of the only source line that stores there, according to the kernel's code; NULL: unknown */
    int line;
    enum value_type type;
    const cufence_buffer *buffer; /* id 0: it is gone */
    struct buffer_frames buffer_frames;
    const struct nan_input *inputs; /* what was looked at before */
    size_t input_count;
    int is_of_unwritten; /* an input that nobody has written had NaN */
    int is_of_free;      /* an input had NaN that rows of it may hold because they are or were free */
    uint64_t now_ns;
};

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

#define FINDING_UNINIT "uninitialised read"

struct uninit_fact {
    const char *kernel; /* demangled; NULL if unknown */
    const char *symbol; /* of the kernel, mangled; NULL: a graph, or the host computed with them */
    const char *what;   /* that computed with them: "the program on the host"; NULL: the kernel */
    const char *place;  /* of the launch, where no more is known of it: "train.py:41 in step"; NULL or "" */
    uint64_t number;    /* of the launch in its process; 0 if unknown */
    SHAPE;
    const struct fault_launch *launched; /* NULL if unknown */
    const cufence_buffer *fresh;         /* that has bytes which nobody had written; NULL if unknown */
    struct buffer_frames frames;
    int from;                            /* argument that points there, -1 if unknown */
    uint64_t unwritten, first_unwritten; /* how many, and the first of them; 0: unknown */
    uint64_t more;                       /* further buffers with such bytes that it was given, and has only read as well */
    int may_be_result;                   /* the result is in another buffer, and had such bytes there, too */
    int argument;                        /* that points to the result, -1 if unknown */
    enum value_type type;                /* of its elements; those and the rest are valid if different is not 0 */
    uint64_t elements, different, first; /* first: index of the first one that differs */
    char values[2][32];                  /* of that: with 0x00 and with 0x4b */
    uint64_t now_ns;
    char reason[640]; /* finding_of_uninit() sets it: all that in a sentence */
};
