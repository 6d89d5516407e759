/* In a file of its own, so that a library that only writes needs no parser. */
#include "keep.h"

#include "fields.h"
#include "keep_rerun.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limits, slightly above those of the writer. */
enum { BUFFERS = 4096, LAUNCHES = 8192, STACKS = 4096, ARGUMENTS = 4096, DIMENSIONS = 3 };

static uint64_t number_of(const json_t *value)
{
    char *end = NULL;
    if (json_is_integer(value))
        return (uint64_t)json_integer_value(value);
    const char *text = json_string_value(value);
    uint64_t number = text && text[0] == '0' && text[1] == 'x' ? strtoull(text, &end, 16) : 0;
    return end && !*end ? number : 0;
}

/* Fields that are missing or have another type stay 0. The records have no lists, so that no memory is needed. */
static void take_fields(const json_t *object, void *to, const struct record *record)
{
    struct record_memory none = {NULL};
    struct problem ignored;
    record_from_json(record, object, to, &none, &ignored);
}

/* ---- frames ---- */

struct frames {
    struct stack_frame *all; /* NULL if none */
    size_t count;
};

/* Returns 0 if out of host memory. */
static int take_frames(const json_t *array, struct frames *frames)
{
    size_t count = json_array_size(array);
    frames->count = count < STACK_READ ? count : STACK_READ;
    frames->all = frames->count ? calloc(frames->count, sizeof *frames->all) : NULL;
    for (size_t i = 0; frames->all && i < frames->count; i++)
        take_fields(json_array_get(array, i), &frames->all[i], &kept_frame);
    return frames->all || !frames->count;
}

/* ---- launches ---- */

static void take_dim(const json_t *array, uint32_t dim[DIMENSIONS])
{
    for (size_t i = 0; i < DIMENSIONS; i++)
        dim[i] = (uint32_t)number_of(json_array_get(array, i));
}

/* Returns the function, without a layout if its sizes and offsets are inconsistent; NULL if out of host memory. */
static struct launch_function *take_function(const json_t *object)
{
    const json_t *arguments = json_object_get(object, "arguments");
    const char *name = json_string_value(json_object_get(object, "name"));
    size_t count = json_array_size(arguments) / 2, length = strlen(name ? name : "") + 1;
    count = count < ARGUMENTS ? count : ARGUMENTS;
    struct launch_function *function = calloc(1, sizeof *function + count * sizeof *function->arguments + length);
    if (!function)
        return NULL;
    char *copy = (char *)&function->arguments[count];
    memcpy(copy, name ? name : "", length);
    function->name = copy;
    function->has_layout = json_is_array(arguments);
    function->argument_bytes = (uint32_t)number_of(json_object_get(object, "argument_bytes"));
    function->argument_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        struct launch_argument *argument = &function->arguments[i];
        argument->offset = (uint32_t)number_of(json_array_get(arguments, 2 * i));
        argument->size = (uint32_t)number_of(json_array_get(arguments, 2 * i + 1));
        if ((uint64_t)argument->offset + argument->size > function->argument_bytes)
            function->has_layout = 0;
    }
    if (!function->has_layout)
        function->argument_count = 0;
    return function;
}

static uint32_t take_bytes(const char *text, uint8_t *bytes)
{
    uint32_t count = 0;
    unsigned byte;
    for (; text && text[0] && text[1] && count < LAUNCH_KEPT_BYTES && sscanf(text, "%2x", &byte) == 1; text += 2)
        bytes[count++] = (uint8_t)byte;
    return count;
}

/* ---- the whole ---- */

struct kept_stack {
    uint32_t number;
    struct frames frames;
};

struct whole {
    struct snapshot snapshot; /* first: the pointer returned to the caller */
    cufence_buffer *near, *live;
    struct fault_launch *launches;
    struct launch_entry *entries;
    struct kept_stack *stacks;
    size_t stack_count;
    struct launch_function **functions;
    size_t function_count;
};

static size_t read_stack(const void *from, uint32_t stack, struct stack_frame *out, size_t max)
{
    const struct whole *whole = from;
    for (size_t i = 0; i < whole->stack_count; i++) {
        const struct frames *frames = &whole->stacks[i].frames;
        if (whole->stacks[i].number != stack)
            continue;
        size_t count = frames->count < max ? frames->count : max;
        if (count)
            memcpy(out, frames->all, count * sizeof *out);
        return count;
    }
    return 0;
}

/* The following functions return 0 if out of host memory. */

static int take_buffers(const json_t *array, cufence_buffer **buffers, size_t *count)
{
    size_t size = json_array_size(array);
    *count = size < BUFFERS ? size : BUFFERS;
    *buffers = calloc(*count + 1, sizeof **buffers);
    for (size_t i = 0; *buffers && i < *count; i++)
        take_fields(json_array_get(array, i), &(*buffers)[i], &kept_buffer);
    return *buffers != NULL;
}

static int take_stacks(const json_t *object, struct whole *whole)
{
    const char *key;
    json_t *frames;
    size_t count = json_object_size(object);
    whole->stacks = calloc((count < STACKS ? count : STACKS) + 1, sizeof *whole->stacks);
    json_object_foreach((json_t *)(uintptr_t)object, key, frames)
    {
        if (!whole->stacks || whole->stack_count == STACKS)
            break;
        struct kept_stack *stack = &whole->stacks[whole->stack_count++];
        stack->number = (uint32_t)strtoul(key, NULL, 10);
        if (!take_frames(frames, &stack->frames))
            return 0;
    }
    return whole->stacks != NULL;
}

static int take_functions(const json_t *array, struct whole *whole)
{
    size_t count = json_array_size(array) < LAUNCHES ? json_array_size(array) : LAUNCHES;
    whole->functions = calloc(count + 1, sizeof *whole->functions);
    for (; whole->functions && whole->function_count < count; whole->function_count++) {
        struct launch_function *function = take_function(json_array_get(array, whole->function_count));
        if (!function)
            return 0;
        whole->functions[whole->function_count] = function;
    }
    return whole->functions != NULL;
}

static int take_launches(const json_t *array, struct whole *whole)
{
    struct fault_memory *memory = &whole->snapshot.memory;
    size_t count = json_array_size(array) < LAUNCHES ? json_array_size(array) : LAUNCHES;
    whole->launches = calloc(count + 1, sizeof *whole->launches);
    whole->entries = calloc(count + 1, sizeof *whole->entries);
    for (size_t i = 0; whole->launches && whole->entries && i < count; i++) {
        const json_t *from = json_array_get(array, i);
        uint64_t function = number_of(json_object_get(from, "function"));
        struct launch_entry *entry = &whole->entries[i];
        struct fault_launch *launch = &whole->launches[i];
        struct frames frames;
        take_fields(from, entry, &kept_launch);
        take_dim(json_object_get(from, "grid"), entry->grid);
        take_dim(json_object_get(from, "block"), entry->block);
        take_dim(json_object_get(from, "cluster"), entry->cluster);
        entry->kept_bytes = take_bytes(json_string_value(json_object_get(from, "bytes")), entry->bytes);
        launch->entry = entry;
        launch->place = (unsigned)number_of(json_object_get(from, "place"));
        memory->launch_count = i + 1;
        if (!take_frames(json_object_get(from, "frames"), &frames))
            return 0;
        launch->frames = frames.all;
        launch->frame_count = frames.count;
        if (json_object_get(from, "function") && function < whole->function_count)
            entry->function = whole->functions[function];
    }
    memory->launches = whole->launches;
    return whole->launches && whole->entries;
}

static int take_all(const json_t *object, struct whole *whole)
{
    struct fault_memory *memory = &whole->snapshot.memory;
    take_fields(json_object_get(object, "origin"), &whole->snapshot.origin, &kept_origin);
    take_fields(json_object_get(object, "memory"), memory, &kept_memory);
    int is_whole = take_buffers(json_object_get(object, "near"), &whole->near, &memory->near_count) &&
                   take_buffers(json_object_get(object, "live"), &whole->live, &memory->live_count) &&
                   take_stacks(json_object_get(object, "stacks"), whole) &&
                   take_functions(json_object_get(object, "functions"), whole) &&
                   take_launches(json_object_get(object, "launches"), whole);
    memory->near = whole->near;
    memory->live = whole->live;
    memory->frames = (struct buffer_frames){read_stack, whole};
    const json_t *rerun = json_object_get(object, "rerun");
    rerun_result_take(rerun ? rerun : json_object_get(object, "restaged" /* version 1 */), memory, &whole->snapshot.rerun);
    return is_whole;
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
    for (size_t i = 0; i < whole->stack_count; i++)
        free(whole->stacks[i].frames.all);
    for (size_t i = 0; whole->launches && i < snapshot->memory.launch_count; i++)
        free((void *)(uintptr_t)whole->launches[i].frames);
    for (size_t i = 0; i < whole->function_count; i++)
        free(whole->functions[i]);
    free(whole->functions);
    free(whole->near);
    free(whole->live);
    free(whole->launches);
    free(whole->entries);
    free(whole->stacks);
    free(whole);
}
