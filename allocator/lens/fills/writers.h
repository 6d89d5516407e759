/*
 * Remembers who wrote each buffer. Pure; any thread, one at a time for a struct seen_writers.
 */
#pragma once

#include "event.h"

struct seen_writers; /* the latest writers of the latest buffers of one run */

struct seen_writers *seen_writers_make(void); /* NULL: out of host memory */
void seen_writers_free(struct seen_writers *writers);

/* Notes what the event has written. Call for every event, in the order of the file. */
void seen_writers_note(struct seen_writers *writers, const struct seen_event *event, uint64_t line);

/* Whether an event before `line` wrote the buffer: 1, 0, or -1 if it is not known any more. */
int seen_writers_find(const struct seen_writers *writers, const char *buffer, uint64_t line);

/* Whether a launch changed the buffer: a copy or set always does, if it is its destination. */
static inline int seen_is_written(const struct seen_buffer *buffer)
{
    return buffer->has_after && (!buffer->has_before || buffer->before != buffer->after);
}
