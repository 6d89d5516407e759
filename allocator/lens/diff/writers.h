/*
 * Remembers who wrote each buffer. Pure; any thread, one at a time for a struct trace_writers.
 */
#pragma once

#include "event.h"

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

/* Whether a launch changed the buffer: a copy or set always does, if it is its destination. */
static inline int trace_is_written(const struct trace_buffer *buffer)
{
    return buffer->has_after && (!buffer->has_before || buffer->before != buffer->after);
}
