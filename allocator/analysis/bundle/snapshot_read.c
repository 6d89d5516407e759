/* In a file of its own, so that libcufence.so, which only writes, needs no parser. */
#include "snapshot_json.h"

#include "snapshot_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct whole {
    struct kept_snapshot kept; /* first, and its first member is the pointer returned to the caller */
    struct json_memory memory;
    struct launch_function **functions;
};

static size_t read_stack(const void *from, uint32_t stack, struct stack_frame *out, size_t max)
{
    const struct kept_snapshot *kept = from;
    char number[sizeof kept->stacks->number];
    size_t i = 0;
    snprintf(number, sizeof number, "%u", stack);
    while (i < kept->stack_count && strcmp(kept->stacks[i].number, number) != 0)
        i++;
    size_t count = i < kept->stack_count ? kept->stacks[i].count : 0;
    for (size_t k = 0; k < count && k < max; k++)
        out[k] = kept->stacks[i].frames[k];
    return count < max ? count : max;
}

/* The following functions return 0 or NULL if out of host memory. */

/* Without a layout if its sizes and offsets are inconsistent. */
static struct launch_function *take_function(struct whole *whole, const struct kept_function *kept)
{
    const char *name = kept->name ? kept->name : "";
    size_t count = kept->count / 2, length = strlen(name) + 1;
    struct launch_function *function =
        json_take(&whole->memory, 1, sizeof *function + count * sizeof *function->arguments + length);
    if (!function)
        return NULL;
    function->name = memcpy(&function->arguments[count], name, length);
    function->has_layout = kept->has_layout;
    function->argument_bytes = kept->argument_bytes;
    for (size_t i = 0; i < count; i++) {
        struct launch_argument *argument = &function->arguments[i];
        *argument = (struct launch_argument){kept->arguments[2 * i], kept->arguments[2 * i + 1]};
        if ((uint64_t)argument->offset + argument->size > function->argument_bytes)
            function->has_layout = 0;
    }
    function->argument_count = function->has_layout ? (uint32_t)count : 0;
    return function;
}

static int take_functions(struct whole *whole)
{
    whole->functions = json_take(&whole->memory, whole->kept.function_count, sizeof *whole->functions);
    for (size_t i = 0; whole->functions && i < whole->kept.function_count; i++)
        if (!(whole->functions[i] = take_function(whole, &whole->kept.functions[i])))
            return 0;
    return whole->functions != NULL;
}

static int connect_launches(struct whole *whole)
{
    struct kept_snapshot *kept = &whole->kept;
    struct fault_launch *launches = json_take(&whole->memory, kept->launch_count, sizeof *launches);
    for (size_t i = 0; launches && i < kept->launch_count; i++) {
        struct kept_launch *launch = &kept->launches[i];
        if (launch->has_function && launch->function < kept->function_count)
            launch->entry.function = whole->functions[launch->function];
        launch->entry.kept_bytes = launch->byte_count;
        launches[i] = launch->of;
        launches[i].entry = &launch->entry;
        launches[i].frame_count = launch->of.frame_count < STACK_READ ? launch->of.frame_count : STACK_READ;
    }
    kept->of.memory.launches = launches;
    kept->of.memory.launch_count = launches ? kept->launch_count : 0;
    return launches != NULL;
}

/* ---- the second launch ---- */

static void take_type(const json_t *array, struct type_figures *of)
{
    double *const reals[] = {&of->min, &of->max, &of->mean};
    uint64_t *const counts[] = {&of->finite, &of->zeros, &of->nans, &of->infinities};
    if (json_array_size(array) != 7) /* of an older cufence */
        return;
    for (size_t i = 0; i < 3; i++)
        *reals[i] = json_real_value(json_array_get(array, i));
    for (size_t i = 0; i < 4; i++)
        *counts[i] = (uint64_t)json_integer_value(json_array_get(array, 3 + i));
}

static const cufence_buffer *buffer_of(const struct fault_memory *memory, uint64_t id)
{
    for (size_t i = 0; id && i < memory->near_count; i++)
        if (memory->near[i].id == id)
            return &memory->near[i];
    return NULL;
}

/* What makes no sense is left out. */
static void connect_rerun(struct kept_snapshot *kept, const json_t *figures)
{
    const struct fault_memory *memory = &kept->of.memory;
    struct rerun_result *rerun = &kept->of.rerun;
    if (kept->has_launch && kept->launch < memory->launch_count)
        rerun->launch = &memory->launches[kept->launch];
    for (size_t i = 0; i < rerun->write_count; i++)
        if (rerun->writes[i].buffer)
            rerun->writes[i].buffer = buffer_of(memory, rerun->writes[i].buffer->id);
    for (size_t i = 0; i < rerun->figure_count; i++) {
        const json_t *types = json_object_get(json_array_get(figures, i), "types");
        for (enum value_type type = 0; type < VALUE_COUNTED; type++)
            take_type(json_object_get(types, value_names[type]), &rerun->figures[i].types[type]);
    }
}

static int take_all(json_t *object, struct whole *whole)
{
    struct problem ignored; /* members that are missing or have another type stay 0 */
    if (json_table_read(&kept_snapshot, object, &whole->kept, &whole->memory, &ignored) == CUFENCE_ERROR_OUT_OF_MEMORY ||
        !take_functions(whole) || !connect_launches(whole))
        return 0;
    whole->kept.of.memory.frames = (struct buffer_frames){read_stack, &whole->kept};
    connect_rerun(&whole->kept, json_object_get(json_object_get(object, "rerun"), "figures"));
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
        *out = &whole->kept.of;
    else
        snapshot_free(whole ? &whole->kept.of : NULL);
    return status;
}

void snapshot_free(struct snapshot *snapshot)
{
    struct whole *whole = (struct whole *)snapshot;
    if (!whole)
        return;
    json_memory_free(&whole->memory);
    free(whole);
}
