#include "launches.h"

#include "base/reader.h"

#include <string.h>

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns 1 if the launch is of the stop's kernel, as far as known. */
static int launch_is_of_kernel(const struct launch_entry *launch, const struct evidence_stop *stop)
{
    return launch->function && launch->function->name[0] && stop->symbol && !strcmp(launch->function->name, stop->symbol);
}

/* Compares the bytes that both have. Padding between arguments is undefined, so different bytes count only with a layout. */
static int has_same_bytes(const struct launch_function *layout, const uint8_t *a, size_t a_bytes, const uint8_t *b,
                          size_t b_bytes)
{
    size_t both = smaller(a_bytes, b_bytes);
    for (uint32_t i = 0; layout->has_layout && i < layout->argument_count; i++) {
        struct launch_argument argument = layout->arguments[i];
        if (argument.offset < both &&
            memcmp(a + argument.offset, b + argument.offset, smaller(argument.size, both - argument.offset)) != 0)
            return 0;
    }
    return 1;
}

/* A kernel of cuTile ("NAME_Kt1_...") must be launched with blocks of one thread. It runs with as many as its code says, 128 in
 * what cuda.tile 1.7 compiles, and perhaps as a cluster. */
static int has_dimensions(const struct launch_entry *launch, const struct evidence_stop *stop)
{
    static const uint32_t one[3] = {1, 1, 1};
    if (memcmp(launch->block, stop->block, sizeof stop->block) != 0)
        return memcmp(launch->block, one, sizeof one) == 0 && strstr(stop->symbol, "_Kt") != NULL;
    return memcmp(launch->grid, stop->grid, sizeof stop->grid) == 0;
}

int launch_fits(const struct launch_entry *launch, const struct evidence_stop *stop)
{
    if (!launch_is_of_kernel(launch, stop))
        return 0;
    if (stop->has_grid && !has_dimensions(launch, stop))
        return 0;
    return !stop->parameters ||
           has_same_bytes(launch->function, launch->bytes, launch->kept_bytes, stop->parameters, stop->parameter_bytes);
}

static const struct fault_launch *newest_graph(const struct fault_memory *memory)
{
    for (size_t i = 0; i < memory->launch_count; i++)
        if (memory->launches[i].entry->graph)
            return &memory->launches[i];
    return NULL;
}

/* Returns 1 if the recorded launch may be the capture of a kernel that ran in a graph later. */
static int is_replay_possible(const struct fault_memory *memory, const struct fault_launch *launch)
{
    const struct fault_launch *graph = newest_graph(memory);
    return graph && graph->entry->time_ns >= launch->entry->time_ns;
}

size_t launches_of_kernel(const struct fault_memory *memory, const struct evidence_stop *stop)
{
    const struct fault_launch *newest = NULL;
    size_t count = 0;
    for (size_t i = 0; i < memory->launch_count; i++) {
        if (!launch_is_of_kernel(memory->launches[i].entry, stop))
            continue;
        if (!newest)
            newest = &memory->launches[i];
        count++;
    }
    return count + (size_t)(newest ? is_replay_possible(memory, newest) : newest_graph(memory) != NULL);
}

struct launch_match launches_match(const struct fault_memory *memory, const struct evidence_stop *stop)
{
    struct launch_match origin = {NULL, CERTAIN_NOT, 0};
    int is_one_place = 1;
    for (size_t i = 0; i < memory->launch_count; i++) {
        const struct fault_launch *launch = &memory->launches[i];
        if (!launch_fits(launch->entry, stop))
            continue;
        origin.fits++;
        if (!origin.launch)
            origin.launch = launch;
        is_one_place &= launch->place && launch->place == origin.launch->place;
    }
    if (origin.fits == 1)
        origin.certainty = stop->has_grid && !is_replay_possible(memory, origin.launch) ? CERTAIN_EXACT : CERTAIN_DERIVED;
    else if (origin.fits)
        origin.certainty = is_one_place ? CERTAIN_DERIVED : CERTAIN_CANDIDATE;
    else if (stop->symbol && (origin.launch = newest_graph(memory)) != NULL)
        origin.certainty = CERTAIN_CANDIDATE;
    return origin;
}

/* Returns the argument layout that all recorded launches of the kernel agree on. */
static const struct launch_function *layout_of(const struct fault_memory *memory, const struct evidence_stop *stop)
{
    const struct launch_function *layout = NULL;
    for (size_t i = 0; i < memory->launch_count; i++) {
        const struct launch_entry *launch = memory->launches[i].entry;
        if (!launch_is_of_kernel(launch, stop) || !launch->function->has_layout)
            continue;
        if (layout && layout != launch->function)
            return NULL;
        layout = launch->function;
    }
    return layout && stop->parameters && layout->argument_bytes > stop->parameter_bytes ? NULL : layout;
}

struct fault_arguments launches_arguments(const struct fault_memory *memory, const struct evidence_stop *stop,
                                          const struct launch_match *origin)
{
    struct fault_arguments arguments = {.layout = layout_of(memory, stop)};
    if (stop->parameters) {
        arguments.bytes = stop->parameters;
        arguments.count = stop->parameter_bytes;
        arguments.certainty = stop->is_grid_borrowed ? CERTAIN_DERIVED : CERTAIN_EXACT;
        return arguments;
    }
    if (!origin->fits || !origin->launch->entry->kept_bytes || !arguments.layout)
        return arguments;
    const struct launch_entry *newest = origin->launch->entry;
    for (size_t i = 0; i < memory->launch_count; i++) {
        const struct launch_entry *launch = memory->launches[i].entry;
        if (launch_fits(launch, stop) &&
            (launch->kept_bytes != newest->kept_bytes ||
             !has_same_bytes(arguments.layout, launch->bytes, launch->kept_bytes, newest->bytes, newest->kept_bytes)))
            return arguments;
    }
    arguments.bytes = newest->bytes;
    arguments.count = newest->kept_bytes;
    arguments.certainty = origin->fits == 1 ? origin->certainty : CERTAIN_DERIVED;
    arguments.time_ns = newest->time_ns;
    return arguments;
}

int launch_argument_of(const struct launch_function *layout, size_t word, uint32_t *offset)
{
    size_t at = word * sizeof(uint64_t);
    for (uint32_t i = 0; layout && i < layout->argument_count; i++) {
        struct launch_argument argument = layout->arguments[i];
        if (at >= argument.offset && at + sizeof(uint64_t) <= (size_t)argument.offset + argument.size) {
            *offset = (uint32_t)at - argument.offset;
            return (int)i;
        }
    }
    return -1;
}

int parameter_may_be_used(const struct evidence_stop *stop, size_t index)
{
    const struct address_source *source = &stop->source;
    /* If the address is a sum of a loaded value and a word, either may be the pointer, and the other one the index. */
    return !source->is_known || (index < 8 * sizeof source->words && (source->words >> index & 1));
}

/* How far a launch's timestamp may be behind: one tick of the slowest kernel configuration. */
#define TICK_NS UINT64_C(10000000)

/* Of several buffers it is, in this order: one that the word points into, not to its end; one alive at that time; a live one;
 * the newest. */
const cufence_buffer *word_buffer(const struct fault_memory *memory, uint64_t word, uint64_t time_ns)
{
    const cufence_buffer *best = NULL;
    unsigned best_fit = 0;
    for (size_t i = 0; i < memory->near_count + memory->live_count; i++) {
        const cufence_buffer *buffer = i < memory->near_count ? &memory->near[i] : &memory->live[i - memory->near_count];
        if (word < buffer->address || word - buffer->address > buffer->size)
            continue;
        int is_inside = word - buffer->address < buffer->size, is_live = !buffer->freed_ns;
        int is_of_time = !time_ns || (buffer->allocated_ns <= time_ns + TICK_NS && (is_live || buffer->freed_ns >= time_ns));
        unsigned fit = (unsigned)(is_inside << 2 | is_of_time << 1 | is_live);
        if (!best || fit > best_fit || (fit == best_fit && buffer->id > best->id)) {
            best = buffer;
            best_fit = fit;
        }
    }
    return best;
}

/* ---- buffers that are not ready yet ---- */

#define MOST_LOOKS 65536u /* for addresses of lanes: 0.2 s; a grid may have hundreds of thousands that are nowhere */

static int is_ready(const struct fault_memory *memory, uint64_t address)
{
    for (size_t i = 0; i < memory->near_count; i++)
        if (address >= memory->near[i].mapping_start && address < memory->near[i].guard_end)
            return 1;
    return 0;
}

int memory_look(const struct fault_memory *memory, uint64_t address)
{
    if (!memory->buffers_at || is_ready(memory, address))
        return 0;
    memory->buffers_at(memory->from, address);
    return 1;
}

void memory_look_at_words(const struct fault_memory *memory, const uint8_t *bytes, size_t count)
{
    for (size_t at = 0; memory->buffers_at && at + 8 <= count; at += 8) {
        uint64_t word = load_u64(bytes + at);
        if (word >= memory->arena_start && word < memory->arena_end)
            memory->buffers_at(memory->from, word);
    }
}

void memory_meet(const struct fault_memory *memory, const struct evidence *evidence)
{
    unsigned looks = 0;
    for (size_t i = 0; i < evidence->stop_count && memory->buffers_at; i++) {
        const struct evidence_stop *stop = &evidence->stops[i];
        for (size_t k = 0; k < stop->lane_count; k++) {
            const struct evidence_lane *lane = &stop->lanes[k];
            uint64_t last = lane->address + (stop->access_bytes ? stop->access_bytes - 1 : 0);
            if ((lane->certainty == CERTAIN_NOT && !lane->is_earlier) || looks >= MOST_LOOKS)
                continue;
            /* Most lanes access a buffer that an earlier lane has already added. */
            looks += memory_look(memory, lane->address) > 0;
            looks += last > lane->address && memory_look(memory, last) > 0;
        }
        if (stop->parameters && (!i || stop->parameters != stop[-1].parameters)) /* the warps of a grid share them */
            memory_look_at_words(memory, stop->parameters, stop->parameter_bytes);
    }
}
