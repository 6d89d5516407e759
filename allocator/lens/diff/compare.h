/*
 * Compares what two runs did at the same place of the same stream. Pure; any thread.
 */
#pragma once

#include "writers.h"

/* In the order in which they are looked for. */
enum trace_difference_kind {
    TRACE_EQUAL,
    TRACE_OTHER_KERNEL,  /* or another kind of event; the streams do not fit together from here on */
    TRACE_OTHER_GRID,    /* grid, block or shared memory */
    TRACE_OTHER_PLACE,   /* of the launch in the source */
    TRACE_OTHER_SCALAR,  /* an argument of up to 8 bytes */
    TRACE_OTHER_POINTER, /* a pointer to another buffer, offset or size; or to none */
    TRACE_OTHER_INPUT,   /* a buffer held something else before */
    TRACE_OTHER_COPY,    /* the host has copied or set other bytes */
    TRACE_OTHER_STRUCT,  /* equal inputs and other outputs, and an argument of more than 8 bytes differs */
    TRACE_OTHER_OUTPUT,  /* equal inputs and arguments, and other outputs */
    TRACE_LONGER,        /* one run has no such event */
    TRACE_DIFFERENCES
};

enum {
    TRACE_IGNORE_SCALARS = 1,
    TRACE_IGNORE_PLACE = 2,
    TRACE_IGNORE_GRID = 4,
    TRACE_IGNORE_BUFFERS = 8,
    TRACE_TWO_FILLS = 16
};

struct trace_difference {
    enum trace_difference_kind kind;
    size_t index;   /* SCALAR, STRUCT: of the scalar; POINTER, INPUT, OUTPUT: of the buffer, the same in both events; SIZE_MAX:
                       one has fewer */
    int is_written; /* INPUT: some event of the trace wrote the buffer before, or this is not known */
};

/*
 * Compares two events. With TRACE_TWO_FILLS by their folded hashes: then bytes that nobody has written are equal, also where
 * they were copied to, but what a kernel has computed of them differs. `ignored`: of the flags above. A buffer that differs
 * before the launch is another input only if somebody wrote it in one of the runs, or if outputs differ too: memory that nobody
 * has written holds anything. Hashes that one of the events lacks are taken for equal, and so are scalars and the bytes of
 * larger arguments as long as outputs are known and equal: padding, and members that a kernel does not use, hold anything as
 * well. So do pointers in structs of more than 64 bytes, if all other buffers are equal.
 */
struct trace_difference trace_compare(const struct trace_event *a, const struct trace_writers *of_a, uint64_t line_a,
                                      const struct trace_event *b, const struct trace_writers *of_b, uint64_t line_b,
                                      unsigned ignored);

/* Finds a buffer that was left with other bytes. One that neither launch has changed is no output. how: TRACE_TWO_FILLS or 0.
 */
int trace_find_output(const struct trace_event *a, const struct trace_event *b, unsigned how, size_t *index);

/* Finds the next buffer, from *index on, that held bytes before a launch which nobody has written: it had the fill of its run.
 * Of two events of two fills with the same buffers. Returns 0 if there is no further one. */
int trace_next_fresh(const struct trace_event *a, const struct trace_event *b, size_t *index);
