#include "standing.h"

#include "base/list.h"
#include "warp.h"

#include <stdlib.h>
#include <string.h>

#define GRID_LIMIT 1024u
#define GUESS_LIMIT 512u       /* places */
#define PARAMETER_LIMIT 65536u /* bytes */

struct builder {
    const struct coredump *dump;
    struct standing *standing;
    struct locator locator;
};

/* Adds a place: the threads of one warp at one PC. Returns 0 if out of host memory. */
static int add_place(struct builder *builder, const struct standing_place *place)
{
    struct standing *standing = builder->standing;
    if (!list_make_room(&standing->places, standing->place_count, sizeof *place))
        return 0;
    standing->places[standing->place_count++] = *place;
    return 1;
}

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

static int add_warp(void *user, const struct warp_view *view)
{
    struct builder *builder = user;
    int is_counted = 0;
    for (uint32_t row = 0; row < view->lane_count; row++) {
        if (!is_new(view, row))
            continue;
        struct standing_place place = {.pc = view->lanes[row].pc,
                                       .grid_id = view->cta.grid_id,
                                       .warps = 1,
                                       .sm = view->sm.id,
                                       .warp = view->warp.id,
                                       .lane = {view->lane_table, row}};
        memcpy(place.block, view->cta.block, sizeof place.block);
        memcpy(place.thread, view->lanes[row].thread, sizeof place.thread);
        count_lanes(view, row, &place);
        place.is_whole = place.threads == view->lane_count;
        builder->standing->threads += place.threads;
        is_counted = 1;
        if (!add_place(builder, &place))
            return 0;
    }
    builder->standing->warps += (size_t)is_counted;
    return 1;
}

/* By launch and PC; those that wait for the same by what they wait for, apart from others that are there. */
static int compare_where(const void *left, const void *right)
{
    const struct standing_place *a = left, *b = right;
    return LIST_ORDER(a->grid_id, b->grid_id)
               ?: LIST_ORDER(a->wait.at ? a->wait.at->pc : a->pc, b->wait.at ? b->wait.at->pc : b->pc)
               ?: LIST_ORDER(!a->wait.at, !b->wait.at);
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
               ?: LIST_ORDER(b->threads, a->threads)
               ?: compare_keys(left, right);
}

/* The small groups are often those that poll. */
static int compare_interest(const void *left, const void *right)
{
    const struct standing_place *a = left, *b = right;
    return LIST_ORDER(!a->exception.number, !b->exception.number)
               ?: LIST_ORDER(a->wait.kind != WAIT_POLL, b->wait.kind != WAIT_POLL)
               ?: compare_places(left, right);
}

/* Leaves the places in the order of compare_where(). */
static void merge_places(struct standing *standing)
{
    size_t count = 0;
    if (!standing->place_count)
        return;
    qsort(standing->places, standing->place_count, sizeof *standing->places, compare_keys);
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
    standing->place_count = count + 1;
}

/* ---- launches ---- */

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
        if (standing->places[i].grid_id == row->id)
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
    size_t count = 0;
    for (uint32_t section = 0; (section = coredump_next(dump, COREDUMP_GRIDS, section)) != 0;)
        count += coredump_rows(dump, section, COREDUMP_GRIDS);
    count = count < GRID_LIMIT ? count : GRID_LIMIT;
    standing->grids = json_take(&standing->memory, count + 1, sizeof *standing->grids);
    if (!standing->grids)
        return 0;
    for (uint32_t section = 0; (section = coredump_next(dump, COREDUMP_GRIDS, section)) != 0;) {
        struct coredump_ref ref = {section, 0};
        for (; standing->grid_count < count && ref.row < coredump_rows(dump, section, COREDUMP_GRIDS); ref.row++) {
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
static struct standing_grid *grid_of(const struct standing *standing, uint64_t id)
{
    size_t i = 0;
    while (i < standing->grid_count && standing->grids[i].row.id != id)
        i++;
    return &standing->grids[i];
}

/* Returns the address that the place's first thread loads from at `at`, 0 if it is not known, or not any more: a load may leave
 * its value where the address was. */
static uint64_t address_of(const struct coredump *dump, const struct standing_place *place, const struct location *at)
{
    uint32_t registers[256], uniforms[64];
    const struct coredump_ref warp = coredump_parent(dump, place->lane.section, COREDUMP_WARPS);
    size_t count = coredump_words(dump, place->lane, COREDUMP_REGISTERS, registers, 256);
    size_t uniform_count = coredump_words(dump, warp, COREDUMP_UNIFORM_REGISTERS, uniforms, 64);
    uint64_t address = 0;
    int is_kept = at->has_access && locate_kept(at, place->pc).certainty != CERTAIN_NOT;
    return is_kept && sass_address(&at->access, registers, count, uniforms, uniform_count, &address) ? address : 0;
}

/* ---- what each place is, and waits for ---- */

/* Notes which places poll, without a locator: those in the code of a kernel of the dump. */
static void guess_polls(const struct builder *builder)
{
    for (size_t i = 0; i < builder->standing->place_count && i < GUESS_LIMIT; i++) {
        struct standing_place *place = &builder->standing->places[i];
        const struct standing_grid *grid = grid_of(builder->standing, place->grid_id);
        uint64_t offset = place->pc - grid->at->kernel_start;
        int is_timed;
        place->wait.kind = wait_find(grid->at->kernel_code, &offset, coredump_compute(builder->dump, grid->device), &is_timed);
    }
}

/* Finds kernel, line and instruction of each place, up to the locator's limit, and what is waited for there. Returns 0 if out
 * of host memory. */
static int name_places(struct builder *builder)
{
    struct standing *standing = builder->standing;
    guess_polls(builder);
    if (standing->place_count)
        qsort(standing->places, standing->place_count, sizeof *standing->places, compare_interest);
    for (size_t i = 0; i < standing->place_count; i++) {
        struct standing_place *place = &standing->places[i];
        const struct standing_grid *grid = place->grid = grid_of(standing, place->grid_id);
        struct coredump_ref device = grid->device;
        uint64_t module = grid->row.module;
        unsigned sm = coredump_compute(builder->dump, device);
        const struct location *at = place->at = locate(&builder->locator, place->pc, device, module, sm);
        int is_timed;
        if (!at)
            return 0;
        place->wait.kind = WAIT_NOT;
        if (place->exception.number)
            continue;
        uint64_t offset = place->pc - at->kernel_start;
        enum wait_kind kind = wait_find(at->kernel_code, &offset, sm, &is_timed);
        at = kind ? locate(&builder->locator, at->kernel_start + offset, device, module, sm) : NULL;
        if (at)
            place->wait = (struct standing_wait){kind, at, 0, 0, is_timed};
    }
    return 1;
}

static int compare_pcs(const void *left, const void *right)
{
    const struct standing_place *a = left, *b = right;
    return LIST_ORDER(a->grid_id, b->grid_id) ?: LIST_ORDER(a->pc, b->pc);
}

/* Gives each warp's places what was found for their PC. Lanes that wait for those of their warp don't if none is elsewhere. */
static void take_names(struct standing *standing, struct standing_place *each, size_t count)
{
    if (standing->place_count)
        qsort(standing->places, standing->place_count, sizeof *standing->places, compare_pcs);
    for (size_t i = 0; i < count; i++) {
        const struct standing_place *named =
            bsearch(&each[i], standing->places, standing->place_count, sizeof *each, compare_pcs);
        each[i].at = named->at;
        each[i].grid = named->grid;
        if (named->wait.kind != WAIT_WARP || !each[i].is_whole)
            each[i].wait = named->wait;
        if (each[i].exception.number)
            each[i].exception = exception_of(each[i].exception.number, named->at->text);
    }
}

/* ---- who has not come ---- */

static int compare_blocks(const void *left, const void *right)
{
    const struct standing_place *a = left, *b = right;
    return LIST_ORDER(a->grid_id, b->grid_id)
               ?: LIST_ORDER(a->block[2], b->block[2])
               ?: LIST_ORDER(a->block[1], b->block[1])
               ?: LIST_ORDER(a->block[0], b->block[0])
               ?: compare_keys(left, right);
}

/* Counts who is missing at each barrier of a block, whose places are these, in the order of compare_where(). A barrier to which
 * all have come has opened. */
static void count_absent(struct standing_place *warps, size_t count)
{
    size_t all = 0;
    for (size_t i = 0; i < count; i++)
        all += warps[i].threads;
    for (size_t i = 0, next; i < count; i = next) {
        size_t come = warps[i].threads;
        const struct standing_wait wait = warps[i].wait;
        for (next = i + 1; next < count && !compare_where(&warps[i], &warps[next]); next++)
            come += warps[next].threads;
        if (wait.kind != WAIT_BARRIER || !wait_is_whole(wait.at->instruction))
            continue;
        warps[i].wait.absent = all - come;
        for (size_t k = i; k < next && come == all; k++)
            warps[k].wait = (struct standing_wait){0};
    }
}

/* `each` gets another order. */
static void count_blocks(struct standing *standing, struct standing_place *each, size_t count)
{
    if (count)
        qsort(each, count, sizeof *each, compare_blocks);
    for (size_t i = 0, next; i < count; i = next) {
        struct standing_grid *grid = grid_of(standing, each[i].grid_id);
        const uint32_t *size = grid->row.grid, *block = each[i].block;
        grid->blocks++;
        grid->absent += block[0] + (uint64_t)size[0] * (block[1] + (uint64_t)size[1] * block[2]) == grid->absent;
        for (next = i + 1; next < count && !memcmp(each[i].block, each[next].block, sizeof each->block) &&
                           each[i].grid_id == each[next].grid_id;)
            next++;
        count_absent(&each[i], next - i);
    }
    for (struct standing_grid *grid = standing->grids; grid < standing->grids + standing->grid_count; grid++)
        grid->has_grid = grid->blocks <= (uint64_t)grid->row.grid[0] * grid->row.grid[1] * grid->row.grid[2];
}

/* Takes over the places of all warps, and joins those that are the same. */
static void take_places(struct builder *builder, struct standing_place *each, size_t count)
{
    struct standing *standing = builder->standing;
    free(standing->places);
    standing->places = each;
    standing->place_count = count;
    merge_places(standing);
    if (count)
        qsort(standing->places, standing->place_count, sizeof *standing->places, compare_places);
    for (struct standing_place *place = each; place < each + standing->place_count; place++) {
        if (place->wait.kind == WAIT_POLL)
            place->wait.address = address_of(builder->dump, place, place->wait.at);
        standing->waiting += place->wait.kind ? place->threads : 0;
    }
    standing->is_stuck = standing->waiting && standing->waiting == standing->threads;
}

cufence_status standing_read(const struct coredump *dump, struct standing **out, struct problem *problem)
{
    struct standing *standing = *out = calloc(1, sizeof *standing);
    struct standing_place *each = NULL;
    struct builder builder = {.dump = dump, .standing = standing};
    int is_complete =
        standing && warp_each(dump, add_warp, &builder) && (each = malloc((standing->place_count + 1) * sizeof *each)) != NULL;
    if (is_complete) {
        size_t count = standing->place_count;
        builder.locator = (struct locator){.dump = dump, .memory = &standing->memory};
        if (count)
            memcpy(each, standing->places, count * sizeof *each);
        merge_places(standing);
        is_complete = add_grids(&builder) && name_places(&builder);
        if (is_complete) {
            take_names(standing, each, count);
            count_blocks(standing, each, count);
            take_places(&builder, each, count);
            return CUFENCE_OK;
        }
    }
    free(each);
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
