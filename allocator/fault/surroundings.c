#include "surroundings.h"

#include "analysis/verdict/launches.h"
#include "base/clock.h"
#include "base/reader.h"
#include "heap/heap.h"
#include "heap/unguarded/unguarded.h"
#include "launch/launch.h"
#include "vmm/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEAR_PER_ADDRESS 8
#define MOST_LOOKS 65536u /* for addresses of lanes: 0.2 s; a grid may have hundreds of thousands that are nowhere */

static int is_mapped_by_host(uint64_t address)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    int found = 0;
    while (maps && !found && fgets(line, sizeof line, maps)) {
        unsigned long long start, end;
        char can_read;
        /* Device memory is reserved in the host's address space too, but not readable. */
        found =
            sscanf(line, "%llx-%llx %c", &start, &end, &can_read) == 3 && address >= start && address < end && can_read == 'r';
    }
    if (maps)
        fclose(maps);
    return found;
}

static int is_known(const struct surroundings *around, uint64_t address)
{
    for (size_t i = 0; i < around->memory.near_count; i++) {
        if (address >= around->near[i].mapping_start && address < around->near[i].guard_end)
            return 1;
    }
    return 0;
}

/* Adds the buffers at and around an address. */
static void look_at(struct surroundings *around, uint64_t address)
{
    cufence_buffer found[NEAR_PER_ADDRESS];
    size_t *count = &around->memory.near_count;
    size_t n = *count < SURROUNDINGS_NEAR ? heap_near(address, found, NEAR_PER_ADDRESS) : 0;
    for (size_t i = 0; i < n && *count < SURROUNDINGS_NEAR; i++) {
        size_t k = 0;
        while (k < *count && around->near[k].id != found[i].id)
            k++;
        if (k == *count)
            around->near[(*count)++] = found[i];
    }
}

/* Adds the buffers that the words in a kernel's parameters point to. */
static void look_at_words(struct surroundings *around, const uint8_t *bytes, size_t count)
{
    for (size_t k = 0; k + 8 <= count && around->memory.near_count < SURROUNDINGS_NEAR; k += 8) {
        uint64_t word = load_u64(bytes + k);
        if (word >= arena_start() && word < arena_end())
            look_at(around, word);
    }
}

void surroundings_add(struct surroundings *around, const struct evidence *evidence)
{
    unsigned looks = 0;
    for (size_t i = 0; i < evidence->site_count; i++) {
        const struct evidence_site *site = &evidence->sites[i];
        for (size_t k = 0; k < site->lane_count; k++) {
            const struct evidence_lane *lane = &site->lanes[k];
            if (lane->certainty == CERTAIN_NOT)
                continue;
            uint64_t last = lane->address + (site->access_bytes ? site->access_bytes - 1 : 0);
            /* Most lanes access a buffer that an earlier lane has already added. */
            if (!is_known(around, lane->address) && looks++ < MOST_LOOKS)
                look_at(around, lane->address);
            if (last > lane->address && !is_known(around, last) && looks++ < MOST_LOOKS)
                look_at(around, last);
        }
        if (site->parameters && (!i || site->parameters != site[-1].parameters)) /* the warps of a grid share them */
            look_at_words(around, site->parameters, site->parameter_bytes);
    }
}

/* ---- launches ---- */

/* Returns 1 for the first site of each kernel that faulted. */
static int is_first_of_kernel(const struct evidence *evidence, size_t index)
{
    const char *symbol = evidence->sites[index].symbol;
    for (size_t i = 0; symbol && i < index; i++)
        if (evidence->sites[i].symbol && !strcmp(evidence->sites[i].symbol, symbol))
            return 0;
    return symbol != NULL;
}

static void read_launches(struct surroundings *around, const struct evidence *evidence, int device)
{
    size_t count = 0, kernels = 0;
    for (size_t i = 0; i < evidence->site_count && kernels < 4; i++) {
        const struct launch_query query = {.device = device, .kernel = evidence->sites[i].symbol, .has_graphs = kernels == 0};
        if (!is_first_of_kernel(evidence, i))
            continue;
        count += launch_read(&query, around->entries + count, around->stacks + count, SURROUNDINGS_LAUNCHES - count);
        kernels++;
    }
    for (size_t i = 0; i < count; i++)
        around->launches[i].entry = &around->entries[i];
    around->memory.launch_count = count;
    const struct launch_query all = {.device = device, .has_graphs = 1};
    around->memory.recent_count = launch_read(&all, around->recent, NULL, SURROUNDINGS_RECENT);
}

static int is_same_stack(const struct stack *a, const struct stack *b)
{
    if (a->python || b->python)
        return a->python == b->python;
    return a->count == b->count && !memcmp(a->pcs, b->pcs, a->count * sizeof a->pcs[0]);
}

/* Compares by source line if known: an unrolled loop has several addresses for one line. */
static int is_same_frame(const struct stack_frame *a, const struct stack_frame *b)
{
    int has_line = a->line && b->line;
    return a->line == b->line && (has_line || a->offset == b->offset) && !strcmp(a->function, b->function) &&
           !strcmp(a->file, b->file) && !strcmp(a->module, b->module);
}

static int has_same_frames(const struct launch_place *a, const struct launch_place *b)
{
    for (size_t i = 0; i < a->frame_count && i < b->frame_count; i++)
        if (!is_same_frame(&a->frames[i], &b->frames[i]))
            return 0;
    return a->frame_count == b->frame_count;
}

/* Returns the place with that stack, and adds it if it is new; NULL if its frames are unknown or the table is full. */
static const struct launch_place *place_of(struct surroundings *around, const struct stack *stack)
{
    for (size_t i = 0; i < around->place_count; i++)
        if (is_same_stack(around->places[i].stack, stack))
            return &around->places[i];
    if (around->place_count == SURROUNDINGS_PLACES || (!stack->python && !stack->count))
        return NULL;
    struct launch_place *place = &around->places[around->place_count];
    place->stack = stack;
    place->frame_count = stack_frames(stack, place->frames, STACK_READ);
    if (!place->frame_count)
        return NULL;
    for (size_t i = 0; !stack->python && i < around->place_count; i++)
        if (!around->places[i].stack->python && has_same_frames(&around->places[i], place))
            return &around->places[i];
    around->place_count++;
    return place;
}

/* Compares neighbours only: the warps of a grid, possibly thousands, are adjacent. */
static int is_of_same_launch(const struct evidence_site *a, const struct evidence_site *b)
{
    return a->symbol == b->symbol && a->has_grid == b->has_grid && a->grid_id == b->grid_id;
}

static int may_be_the_one(const struct launch_entry *launch, const struct evidence *evidence)
{
    int fits = launch->graph != 0;
    for (size_t i = 0; i < evidence->site_count && !fits; i++)
        if (i == 0 || !is_of_same_launch(&evidence->sites[i - 1], &evidence->sites[i]))
            fits = launch_fits(launch, &evidence->sites[i]);
    return fits != 0;
}

/* Further launches to look up, in case the warps in the dump belong to other launches. */
#define OTHERS_LIMIT 64

/* Fills in where launches came from, and adds the buffers that their arguments point to. is_fit: for launches that fit the
 * warps in the dump, else for the others. */
static void look_at_launches(struct surroundings *around, const struct evidence *evidence, int is_fit, size_t limit)
{
    for (size_t i = 0; i < around->memory.launch_count && limit > 0; i++) {
        struct fault_launch *launch = &around->launches[i];
        if (may_be_the_one(launch->entry, evidence) != is_fit)
            continue;
        limit--;
        const struct launch_place *place = place_of(around, &around->stacks[i]);
        if (place) {
            launch->frames = place->frames;
            launch->frame_count = place->frame_count;
            launch->place = (unsigned)(place - around->places) + 1;
        }
        look_at_words(around, launch->entry->bytes, launch->entry->kept_bytes);
    }
}

/* Returns the first known address of an access, 0 if there is none. */
static uint64_t first_address(const struct evidence *evidence)
{
    for (size_t i = 0; i < evidence->site_count; i++) {
        for (size_t k = 0; k < evidence->sites[i].lane_count; k++) {
            if (evidence->sites[i].lanes[k].certainty != CERTAIN_NOT)
                return evidence->sites[i].lanes[k].address;
        }
    }
    return 0;
}

struct surroundings *surroundings_of(const struct evidence *evidence, int device)
{
    struct surroundings *around = calloc(1, sizeof *around);
    uint64_t total = 0;
    if (!around)
        return NULL;
    around->memory = (struct fault_memory){.near = around->near,
                                           .live = around->live,
                                           .device = device,
                                           .launches = around->launches,
                                           .recent = around->recent,
                                           .maps = around->maps,
                                           .frames = {stack_buffer_frames, NULL}};
    surroundings_add(around, evidence);
    read_launches(around, evidence, device);
    look_at_launches(around, evidence, 1, SURROUNDINGS_LAUNCHES);
    look_at_launches(around, evidence, 0, OTHERS_LIMIT);
    struct fault_memory *memory = &around->memory;
    memory->live_count = heap_live(device, around->live, sizeof around->live / sizeof *around->live, &total);
    memory->live_total = (size_t)total;
    memory->map_count = maps_read(around->maps);
    for (size_t i = 0; i < memory->map_count; i++)
        if (around->maps[i].copied_to)
            look_at(around, around->maps[i].base);
    uint64_t address = first_address(evidence);
    for (int i = 0; i < 64 && device >= 0; i++)
        memory->shared |= (uint64_t)(arena_is_shared(i, device) != 0) << i;
    memory->arena_start = arena_start();
    memory->arena_end = arena_end();
    memory->is_host_address = is_mapped_by_host(address);
    memory->unguarded = passed_live(device, address);
    memory->now_ns = monotonic_ns();
    return around;
}

void surroundings_add_address(struct surroundings *around, uint64_t address)
{
    if (!is_known(around, address))
        look_at(around, address);
}
