/*
 * Compares what two runs did at the same place of the same stream. Pure; any thread.
 */
#pragma once

#include "writers.h"

/* In the order in which they are looked for. */
enum seen_difference_kind {
    SEEN_EQUAL,
    SEEN_OTHER_KERNEL,  /* or another kind of event; the streams do not fit together from here on */
    SEEN_OTHER_GRID,    /* grid, block or shared memory */
    SEEN_OTHER_PLACE,   /* of the launch in the source */
    SEEN_OTHER_SCALAR,  /* an argument of up to 8 bytes */
    SEEN_OTHER_POINTER, /* a pointer to another buffer, offset or size; or to none */
    SEEN_OTHER_INPUT,   /* a buffer held something else before */
    SEEN_OTHER_COPY,    /* the host has copied or set other bytes */
    SEEN_OTHER_STRUCT,  /* equal inputs and other outputs, and an argument of more than 8 bytes differs */
    SEEN_OTHER_OUTPUT,  /* equal inputs and arguments, and other outputs */
    SEEN_LONGER,        /* one run has no such event */
    SEEN_DIFFERENCES
};

enum { SEEN_TWO_FILLS = 1 };

struct seen_difference {
    enum seen_difference_kind kind;
    size_t index;   /* SCALAR, STRUCT: of the scalar; POINTER, INPUT, OUTPUT: of the buffer, the same in both events; SIZE_MAX:
                       one has fewer */
    int is_written; /* INPUT: some event of the run wrote the buffer before, or this is not known */
};

/*
 * Compares two events. how: SEEN_TWO_FILLS or 0. With SEEN_TWO_FILLS by their folded hashes: then bytes that nobody has written
 * are equal, also where they were copied to, but what a kernel has computed of them differs. A buffer that differs before the
 * launch is another input only if somebody wrote it in one of the runs, or if outputs differ too: memory that nobody has
 * written holds anything. Hashes that one of the events lacks are taken for equal, and so are scalars and the bytes of larger
 * arguments as long as outputs are known and equal: padding, and members that a kernel does not use, hold anything as well. So
 * do pointers in structs of more than 64 bytes, if all other buffers are equal.
 */
struct seen_difference seen_compare(const struct seen_event *a, const struct seen_writers *of_a, uint64_t line_a,
                                    const struct seen_event *b, const struct seen_writers *of_b, uint64_t line_b, unsigned how);

/* Finds a buffer that was left with other bytes. One that neither launch has changed is no output. how: as above. */
int seen_find_output(const struct seen_event *a, const struct seen_event *b, unsigned how, size_t *index);

/* Finds the next buffer, from *index on, that held bytes before a launch which nobody has written: it had the fill of its run.
 * Of two events of two fills with the same buffers. Returns 0 if there is no further one. */
int seen_next_fresh(const struct seen_event *a, const struct seen_event *b, size_t *index);
