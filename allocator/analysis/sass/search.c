#include "search.h"

#include "emulate_state.h"

#include <stdlib.h>
#include <string.h>

#define MOST_STEPS 1000000u /* of a thread */
#define ASK_STEPS 1024u     /* between two questions whether it is over */
#define WARP 32u
#define MOST_THREADS 1024u /* of a block */

/* Where the access is that the lane is at; one that it does not perform is inside. */
static enum search_region look(const struct search *search, const struct machine *machine, uint64_t *address)
{
    int is_off = 0;
    int is_known = machine_address(machine, search->access, &is_off, address);
    if (is_off)
        return SEARCH_INSIDE;
    return is_known ? search->region(search->user, *address, search->access->bytes ? search->access->bytes : 1)
                    : SEARCH_UNKNOWN;
}

/* Searches of one launch, whose threads are followed once for all of them. */
struct group {
    const struct emulate_launch *launch;
    struct search *searches;
    size_t count, open; /* open: those for which the thread goes on */
    uint16_t *at;       /* by instruction of the code: the number of its search, from 1 */
    size_t instructions;
    uint8_t *is_found, *is_closed; /* by search: in an earlier warp; for this thread */
    uint32_t block[3];
};

static void close_one(struct group *group, size_t number)
{
    group->is_closed[number] = 1;
    group->open--;
}

static void note_lost(struct group *group, size_t number, uint64_t pc)
{
    struct search *search = &group->searches[number];
    if (!search->lost++)
        search->lost_at = pc - search->launch->start;
    close_one(group, number);
}

static void note_found(struct group *group, size_t number, const struct emulate_lane *lane, uint64_t address)
{
    struct search *search = &group->searches[number];
    struct evidence_lane *found = &search->lanes[search->lane_count++];
    *found = (struct evidence_lane){.lane = lane->lane, .address = address, .certainty = CERTAIN_DERIVED, .is_replayed = 1};
    memcpy(found->thread, lane->thread, sizeof(found->thread));
    memcpy(search->block, group->block, sizeof(search->block));
    search->followed++;
    close_one(group, number);
}

/* What the thread does at its next instruction. */
static void look_here(struct group *group, const struct machine *machine, uint64_t pc)
{
    uint64_t address = 0, index = (pc - group->launch->start) / SASS_INSTRUCTION_BYTES;
    size_t number = index < group->instructions ? group->at[index] : 0;
    if (!number-- || group->is_closed[number])
        return;
    enum search_region region = look(&group->searches[number], machine, &address);
    if (region == SEARCH_OUTSIDE)
        note_found(group, number, machine->lane, address);
    else if (region == SEARCH_UNKNOWN)
        note_lost(group, number, pc);
}

/* Returns 0 when it is over. */
static int follow(struct group *group, const struct emulate_lane *lane)
{
    const struct search *first = group->searches;
    struct machine machine;
    uint64_t pc = first->launch->start;
    enum flow flow = FLOW_ON;
    machine_begin(&machine, first->launch, lane);
    for (unsigned steps = 0; steps < MOST_STEPS && flow == FLOW_ON; steps++) {
        look_here(group, &machine, pc);
        if (!group->open)
            return 1;
        if (steps % ASK_STEPS == ASK_STEPS - 1 && first->is_over(first->user))
            return 0;
        flow = machine_step(&machine, &pc);
        if (flow == FLOW_LOST && machine_skip(&machine, &pc))
            flow = FLOW_ON;
    }
    for (size_t i = 0; i < group->count; i++) {
        if (!group->is_closed[i] && flow == FLOW_DONE)
            group->searches[i].followed++;
        else if (!group->is_closed[i])
            note_lost(group, i, pc);
    }
    return 1;
}

static void split(uint64_t number, const uint32_t size[3], uint32_t index[3])
{
    index[0] = (uint32_t)(number % size[0]);
    index[1] = (uint32_t)(number / size[0] % size[1]);
    index[2] = (uint32_t)(number / size[0] / size[1]);
}

/* Returns 0 when it is over, or all have found something. */
static int follow_warp(struct group *group, uint32_t first, uint32_t threads)
{
    int goes_on = 1;
    for (uint32_t number = 0; number < WARP && first + number < threads && goes_on; number++) {
        struct emulate_lane lane = {.lane = number};
        memcpy(lane.block_index, group->block, sizeof(lane.block_index));
        split(first + number, group->launch->block, lane.thread);
        memcpy(group->is_closed, group->is_found, group->count);
        group->open = 0;
        for (size_t i = 0; i < group->count; i++)
            group->open += !group->is_found[i];
        goes_on = follow(group, &lane);
    }
    goes_on = goes_on && !group->searches[0].is_over(group->searches[0].user);
    size_t left = 0;
    for (size_t i = 0; i < group->count; i++) {
        group->is_found[i] = group->searches[i].lane_count > 0;
        group->searches[i].is_over_before = !group->is_found[i] && !goes_on;
        left += !group->is_found[i];
    }
    return goes_on && left;
}

static void follow_all(struct group *group)
{
    const struct emulate_launch *launch = group->launch;
    uint64_t blocks = 1, threads = 1;
    for (unsigned i = 0; i < 3; i++) {
        blocks *= launch->grid[i]; /* the driver allows 2^31 * 2^16 * 2^16 */
        threads *= launch->block[i];
    }
    if (!threads || threads > MOST_THREADS) /* no driver launches that */
        return;
    for (uint64_t i = 0; i < blocks; i++) {
        split(i == 0 ? blocks - 1 : i == 1 ? 0 : blocks - i, launch->grid, group->block);
        for (uint32_t first = 0; first < threads; first += WARP)
            if (!follow_warp(group, first, (uint32_t)threads))
                return;
    }
}

int search_all(struct search *searches, size_t count)
{
    struct group group = {.searches = searches, .count = count};
    if (!count || count > UINT16_MAX)
        return count == 0;
    group.launch = searches->launch;
    group.instructions = searches->launch->code.size / SASS_INSTRUCTION_BYTES;
    group.at = calloc(group.instructions + 1, sizeof *group.at);
    group.is_found = calloc(2 * count, 1);
    int is_ok = group.at && group.is_found;
    for (size_t i = 0; i < count && is_ok; i++) {
        uint64_t index = (searches[i].access_pc - searches->launch->start) / SASS_INSTRUCTION_BYTES;
        if (index < group.instructions)
            group.at[index] = (uint16_t)(i + 1);
    }
    group.is_closed = group.is_found + count;
    if (is_ok)
        follow_all(&group);
    free(group.at);
    free(group.is_found);
    return is_ok;
}
