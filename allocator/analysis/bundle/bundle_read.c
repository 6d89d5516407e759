/* Reads launch.json and facts.json. In a file of its own, so that libcufence.so, which only writes, needs no parser. */
#include "bundle.h"

#include "base/list.h"
#include "json/json_table.h"
#include "snapshot_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096u
#define ADDRESS_END ((uint64_t)1 << 57)
#define MOST_GRID 65535u /* in its second and third dimension */

static int bad(struct problem *problem, const char *what)
{
    problem_set(problem, CUFENCE_ERROR_CORRUPT, "%s: %s", BUNDLE_LAUNCH, what);
    return 0;
}

/* What no driver launches has too many threads to count. */
static int is_countable(const struct rerun_launch *launch)
{
    return launch->grid[0] && launch->grid[1] && launch->grid[2] && launch->grid[1] <= MOST_GRID &&
           launch->grid[2] <= MOST_GRID && launch->block[0] && launch->block[1] && launch->block[2] &&
           (uint64_t)launch->block[0] * launch->block[1] * launch->block[2] <= BUNDLE_THREADS;
}

static int has_sound_launches(const struct bundle *bundle, struct problem *problem)
{
    if (!bundle->launch_count || bundle->launch_count > BUNDLE_LAUNCHES)
        return bad(problem, bundle->launch_count ? "too many launches" : "no launches");
    for (size_t i = 0; i < bundle->launch_count; i++) {
        if (!is_countable(&bundle->launches[i]))
            return bad(problem, "a launch is damaged");
        for (size_t k = 0; k < bundle->argument_count; k++)
            if (!bundle->layout[k].size ||
                bundle->layout[k].offset + bundle->layout[k].size > bundle->launches[i].argument_bytes)
                return bad(problem, "an argument lies outside of a launch's arguments");
    }
    return 1;
}

/* A plain name, so that it leads nowhere else. */
static int is_plain(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return name[0] != '.' && strspn(name, letters) == strlen(name);
}

/* No text of ours fills its room: one that does was longer. */
static int is_cut(const char *text, size_t room)
{
    return strlen(text) + 1 == room;
}

static int is_sound(const struct bundle_buffer *buffer, struct problem *problem)
{
    if (is_cut(buffer->type, sizeof buffer->type) || is_cut(buffer->file, sizeof buffer->file) ||
        is_cut(buffer->after, sizeof buffer->after))
        return bad(problem, "a buffer is damaged");
    if (!is_plain(buffer->file) || !is_plain(buffer->after))
        return bad(problem, "the name of a buffer's file is not a plain name");
    if (buffer->address < buffer->mapping_start || buffer->address > buffer->mapping_end ||
        buffer->size > buffer->mapping_end - buffer->address)
        return bad(problem, "a buffer lies outside of its mapping");
    return 1;
}

/* Of structs that begin with an address. */
static int by_start(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return LIST_ORDER(*a, *b);
}

/* Brings the buffers in order. */
static int has_sound_buffers(struct bundle *bundle, struct problem *problem)
{
    struct bundle_buffer *buffers = (struct bundle_buffer *)(uintptr_t)bundle->buffers; /* the whole's own */
    qsort(buffers, bundle->buffer_count, sizeof *buffers, by_start);
    for (size_t i = 0; i < bundle->buffer_count; i++) {
        const struct bundle_buffer *buffer = &buffers[i];
        if (!is_sound(buffer, problem))
            return 0;
        if (buffer->mapping_start >= buffer->mapping_end || buffer->mapping_start % PAGE || buffer->mapping_end % PAGE ||
            buffer->mapping_start < bundle->arena_start || buffer->mapping_end > bundle->arena_end)
            return bad(problem, "a buffer lies outside of cufence's address space");
        if (i && buffer->mapping_start < buffers[i - 1].mapping_end)
            return bad(problem, "two buffers overlap");
    }
    return 1;
}

int bundle_has_sound_pinned(const struct bundle *bundle)
{
    uint64_t end = 0, left = RERUN_PINNED_BYTES;
    if (bundle->pinned_count > RERUN_PINNED)
        return 0;
    for (size_t i = 0; i < bundle->pinned_count; i++) {
        const struct bundle_buffer *piece = &bundle->pinned[i];
        if (!piece->size || piece->size > left || piece->address < end || piece->address > ADDRESS_END - piece->size)
            return 0;
        end = piece->address + piece->size;
        left -= piece->size;
        if (piece->mapping_start != piece->address || piece->mapping_end != end ||
            (piece->address < bundle->arena_end && end > bundle->arena_start))
            return 0;
    }
    return 1;
}

static int is_whole(struct bundle *bundle, struct problem *problem)
{
    if (!*bundle->symbol)
        return bad(problem, "the kernel is missing");
    if (bundle->arena_start >= bundle->arena_end || bundle->arena_start % PAGE || bundle->arena_end % PAGE)
        return bad(problem, "the address space is damaged");
    for (size_t i = 0; i < bundle->pinned_count; i++)
        if (!is_sound(&bundle->pinned[i], problem))
            return 0;
    return has_sound_launches(bundle, problem) && has_sound_buffers(bundle, problem) &&
           (bundle_has_sound_pinned(bundle) || bad(problem, "pinned host memory is damaged"));
}

cufence_status bundle_read(const char *text, size_t size, struct bundle **out, struct problem *problem)
{
    json_error_t error;
    struct problem why;
    struct bundle *bundle = *out = calloc(1, sizeof *bundle);
    cufence_status status = CUFENCE_ERROR_CORRUPT;
    if (!bundle)
        return problem_set(problem, CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory");
    struct json_memory memory = {.json = json_loadb(text, size, 0, &error)};
    json_int_t version = json_integer_value(json_object_get(memory.json, "bundle"));
    if (!json_is_object(memory.json))
        problem_set(problem, status, "%s is not a JSON object", BUNDLE_LAUNCH);
    else if (!version)
        status = problem_set(problem, CUFENCE_ERROR_UNSUPPORTED, "%s was written by an earlier cufence", BUNDLE_LAUNCH);
    else if (version != BUNDLE_VERSION)
        status = problem_set(problem, CUFENCE_ERROR_UNSUPPORTED, "%s has version %lld, but this cufence reads version %d",
                             BUNDLE_LAUNCH, (long long)version, BUNDLE_VERSION);
    else if ((status = json_table_read(&kept_bundle, memory.json, bundle, &memory, &why)) != CUFENCE_OK)
        problem_set(problem, status, "%s is damaged: %s", BUNDLE_LAUNCH, why.text);
    else if (!is_whole(bundle, problem))
        status = CUFENCE_ERROR_CORRUPT;
    bundle->memory = memory;
    if (status != CUFENCE_OK) {
        bundle_free(bundle);
        *out = NULL;
    }
    return status;
}

void bundle_free(struct bundle *bundle)
{
    if (!bundle)
        return;
    json_memory_free(&bundle->memory);
    free(bundle);
}

const struct bundle_buffer *bundle_find(const struct bundle *bundle, uint64_t address)
{
    for (size_t i = 0; i < bundle->buffer_count; i++)
        if (address - bundle->buffers[i].mapping_start < bundle->buffers[i].mapping_end - bundle->buffers[i].mapping_start)
            return &bundle->buffers[i];
    for (size_t i = 0; i < bundle->pinned_count; i++)
        if (address - bundle->pinned[i].address < bundle->pinned[i].size)
            return &bundle->pinned[i];
    return NULL;
}

/* ---- facts.json ---- */

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
