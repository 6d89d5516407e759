#include "warp.h"

#include <string.h>

#define UNIT 16u /* bytes: what the size of a copy without a map counts */

struct search {
    const struct emulate_launch *launch;
    const struct location *location;
    struct emulate_lane lane;
    uint64_t *budget;
};

/* Finds the value of a uniform register, or of a pair, when the lane began the copy. */
static int value_of(const struct search *search, unsigned number, int is_pair, uint64_t *value)
{
    const struct sass_access access = {.predicate = 7, .base = SASS_RZ, .uniform = (int)number, .is_uniform_low = !is_pair};
    return emulate(search->launch, &search->lane, search->location->pc, &access, search->budget, value) == EMULATE_ADDRESS;
}

static int find_box(const struct search *search, struct evidence_box *box)
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

static int find_bytes(const struct search *search, uint64_t *address, uint32_t *bytes)
{
    const struct sass_bulk *bulk = &search->location->bulk;
    uint64_t size;
    if (!value_of(search, bulk->at, 1, address) || !value_of(search, bulk->size, 0, &size))
        return 0;
    *bytes = (uint32_t)size * UNIT;
    return 1;
}

int bulk_find(const struct coredump *dump, const struct warp_view *view, const struct location *location,
              const struct emulate_launch *launch, uint64_t *budget, struct evidence_lane *lane, struct evidence_box *box,
              uint32_t *bytes)
{
    uint32_t registers[256];
    for (uint32_t row = 0; row < view->lane_count; row++) {
        const struct coredump_lane *from = &view->lanes[row];
        struct coredump_ref ref = {view->lane_table, row};
        struct search search = {launch, location, {.lane = from->lane, .pc = from->pc, .registers = registers}, budget};
        search.lane.register_count = coredump_words(dump, ref, COREDUMP_REGISTERS, registers, 256);
        memcpy(search.lane.block_index, view->cta.block, sizeof search.lane.block_index);
        memcpy(search.lane.thread, from->thread, sizeof search.lane.thread);
        *lane = (struct evidence_lane){.lane = from->lane, .has_exception = from->exception != 0, .is_replayed = 1};
        memcpy(lane->thread, from->thread, sizeof lane->thread);
        if (location->bulk.dimensions && find_box(&search, box))
            return 1;
        if (!location->bulk.dimensions && find_bytes(&search, &lane->address, bytes)) {
            lane->certainty = CERTAIN_DERIVED;
            lane->known_bits = UINT64_MAX;
            return 1;
        }
    }
    return 0;
}
