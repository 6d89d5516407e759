#include "snapshot_json.h"

#include "base/text.h"
#include "json/json_table.h"

#include <stdio.h>
#include <string.h>

/* Limits, slightly above those of the writer. */
enum { LAUNCHES = 8192, ARGUMENTS = 4096 };

#define BUFFER(kind, member) FIELD(kind, cufence_buffer, member, #member, .flags = NOT_ZERO)
#define FRAME(kind, member) FIELD(kind, struct stack_frame, member, #member, .flags = NOT_ZERO)
#define LAUNCH(kind, member) FIELD(kind, struct launch_entry, member, #member, .flags = NOT_ZERO)
#define MEMORY(kind, member) FIELD(kind, struct fault_memory, member, #member, .flags = NOT_ZERO)
#define MAP(kind, member) FIELD(kind, struct tensor_map, member, #member, .flags = NOT_ZERO)
#define ORIGIN(kind, member) FIELD(kind, struct snapshot_source, member, #member, .flags = NOT_ZERO)

TABLE(buffer_record, cufence_buffer, BUFFER(NUMBER, id), BUFFER(HEX, address), BUFFER(NUMBER, size), BUFFER(HEX, mapping_start),
      BUFFER(HEX, mapping_end), BUFFER(HEX, guard_start), BUFFER(HEX, guard_end), BUFFER(HEX, stream),
      BUFFER(NUMBER, allocated_ns), BUFFER(NUMBER, freed_ns), BUFFER(HEX, free_stream), BUFFER(NUMBER, allocated_tid),
      BUFFER(NUMBER, freed_tid), BUFFER(NUMBER, allocated_stack), BUFFER(NUMBER, freed_stack), BUFFER(INT, device),
      BUFFER(INT, is_mapped), BUFFER(CHARS, label), BUFFER(NUMBER, freed_ago), BUFFER(NUMBER, redzone_before),
      BUFFER(NUMBER, redzone_after));
TABLE(frame_record, struct stack_frame, FRAME(INT, is_python), FRAME(CHARS, function), FRAME(CHARS, file), FRAME(INT, line),
      FRAME(CHARS, module), FRAME(HEX, offset));
TABLE(entry_record, struct launch_entry, LAUNCH(NUMBER, sequence), LAUNCH(NUMBER, time_ns), LAUNCH(HEX, graph),
      LAUNCH(HEX, stream), LAUNCH(NUMBER, tid), LAUNCH(INT, device), LAUNCH(INT, is_cooperative), LAUNCH(NUMBER, shared_bytes),
      LAUNCH(NUMBER, argument_bytes), LAUNCH(NUMBER, kept_bytes),
      FIELD(NUMBER, struct launch_entry, node, "node", .flags = NOT_ZERO));
TABLE(launch_record, struct kept_launch, FIELD(PART, struct kept_launch, entry, NULL, .table = &entry_record),
      FIELD(NUMBER, struct kept_launch, function, "function", WHEN(struct kept_launch, has_function)),
      FIELD(TRIPLE, struct kept_launch, entry.grid, "grid"), FIELD(TRIPLE, struct kept_launch, entry.block, "block"),
      FIELD(TRIPLE, struct kept_launch, entry.cluster, "cluster"),
      FIELD(BYTES, struct kept_launch, entry.bytes, "bytes", COUNT(struct kept_launch, byte_count)),
      FIELD(NUMBER, struct kept_launch, of.place, "place", .flags = NOT_ZERO),
      FIELD(LIST, struct kept_launch, of.frames, "frames", .flags = BEHIND | NOT_ZERO, .table = &frame_record,
            COUNT(struct kept_launch, of.frame_count)));
TABLE(word, uint64_t, {.type = FIELD_NUMBER, .size = sizeof(uint64_t)});
TABLE(side, uint32_t, {.type = FIELD_NUMBER, .size = sizeof(uint32_t)});
TABLE(stack_record, struct kept_stack, FIELD(CHARS, struct kept_stack, number, ""),
      FIELD(LIST, struct kept_stack, frames, "", .flags = BEHIND, .table = &frame_record, COUNT(struct kept_stack, count)));
TABLE(function_record, struct kept_function, FIELD(TEXT, struct kept_function, name, "name", .flags = EVEN_EMPTY),
      FIELD(NUMBER, struct kept_function, argument_bytes, "argument_bytes"),
      FIELD(LIST, struct kept_function, arguments, "arguments", .flags = BEHIND, .most = 2 * ARGUMENTS, .table = &side,
            COUNT(struct kept_function, count), WHEN(struct kept_function, has_layout)));
TABLE(map_record, struct tensor_map, MAP(BYTES, bytes), MAP(CHARS, call), MAP(HEX, base), MAP(NUMBER, element_bits),
      FIELD(LIST, struct tensor_map, size, "size", .table = &word, COUNT(struct tensor_map, rank)),
      FIELD(LIST, struct tensor_map, stride, "stride", .table = &word, COUNT(struct tensor_map, rank)),
      FIELD(LIST, struct tensor_map, box, "box", .table = &side, COUNT(struct tensor_map, rank)), MAP(NUMBER, buffer),
      MAP(NUMBER, room), MAP(HEX, copied_to), MAP(NUMBER, time_ns), MAP(NUMBER, stack));
TABLE(memory_record, struct fault_memory, MEMORY(NUMBER, live_total), MEMORY(INT, device), MEMORY(HEX, shared),
      MEMORY(HEX, arena_start), MEMORY(HEX, arena_end), MEMORY(INT, is_host_address), MEMORY(NUMBER, now_ns));
TABLE(origin_record, struct snapshot_source, ORIGIN(INT, pid), ORIGIN(INT, rank), ORIGIN(INT, device),
      ORIGIN(CHARS, device_name), ORIGIN(CHARS, program), ORIGIN(CHARS, options), ORIGIN(NUMBER, time_ns));

TABLE(buffer_number, cufence_buffer, FIELD(NUMBER, cufence_buffer, id, "buffer", .flags = NOT_ZERO));
#define TERM(kind, member, ...) FIELD(kind, struct origin_term, member, #member, __VA_ARGS__)
#define WRAP(kind, member, ...) FIELD(kind, struct origin_wrap, member, #member, __VA_ARGS__)
#define CAUSE(kind, member, ...) FIELD(kind, struct origin, member, #member, __VA_ARGS__)
TABLE(place, struct origin_place, FIELD(HEX, struct origin_place, code_at, "code_at"),
      FIELD(INT, struct origin_place, line, "line"), FIELD(CHARS, struct origin_place, file, "file"));
TABLE(term, struct origin_term, TERM(NUMBER, input, .most = ORIGIN_PARAMETER), TERM(NUMBER, at), TERM(HEX, value),
      TERM(BOOL, is_negative), TERM(HEX, adds), TERM(HEX, factor), TERM(INT, times, .flags = OR_NONE),
      TERM(NUMBER, times_value), TERM(HEX, from), TERM(NUMBER, bytes), TERM(PART, place, .table = &place));
TABLE(wrap, struct origin_wrap, WRAP(PART, place, .table = &place), WRAP(NUMBER, kind, .most = ORIGIN_WRAPPED_SHIFT),
      WRAP(HEX, a), WRAP(HEX, b), WRAP(HEX, c), WRAP(HEX, exact), WRAP(HEX, wrapped), WRAP(HEX, address));
TABLE(cause, struct origin, CAUSE(BOOL, has_formula), CAUSE(HEX, address), CAUSE(HEX, base),
      CAUSE(INT, base_at, .flags = OR_NONE), CAUSE(HEX, base_from), CAUSE(HEX, constant),
      CAUSE(LIST, terms, .table = &term, COUNT(struct origin, term_count)),
      CAUSE(LIST, wraps, .table = &wrap, COUNT(struct origin, wrap_count)));
#define WRITE(kind, member, ...) FIELD(kind, struct rerun_write, member, #member, __VA_ARGS__)
TABLE(write_record, struct rerun_write, FIELD(PART, struct rerun_write, buffer, NULL, .flags = BEHIND, .table = &buffer_number),
      WRITE(BOOL, is_before), WRITE(BOOL, is_slack), WRITE(NUMBER, distance), WRITE(HEX, address), WRITE(NUMBER, bytes),
      WRITE(BYTES, values, COUNT(struct rerun_write, value_bytes)));
#define FIGURE(kind, member) FIELD(kind, struct figures, member, #member)
TABLE(figures_record, struct figures, FIGURE(HEX, address), FIGURE(NUMBER, bytes), FIGURE(NUMBER, seen), FIGURE(BYTES, first));

#define KEPT(kind, member, ...) FIELD(kind, struct kept_snapshot, member, __VA_ARGS__)
#define RERUN(kind, member, ...) FIELD(kind, struct kept_snapshot, of.rerun.member, #member, __VA_ARGS__)
static const char *const version_word[] = {VERSION_TEXT, NULL};
static const struct field of_snapshot[] = {
    {.name = "snapshot", .type = FIELD_FIXED, .most = SNAPSHOT_VERSION},
    {.name = "cufence", .type = FIELD_FIXED, .words = version_word},
    KEPT(PART, of.origin, "origin", .table = &origin_record),
    KEPT(PART, of.memory, "memory", .table = &memory_record),
    KEPT(LIST, of.memory.near, "near", .flags = BEHIND, .table = &buffer_record,
         COUNT(struct kept_snapshot, of.memory.near_count)),
    KEPT(LIST, of.memory.live, "live", .flags = BEHIND, .table = &buffer_record,
         COUNT(struct kept_snapshot, of.memory.live_count)),
    KEPT(LIST, of.memory.maps, "maps", .flags = BEHIND | NOT_ZERO, .table = &map_record,
         COUNT(struct kept_snapshot, of.memory.map_count)),
    KEPT(PAIRS, stacks, "stacks", .flags = BEHIND, .table = &stack_record, COUNT(struct kept_snapshot, stack_count)),
    KEPT(LIST, functions, "functions", .flags = BEHIND, .most = LAUNCHES, .table = &function_record,
         COUNT(struct kept_snapshot, function_count)),
    KEPT(LIST, launches, "launches", .flags = BEHIND, .most = LAUNCHES, .table = &launch_record,
         COUNT(struct kept_snapshot, launch_count)),
    OPEN("rerun", WHEN(struct kept_snapshot, has_rerun)),
    RERUN(WORD, outcome, .words = rerun_outcome_words),
    RERUN(CHARS, reason, .flags = EVEN_EMPTY),
    RERUN(CHARS, note, .flags = EVEN_EMPTY),
    KEPT(NUMBER, launch, "launch", WHEN(struct kept_snapshot, has_launch)),
    RERUN(CHARS, unset),
    RERUN(CHARS, lacks),
    RERUN(NUMBER, launches_tried),
    RERUN(NUMBER, took_ms),
    RERUN(NUMBER, written_bytes),
    RERUN(HEX, rest_start, .flags = NOT_ZERO),
    RERUN(HEX, rest_end, .flags = NOT_ZERO),
    RERUN(LIST, writes, .table = &write_record, COUNT(struct kept_snapshot, of.rerun.write_count)),
    RERUN(PART, cause, .table = &cause, WHEN(struct kept_snapshot, of.rerun.cause.is_known)),
    RERUN(LIST, figures, .flags = NOT_ZERO, .table = &figures_record, COUNT(struct kept_snapshot, of.rerun.figure_count)),
    CLOSE,
};
const struct json_table kept_snapshot = TABLE_OF(struct kept_snapshot, of_snapshot);

/* ---- writing ---- */

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

char *snapshot_write(const struct fault_memory *memory, const struct snapshot_source *origin, const struct rerun_result *rerun)
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
