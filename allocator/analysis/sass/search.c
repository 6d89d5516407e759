#include "search.h"

#include "emulate_state.h"

#include <string.h>

#define MOST_STEPS 1000000u /* of a thread */
#define ASK_STEPS 1024u     /* between two questions whether it is over */
#define WARP 32u
#define MOST_THREADS 1024u /* of a block */

enum end { END_WELL, END_OUTSIDE, END_LOST, END_OVER };

/* Whether the access that the lane is at is outside. */
static enum end look(const struct search *search, const struct machine *machine, uint64_t *address)
{
    int is_off = 0;
    int is_known = machine_address(machine, search->access, &is_off, address);
    if (is_off)
        return END_WELL;
    enum search_region region =
        is_known ? search->region(search->user, *address, search->access->bytes ? search->access->bytes : 1) : SEARCH_UNKNOWN;
    return region == SEARCH_INSIDE ? END_WELL : region == SEARCH_OUTSIDE ? END_OUTSIDE : END_LOST;
}

static enum end follow(const struct search *search, const struct emulate_lane *lane, uint64_t *address, uint64_t *pc)
{
    struct machine machine;
    machine_begin(&machine, search->launch, lane);
    *pc = search->launch->start;
    for (unsigned steps = 0; steps < MOST_STEPS; steps++) {
        enum end end = *pc == search->access_pc ? look(search, &machine, address) : END_WELL;
        if (end != END_WELL)
            return end;
        if (steps % ASK_STEPS == ASK_STEPS - 1 && search->is_over(search->user))
            return END_OVER;
        enum flow flow = machine_step(&machine, pc);
        if (flow != FLOW_ON)
            return flow == FLOW_DONE ? END_WELL : END_LOST;
    }
    return END_LOST;
}

static void split(uint64_t number, const uint32_t size[3], uint32_t index[3])
{
    index[0] = (uint32_t)(number % size[0]);
    index[1] = (uint32_t)(number / size[0] % size[1]);
    index[2] = (uint32_t)(number / size[0] / size[1]);
}

static void note_lost(struct search *search, uint64_t pc)
{
    if (!search->lost++)
        search->lost_at = pc - search->launch->start;
}

/* Returns 0 when it is over. */
static int follow_warp(struct search *search, uint32_t first, uint32_t threads)
{
    for (uint32_t number = 0; number < WARP && first + number < threads; number++) {
        struct emulate_lane lane = {.lane = number};
        uint64_t address = 0, pc = 0;
        memcpy(lane.block_index, search->block, sizeof(lane.block_index));
        split(first + number, search->launch->block, lane.thread);
        enum end end = follow(search, &lane, &address, &pc);
        if (end == END_OVER)
            return 0;
        if (end == END_LOST)
            note_lost(search, pc);
        search->followed += end != END_LOST;
        if (end != END_OUTSIDE)
            continue;
        struct search_lane *found = &search->lanes[search->lane_count++];
        *found = (struct search_lane){.lane = number, .address = address};
        memcpy(found->thread, lane.thread, sizeof(found->thread));
    }
    return !search->is_over(search->user);
}

void search(struct search *search)
{
    const struct emulate_launch *launch = search->launch;
    uint64_t blocks = 1, threads = 1;
    for (unsigned i = 0; i < 3; i++) {
        blocks *= launch->grid[i]; /* the driver allows 2^31 * 2^16 * 2^16 */
        threads *= launch->block[i];
    }
    if (!threads || threads > MOST_THREADS) /* no driver launches that */
        return;
    for (uint64_t i = 0; i < blocks; i++) {
        split(i == 0 ? blocks - 1 : i == 1 ? 0 : blocks - i, launch->grid, search->block);
        for (uint32_t first = 0; first < threads; first += WARP) {
            int goes_on = follow_warp(search, first, (uint32_t)threads);
            if (search->lane_count)
                return;
            if (!goes_on) {
                search->is_over_before = 1;
                return;
            }
        }
    }
}
