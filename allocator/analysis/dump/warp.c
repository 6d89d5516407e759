#include "warp.h"

#include <string.h>

/* More means a damaged dump with overlapping tables. One GPU has about 10,000 warps, and a warp table covers one block. */
#define WARP_LIMIT 262144u
#define WARP_TABLE_LIMIT 128u

#define UNIT 16u /* bytes: what the size of a copy without a map counts */

/* Returns 1 if the warp and its block, SM and device are in the dump. */
static int warp_read(const struct coredump *dump, struct coredump_ref warp, struct warp_view *view)
{
    memset(view, 0, sizeof(*view));
    struct coredump_ref cta = coredump_parent(dump, warp.section, COREDUMP_CTAS);
    view->warp_ref = warp;
    struct coredump_ref sm = coredump_parent(dump, cta.section, COREDUMP_SMS);
    view->device_ref = coredump_parent(dump, sm.section, COREDUMP_DEVICES);
    if (!coredump_row(dump, COREDUMP_WARPS, warp, &view->warp) || !coredump_row(dump, COREDUMP_CTAS, cta, &view->cta) ||
        !coredump_row(dump, COREDUMP_SMS, sm, &view->sm) || view->device_ref.section == 0)
        return 0;
    view->lane_table = coredump_child(dump, warp, COREDUMP_LANES);
    uint32_t count = coredump_rows(dump, view->lane_table, COREDUMP_LANES);
    view->lane_count = count < WARP_LANES ? count : WARP_LANES;
    for (uint32_t i = 0; i < view->lane_count; i++)
        if (!coredump_row(dump, COREDUMP_LANES, (struct coredump_ref){view->lane_table, i}, &view->lanes[i]))
            return 0;
    return 1;
}

int warp_each(const struct coredump *dump, int (*add)(void *user, const struct warp_view *view), void *user)
{
    struct warp_view view;
    uint32_t section = 0, left = WARP_LIMIT;
    while (left > 0 && (section = coredump_next(dump, COREDUMP_WARPS, section)) != 0) {
        uint32_t count = coredump_rows(dump, section, COREDUMP_WARPS);
        for (uint32_t row = 0; row < count && row < WARP_TABLE_LIMIT && left > 0; row++, left--)
            if (warp_read(dump, (struct coredump_ref){section, row}, &view) && !add(user, &view))
                return 0;
    }
    return 1;
}

uint32_t warp_exception(const struct warp_view *view)
{
    for (uint32_t i = 0; i < view->lane_count; i++)
        if (view->lanes[i].exception)
            return view->lanes[i].exception;
    if (view->warp.error_pc_valid)
        return view->sm.exception;
    return view->warp.is_broken ? EXCEPTION_TRAP : 0;
}

/* Returns the rows of the lanes with the exception: those that the dump marks, otherwise the active ones. */
static uint32_t candidates_of(const struct warp_view *view)
{
    uint32_t marked = 0, active = 0, all = 0;
    for (uint32_t i = 0; i < view->lane_count; i++) {
        uint32_t bit = (uint32_t)1 << i;
        all |= bit;
        if (view->lanes[i].exception)
            marked |= bit;
        if (view->lanes[i].lane < WARP_LANES && view->warp.active_lanes >> view->lanes[i].lane & 1)
            active |= bit;
    }
    return marked ? marked : active ? active : all;
}

uint64_t warp_stopped_at(const struct warp_view *view)
{
    uint32_t candidates = candidates_of(view);
    return candidates ? view->lanes[__builtin_ctz(candidates)].pc : 0;
}

/* Returns 1 if the lane performs the access, according to its current predicates. Predicates are u32[]: 0 or 1 each. */
static int takes_part(const struct coredump *dump, struct coredump_ref lane, const struct sass_access *access)
{
    uint32_t predicates[8];
    size_t count = coredump_words(dump, lane, COREDUMP_PREDICATES, predicates, 8);
    unsigned numbers[2] = {access->predicate, access->has_source ? access->source : 7};
    int negated[2] = {access->is_negated, access->has_source && access->is_source_negated};
    for (int i = 0; i < 2; i++) {
        int is_set = numbers[i] == 7 || numbers[i] >= count || predicates[numbers[i]] != 0;
        if (is_set == negated[i] && (numbers[i] == 7 || numbers[i] < count))
            return 0;
    }
    return 1;
}

/* The access and the registers of one lane. */
struct lane_state {
    struct coredump_ref ref;
    const struct coredump_lane *row;
    struct location_kept kept;
    uint32_t registers[256], uniforms[256];
    size_t register_count, uniform_count;
};

/* Computes the address from the current registers. Returns 0 if the lane did not perform the access. */
static int read_address(const struct coredump *dump, const struct location *location, const struct lane_state *state,
                        struct evidence_lane *lane)
{
    enum certainty certainty = state->kept.certainty;
    if (state->kept.are_predicates_sure && !takes_part(dump, state->ref, &location->access))
        return 0;
    /* The result also claims that the lane performed the access. */
    int is_guarded = location->access.predicate != 7 || location->access.has_source;
    if (is_guarded && !state->kept.are_predicates_sure && certainty > CERTAIN_DERIVED)
        certainty = CERTAIN_DERIVED;
    if (certainty != CERTAIN_NOT && sass_address(&location->access, state->registers, state->register_count, state->uniforms,
                                                 state->uniform_count, &lane->address))
        lane->certainty = certainty;
    return 1;
}

/* Returns 1 if registers that certainly still have their values give another address, as far as they tell. */
static int is_contradicted(const struct sass_access *access, const struct lane_state *state, uint64_t address)
{
    uint64_t base = address - (uint64_t)access->immediate;
    if (access->uniform >= 0) {
        if (!(state->kept.parts & KEPT_UNIFORM) || (size_t)access->uniform + 1 >= state->uniform_count)
            return 0;
        base -= (uint64_t)state->uniforms[access->uniform + 1] << 32 | state->uniforms[access->uniform];
    }
    for (unsigned i = 0; access->base != SASS_RZ && i < (access->is_base_wide ? 2 : 1); i++)
        if (state->kept.parts >> i & 1 && access->base + i < state->register_count &&
            (uint32_t)(base >> 32 * i) != state->registers[access->base + i])
            return 1;
    return 0;
}

static struct evidence_lane lane_of(const struct coredump_lane *row)
{
    struct evidence_lane lane = {.lane = row->lane, .has_exception = row->exception != 0};
    memcpy(lane.thread, row->thread, sizeof(lane.thread));
    return lane;
}

static struct emulate_lane start_of(const struct warp_view *view, const struct coredump_lane *row, const uint32_t *registers,
                                    size_t register_count)
{
    struct emulate_lane start = {.lane = row->lane, .pc = row->pc, .registers = registers, .register_count = register_count};
    memcpy(start.block_index, view->cta.block, sizeof(start.block_index));
    memcpy(start.thread, row->thread, sizeof(start.thread));
    return start;
}

/* Computes the address by emulating the lane's path. Returns 0 if the path bypasses the access. */
static int emulate_address(const struct warp_view *view, const struct location *location, const struct emulate_launch *launch,
                           const struct lane_state *state, uint64_t *budget, struct evidence_lane *lane)
{
    struct emulate_lane start = start_of(view, state->row, state->registers, state->register_count);
    uint64_t address = 0;
    enum emulate_result result = emulate(launch, &start, location->pc, &location->access, budget, &address);
    int is_earlier = result == EMULATE_EARLIER, is_joined = state->kept.is_joined && lane->certainty != CERTAIN_NOT;
    int is_same = lane->certainty != CERTAIN_NOT && lane->address == address;
    if (result == EMULATE_ADDRESS && is_joined && is_same) {
        lane->certainty = CERTAIN_EXACT; /* it has made the access, and its registers are as they were then */
    } else if ((result == EMULATE_ADDRESS || (is_earlier && !is_joined && !is_same)) &&
               !(lane->certainty == CERTAIN_NOT && is_contradicted(&location->access, state, address))) {
        lane->address = address;
        lane->certainty = is_earlier ? CERTAIN_NOT : CERTAIN_DERIVED;
        lane->is_replayed = !is_earlier;
        lane->is_earlier = is_earlier;
    }
    return result != EMULATE_NOT_THERE;
}

/* Fills in the lane in row `row`. Returns 0 if it did not perform the access. */
static int find_lane(const struct coredump *dump, const struct warp_view *view, const struct location *location,
                     const struct emulate_launch *launch, uint64_t *budget, uint32_t row, struct evidence_lane *lane)
{
    struct lane_state state = {.ref = {view->lane_table, row}, .row = &view->lanes[row]};
    *lane = lane_of(state.row);
    if (!location->has_access)
        return 1;
    if (location->held_until && (state.row->pc < location->pc || state.row->pc >= location->held_until))
        return 0;
    state.kept = locate_kept(location, state.row->pc);
    state.register_count = coredump_words(dump, state.ref, COREDUMP_REGISTERS, state.registers, 256);
    state.uniform_count = coredump_words(dump, view->warp_ref, COREDUMP_UNIFORM_REGISTERS, state.uniforms, 256);
    if (!read_address(dump, location, &state, lane))
        return 0;
    if (lane->certainty != CERTAIN_EXACT && launch && !emulate_address(view, location, launch, &state, budget, lane))
        return 0;
    int is_guarded = location->access.predicate != 7 || location->access.has_source;
    lane->may_be_apart = lane->certainty == CERTAIN_DERIVED && !lane->is_replayed &&
                         (state.kept.is_joined || (is_guarded && !state.kept.are_predicates_sure));
    return 1;
}

/*
 * Computes the thread of lane `number` from a lane in the table: threads fill warps in order. Returns 0 if there is no such
 * thread: the last warp of a block may be short.
 */
static int thread_of(const struct coredump_lane *known, uint32_t number, const uint32_t block[3], uint32_t thread[3])
{
    uint64_t width = block[0], plane = width * block[1], all = plane * block[2];
    uint64_t linear = known->thread[0] + known->thread[1] * width + known->thread[2] * plane + (uint64_t)number - known->lane;
    if (all == 0 || linear >= all)
        return 0;
    thread[0] = (uint32_t)(linear % width);
    thread[1] = (uint32_t)(linear / width % block[1]);
    thread[2] = (uint32_t)(linear / plane);
    return 1;
}

/*
 * Adds lanes that have exited. They are not in the table, but may have performed the access: `if (i <= n) out[i] = x; if (i ==
 * n) return;` leaves an alive warp without the one lane that faulted. Only emulation shows this.
 */
static size_t add_exited(const struct warp_view *view, const struct location *location, const struct emulate_launch *launch,
                         uint64_t *budget, struct evidence_lane *lanes, size_t count)
{
    uint32_t present = 0;
    for (uint32_t i = 0; i < view->lane_count; i++)
        present |= view->lanes[i].lane < WARP_LANES ? (uint32_t)1 << view->lanes[i].lane : 0;
    for (uint32_t number = 0; number < WARP_LANES && count < WARP_LANES; number++) {
        struct coredump_lane row = {.lane = number};
        if (present >> number & 1 || !thread_of(&view->lanes[0], number, launch->block, row.thread))
            continue;
        struct emulate_lane start = start_of(view, &row, NULL, 0);
        struct evidence_lane lane = lane_of(&row);
        lane.certainty = CERTAIN_DERIVED;
        lane.is_replayed = 1;
        if (emulate(launch, &start, location->pc, &location->access, budget, &lane.address) != EMULATE_ADDRESS)
            continue;
        size_t at = count++;
        for (; at > 0 && lanes[at - 1].lane > number; at--)
            lanes[at] = lanes[at - 1];
        lanes[at] = lane;
    }
    return count;
}

size_t warp_lanes(const struct coredump *dump, const struct warp_view *view, const struct location *location,
                  const struct emulate_launch *launch, uint64_t *budget, struct evidence_lane *lanes)
{
    uint32_t candidates = candidates_of(view);
    size_t count = 0;
    for (uint32_t row = 0; row < view->lane_count; row++)
        if (candidates >> row & 1)
            count += (size_t)find_lane(dump, view, location, launch, budget, row, &lanes[count]) != 0;
    if (launch && location->has_access && view->lane_count > 0)
        count = add_exited(view, location, launch, budget, lanes, count);
    if (count > 0)
        return count;
    /* According to the dump, no lane performed the access, so the dump contradicts itself: keep all lanes, without
     * addresses. */
    for (uint32_t row = 0; row < view->lane_count; row++)
        if (candidates >> row & 1)
            lanes[count++] = lane_of(&view->lanes[row]);
    return count;
}

/* ---- bulk copies ---- */

struct search {
    const struct emulate_launch *launch;
    const struct location *location;
    struct emulate_lane lane;
    uint64_t *budget;
    int is_earlier; /* than the copy, perhaps, is what was found */
};

/* Finds the value of a uniform register, or of a pair, when the lane began the copy. */
static int value_of(struct search *search, unsigned number, int is_pair, uint64_t *value)
{
    const struct sass_access access = {.predicate = 7, .base = SASS_RZ, .uniform = (int)number, .is_uniform_low = !is_pair};
    enum emulate_result result = emulate(search->launch, &search->lane, search->location->pc, &access, search->budget, value);
    search->is_earlier |= result == EMULATE_EARLIER;
    return result == EMULATE_ADDRESS || result == EMULATE_EARLIER;
}

static int find_box(struct search *search, struct evidence_box *box)
{
    const struct sass_bulk *bulk = &search->location->bulk;
    uint64_t value;
    for (unsigned i = 0; i < bulk->dimensions; i++) {
        if (!value_of(search, bulk->coordinates + i, 0, &value))
            return 0;
        box->corner[i] = (int32_t)(uint32_t)value;
    }
    box->dimensions = bulk->dimensions;
    return 1;
}

static int find_bytes(struct search *search, uint64_t *address, uint32_t *bytes)
{
    const struct sass_bulk *bulk = &search->location->bulk;
    uint64_t size;
    if (!value_of(search, bulk->at, 1, address) || !value_of(search, bulk->size, 0, &size))
        return 0;
    *bytes = (uint32_t)size * UNIT;
    return 1;
}

int warp_bulk(const struct coredump *dump, const struct warp_view *view, const struct location *location,
              const struct emulate_launch *launch, uint64_t *budget, struct evidence_lane *lane, struct evidence_box *box,
              uint32_t *bytes)
{
    uint32_t registers[256];
    for (uint32_t row = 0; row < view->lane_count; row++) {
        const struct coredump_lane *from = &view->lanes[row];
        struct coredump_ref ref = {view->lane_table, row};
        size_t count = coredump_words(dump, ref, COREDUMP_REGISTERS, registers, 256);
        struct search search = {launch, location, start_of(view, from, registers, count), budget, 0};
        *lane = lane_of(from);
        if (location->bulk.dimensions ? !find_box(&search, box) : !find_bytes(&search, &lane->address, bytes))
            continue;
        lane->is_earlier = search.is_earlier && !location->bulk.dimensions;
        lane->is_replayed = !lane->is_earlier;
        lane->certainty = location->bulk.dimensions || lane->is_earlier ? CERTAIN_NOT : CERTAIN_DERIVED;
        return 1;
    }
    return 0;
}
