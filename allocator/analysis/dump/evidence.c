#include "evidence.h"

#include "coredump.h"
#include "base/error.h"
#include "base/list.h"
#include "locate.h"
#include "analysis/sass/slice.h"
#include "warp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Several times what a machine can contain; more means a damaged dump with overlapping tables. One GPU has 132 SMs, and a
 * device runs at most 128 grids at a time. */
#define SITE_LIMIT 65536u
#define SM_LIMIT 4096u
#define GRID_LIMIT 1024u
#define PARAMETER_LIMIT 65536u /* bytes; the largest launch has 32764 */

/* Instructions to emulate per dump: about a tenth of a second. */
#define EMULATION_BUDGET 1000000u

/* A grid that was looked up, with its parameters. */
struct grid_node {
    struct grid_node *next;
    struct coredump_grid row;
    const uint8_t *parameters;
    size_t parameter_bytes;
};

struct builder {
    const struct coredump *dump;
    struct evidence *evidence;
    struct locator locator;
    struct grid_node *grids;    /* of the device; read when the device is chosen */
    struct coredump_ref device; /* of the first stop; section 0 until then */
    unsigned compute;           /* 90 for 9.0 */
    uint64_t emulation_budget;
};

/* The result is valid until the next one is added. NULL if out of host memory. */
static struct evidence_stop *add_stop(struct builder *builder, uint32_t sm)
{
    struct evidence *evidence = builder->evidence;
    size_t count = evidence->stop_count;
    if (!list_make_room(&evidence->stops, count, sizeof *evidence->stops))
        return NULL;
    evidence->stops[evidence->stop_count++] = (struct evidence_stop){.sm = sm};
    return &evidence->stops[count];
}

/* The slice assumes the offset of the parameters for this architecture; if the driver says otherwise, the slice is not used. */
static struct address_source source_of(const struct location *location, const struct grid_node *grid, unsigned sm)
{
    int is_elsewhere = grid && grid->row.parameters_at && grid->row.parameters_at != slice_parameters_at(sm);
    int is_in_kernel = location->is_kernel || (grid && location->kernel_start == grid->row.entry);
    return is_in_kernel && !is_elsewhere ? location->source : (struct address_source){0, 0, 0};
}

static void set_location(struct evidence_stop *stop, const struct location *location)
{
    stop->kernel = location->kernel;
    stop->symbol = location->symbol;
    stop->kernel_offset = location->kernel_offset;
    stop->kernel_start = location->kernel_start;
    stop->file = location->file;
    stop->line = location->line;
    stop->instruction = location->text;
    stop->access = location->kind;
    stop->access_bytes = location->has_access ? location->access.bytes : 0;
}

/* Reads the device's grids. Returns 0 if out of host memory. */
static int read_grids(struct builder *builder)
{
    const struct coredump *dump = builder->dump;
    struct coredump_ref ref = {coredump_child(dump, builder->device, COREDUMP_GRIDS), 0};
    uint32_t count = coredump_rows(dump, ref.section, COREDUMP_GRIDS);
    struct grid_node **last = &builder->grids;
    for (; ref.row < count && ref.row < GRID_LIMIT; ref.row++) {
        struct grid_node *grid = json_take(&builder->evidence->memory, 1, sizeof(*grid));
        if (!grid)
            return 0;
        if (!coredump_row(dump, COREDUMP_GRIDS, ref, &grid->row))
            continue;
        *last = grid;
        last = &grid->next;
        builder->evidence->grids++;
        struct span bytes = coredump_content(dump, coredump_child(dump, ref, COREDUMP_PARAMETERS));
        if (!bytes.bytes || bytes.size > PARAMETER_LIMIT)
            continue;
        uint8_t *copy = json_take(&builder->evidence->memory, 1, bytes.size);
        if (!copy)
            return 0;
        memcpy(copy, bytes.bytes, bytes.size);
        grid->parameters = copy;
        grid->parameter_bytes = bytes.size;
    }
    return 1;
}

/* Makes the device of the first stop the report's device. Returns 0 if out of host memory. */
static int choose_device(struct builder *builder, struct coredump_ref device)
{
    if (builder->device.section != 0)
        return 1;
    builder->device = device;
    builder->compute = coredump_compute(builder->dump, device);
    return read_grids(builder);
}

/* Returns 1 if the device is that of the first stop. A report covers stops of one device only. */
static int is_device(const struct builder *builder, struct coredump_ref device)
{
    return builder->device.section == device.section && builder->device.row == device.row;
}

static const struct grid_node *find_grid(const struct builder *builder, uint64_t id)
{
    for (const struct grid_node *grid = builder->grids; grid; grid = grid->next)
        if (grid->row.id == id)
            return grid;
    return NULL;
}

static void set_grid(struct evidence_stop *stop, const struct grid_node *grid)
{
    stop->has_grid = 1;
    stop->grid_id = grid->row.id;
    stop->shape = grid->row.shape;
    stop->parameters = grid->parameters;
    stop->parameter_bytes = grid->parameter_bytes;
}

/* Returns 1 if the location is in another kernel than the grid's: the error PC then belongs to no warp of that grid. Once a
 * warp has exited, its slot on the SM is used by warps of the next kernel. */
static int is_of_other_kernel(const struct builder *builder, const struct location *location, const struct grid_node *grid)
{
    if (!grid || !location->symbol || location->kernel_start == grid->row.entry)
        return 0;
    for (const struct grid_node *other = builder->grids; other; other = other->next)
        if (other->row.entry == location->kernel_start)
            return 1;
    return location->is_kernel;
}

/* Fills in the launch for emulation. Returns 0 if the access is not in the grid's own kernel. */
static int set_launch(const struct builder *builder, const struct grid_node *grid, const struct location *location,
                      struct emulate_launch *launch)
{
    *launch = (struct emulate_launch){.code = location->kernel_code,
                                      .start = location->kernel_start,
                                      .shape = grid->row.shape,
                                      .sm = builder->compute,
                                      .parameters = {grid->parameters, grid->parameter_bytes},
                                      .parameters_at = grid->row.parameters_at ?: slice_parameters_at(builder->compute)};
    return (location->has_access || location->has_bulk) && location->kernel_start == grid->row.entry;
}

/* Adds the warp's block, grid and lanes. Returns 0 if out of host memory. */
static int add_threads(struct builder *builder, const struct warp_view *view, const struct grid_node *grid,
                       const struct location *location, struct evidence_stop *stop)
{
    stop->is_warp_alive = 1;
    stop->warp = view->warp.id;
    memcpy(stop->block_index, view->cta.block, sizeof(stop->block_index));
    if (grid) {
        set_grid(stop, grid);
        if (view->cta.cluster_size[0])
            memcpy(stop->cluster, view->cta.cluster_size, sizeof(stop->cluster));
        struct evidence *evidence = builder->evidence;
        if (!evidence->context) {
            evidence->context = grid->row.context;
            evidence->host_tid = grid->row.tid;
        }
    }
    stop->lanes = json_take(&builder->evidence->memory, WARP_LANES, sizeof(*stop->lanes));
    if (!stop->lanes)
        return 0;
    struct emulate_launch launch;
    int is_launch_known = grid && set_launch(builder, grid, location, &launch);
    if (is_launch_known && location->has_bulk &&
        warp_bulk(builder->dump, view, location, &launch, &builder->emulation_budget, stop->lanes, &stop->box,
                  &stop->access_bytes)) {
        stop->lane_count = 1;
        return 1;
    }
    stop->lane_count =
        warp_lanes(builder->dump, view, location, is_launch_known ? &launch : NULL, &builder->emulation_budget, stop->lanes);
    return 1;
}

/* Names the kernel of a warp whose PC is in no known function. Returns 0 if out of host memory. */
static int name_caller(struct builder *builder, struct coredump_ref device, const struct grid_node *grid,
                       struct evidence_stop *stop)
{
    if (stop->symbol || !grid)
        return 1;
    const struct location *start = locate(&builder->locator, grid->row.entry, device, grid->row.module, builder->compute);
    if (!start)
        return 0;
    stop->kernel = start->kernel;
    stop->symbol = start->symbol;
    stop->is_in_driver = start->symbol != NULL;
    return 1;
}

static int add_warp(void *user, const struct warp_view *view)
{
    struct builder *builder = user;
    uint32_t exception = warp_exception(view);
    builder->evidence->warps++;
    if ((!exception && !view->warp.error_pc_valid) || view->lane_count == 0 || builder->evidence->stop_count >= SITE_LIMIT)
        return 1;
    if (!choose_device(builder, view->device_ref))
        return 0;
    if (!is_device(builder, view->device_ref))
        return 1;
    struct evidence_stop *stop = add_stop(builder, view->sm.id);
    if (!stop)
        return 0;
    if (view->warp.error_pc_valid)
        stop->error_pc = view->warp.error_pc;
    else if (view->sm.error_pc_valid && exception != EXCEPTION_TRAP)
        stop->error_pc = view->sm.error_pc;
    else if (exception == EXCEPTION_TRAP || exception == EXCEPTION_ASSERT)
        stop->error_pc = warp_stopped_at(view) - SASS_INSTRUCTION_BYTES; /* the BPT, or the call of __assertfail() */
    const struct grid_node *grid = find_grid(builder, view->cta.grid_id);
    const struct location *location =
        locate(&builder->locator, stop->error_pc, view->device_ref, grid ? grid->row.module : 0, builder->compute);
    if (!location)
        return 0;
    set_location(stop, location);
    stop->exception = exception_of(exception, stop->instruction);
    stop->source = source_of(location, grid, builder->compute);
    if (is_of_other_kernel(builder, location, grid))
        return 1;
    return name_caller(builder, view->device_ref, grid, stop) && add_threads(builder, view, grid, location, stop);
}

/* Adds the error PC of an SM whose faulting warp has exited. */
static int add_sm(struct builder *builder, const struct coredump_sm *sm)
{
    struct evidence_stop *stop = add_stop(builder, sm->id);
    const struct location *location = NULL;
    if (stop)
        location = locate(&builder->locator, sm->error_pc_valid ? sm->error_pc : 0, builder->device, 0, builder->compute);
    if (!location)
        return 0;
    stop->error_pc = sm->error_pc_valid ? sm->error_pc : 0;
    set_location(stop, location);
    stop->exception = exception_of(sm->exception, stop->instruction);
    stop->source = source_of(location, NULL, builder->compute);
    return 1;
}

static int has_stop(const struct evidence *evidence, uint32_t sm)
{
    for (size_t i = 0; i < evidence->stop_count; i++)
        if (evidence->stops[i].sm == sm)
            return 1;
    return 0;
}

/* Adds the SMs of a table that have no alive faulting warp. */
static int add_sm_table(struct builder *builder, uint32_t section, struct coredump_ref device)
{
    const struct evidence *evidence = builder->evidence;
    uint32_t count = coredump_rows(builder->dump, section, COREDUMP_SMS);
    struct coredump_ref ref = {section, 0};
    for (; ref.row < count && ref.row < SM_LIMIT && evidence->stop_count < SITE_LIMIT; ref.row++) {
        struct coredump_sm sm;
        if (!coredump_row(builder->dump, COREDUMP_SMS, ref, &sm) || (!sm.exception && !sm.error_pc_valid) ||
            has_stop(evidence, sm.id))
            continue;
        if (!choose_device(builder, device))
            return 0;
        if (!is_device(builder, device))
            return 1;
        if (!add_sm(builder, &sm))
            return 0;
    }
    return 1;
}

/* Adds the SM table. A device has one; if there are several, the first is used. */
static int add_sms(struct builder *builder)
{
    uint32_t section = 0;
    while ((section = coredump_next(builder->dump, COREDUMP_SMS, section)) != 0) {
        struct coredump_ref device = coredump_parent(builder->dump, section, COREDUMP_DEVICES);
        int is_other = builder->device.section != 0 && !is_device(builder, device);
        if (device.section == 0 || is_other || coredump_child(builder->dump, device, COREDUMP_SMS) != section)
            continue;
        if (!add_sm_table(builder, section, device))
            return 0;
    }
    return 1;
}

/* Returns the only grid of the kernel that starts at `start`, NULL if there are none or several. */
static const struct grid_node *only_grid(const struct builder *builder, uint64_t start)
{
    const struct grid_node *found = NULL;
    for (const struct grid_node *grid = builder->grids; grid; grid = grid->next) {
        if (grid->row.entry != start)
            continue;
        if (found)
            return NULL;
        found = grid;
    }
    return found;
}

/* Gives an exited warp's stop the only running grid of its kernel: a dump contains running grids only. */
static void borrow_grids(struct builder *builder)
{
    for (size_t i = 0; i < builder->evidence->stop_count; i++) {
        struct evidence_stop *stop = &builder->evidence->stops[i];
        const struct grid_node *grid = stop->has_grid || !stop->kernel ? NULL : only_grid(builder, stop->kernel_start);
        stop->is_grid_borrowed = grid != NULL;
        if (grid)
            set_grid(stop, grid);
    }
}

static int compare_stops(const void *left, const void *right)
{
    const struct evidence_stop *a = left, *b = right;
    return b->is_warp_alive - a->is_warp_alive ?: LIST_ORDER(a->sm, b->sm) ?: LIST_ORDER(a->warp, b->warp);
}

static void set_device(struct builder *builder)
{
    struct evidence *evidence = builder->evidence;
    const struct coredump *dump = builder->dump;
    struct coredump_ref ref = builder->device;
    if (ref.section == 0)
        ref.section = coredump_next(dump, COREDUMP_DEVICES, 0);
    struct coredump_device device;
    if (coredump_row(dump, COREDUMP_DEVICES, ref, &device)) {
        snprintf(evidence->device_name, sizeof(evidence->device_name), "%s", coredump_string(dump, device.name));
        snprintf(evidence->sm_type, sizeof(evidence->sm_type), "%s", coredump_string(dump, device.sm_type));
        evidence->device = device.index;
        evidence->pci_bus = device.pci_bus;
        evidence->pci_device = device.pci_device;
    }
    struct coredump_ref context_ref = {coredump_child(dump, ref, COREDUMP_CONTEXTS), 0};
    struct coredump_context context;
    if (!evidence->context && coredump_rows(dump, context_ref.section, COREDUMP_CONTEXTS) == 1 &&
        coredump_row(dump, COREDUMP_CONTEXTS, context_ref, &context))
        evidence->context = context.id;
    struct coredump_meta meta;
    struct coredump_ref meta_ref = {coredump_next(dump, COREDUMP_META, 0), 0};
    if (coredump_row(dump, COREDUMP_META, meta_ref, &meta)) {
        evidence->driver_major = meta.driver_major;
        evidence->driver_minor = meta.driver_minor;
    }
}

cufence_status evidence_read(const struct coredump *dump, struct evidence **out, struct problem *problem)
{
    struct evidence *evidence = *out = calloc(1, sizeof *evidence);
    struct builder builder = {.dump = dump, .evidence = evidence, .emulation_budget = EMULATION_BUDGET};
    if (evidence)
        builder.locator = (struct locator){.dump = dump, .memory = &evidence->memory};
    if (!evidence || !warp_each(builder.dump, add_warp, &builder) || !add_sms(&builder)) {
        evidence_free(evidence);
        *out = NULL;
        return problem_set(problem, CUFENCE_ERROR_OUT_OF_MEMORY, "no host memory for the evidence of a fault");
    }
    borrow_grids(&builder);
    if (evidence->stop_count)
        qsort(evidence->stops, evidence->stop_count, sizeof(*evidence->stops), compare_stops);
    set_device(&builder);
    return CUFENCE_OK;
}

cufence_status evidence_from_coredump(const void *bytes, size_t size, struct evidence **out, struct problem *problem)
{
    struct coredump dump;
    *out = NULL;
    cufence_status status = coredump_open(bytes, size, &dump, problem) ?: evidence_read(&dump, out, problem);
    coredump_close(&dump);
    return status;
}

void evidence_free(struct evidence *evidence)
{
    if (!evidence)
        return;
    free(evidence->stops);
    json_memory_free(&evidence->memory);
    free(evidence);
}
