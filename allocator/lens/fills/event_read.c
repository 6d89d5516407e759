/* In a file of its own, so that a library that only writes needs no parser. */
#include "event.h"

#include "record/record.h"

#include <string.h>

#define EVENT(kind, member, ...) FIELD(kind, struct seen_event, member, #member, __VA_ARGS__)
#define BUFFER(kind, member, ...) FIELD(kind, struct seen_buffer, member, #member, __VA_ARGS__)
#define SCALAR(kind, member, ...) FIELD(kind, struct seen_scalar, member, #member, __VA_ARGS__)

static const struct field of_buffer[] = {
    FIELD(TEXT, struct seen_buffer, name, "buffer", .flags = REQUIRED),
    BUFFER(INT, argument, .flags = OR_NONE),
    BUFFER(NUMBER, at),
    BUFFER(NUMBER, size),
    BUFFER(NUMBER, offset),
    BUFFER(NUMBER, bytes),
    BUFFER(HASH, before, WHEN(struct seen_buffer, has_before)),
    BUFFER(HASH, after, WHEN(struct seen_buffer, has_after)),
    BUFFER(HASH, folded_before, WHEN(struct seen_buffer, has_folded_before)),
    BUFFER(HASH, folded_after, WHEN(struct seen_buffer, has_folded_after)),
};
static const struct record buffer_record = RECORD(struct seen_buffer, of_buffer);

static const struct field of_scalar[] = {
    SCALAR(INT, argument, .flags = OR_NONE),
    SCALAR(NUMBER, bytes),
    SCALAR(TEXT, value, .flags = REQUIRED),
};
static const struct record scalar_record = RECORD(struct seen_scalar, of_scalar);

static const struct field of_event[] = {
    FIELD(WORD, struct seen_event, kind, "event", .flags = REQUIRED, .words = seen_kinds),
    EVENT(NUMBER, number),
    EVENT(NUMBER, launch),
    EVENT(NUMBER, stream, .most = UINT32_MAX),
    EVENT(NUMBER, device, .most = INT32_MAX),
    EVENT(TEXT, name),
    EVENT(TEXT, symbol),
    EVENT(TEXT, place),
    EVENT(TRIPLE, grid),
    EVENT(TRIPLE, block),
    EVENT(NUMBER, shared),
    EVENT(NUMBER, missed),
    EVENT(LIST, buffers, .flags = BEHIND, .most = SEEN_ARGUMENTS, .record = &buffer_record,
          COUNT(struct seen_event, buffer_count)),
    EVENT(LIST, scalars, .flags = BEHIND, .most = SEEN_ARGUMENTS, .record = &scalar_record,
          COUNT(struct seen_event, scalar_count)),
};
static const struct record event_record = RECORD(struct seen_event, of_event);

static const struct field of_header[] = {FIELD(CHARS, struct seen_header, fill, "fill")};
static const struct record header_record = RECORD(struct seen_header, of_header);

static cufence_status corrupt(struct problem *problem, const char *what)
{
    return problem_set(problem, CUFENCE_ERROR_CORRUPT, "%s", what);
}

static cufence_status load(const char *line, size_t size, json_t **object, struct problem *problem)
{
    json_error_t error;
    *object = NULL;
    if (size > SEEN_LINE_BYTES)
        return corrupt(problem, "the line is too long");
    *object = json_loadb(line, size, 0, &error);
    if (!*object && json_error_code(&error) == json_error_out_of_memory)
        return problem_set(problem, CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory");
    if (*object && json_is_object(*object))
        return CUFENCE_OK;
    json_decref(*object);
    *object = NULL;
    return corrupt(problem, "the line is not a JSON object");
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

cufence_status seen_event_read(const char *line, size_t size, struct seen_event *event, struct problem *problem)
{
    json_t *object;
    struct record_memory memory = {NULL};
    *event = (struct seen_event){0};
    cufence_status status = load(line, size, &object, problem);
    if (status != CUFENCE_OK)
        return status;
    status = record_from_json(&event_record, object, event, &memory, problem);
    event->own[0] = object;
    event->own[1] = memory.first;
    event->name = or_empty(event->name);
    event->symbol = or_empty(event->symbol);
    event->place = or_empty(event->place);
    if (status == CUFENCE_OK && event->kind != SEEN_END && (!event->number || !event->stream))
        status = corrupt(problem, "the event has no number, or no stream");
    if (status != CUFENCE_OK)
        seen_event_free(event);
    return status;
}

void seen_event_free(struct seen_event *event)
{
    struct record_memory memory = {.first = event->own[1]};
    record_free(&memory);
    json_decref(event->own[0]);
    *event = (struct seen_event){0};
}

cufence_status seen_header_read(const char *line, size_t size, struct seen_header *header, struct problem *problem)
{
    json_t *object;
    struct record_memory none = {NULL};
    memset(header, 0, sizeof *header);
    cufence_status status = load(line, size, &object, problem);
    if (status != CUFENCE_OK)
        return status;
    const json_t *version = json_object_get(object, "seen");
    status = record_from_json(&header_record, object, header, &none, problem);
    if (!json_is_integer(version) || json_integer_value(version) != SEEN_VERSION)
        status = corrupt(problem, "another cufence wrote the file");
    json_decref(object);
    return status;
}

int seen_has_two_fills(const struct seen_header *a, const struct seen_header *b)
{
    return a->fill[0] && b->fill[0] && strcmp(a->fill, b->fill) != 0;
}
