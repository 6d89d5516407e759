/* In a file of its own, so that a library that only writes needs no parser. */
#include "keep.h"

#include "fields.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Limits, slightly above those of the writer. */
enum { LAUNCHES = 8192, STACKS = 4096, ARGUMENTS = 4096 };

struct kept_stack {
    uint32_t number;
    const struct stack_frame *frames;
    size_t count;
};

struct whole {
    struct snapshot snapshot; /* first: the pointer returned to the caller */
    struct record_memory memory;
    struct kept_launch *launches;
    size_t launch_count;
    struct kept_stack *stacks;
    size_t stack_count;
    struct launch_function **functions;
    size_t function_count;
};

/* Members that are missing or have another type stay 0. */
static const struct field of_whole[] = {
    FIELD(PART, struct whole, snapshot.origin, "origin", .record = &kept_origin),
    FIELD(PART, struct whole, snapshot.memory, "memory", .record = &kept_memory),
    FIELD(LIST, struct whole, snapshot.memory.near, "near", .flags = BEHIND, .record = &kept_buffer,
          COUNT(struct whole, snapshot.memory.near_count)),
    FIELD(LIST, struct whole, snapshot.memory.live, "live", .flags = BEHIND, .record = &kept_buffer,
          COUNT(struct whole, snapshot.memory.live_count)),
    FIELD(LIST, struct whole, snapshot.memory.maps, "maps", .flags = BEHIND, .record = &kept_map,
          COUNT(struct whole, snapshot.memory.map_count)),
    FIELD(LIST, struct whole, launches, "launches", .flags = BEHIND, .most = LAUNCHES, .record = &kept_launch,
          COUNT(struct whole, launch_count)),
};
static const struct record whole_record = RECORD(struct whole, of_whole);

static size_t read_stack(const void *from, uint32_t stack, struct stack_frame *out, size_t max)
{
    const struct whole *whole = from;
    for (size_t i = 0; i < whole->stack_count; i++) {
        const struct kept_stack *kept = &whole->stacks[i];
        if (kept->number != stack)
            continue;
        size_t count = kept->count < max ? kept->count : max;
        if (count)
            memcpy(out, kept->frames, count * sizeof *out);
        return count;
    }
    return 0;
}

static uint32_t number_of(const json_t *value)
{
    return (uint32_t)json_integer_value(value);
}

/* The following functions return 0 or NULL if out of host memory. */

/* Without a layout if its sizes and offsets are inconsistent. */
static struct launch_function *take_function(struct whole *whole, const json_t *object)
{
    const json_t *arguments = json_object_get(object, "arguments");
    const char *name = json_string_value(json_object_get(object, "name"));
    size_t count = json_array_size(arguments) / 2, length = strlen(name ? name : "") + 1;
    count = count < ARGUMENTS ? count : ARGUMENTS;
    struct launch_function *function =
        record_take(&whole->memory, 1, sizeof *function + count * sizeof *function->arguments + length);
    if (!function)
        return NULL;
    function->name = memcpy(&function->arguments[count], name ? name : "", length);
    function->has_layout = json_is_array(arguments);
    function->argument_bytes = number_of(json_object_get(object, "argument_bytes"));
    for (size_t i = 0; i < count; i++) {
        struct launch_argument *argument = &function->arguments[i];
        argument->offset = number_of(json_array_get(arguments, 2 * i));
        argument->size = number_of(json_array_get(arguments, 2 * i + 1));
        if ((uint64_t)argument->offset + argument->size > function->argument_bytes)
            function->has_layout = 0;
    }
    function->argument_count = function->has_layout ? (uint32_t)count : 0;
    return function;
}

static int take_functions(struct whole *whole, const json_t *array)
{
    size_t count = json_array_size(array) < LAUNCHES ? json_array_size(array) : LAUNCHES;
    whole->functions = record_take(&whole->memory, count, sizeof *whole->functions);
    for (; whole->functions && whole->function_count < count; whole->function_count++) {
        struct launch_function *function = take_function(whole, json_array_get(array, whole->function_count));
        if (!function)
            return 0;
        whole->functions[whole->function_count] = function;
    }
    return whole->functions != NULL;
}

/* The list of frames is the member of that name. */
static cufence_status take_stack(struct whole *whole, const json_t *object, const char *name, struct kept_stack *stack)
{
    const struct field frames =
        FIELD(LIST, struct kept_stack, frames, name, .flags = BEHIND, .record = &kept_frame, COUNT(struct kept_stack, count));
    const struct record record = {.fields = &frames, .count = 1, .bytes = sizeof *stack};
    struct problem ignored;
    cufence_status status = record_from_json(&record, object, stack, &whole->memory, &ignored);
    stack->number = (uint32_t)strtoul(name, NULL, 10);
    return status;
}

static int take_stacks(struct whole *whole, json_t *object)
{
    const char *name;
    json_t *frames;
    size_t count = json_object_size(object) < STACKS ? json_object_size(object) : STACKS;
    whole->stacks = record_take(&whole->memory, count, sizeof *whole->stacks);
    json_object_foreach(object, name, frames)
    {
        if (!whole->stacks || whole->stack_count == count)
            break;
        if (take_stack(whole, object, name, &whole->stacks[whole->stack_count++]) == CUFENCE_ERROR_OUT_OF_MEMORY)
            return 0;
    }
    return whole->stacks != NULL;
}

static int connect_launches(struct whole *whole)
{
    struct fault_launch *launches = record_take(&whole->memory, whole->launch_count, sizeof *launches);
    for (size_t i = 0; launches && i < whole->launch_count; i++) {
        struct kept_launch *kept = &whole->launches[i];
        if (kept->has_function && kept->function < whole->function_count)
            kept->entry.function = whole->functions[kept->function];
        kept->entry.kept_bytes = kept->byte_count;
        size_t frames = kept->frame_count < STACK_READ ? kept->frame_count : STACK_READ;
        launches[i] = (struct fault_launch){&kept->entry, kept->frames, frames, kept->place};
    }
    whole->snapshot.memory.launches = launches;
    whole->snapshot.memory.launch_count = launches ? whole->launch_count : 0;
    return launches != NULL;
}

static int take_all(json_t *object, struct whole *whole)
{
    struct problem problem;
    if (record_from_json(&whole_record, object, whole, &whole->memory, &problem) == CUFENCE_ERROR_OUT_OF_MEMORY ||
        !take_functions(whole, json_object_get(object, "functions")) ||
        !take_stacks(whole, json_object_get(object, "stacks")) || !connect_launches(whole))
        return 0;
    whole->snapshot.memory.frames = (struct buffer_frames){read_stack, whole};
    rerun_result_take(json_object_get(object, "rerun"), &whole->snapshot.memory, &whole->snapshot.rerun);
    return 1;
}

cufence_status snapshot_read(const char *text, size_t size, struct snapshot **out, struct problem *problem)
{
    json_error_t error;
    cufence_status status = CUFENCE_OK;
    json_t *object = json_loadb(text, size, 0, &error);
    struct whole *whole = calloc(1, sizeof *whole);
    *out = NULL;
    if (!object)
        status = problem_set(problem, CUFENCE_ERROR_CORRUPT, "not JSON: line %d: %s", error.line, error.text);
    else if (!json_is_integer(json_object_get(object, "snapshot")))
        status = problem_set(problem, CUFENCE_ERROR_CORRUPT, "not a snapshot of cufence");
    else if (json_integer_value(json_object_get(object, "snapshot")) > SNAPSHOT_VERSION)
        status = problem_set(problem, CUFENCE_ERROR_UNSUPPORTED, "its version is %lld; this cufence reads versions up to %d",
                             (long long)json_integer_value(json_object_get(object, "snapshot")), SNAPSHOT_VERSION);
    else if (!whole || !take_all(object, whole))
        status = problem_set(problem, CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory for the snapshot");
    json_decref(object);
    if (status == CUFENCE_OK)
        *out = &whole->snapshot;
    else
        snapshot_free(whole ? &whole->snapshot : NULL);
    return status;
}

void snapshot_free(struct snapshot *snapshot)
{
    struct whole *whole = (struct whole *)snapshot;
    if (!whole)
        return;
    record_free(&whole->memory);
    free(whole);
}
