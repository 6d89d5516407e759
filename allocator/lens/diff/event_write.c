#include "event.h"

#include "base/text.h"

#include <errno.h>
#include <stdlib.h>

const char *const trace_kinds[] = {"launch", "graph", "copy", "set", "end", NULL};

#define EVENT(kind, member, ...) FIELD(kind, struct trace_event, member, #member, __VA_ARGS__)
#define BUFFER(kind, member, ...) FIELD(kind, struct trace_buffer, member, #member, __VA_ARGS__)
#define SCALAR(kind, member, ...) FIELD(kind, struct trace_scalar, member, #member, __VA_ARGS__)
#define HEADER(kind, member, ...) FIELD(kind, struct trace_header, member, #member, __VA_ARGS__)
#define HAS_STREAM WHEN(struct trace_event, stream) /* all but the last line */

TABLE(buffer, struct trace_buffer, FIELD(TEXT, struct trace_buffer, name, "buffer", .flags = REQUIRED | EVEN_EMPTY),
      BUFFER(INT, argument, .flags = OR_NONE), BUFFER(NUMBER, at, .flags = NOT_ZERO), BUFFER(NUMBER, size),
      BUFFER(NUMBER, offset), BUFFER(NUMBER, bytes), BUFFER(HASH, before, WHEN(struct trace_buffer, has_before)),
      BUFFER(HASH, after, WHEN(struct trace_buffer, has_after)),
      BUFFER(HASH, folded_before, WHEN(struct trace_buffer, has_folded_before)),
      BUFFER(HASH, folded_after, WHEN(struct trace_buffer, has_folded_after)));
TABLE(scalar, struct trace_scalar, SCALAR(INT, argument, .flags = OR_NONE), SCALAR(NUMBER, bytes),
      SCALAR(TEXT, value, .flags = REQUIRED | EVEN_EMPTY));

static const struct field of_event[] = {
    FIELD(WORD, struct trace_event, kind, "event", .flags = REQUIRED, .words = trace_kinds),
    EVENT(NUMBER, number),
    EVENT(NUMBER, launch, .flags = NOT_ZERO),
    EVENT(NUMBER, stream, .flags = NOT_ZERO, .most = UINT32_MAX),
    EVENT(NUMBER, device, HAS_STREAM, .most = INT32_MAX),
    EVENT(TEXT, name),
    EVENT(TEXT, symbol),
    EVENT(TEXT, place),
    EVENT(TRIPLE, grid, .flags = NOT_ZERO),
    EVENT(TRIPLE, block, .flags = NOT_ZERO),
    EVENT(NUMBER, shared, .flags = NOT_ZERO),
    EVENT(NUMBER, missed, .flags = NOT_ZERO),
    EVENT(LIST, scalars, HAS_STREAM, .flags = BEHIND, .most = TRACE_ARGUMENTS, .record = &scalar,
          COUNT(struct trace_event, scalar_count)),
    EVENT(LIST, buffers, HAS_STREAM, .flags = BEHIND, .most = TRACE_ARGUMENTS, .record = &buffer,
          COUNT(struct trace_event, buffer_count)),
};
const struct record trace_event_record = RECORD(struct trace_event, of_event);

static const struct field of_header[] = {
    {.name = "trace", .type = FIELD_FIXED, .most = TRACE_VERSION},
    HEADER(CHARS, cufence),
    HEADER(CHARS, device),
    HEADER(NUMBER, compute),
    HEADER(NUMBER, driver),
    HEADER(CHARS, program),
    HEADER(CHARS, options),
    HEADER(CHARS, filter),
    HEADER(CHARS, fill),
    HEADER(NUMBER, every, .flags = NOT_ZERO),
};
const struct record trace_header_record = RECORD(struct trace_header, of_header);

static int put_line(FILE *out, json_t *json)
{
    char *line = text_of_json(json, JSON_COMPACT);
    errno = line ? errno : ENOMEM;
    int is_written = line && fputs(line, out) >= 0;
    free(line);
    return is_written;
}

int trace_event_write(FILE *out, const struct trace_event *event)
{
    return put_line(out, record_to_json(&trace_event_record, event));
}

int trace_header_write(FILE *out, const struct trace_header *header)
{
    return put_line(out, record_to_json(&trace_header_record, header));
}
