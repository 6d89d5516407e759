#include "standing.h"

#include "base/list.h"
#include "warp.h"

#include <stdlib.h>
#include <string.h>

#define GRID_LIMIT 1024u
#define WAITS_LIMIT 512u       /* PCs that are looked at */
#define PARAMETER_LIMIT 65536u /* bytes */

struct builder {
    const struct coredump *dump;
    struct standing *standing;
    struct locator locator;
};

static int is_new(const struct warp_view *view, uint32_t row)
{
    for (uint32_t i = 0; i < row; i++)
        if (view->lanes[i].pc == view->lanes[row].pc)
            return 0;
    return 1;
}

static void count_lanes(const struct warp_view *view, uint32_t first, struct standing_place *place)
{
    for (uint32_t i = first; i < view->lane_count; i++) {
        if (view->lanes[i].pc != place->pc)
            continue;
        place->threads++;
        if (view->lanes[i].exception && !place->exception.number) {
            place->exception = exception_of(view->lanes[i].exception, NULL);
            place->lane.row = i;
            memcpy(place->thread, view->lanes[i].thread, sizeof place->thread);
        }
    }
}

/* Adds a place for each PC of a warp's threads. Returns 0 if out of host memory. */
static int add_warp(void *user, const struct warp_view *view)
{
    struct standing *standing = ((struct builder *)user)->standing;
    for (uint32_t row = 0; row < view->lane_count; row++) {
        if (!is_new(view, row))
            continue;
        struct standing_place place = {.pc = view->lanes[row].pc,
                                       .device = view->device_ref,
                                       .grid_id = view->cta.grid_id,
                                       .warps = 1,
                                       .sm = view->sm.id,
                                       .warp = view->warp.id,
                                       .lane = {view->lane_table, row}};
        memcpy(place.block, view->cta.block, sizeof place.block);
        memcpy(place.thread, view->lanes[row].thread, sizeof place.thread);
        count_lanes(view, row, &place);
        place.is_whole = place.threads == view->lane_count;
        standing->threads += place.threads;
        if (!list_make_room(&standing->places, standing->place_count, sizeof place))
            return 0;
        standing->places[standing->place_count++] = place;
    }
    standing->warps += view->lane_count > 0;
    return 1;
}

static int compare_launches(const struct standing_place *a, const struct standing_place *b)
{
    return LIST_ORDER(a->device.section, b->device.section)
               ?: LIST_ORDER(a->device.row, b->device.row)
               ?: LIST_ORDER(a->grid_id, b->grid_id);
}

/* By launch and PC; those that wait for the same by what they wait for, apart from others that are there. */
static int compare_where(const void *left, const void *right)
{
    const struct standing_place *a = left, *b = right;
    return compare_launches(a, b)
               ?: LIST_ORDER(a->wait.kind ? a->wait.pc : a->pc, b->wait.kind ? b->wait.pc : b->pc)
               ?: LIST_ORDER(!a->wait.kind, !b->wait.kind);
}

/* And places with an exception first. */
static int compare_keys(const void *left, const void *right)
{
    const struct standing_place *a = left, *b = right;
    return compare_where(a, b)
               ?: LIST_ORDER(!a->exception.number, !b->exception.number)
               ?: LIST_ORDER(a->sm, b->sm)
               ?: LIST_ORDER(a->warp, b->warp)
               ?: LIST_ORDER(a->lane.row, b->lane.row);
}

static int compare_places(const void *left, const void *right)
{
    const struct standing_place *a = left, *b = right;
    return LIST_ORDER(!a->exception.number, !b->exception.number)
               ?: LIST_ORDER(a->wait.kind != WAIT_POLL, b->wait.kind != WAIT_POLL)
               ?: LIST_ORDER(b->threads, a->threads)
               ?: compare_keys(left, right);
}

static void sort_places(struct standing *standing, int (*compare)(const void *left, const void *right))
{
    if (standing->place_count)
        qsort(standing->places, standing->place_count, sizeof *standing->places, compare);
}

/* Joins the places that are the same. */
static void merge_places(struct standing *standing)
{
    size_t count = 0;
    sort_places(standing, compare_keys);
    for (size_t i = 1; i < standing->place_count; i++) {
        struct standing_place *last = &standing->places[count], *next = &standing->places[i];
        if (!compare_where(last, next)) {
            last->warps += next->warps;
            last->threads += next->threads;
            last->wait.absent += next->wait.absent;
        } else {
            standing->places[++count] = *next;
        }
    }
    standing->place_count = standing->place_count ? count + 1 : 0;
}

/* ---- launches ---- */

static int is_of(const struct standing_place *place, const struct standing_grid *grid)
{
    return place->grid_id == grid->row.id && place->device.section == grid->device.section &&
           place->device.row == grid->device.row;
}

static int add_grid(struct builder *builder, const struct coredump_grid *row, struct coredump_ref device,
                    struct span parameters)
{
    struct standing *standing = builder->standing;
    struct standing_grid *grid = &standing->grids[standing->grid_count++];
    *grid = (struct standing_grid){
        .row = *row,
        .device = device,
        .at = locate(&builder->locator, row->entry, device, row->module, coredump_compute(builder->dump, device))};
    if (parameters.size <= PARAMETER_LIMIT)
        grid->parameters = parameters;
    for (size_t i = 0; i < standing->place_count; i++) {
        if (is_of(&standing->places[i], grid))
            grid->threads += standing->places[i].threads;
    }
    return grid->at != NULL;
}

/* Adds all launches. Returns 0 if out of host memory. */
static int add_grids(struct builder *builder)
{
    static const struct location nowhere;
    const struct coredump *dump = builder->dump;
    struct standing *standing = builder->standing;
    standing->grids = json_take(&standing->memory, GRID_LIMIT + 1, sizeof *standing->grids);
    if (!standing->grids)
        return 0;
    for (uint32_t section = 0; (section = coredump_next(dump, COREDUMP_GRIDS, section)) != 0;) {
        struct coredump_ref ref = {section, 0};
        for (; standing->grid_count < GRID_LIMIT && ref.row < coredump_rows(dump, section, COREDUMP_GRIDS); ref.row++) {
            struct coredump_grid row;
            if (coredump_row(dump, COREDUMP_GRIDS, ref, &row) &&
                !add_grid(builder, &row, coredump_parent(dump, section, COREDUMP_DEVICES),
                          coredump_content(dump, coredump_child(dump, ref, COREDUMP_PARAMETERS))))
                return 0;
        }
    }
    standing->grids[standing->grid_count].at = &nowhere;
    return 1;
}

/* One without anything if the dump has none. */
static struct standing_grid *grid_of(const struct standing *standing, const struct standing_place *place)
{
    size_t i = 0;
    while (i < standing->grid_count && !is_of(place, &standing->grids[i]))
        i++;
    return &standing->grids[i];
}

/* Whether the address of the access is computed anew between a PC and the access, which is behind it. */
static int is_computed_anew(const struct location *at, uint64_t from)
{
    const struct sass_access *access = &at->access;
    for (uint64_t pc = from; pc < at->pc; pc += SASS_INSTRUCTION_BYTES) {
        struct span bytes = span_part(at->code, pc - at->code_start, SASS_INSTRUCTION_BYTES);
        struct sass_instruction instruction = bytes.bytes ? sass_load(bytes.bytes) : (struct sass_instruction){0, 0};
        if (!bytes.bytes || sass_writes_register(instruction, access->base, access->is_base_wide ? 2 : 1) ||
            (access->uniform >= 0 && sass_writes_uniform(instruction)))
            return 1;
    }
    return 0;
}

/* Returns the address that the place's first thread loads from at `at`, 0 if it is not known, or not any more: a load may leave
 * its value where the address was. */
static uint64_t address_of(const struct coredump *dump, const struct standing_place *place, const struct location *at)
{
    uint32_t registers[256], uniforms[256];
    const struct coredump_ref warp = coredump_parent(dump, place->lane.section, COREDUMP_WARPS);
    size_t count = coredump_words(dump, place->lane, COREDUMP_REGISTERS, registers, 256);
    size_t uniform_count = coredump_words(dump, warp, COREDUMP_UNIFORM_REGISTERS, uniforms, 256);
    uint64_t address = 0;
    int is_kept = at->has_access && locate_kept(at, place->pc).certainty != CERTAIN_NOT && !is_computed_anew(at, place->pc);
    return is_kept && sass_address(&at->access, registers, count, uniforms, uniform_count, &address) ? address : 0;
}

/* ---- what each place waits for ---- */

static int compare_pcs(const void *left, const void *right)
{
    const struct standing_place *a = left, *b = right;
    return compare_launches(a, b) ?: LIST_ORDER(a->pc, b->pc);
}

static const struct location *locate_in(struct builder *builder, uint64_t pc, const struct standing_grid *grid)
{
    return locate(&builder->locator, pc, grid->device, grid->row.module, coredump_compute(builder->dump, grid->device));
}

/* Fills in what is waited for at a PC, but its place. A function that was compiled separately is located. Returns 0 if out of
 * host memory. */
static int find_wait(struct builder *builder, uint64_t pc, const struct standing_grid *grid, struct standing_wait *out)
{
    const struct location *at =
        pc - grid->at->kernel_start < grid->at->kernel_code.size ? grid->at : locate_in(builder, pc, grid);
    *out = (struct standing_wait){0};
    if (!at)
        return 0;
    struct wait wait = wait_find(at->kernel_code, pc - at->kernel_start, coredump_compute(builder->dump, grid->device));
    if (wait.kind)
        *out = (struct standing_wait){
            .kind = wait.kind, .pc = at->kernel_start + wait.at, .is_timed = wait.is_timed, .barrier = wait.barrier};
    return 1;
}

/* Finds launch and wait of each place. Lanes that wait for those of their warp don't if none is elsewhere. Returns 0 if out of
 * host memory. */
static int find_waits(struct builder *builder)
{
    struct standing *standing = builder->standing;
    struct standing_wait wait = {0};
    size_t found = 0;
    sort_places(standing, compare_pcs);
    for (size_t i = 0; i < standing->place_count; i++) {
        struct standing_place *place = &standing->places[i];
        int is_next = !i || compare_pcs(place - 1, place) != 0;
        place->grid = is_next ? grid_of(standing, place) : place[-1].grid;
        if (is_next && ++found > WAITS_LIMIT)
            wait = (struct standing_wait){0};
        else if (is_next && !find_wait(builder, place->pc, place->grid, &wait))
            return 0;
        if (!place->exception.number && (wait.kind != WAIT_WARP || !place->is_whole))
            place->wait = wait;
    }
    return 1;
}

/* ---- who has not come ---- */

static int compare_blocks(const void *left, const void *right)
{
    const struct standing_place *a = left, *b = right;
    return compare_launches(a, b)
               ?: LIST_ORDER(a->block[2], b->block[2])
               ?: LIST_ORDER(a->block[1], b->block[1])
               ?: LIST_ORDER(a->block[0], b->block[0])
               ?: compare_keys(left, right);
}

/* Counts who is missing at each barrier of a block, whose places are these, in the order of compare_where(). A barrier to which
 * all have come, wherever it stands in the code, has opened. */
static void count_absent(struct standing_place *places, size_t count)
{
    size_t all = 0, come[1 + WAIT_BARRIERS] = {0};
    for (size_t i = 0; i < count; i++) {
        all += places[i].threads;
        come[places[i].wait.barrier] += places[i].threads;
    }
    for (size_t i = 0; i < count; i++) {
        struct standing_wait *wait = &places[i].wait;
        int is_next = !i || compare_where(&places[i - 1], &places[i]) != 0;
        if (wait->barrier && come[wait->barrier] == all)
            *wait = (struct standing_wait){0};
        else if (wait->barrier && is_next) /* the others are added to it */
            wait->absent = all - come[wait->barrier];
    }
}

static void count_blocks(struct standing *standing)
{
    struct standing_place *each = standing->places;
    sort_places(standing, compare_blocks);
    for (size_t i = 0, next; i < standing->place_count; i = next) {
        struct standing_grid *grid = grid_of(standing, &each[i]);
        const uint32_t *size = grid->row.grid, *block = each[i].block;
        grid->blocks++;
        grid->absent += block[0] + (uint64_t)size[0] * (block[1] + (uint64_t)size[1] * block[2]) == grid->absent;
        for (next = i + 1; next < standing->place_count && !memcmp(each[i].block, each[next].block, sizeof each->block) &&
                           !compare_launches(&each[i], &each[next]);)
            next++;
        count_absent(&each[i], next - i);
    }
    for (struct standing_grid *grid = standing->grids, *end = grid ? grid + standing->grid_count : grid; grid < end; grid++)
        grid->has_grid = grid->blocks <= (uint64_t)grid->row.grid[0] * grid->row.grid[1] * grid->row.grid[2];
}

/* ---- the result ---- */

/* Says on which device a place is, if they are on several. */
static void name_devices(const struct coredump *dump, struct standing *standing)
{
    struct coredump_device device;
    int is_several = 0;
    for (size_t i = 1; i < standing->place_count; i++)
        is_several |= memcmp(&standing->places[i].device, &standing->places[0].device, sizeof standing->places[0].device) != 0;
    for (size_t i = 0; i < standing->place_count; i++) {
        int is_known = is_several && coredump_row(dump, COREDUMP_DEVICES, standing->places[i].device, &device);
        standing->places[i].gpu = is_known ? (int)device.index : -1;
    }
}

/* Finds kernel, line and instruction of each place, up to the locator's limit. Returns 0 if out of host memory. */
static int name_places(struct builder *builder)
{
    struct standing *standing = builder->standing;
    sort_places(standing, compare_places);
    for (size_t i = 0; i < standing->place_count; i++) {
        struct standing_place *place = &standing->places[i];
        struct standing_wait *wait = &place->wait;
        place->at = locate_in(builder, place->pc, place->grid);
        wait->at = wait->kind ? locate_in(builder, wait->pc, place->grid) : NULL;
        if (!place->at || (wait->kind && !wait->at))
            return 0;
        if (place->exception.number)
            place->exception = exception_of(place->exception.number, place->at->text);
        if (wait->kind == WAIT_POLL)
            wait->address = address_of(builder->dump, place, wait->at);
        standing->waiting += wait->kind ? place->threads : 0;
    }
    standing->is_stuck = standing->waiting && standing->waiting == standing->threads;
    return 1;
}

cufence_status standing_read(const struct coredump *dump, struct standing **out, struct problem *problem)
{
    struct standing *standing = *out = calloc(1, sizeof *standing);
    struct builder builder = {.dump = dump, .standing = standing};
    if (standing && warp_each(dump, add_warp, &builder)) {
        builder.locator = (struct locator){.dump = dump, .memory = &standing->memory};
        if (add_grids(&builder) && find_waits(&builder)) {
            count_blocks(standing);
            merge_places(standing);
            name_devices(dump, standing);
            if (name_places(&builder))
                return CUFENCE_OK;
        }
    }
    standing_free(standing);
    *out = NULL;
    return problem_set(problem, CUFENCE_ERROR_OUT_OF_MEMORY, "no host memory for the threads of a core dump");
}

void standing_free(struct standing *standing)
{
    if (!standing)
        return;
    free(standing->places);
    json_memory_free(&standing->memory);
    free(standing);
}
