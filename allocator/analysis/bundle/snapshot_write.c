#include "snapshot_json.h"

#include "base/text.h"
#include "snapshot_table.h"

#include <stdio.h>
#include <string.h>

/* What is kept, and the memory of its lists. The functions return 0 if out of host memory. */
struct keeping {
    struct kept_snapshot kept;
    struct json_memory memory;
};

/* ---- frames ---- */

static int keep_stack(struct keeping *keeping, uint32_t number)
{
    struct kept_snapshot *kept = &keeping->kept;
    const struct buffer_frames *known = &kept->of.memory.frames;
    struct stack_frame frames[STACK_READ], *own;
    struct kept_stack *stack = &kept->stacks[kept->stack_count];
    snprintf(stack->number, sizeof stack->number, "%u", number);
    for (size_t i = 0; i < kept->stack_count && number; i++)
        if (!strcmp(kept->stacks[i].number, stack->number))
            return 1;
    if (!number || !known->read)
        return 1;
    stack->count = known->read(known->from, number, frames, STACK_READ);
    stack->frames = own = json_take(&keeping->memory, stack->count, sizeof *own);
    for (size_t i = 0; own && i < stack->count; i++)
        own[i] = frames[i];
    kept->stack_count++;
    return own != NULL;
}

static int keep_stacks(struct keeping *keeping)
{
    const struct fault_memory *memory = &keeping->kept.of.memory;
    size_t buffers = memory->near_count + memory->live_count;
    keeping->kept.stacks = json_take(&keeping->memory, 2 * buffers + memory->map_count + 1, sizeof *keeping->kept.stacks);
    int is_ok = keeping->kept.stacks != NULL;
    for (size_t i = 0; is_ok && i < buffers; i++) {
        const cufence_buffer *buffer = i < memory->near_count ? &memory->near[i] : &memory->live[i - memory->near_count];
        is_ok = keep_stack(keeping, buffer->allocated_stack) && keep_stack(keeping, buffer->freed_stack);
    }
    for (size_t i = 0; is_ok && i < memory->map_count; i++)
        is_ok = keep_stack(keeping, memory->maps[i].stack);
    return is_ok;
}

/* ---- launches ---- */

/* Returns the index of a kernel in the list, and adds it if it is new: `known` has the pointers. */
static uint32_t number_function(struct kept_snapshot *kept, const struct launch_function **known,
                                const struct launch_function *function)
{
    uint32_t number = 0;
    while (number < kept->function_count && known[number] != function)
        number++;
    if (number < kept->function_count)
        return number;
    known[kept->function_count++] = function;
    kept->functions[number] = (struct kept_function){.name = function->name,
                                                     .argument_bytes = function->argument_bytes,
                                                     .has_layout = function->has_layout,
                                                     .arguments = &function->arguments->offset,
                                                     .count = 2 * (size_t)function->argument_count};
    return number;
}

static int keep_launches(struct keeping *keeping, const struct fault_memory *memory)
{
    struct kept_snapshot *kept = &keeping->kept;
    size_t count = memory->launch_count;
    const struct launch_function **known = json_take(&keeping->memory, count, sizeof *known);
    kept->functions = json_take(&keeping->memory, count, sizeof *kept->functions);
    kept->launches = json_take(&keeping->memory, count, sizeof *kept->launches);
    if (!known || !kept->functions || !kept->launches)
        return 0;
    for (; kept->launch_count < count; kept->launch_count++) {
        const struct fault_launch *launch = &memory->launches[kept->launch_count];
        const struct launch_function *function = launch->entry->function;
        kept->launches[kept->launch_count] =
            (struct kept_launch){.entry = *launch->entry,
                                 .has_function = function != NULL,
                                 .function = function ? number_function(kept, known, function) : 0,
                                 .byte_count = launch->entry->kept_bytes,
                                 .of = *launch};
    }
    return 1;
}

/* ---- the whole ---- */

/* Those that a launch may have been given: of the others nothing would be said. */
static int keep_maps(struct keeping *keeping, const struct fault_memory *memory)
{
    struct tensor_map *maps = json_take(&keeping->memory, memory->map_count, sizeof *maps);
    size_t count = 0;
    for (size_t i = 0; maps && i < memory->map_count; i++) {
        size_t k = 0;
        while (k < memory->near_count && memory->near[k].id != memory->maps[i].buffer)
            k++;
        if (k < memory->near_count)
            maps[count++] = memory->maps[i];
    }
    keeping->kept.of.memory.maps = maps;
    keeping->kept.of.memory.map_count = count;
    return maps != NULL;
}

static void keep_rerun(struct kept_snapshot *kept, const struct fault_memory *memory, const struct rerun_result *rerun)
{
    kept->has_rerun = 1;
    kept->of.rerun = *rerun;
    for (; kept->launch < memory->launch_count && !kept->has_launch; kept->launch += !kept->has_launch)
        kept->has_launch = rerun->launch == &memory->launches[kept->launch];
}

/* Adds the types of the figures, each as a list of its own. */
static void put_types(json_t *figures, const struct rerun_result *rerun)
{
    for (size_t i = 0; i < json_array_size(figures); i++) {
        json_t *types = json_object();
        for (enum value_type type = 0; type < VALUE_COUNTED; type++) {
            const struct type_figures *of = &rerun->figures[i].types[type];
            json_object_set_new(types, value_names[type],
                                json_pack("[fffIIII]", of->min, of->max, of->mean, (json_int_t)of->finite,
                                          (json_int_t)of->zeros, (json_int_t)of->nans, (json_int_t)of->infinities));
        }
        json_object_set_new(json_array_get(figures, i), "types", types);
    }
}

char *snapshot_write(const struct fault_memory *memory, const struct snapshot_origin *origin, const struct rerun_result *rerun)
{
    struct keeping keeping = {.kept = {.of = {.origin = *origin, .memory = *memory}}};
    if (rerun && (rerun->outcome != RERUN_NOT_TRIED || rerun->cause.is_known))
        keep_rerun(&keeping.kept, memory, rerun);
    int is_ok = keep_launches(&keeping, memory) && keep_maps(&keeping, memory) && keep_stacks(&keeping);
    json_t *object = is_ok ? json_table_write(&kept_snapshot, &keeping.kept) : NULL;
    put_types(json_object_get(json_object_get(object, "rerun"), "figures"), &keeping.kept.of.rerun);
    json_memory_free(&keeping.memory);
    return text_of_json(object, JSON_COMPACT);
}
