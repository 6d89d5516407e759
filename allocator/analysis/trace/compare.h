/*
 * Compares what two runs did at the same place of the same stream, and remembers who wrote each buffer.
 * Pure; any thread, one at a time for a struct trace_writers.
 */
#ifndef CUFENCE_ANALYSIS_TRACE_COMPARE_H
#define CUFENCE_ANALYSIS_TRACE_COMPARE_H

#include "event.h"

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

enum { TRACE_IGNORE_SCALARS = 1, TRACE_IGNORE_PLACE = 2, TRACE_IGNORE_GRID = 4, TRACE_IGNORE_BUFFERS = 8 };

struct trace_difference {
    enum trace_difference_kind kind;
    size_t index;   /* SCALAR, STRUCT: of the scalar; POINTER, INPUT, OUTPUT: of the buffer, the same in both events; SIZE_MAX:
                       one has fewer */
    int is_written; /* INPUT: some event of the trace wrote the buffer before, or this is not known */
};

/* ---- who wrote a buffer ---- */

struct trace_writers; /* the latest writers of the latest buffers of one trace */

struct trace_write {
    uint64_t line, offset; /* of the event in its file, as given */
    int is_whole;          /* it left the buffer with the hash `after`; 0: a part of it, or there is no hash */
    uint64_t after;
};

struct trace_writers *trace_writers_make(void); /* NULL: out of host memory */
void trace_writers_free(struct trace_writers *writers);

/* Notes what the event has written. Call for every event, in the order of the file. */
void trace_writers_note(struct trace_writers *writers, const struct trace_event *event, uint64_t line, uint64_t offset);

/* Finds the last event before `line` that wrote the buffer. Returns 1; 0 if there is none; -1 if it is not known any more. */
int trace_writers_find(const struct trace_writers *writers, const char *buffer, uint64_t line, struct trace_write *out);

/* ---- events ---- */

/*
 * Compares two events. `ignored`: of the flags above. A buffer that differs before the launch is another input only if somebody
 * wrote it in one of the runs, or if outputs differ too: memory that nobody has written holds anything. Hashes that one of the
 * events lacks are taken for equal, and so are scalars and the bytes of larger arguments as long as outputs are known and
 * equal: padding, and members that a kernel does not use, hold anything as well.
 */
struct trace_difference trace_compare(const struct trace_event *a, const struct trace_writers *of_a, uint64_t line_a,
                                      const struct trace_event *b, const struct trace_writers *of_b, uint64_t line_b,
                                      unsigned ignored);

/* Whether a launch changed the buffer: a copy or set always does, if it is its destination. */
int trace_is_written(const struct trace_buffer *buffer);

#endif
