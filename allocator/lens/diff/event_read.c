/* In a file of its own, so that a library that only writes needs no parser. */
#include "event.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static cufence_status corrupt(struct problem *problem, const char *what)
{
    return problem_set(problem, CUFENCE_ERROR_CORRUPT, "%s", what);
}

/* ---- members: one that is missing is 0 or ""; one of another type, or out of range, fails ---- */

struct reading {
    const char *wrong; /* the name of the first bad member; NULL if there is none */
};

static uint64_t number_in(struct reading *reading, const json_t *object, const char *name, uint64_t most)
{
    const json_t *member = json_object_get(object, name);
    json_int_t number = json_integer_value(member);
    if (!member)
        return 0;
    if (json_is_integer(member) && number >= 0 && (uint64_t)number <= most)
        return (uint64_t)number;
    reading->wrong = reading->wrong ? reading->wrong : name;
    return 0;
}

static const char *text_in(struct reading *reading, const json_t *object, const char *name)
{
    const json_t *member = json_object_get(object, name);
    if (member && !json_is_string(member))
        reading->wrong = reading->wrong ? reading->wrong : name;
    return json_is_string(member) ? json_string_value(member) : "";
}

static void three_in(struct reading *reading, const json_t *object, const char *name, uint32_t three[3])
{
    const json_t *member = json_object_get(object, name);
    int is_well = !member || json_array_size(member) == 3;
    for (size_t i = 0; i < 3 && member && is_well; i++) {
        const json_t *one = json_array_get(member, i);
        is_well = json_is_integer(one) && json_integer_value(one) >= 0 && json_integer_value(one) <= UINT32_MAX;
        three[i] = (uint32_t)json_integer_value(one);
    }
    if (!is_well)
        reading->wrong = reading->wrong ? reading->wrong : name;
}

/* Returns whether there is one. */
static int hash_in(struct reading *reading, const json_t *object, const char *name, uint64_t *hash)
{
    const char *text = text_in(reading, object, name);
    char *end = NULL;
    if (!*text)
        return 0;
    *hash = strtoull(text, &end, 16);
    if (strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16)
        return 1;
    reading->wrong = reading->wrong ? reading->wrong : name;
    return 0;
}

static int argument_in(struct reading *reading, const json_t *object)
{
    return json_object_get(object, "argument") ? (int)number_in(reading, object, "argument", INT32_MAX) : -1;
}

/* ---- arguments ---- */

static struct trace_buffer read_buffer(struct reading *reading, const json_t *object)
{
    struct trace_buffer buffer = {.argument = argument_in(reading, object),
                                  .at = (uint32_t)number_in(reading, object, "at", UINT32_MAX),
                                  .name = text_in(reading, object, "buffer"),
                                  .size = number_in(reading, object, "size", INT64_MAX),
                                  .offset = number_in(reading, object, "offset", INT64_MAX),
                                  .bytes = number_in(reading, object, "bytes", INT64_MAX)};
    buffer.has_before = hash_in(reading, object, "before", &buffer.before);
    buffer.has_after = hash_in(reading, object, "after", &buffer.after);
    if (!*buffer.name)
        reading->wrong = reading->wrong ? reading->wrong : "buffer";
    return buffer;
}

static struct trace_scalar read_scalar(struct reading *reading, const json_t *object)
{
    return (struct trace_scalar){.argument = argument_in(reading, object),
                                 .bytes = (uint32_t)number_in(reading, object, "bytes", UINT32_MAX),
                                 .value = text_in(reading, object, "value")};
}

/* Returns the number of elements of a list; 0 if there is none, or with reading->wrong set if it is none or too long. */
static size_t count_in(struct reading *reading, const json_t *object, const char *name)
{
    const json_t *member = json_object_get(object, name);
    size_t count = json_array_size(member);
    if ((!member || json_is_array(member)) && count <= TRACE_ARGUMENTS)
        return count;
    reading->wrong = reading->wrong ? reading->wrong : name;
    return 0;
}

/* Returns 0 if out of host memory. */
static int read_arguments(struct reading *reading, const json_t *object, struct trace_event *event)
{
    event->buffer_count = count_in(reading, object, "buffers");
    event->scalar_count = count_in(reading, object, "scalars");
    struct trace_buffer *buffers = event->buffer_count ? calloc(event->buffer_count, sizeof *buffers) : NULL;
    struct trace_scalar *scalars = event->scalar_count ? calloc(event->scalar_count, sizeof *scalars) : NULL;
    event->own[1] = buffers;
    event->own[2] = scalars;
    event->buffers = buffers;
    event->scalars = scalars;
    if ((event->buffer_count && !buffers) || (event->scalar_count && !scalars))
        return 0;
    for (size_t i = 0; i < event->buffer_count; i++)
        buffers[i] = read_buffer(reading, json_array_get(json_object_get(object, "buffers"), i));
    for (size_t i = 0; i < event->scalar_count; i++)
        scalars[i] = read_scalar(reading, json_array_get(json_object_get(object, "scalars"), i));
    return 1;
}

/* ---- lines ---- */

/* TRACE_KINDS if it is none. */
static enum trace_kind kind_of(const char *text)
{
    static const char *const kinds[TRACE_KINDS] = {"launch", "graph", "copy", "set", "end"};
    int kind = 0;
    while (kind < TRACE_KINDS && strcmp(text, kinds[kind]) != 0)
        kind++;
    return (enum trace_kind)kind;
}

static cufence_status load(const char *line, size_t size, json_t **object, struct problem *problem)
{
    json_error_t error;
    *object = NULL;
    if (size > TRACE_LINE_BYTES)
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

cufence_status trace_event_read(const char *line, size_t size, struct trace_event *event, struct problem *problem)
{
    json_t *object;
    struct reading reading = {NULL};
    *event = (struct trace_event){0};
    cufence_status status = load(line, size, &object, problem);
    if (status != CUFENCE_OK)
        return status;
    *event = (struct trace_event){.kind = kind_of(text_in(&reading, object, "event")),
                                  .number = number_in(&reading, object, "number", INT64_MAX),
                                  .stream = number_in(&reading, object, "stream", UINT32_MAX),
                                  .device = (int)number_in(&reading, object, "device", INT32_MAX),
                                  .name = text_in(&reading, object, "name"),
                                  .symbol = text_in(&reading, object, "symbol"),
                                  .place = text_in(&reading, object, "place"),
                                  .shared = (uint32_t)number_in(&reading, object, "shared", UINT32_MAX),
                                  .missed = number_in(&reading, object, "missed", INT64_MAX),
                                  .own = {object}};
    three_in(&reading, object, "grid", event->grid);
    three_in(&reading, object, "block", event->block);
    if (!read_arguments(&reading, object, event))
        status = problem_set(problem, CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory");
    else if (event->kind == TRACE_KINDS)
        status = corrupt(problem, "the line is not an event of a trace");
    else if (reading.wrong)
        status = problem_set(problem, CUFENCE_ERROR_CORRUPT, "\"%s\" has a value that is not allowed", reading.wrong);
    else if (event->kind != TRACE_END && (!event->number || !event->stream))
        status = corrupt(problem, "the event has no number, or no stream");
    if (status != CUFENCE_OK)
        trace_event_free(event);
    return status;
}

void trace_event_free(struct trace_event *event)
{
    json_decref(event->own[0]);
    free(event->own[1]);
    free(event->own[2]);
    *event = (struct trace_event){0};
}

static void copy_text(struct reading *reading, const json_t *object, const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s", text_in(reading, object, name));
}

cufence_status trace_header_read(const char *line, size_t size, struct trace_header *header, struct problem *problem)
{
    json_t *object;
    struct reading reading = {NULL};
    memset(header, 0, sizeof *header);
    cufence_status status = load(line, size, &object, problem);
    if (status != CUFENCE_OK)
        return status;
    const json_t *version = json_object_get(object, "trace");
    copy_text(&reading, object, "cufence", header->cufence, sizeof header->cufence);
    copy_text(&reading, object, "device", header->device, sizeof header->device);
    copy_text(&reading, object, "program", header->program, sizeof header->program);
    copy_text(&reading, object, "options", header->options, sizeof header->options);
    copy_text(&reading, object, "filter", header->filter, sizeof header->filter);
    header->every = number_in(&reading, object, "every", INT64_MAX);
    header->compute = (uint32_t)number_in(&reading, object, "compute", UINT32_MAX);
    header->driver = (uint32_t)number_in(&reading, object, "driver", UINT32_MAX);
    if (!json_is_integer(version))
        status = corrupt(problem, "this is not a trace of cufence: `cufence run --trace FILE` makes one");
    else if (json_integer_value(version) != TRACE_VERSION)
        status = problem_set(problem, CUFENCE_ERROR_UNSUPPORTED,
                             "the trace has version %lld, but this cufence reads version %d: use the cufence that wrote it",
                             (long long)json_integer_value(version), TRACE_VERSION);
    else if (reading.wrong)
        status = problem_set(problem, CUFENCE_ERROR_CORRUPT, "\"%s\" has a value that is not allowed", reading.wrong);
    json_decref(object);
    return status;
}

int trace_is_partial(const struct trace_header *header)
{
    return header->filter[0] || header->every > 1;
}

int trace_has_same_launches(const struct trace_header *a, const struct trace_header *b)
{
    return strcmp(a->filter, b->filter) == 0 && (a->every > 1 ? a->every : 1) == (b->every > 1 ? b->every : 1);
}
