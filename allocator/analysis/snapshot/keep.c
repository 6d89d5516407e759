#include "keep.h"

#include "base/text.h"
#include "base/version.h"
#include "fields.h"
#include "keep_rerun.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIMENSIONS = 3 };

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

static json_t *put_dim(const uint32_t dim[DIMENSIONS])
{
    json_t *array = json_array();
    for (int i = 0; i < DIMENSIONS; i++)
        json_array_append_new(array, json_integer(dim[i]));
    return array;
}

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

static json_t *put_bytes(const uint8_t *bytes, size_t count)
{
    char text[2 * LAUNCH_KEPT_BYTES + 1];
    count = count < LAUNCH_KEPT_BYTES ? count : LAUNCH_KEPT_BYTES;
    for (size_t i = 0; i < count; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return json_stringn(text, 2 * count);
}

/* Returns the index of the launch's kernel in `functions`, and adds it if it is new. Equal pointers have equal indexes. */
static json_t *place_of_function(const struct fault_memory *memory, size_t launch, json_t *functions, json_t *places)
{
    const struct launch_function *function = memory->launches[launch].entry->function;
    for (size_t i = 0; i < launch; i++)
        if (memory->launches[i].entry->function == function)
            return json_incref(json_array_get(places, i));
    json_array_append_new(functions, put_function(function));
    return json_integer((json_int_t)json_array_size(functions) - 1);
}

static json_t *put_launch(const struct fault_launch *launch, json_t *function)
{
    const struct launch_entry *entry = launch->entry;
    json_t *object = record_to_json(&kept_launch, entry);
    if (entry->function)
        json_object_set(object, "function", function);
    json_object_set_new(object, "grid", put_dim(entry->grid));
    json_object_set_new(object, "block", put_dim(entry->block));
    json_object_set_new(object, "cluster", put_dim(entry->cluster));
    json_object_set_new(object, "bytes", put_bytes(entry->bytes, entry->kept_bytes));
    if (launch->place)
        json_object_set_new(object, "place", json_integer(launch->place));
    if (launch->frame_count)
        json_object_set_new(object, "frames", put_frames(launch->frames, launch->frame_count));
    return object;
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

char *snapshot_write(const struct fault_memory *memory, const struct snapshot_origin *origin, const struct rerun_result *rerun)
{
    json_t *object = json_object(), *stacks = json_object(), *launches = json_array();
    json_t *functions = json_array(), *places = json_array();
    json_object_set_new(object, "snapshot", json_integer(SNAPSHOT_VERSION));
    json_object_set_new(object, "cufence", json_string(VERSION_TEXT));
    json_object_set_new(object, "origin", record_to_json(&kept_origin, origin));
    json_object_set_new(object, "memory", record_to_json(&kept_memory, memory));
    json_object_set_new(object, "near", put_buffers(memory->near, memory->near_count, stacks, memory));
    json_object_set_new(object, "live", put_buffers(memory->live, memory->live_count, stacks, memory));
    json_object_set_new(object, "stacks", stacks);
    for (size_t i = 0; i < memory->launch_count; i++) {
        json_array_append_new(places, memory->launches[i].entry->function ? place_of_function(memory, i, functions, places)
                                                                          : json_null());
        json_array_append_new(launches, put_launch(&memory->launches[i], json_array_get(places, i)));
    }
    json_object_set_new(object, "functions", functions);
    json_decref(places);
    json_object_set_new(object, "launches", launches);
    if (rerun && rerun->outcome != RERUN_NOT_TRIED)
        json_object_set_new(object, "rerun", rerun_result_put(rerun, memory));
    return text_of_json(object, JSON_COMPACT);
}
