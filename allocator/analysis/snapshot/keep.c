#include "keep.h"

#include "base/text.h"
#include "fields.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- frames ---- */

static json_t *put_frames(const struct stack_frame *frames, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, record_to_json(&kept_frame, &frames[i]));
    return array;
}

static void put_stack(json_t *stacks, const struct fault_memory *memory, uint32_t number)
{
    struct stack_frame frames[STACK_READ];
    char key[16];
    snprintf(key, sizeof key, "%u", number);
    if (number && memory->frames.read && !json_object_get(stacks, key))
        json_object_set_new(stacks, key,
                            put_frames(frames, memory->frames.read(memory->frames.from, number, frames, STACK_READ)));
}

/* ---- launches ---- */

static json_t *put_function(const struct launch_function *function)
{
    json_t *object = json_object();
    json_object_set_new(object, "name", text_to_json(function->name));
    json_object_set_new(object, "argument_bytes", json_integer(function->argument_bytes));
    json_t *arguments = function->has_layout ? json_array() : NULL;
    for (uint32_t i = 0; arguments && i < function->argument_count; i++) {
        json_array_append_new(arguments, json_integer(function->arguments[i].offset));
        json_array_append_new(arguments, json_integer(function->arguments[i].size));
    }
    if (arguments)
        json_object_set_new(object, "arguments", arguments);
    return object;
}

/* Returns the index of a kernel in `functions`, and adds it if it is new: `known` has the pointers. */
static uint32_t number_function(const struct launch_function *function, const struct launch_function **known, json_t *functions)
{
    uint32_t count = (uint32_t)json_array_size(functions);
    for (uint32_t i = 0; i < count; i++)
        if (known[i] == function)
            return i;
    known[count] = function;
    json_array_append_new(functions, put_function(function));
    return count;
}

/* Returns NULL if out of host memory. */
static json_t *put_launches(const struct fault_memory *memory, json_t *functions)
{
    const struct launch_function **known = calloc(memory->launch_count + 1, sizeof *known);
    json_t *array = known ? json_array() : NULL;
    for (size_t i = 0; array && i < memory->launch_count; i++) {
        const struct fault_launch *launch = &memory->launches[i];
        const struct launch_function *function = launch->entry->function;
        struct kept_launch kept = {.entry = *launch->entry,
                                   .has_function = function != NULL,
                                   .function = function ? number_function(function, known, functions) : 0,
                                   .byte_count = launch->entry->kept_bytes,
                                   .place = launch->place,
                                   .frames = launch->frames,
                                   .frame_count = launch->frame_count};
        json_array_append_new(array, record_to_json(&kept_launch, &kept));
    }
    free(known);
    return array;
}

/* ---- the whole ---- */

static json_t *put_buffers(const cufence_buffer *buffers, size_t count, json_t *stacks, const struct fault_memory *memory)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(array, record_to_json(&kept_buffer, &buffers[i]));
        put_stack(stacks, memory, buffers[i].allocated_stack);
        put_stack(stacks, memory, buffers[i].freed_stack);
    }
    return array;
}

/* Those that a launch may have been given: of the others nothing would be said. */
static json_t *put_maps(json_t *stacks, const struct fault_memory *memory)
{
    json_t *array = json_array();
    for (size_t i = 0; i < memory->map_count; i++) {
        const struct tensor_map *map = &memory->maps[i];
        int is_near = 0;
        for (size_t k = 0; k < memory->near_count && !is_near; k++)
            is_near = memory->near[k].id == map->buffer;
        if (!is_near)
            continue;
        json_array_append_new(array, record_to_json(&kept_map, map));
        put_stack(stacks, memory, map->stack);
    }
    return array;
}

char *snapshot_write(const struct fault_memory *memory, const struct snapshot_origin *origin, const struct rerun_result *rerun)
{
    json_t *object = json_object(), *stacks = json_object(), *functions = json_array();
    json_object_set_new(object, "snapshot", json_integer(SNAPSHOT_VERSION));
    json_object_set_new(object, "cufence", json_string(VERSION_TEXT));
    json_object_set_new(object, "origin", record_to_json(&kept_origin, origin));
    json_object_set_new(object, "memory", record_to_json(&kept_memory, memory));
    json_object_set_new(object, "near", put_buffers(memory->near, memory->near_count, stacks, memory));
    json_object_set_new(object, "live", put_buffers(memory->live, memory->live_count, stacks, memory));
    if (memory->map_count)
        json_object_set_new(object, "maps", put_maps(stacks, memory));
    json_object_set_new(object, "stacks", stacks);
    json_object_set_new(object, "functions", functions);
    json_object_set_new(object, "launches", put_launches(memory, functions));
    if (rerun && (rerun->outcome != RERUN_NOT_TRIED || rerun->cause.is_known))
        json_object_set_new(object, "rerun", rerun_result_put(rerun, memory));
    return text_of_json(object, JSON_COMPACT);
}
