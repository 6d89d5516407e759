#include "surroundings.h"

#include "analysis/verdict/launches.h"
#include "base/clock.h"
#include "base/reader.h"
#include "driver/driver.h"
#include "heap/heap.h"
#include "heap/unguarded/unguarded.h"
#include "launch/launch.h"
#include "vmm/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEAR_PER_ADDRESS 8
#define TICK_NS UINT64_C(10000000) /* how far a launch's time may be behind: one tick of the slowest kernel configuration */
#define MOST_DEVICES 64            /* that are distinguished */

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

/* Adds the buffers at and around an address. */
static void look_at(void *from, uint64_t address)
{
    struct surroundings *around = from;
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

/* ---- launches ---- */

/* Returns 1 for the first stop of each kernel that faulted. */
static int is_first_of_kernel(const struct evidence *evidence, size_t index)
{
    const char *symbol = evidence->stops[index].symbol;
    for (size_t i = 0; symbol && i < index; i++)
        if (evidence->stops[i].symbol && !strcmp(evidence->stops[i].symbol, symbol))
            return 0;
    return symbol != NULL;
}

static void read_launches(struct surroundings *around, const struct evidence *evidence, int device)
{
    size_t count = 0, kernels = 0;
    for (size_t i = 0; i < evidence->stop_count && kernels < 4; i++) {
        const struct launch_query query = {.device = device, .kernel = evidence->stops[i].symbol, .has_graphs = kernels == 0};
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
static int is_of_same_launch(const struct evidence_stop *a, const struct evidence_stop *b)
{
    return a->symbol == b->symbol && a->has_grid == b->has_grid && a->grid_id == b->grid_id;
}

static int may_be_the_one(const struct launch_entry *launch, const struct evidence *evidence)
{
    int fits = launch->graph != 0;
    for (size_t i = 0; i < evidence->stop_count && !fits; i++)
        if (i == 0 || !is_of_same_launch(&evidence->stops[i - 1], &evidence->stops[i]))
            fits = launch_fits(launch, &evidence->stops[i]);
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
        memory_look_at_words(&around->memory, launch->entry->bytes, launch->entry->kept_bytes);
    }
}

/* Returns the first known address of an access, 0 if there is none. */
static uint64_t first_address(const struct evidence *evidence)
{
    for (size_t i = 0; i < evidence->stop_count; i++) {
        for (size_t k = 0; k < evidence->stops[i].lane_count; k++) {
            if (evidence->stops[i].lanes[k].certainty != CERTAIN_NOT)
                return evidence->stops[i].lanes[k].address;
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
                                           .buffers_at = look_at,
                                           .from = around,
                                           .arena_start = arena_start(),
                                           .arena_end = arena_end(),
                                           .frames = {stack_buffer_frames, NULL}};
    memory_meet(&around->memory, evidence);
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
    memory->is_host_address = is_mapped_by_host(address);
    memory->unguarded = passed_live(device, address);
    memory->now_ns = monotonic_ns();
    return around;
}

/* ---- which device has faulted ---- */

static int is_at(CUdevice device, const struct evidence *evidence)
{
    int bus = -1, slot = -1;
    return driver->cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device) == CUDA_SUCCESS &&
           driver->cuDeviceGetAttribute(&slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, device) == CUDA_SUCCESS &&
           (uint32_t)bus == evidence->pci_bus && (uint32_t)slot == evidence->pci_device;
}

/* Returns a bit for each device that matches the PCI bus and device number. */
static uint64_t devices_there(const struct evidence *evidence, int count)
{
    uint64_t found = 0;
    for (int i = 0; i < count && i < MOST_DEVICES; i++) {
        CUdevice device;
        if (driver->cuDeviceGet(&device, i) == CUDA_SUCCESS && is_at(device, evidence))
            found |= UINT64_C(1) << i;
    }
    return found;
}

static int is_one(uint64_t devices)
{
    return devices && !(devices & (devices - 1));
}

static uint64_t with_launches(const struct evidence *evidence, uint64_t devices)
{
    struct launch_entry newest;
    uint64_t found = 0;
    const char *kernel = evidence->stop_count ? evidence->stops[0].symbol : NULL;
    for (int i = 0; kernel && i < MOST_DEVICES; i++) {
        const struct launch_query query = {.device = i, .kernel = kernel};
        if ((devices >> i & 1) && launch_read(&query, &newest, NULL, 1))
            found |= UINT64_C(1) << i;
    }
    return found;
}

/* Returns the bit of the device whose buffer, guard included, contains the address; 0 if none. */
static uint64_t owner_of(uint64_t address)
{
    cufence_buffer near[NEAR_PER_ADDRESS];
    size_t count = heap_near(address, near, NEAR_PER_ADDRESS);
    for (size_t i = 0; i < count; i++) {
        if (near[i].device >= 0 && near[i].device < MOST_DEVICES && address >= near[i].mapping_start &&
            address < near[i].guard_end)
            return UINT64_C(1) << near[i].device;
    }
    return 0;
}

static uint64_t with_buffers(const struct evidence *evidence, uint64_t devices)
{
    uint64_t found = 0;
    const struct evidence_stop *stop = evidence->stop_count ? &evidence->stops[0] : NULL;
    for (size_t k = 0; stop && !found && k < stop->lane_count; k++) {
        if (stop->lanes[k].certainty != CERTAIN_NOT)
            found = owner_of(stop->lanes[k].address) & devices;
    }
    for (size_t at = 0; stop && !found && at + 8 <= stop->parameter_bytes; at += 8) {
        uint64_t word = load_u64(stop->parameters + at);
        found = owner_of(word) & devices;
    }
    return found;
}

int faulted_device(const struct evidence *evidence)
{
    int count = 0;
    driver->cuDeviceGetCount(&count);
    uint64_t devices = devices_there(evidence, count);
    if (!devices) /* the PCI address is not in the dump, or in another format */
        return count == 1 ? 0 : evidence->device < (uint32_t)count ? (int)evidence->device : -1;
    if (!is_one(devices)) {
        uint64_t launched = with_launches(evidence, devices);
        devices = is_one(launched) ? launched : with_buffers(evidence, launched ? launched : devices);
    }
    return is_one(devices) ? __builtin_ctzll(devices) : -1;
}

/* ---- bounds of buffers ---- */

int bounds_find(uint64_t address, cufence_buffer *found)
{
    cufence_buffer near[NEAR_PER_ADDRESS];
    size_t count = heap_near(address, near, NEAR_PER_ADDRESS);
    found->id = 0;
    for (size_t i = 0; i < count; i++) {
        const cufence_buffer *buffer = &near[i];
        int is_inside = address >= buffer->mapping_start && address < buffer->mapping_end;
        if (is_inside && (!found->id || !buffer->freed_ns || (found->freed_ns && buffer->id > found->id)))
            *found = *buffer;
    }
    return found->id != 0;
}

static int is_given(const struct rerun_launch *launch, const cufence_buffer *buffer)
{
    return buffer->size &&
           has_word(launch->arguments, launch->argument_bytes, buffer->address, buffer->address + buffer->size - 1);
}

/* Within a tick of the launch, its arguments decide: a buffer before it in the same memory seldom had the same address. */
int bounds_are_sure(const cufence_buffer *buffer, const struct rerun_launch *launches,
                    const struct fault_launch *const *recorded, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!recorded[i])
            return 0;
        uint64_t time_ns = recorded[i]->entry->time_ns;
        int is_older = buffer->allocated_ns + TICK_NS <= time_ns;
        int is_near = buffer->allocated_ns <= time_ns + TICK_NS && is_given(&launches[i], buffer);
        if ((!is_older && !is_near) || (buffer->freed_ns && buffer->freed_ns < time_ns))
            return 0;
    }
    return count > 0;
}
