#include "evidence.h"

#include "coredump.h"
#include "error.h"
#include "exception.h"
#include "locate.h"
#include "scratch.h"
#include "warp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Instructions emulated for one dump: about a tenth of a second. */
#define EMULATION_BUDGET 1000000u

struct whole {
    struct evidence evidence; /* first: the caller's pointer */
    struct scratch scratch;
};

struct site_node {
    struct site_node *next;
    struct evidence_site site;
    struct coredump_place sm;
};

struct builder {
    struct coredump dump;
    struct whole *whole;
    struct locator locator;
    struct site_node *first;
    struct site_node **last;
    size_t count;
    struct coredump_place device; /* of the first site; section 0 until there is one */
    unsigned compute;             /* 90 for 9.0 */
    uint64_t emulation_budget;
};

static unsigned compute_of(const struct coredump *dump, struct coredump_place place)
{
    struct coredump_device device;
    if (!coredump_row(dump, COREDUMP_DEVICES, place, &device) || device.sm_major > 100 || device.sm_minor > 9)
        return 0;
    return device.sm_major * 10 + device.sm_minor;
}

/* Sites of one device only make one report: those of the first. 0: another device. */
static int take_device(struct builder *builder, struct coredump_place device)
{
    if (builder->device.section == 0) {
        builder->device = device;
        builder->compute = compute_of(&builder->dump, device);
    }
    return builder->device.section == device.section && builder->device.row == device.row;
}

static struct evidence_site *add_site(struct builder *builder, struct coredump_place sm)
{
    struct site_node *node = scratch_take(&builder->whole->scratch, sizeof(*node));
    if (!node)
        return NULL;
    node->sm = sm;
    *builder->last = node;
    builder->last = &node->next;
    builder->count++;
    return &node->site;
}

static void set_location(struct evidence_site *site, const struct location *location)
{
    site->kernel = location->kernel;
    site->symbol = location->symbol;
    site->kernel_offset = location->kernel_offset;
    site->file = location->file;
    site->line = location->line;
    site->instruction = location->text;
    site->access = location->kind;
    site->access_bytes = location->has_access ? location->access.bytes : 0;
}

/* The grid row with this id on a device. */
static struct coredump_place find_grid(const struct coredump *dump, struct coredump_place device, uint64_t id,
                                       struct coredump_grid *grid)
{
    struct coredump_place place = {coredump_child(dump, device, COREDUMP_GRIDS), 0};
    uint32_t count = coredump_rows(dump, place.section, COREDUMP_GRIDS);
    for (; place.row < count; place.row++)
        if (coredump_row(dump, COREDUMP_GRIDS, place, grid) && grid->id == id)
            return place;
    return (struct coredump_place){0, 0};
}

/* The module row with this handle in a context of the device. */
static struct coredump_place find_module(const struct coredump *dump, struct coredump_place device, uint64_t handle)
{
    struct coredump_place context = {coredump_child(dump, device, COREDUMP_CONTEXTS), 0};
    uint32_t contexts = coredump_rows(dump, context.section, COREDUMP_CONTEXTS);
    for (; context.row < contexts; context.row++) {
        struct coredump_place place = {coredump_child(dump, context, COREDUMP_MODULES), 0};
        uint32_t count = coredump_rows(dump, place.section, COREDUMP_MODULES);
        struct coredump_module module;
        for (; place.row < count; place.row++)
            if (coredump_row(dump, COREDUMP_MODULES, place, &module) && module.handle == handle)
                return place;
    }
    return (struct coredump_place){0, 0};
}

static int set_grid(struct builder *builder, struct evidence_site *site, const struct coredump_grid *grid,
                    struct coredump_place place)
{
    site->has_grid = 1;
    site->grid_id = grid->id;
    memcpy(site->grid, grid->grid, sizeof(site->grid));
    memcpy(site->block, grid->block, sizeof(site->block));
    memcpy(site->cluster, grid->cluster, sizeof(site->cluster));
    struct span bytes = coredump_content(&builder->dump, coredump_child(&builder->dump, place, COREDUMP_PARAMETERS));
    if (!bytes.bytes)
        return 1;
    uint8_t *copy = scratch_take(&builder->whole->scratch, bytes.size);
    if (!copy)
        return 0;
    memcpy(copy, bytes.bytes, bytes.size);
    site->parameters = copy;
    site->parameter_bytes = bytes.size;
    return 1;
}

/* What the kernel was started with, as far as emulation needs it; 0 if the access is not in the grid's own kernel. */
static int set_launch(const struct builder *builder, const struct evidence_site *site, const struct coredump_grid *grid,
                      const struct location *location, struct emulate_launch *launch)
{
    *launch = (struct emulate_launch){.code = location->kernel_code,
                                      .start = location->kernel_start,
                                      .sm = builder->compute,
                                      .parameters = {site->parameters, site->parameter_bytes},
                                      .parameters_at = grid->parameters_at};
    memcpy(launch->grid, grid->grid, sizeof(launch->grid));
    memcpy(launch->block, grid->block, sizeof(launch->block));
    return site->has_grid && location->has_access && location->kernel_start == grid->entry;
}

static int add_warp(struct builder *builder, const struct warp_scene *scene)
{
    uint32_t exception = warp_exception(scene);
    if ((!exception && !scene->warp.error_pc_valid) || scene->lane_count == 0 || !take_device(builder, scene->device_place))
        return 1;
    struct evidence_site *site = add_site(builder, scene->sm_place);
    if (!site)
        return 0;
    site->exception = exception;
    site->exception_name = exception_name(exception);
    site->is_warp_alive = 1;
    site->sm = scene->sm.id;
    site->warp = scene->warp.id;
    memcpy(site->block_index, scene->cta.block, sizeof(site->block_index));
    if (scene->warp.error_pc_valid)
        site->error_pc = scene->warp.error_pc;
    else if (scene->sm.error_pc_valid)
        site->error_pc = scene->sm.error_pc;

    struct coredump_grid grid = {0};
    struct coredump_place place = find_grid(&builder->dump, scene->device_place, scene->cta.grid_id, &grid);
    struct coredump_place module = {0, 0};
    if (place.section) {
        if (!set_grid(builder, site, &grid, place))
            return 0;
        module = find_module(&builder->dump, scene->device_place, grid.module);
        if (scene->cta.cluster_size[0])
            memcpy(site->cluster, scene->cta.cluster_size, sizeof(site->cluster));
        struct evidence *evidence = &builder->whole->evidence;
        if (!evidence->context) {
            evidence->context = grid.context;
            evidence->host_tid = grid.tid;
        }
    }
    const struct location *location = locate(&builder->locator, site->error_pc, module, builder->compute);
    if (!location)
        return 0;
    set_location(site, location);
    site->lanes = scratch_take(&builder->whole->scratch, WARP_LANES * sizeof(*site->lanes));
    if (!site->lanes)
        return 0;
    struct emulate_launch launch;
    int is_launch_known = set_launch(builder, site, &grid, location, &launch);
    site->lane_count =
        warp_lanes(&builder->dump, scene, location, is_launch_known ? &launch : NULL, &builder->emulation_budget, site->lanes);
    return 1;
}

static int add_warps(struct builder *builder)
{
    struct warp_scene scene;
    uint32_t section = 0;
    while ((section = coredump_next(&builder->dump, COREDUMP_WARPS, section)) != 0) {
        uint32_t count = coredump_rows(&builder->dump, section, COREDUMP_WARPS);
        for (uint32_t row = 0; row < count; row++)
            if (warp_read(&builder->dump, (struct coredump_place){section, row}, &scene) && !add_warp(builder, &scene))
                return 0;
    }
    return 1;
}

/* Marks the SMs of one table that have an alive faulting warp. NULL when the host is out of memory. */
static uint8_t *alive_sms(const struct builder *builder, uint32_t section, uint32_t count)
{
    uint8_t *is_alive = calloc(count ? count : 1, 1);
    for (const struct site_node *node = builder->first; is_alive && node; node = node->next)
        if (node->sm.section == section && node->sm.row < count)
            is_alive[node->sm.row] = 1;
    return is_alive;
}

/* An error PC of an SM whose faulting warp has exited. */
static int add_sm(struct builder *builder, struct coredump_place place)
{
    struct coredump_sm sm;
    struct coredump_place device = coredump_parent(&builder->dump, place.section, COREDUMP_DEVICES);
    if (!coredump_row(&builder->dump, COREDUMP_SMS, place, &sm) || (!sm.exception && !sm.error_pc_valid) ||
        device.section == 0 || !take_device(builder, device))
        return 1;
    struct evidence_site *site = add_site(builder, place);
    const struct location *location = NULL;
    if (site)
        location =
            locate(&builder->locator, sm.error_pc_valid ? sm.error_pc : 0, (struct coredump_place){0, 0}, builder->compute);
    if (!location)
        return 0;
    site->exception = sm.exception;
    site->exception_name = exception_name(sm.exception);
    site->error_pc = sm.error_pc_valid ? sm.error_pc : 0;
    site->sm = sm.id;
    set_location(site, location);
    return 1;
}

static int add_sms(struct builder *builder)
{
    uint32_t section = 0;
    while ((section = coredump_next(&builder->dump, COREDUMP_SMS, section)) != 0) {
        uint32_t count = coredump_rows(&builder->dump, section, COREDUMP_SMS);
        uint8_t *is_alive = alive_sms(builder, section, count);
        int is_good = is_alive != NULL;
        for (uint32_t row = 0; is_good && row < count; row++)
            if (!is_alive[row])
                is_good = add_sm(builder, (struct coredump_place){section, row});
        free(is_alive);
        if (!is_good)
            return 0;
    }
    return 1;
}

/* The grid of an exited warp: that of an alive one of the same kernel, else the device's only grid of that kernel. */
static int borrow_grids(struct builder *builder)
{
    struct coredump_place place = {coredump_child(&builder->dump, builder->device, COREDUMP_GRIDS), 0};
    uint32_t count = coredump_rows(&builder->dump, place.section, COREDUMP_GRIDS);
    for (struct site_node *node = builder->first; node; node = node->next) {
        struct evidence_site *site = &node->site;
        if (site->has_grid || !site->kernel)
            continue;
        uint64_t start = site->error_pc - site->kernel_offset;
        struct coredump_grid grid, match = {0};
        struct coredump_place found = {0, 0};
        unsigned matches = 0;
        for (place.row = 0; place.row < count && matches < 2; place.row++) {
            if (!coredump_row(&builder->dump, COREDUMP_GRIDS, place, &grid) || grid.entry != start)
                continue;
            match = grid;
            found = place;
            matches++;
        }
        if (matches == 1 && !set_grid(builder, site, &match, found))
            return 0;
    }
    return 1;
}

static int compare_sites(const void *left, const void *right)
{
    const struct evidence_site *a = left, *b = right;
    if (a->is_warp_alive != b->is_warp_alive)
        return b->is_warp_alive - a->is_warp_alive;
    if (a->sm != b->sm)
        return a->sm < b->sm ? -1 : 1;
    return a->warp < b->warp ? -1 : a->warp > b->warp;
}

static int set_sites(struct builder *builder)
{
    struct evidence *evidence = &builder->whole->evidence;
    evidence->sites = scratch_take(&builder->whole->scratch, (builder->count + 1) * sizeof(*evidence->sites));
    if (!evidence->sites)
        return 0;
    for (const struct site_node *node = builder->first; node; node = node->next)
        evidence->sites[evidence->site_count++] = node->site;
    qsort(evidence->sites, evidence->site_count, sizeof(*evidence->sites), compare_sites);
    return 1;
}

static void set_device(struct builder *builder)
{
    struct evidence *evidence = &builder->whole->evidence;
    const struct coredump *dump = &builder->dump;
    struct coredump_place place = builder->device;
    if (place.section == 0)
        place.section = coredump_next(dump, COREDUMP_DEVICES, 0);
    struct coredump_device device;
    if (coredump_row(dump, COREDUMP_DEVICES, place, &device)) {
        snprintf(evidence->device_name, sizeof(evidence->device_name), "%s", coredump_string(dump, device.name));
        snprintf(evidence->sm_type, sizeof(evidence->sm_type), "%s", coredump_string(dump, device.sm_type));
        evidence->device = device.index;
        evidence->pci_bus = device.pci_bus;
        evidence->pci_device = device.pci_device;
    }
    struct coredump_place context_place = {coredump_child(dump, place, COREDUMP_CONTEXTS), 0};
    struct coredump_context context;
    if (!evidence->context && coredump_rows(dump, context_place.section, COREDUMP_CONTEXTS) == 1 &&
        coredump_row(dump, COREDUMP_CONTEXTS, context_place, &context))
        evidence->context = context.id;
    struct coredump_meta meta;
    struct coredump_place meta_place = {coredump_next(dump, COREDUMP_META, 0), 0};
    if (coredump_row(dump, COREDUMP_META, meta_place, &meta)) {
        evidence->driver_major = meta.driver_major;
        evidence->driver_minor = meta.driver_minor;
    }
}

cufence_status evidence_from_coredump(const void *bytes, size_t size, struct evidence **out)
{
    if (!out)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "evidence_from_coredump: there is no place for the result");
    *out = NULL;
    if (!bytes)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "evidence_from_coredump: there is no core dump");
    struct builder builder = {.whole = calloc(1, sizeof(*builder.whole)), .emulation_budget = EMULATION_BUDGET};
    if (!builder.whole)
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "no host memory for the evidence of a fault");
    builder.last = &builder.first;
    builder.locator = (struct locator){.dump = &builder.dump, .scratch = &builder.whole->scratch};
    cufence_status status = coredump_open(bytes, size, &builder.dump);
    if (status == CUFENCE_OK) {
        if (add_warps(&builder) && add_sms(&builder) && borrow_grids(&builder) && set_sites(&builder))
            set_device(&builder);
        else
            status = error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "no host memory for the evidence of a fault");
    }
    coredump_close(&builder.dump);
    if (status == CUFENCE_OK)
        *out = &builder.whole->evidence;
    else
        evidence_free(&builder.whole->evidence);
    return status;
}

void evidence_free(struct evidence *evidence)
{
    if (!evidence)
        return;
    struct whole *whole = (struct whole *)evidence;
    scratch_free(&whole->scratch);
    free(whole);
}
