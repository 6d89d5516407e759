#include "loop.h"

#include "sass_rows.h"
#include "ways.h"

#include <stdlib.h>

#define LOOP_LIMIT 256u /* instructions */
/* A warp that waits at a barrier is up to two instructions behind it in a dump (580.159). */
#define BARRIER_BEHIND 2u
#define ALWAYS 7u
#define PREDICATES_AT 256u /* numbers of predicates, behind those of registers */
#define NUMBERS (PREDICATES_AT + 8)

enum { BAR = 0x11d, WARPSYNC = 0x148, BSYNC = 0x141, BRA = 0x147, S2R = 0x119, CS2R = 0x005, SYNCS = 0x1a7, LDS = 0x184 };

struct loop {
    const struct ways *ways;
    uint32_t first, last;
    uint8_t is_needed[NUMBERS]; /* registers and predicates that decide whether it goes on */
};

/* ---- instructions ---- */

/* An atomic that leaves the memory as it is, or does until it has what it waits for: compare and swap, or an operand of RZ. */
static int is_idle_atomic(struct sass_instruction instruction)
{
    unsigned opcode = sass_opcode(instruction);
    return opcode == 0x18b || opcode == 0x18d || opcode == 0x1a9 ||
           ((opcode == 0x18a || opcode == 0x18c || opcode == 0x1a8) && sass_bits(instruction, SASS_B_AT, 8) == SASS_RZ);
}

static int loads(struct sass_instruction instruction)
{
    unsigned opcode = sass_opcode(instruction);
    return opcode == 0x180 || opcode == 0x181 || opcode == LDS || opcode == SYNCS || is_idle_atomic(instruction);
}

/* Something besides registers: then the loop works. */
static int writes_memory(struct sass_instruction instruction)
{
    unsigned opcode = sass_opcode(instruction);
    int is_store = opcode == 0x187 || opcode == 0x188 || opcode == 0x18c || (sass_row_of(instruction)->flags & SASS_WRITES);
    return is_store && !is_idle_atomic(instruction);
}

static int writes(struct sass_instruction instruction, unsigned number)
{
    return number < PREDICATES_AT ? sass_writes_register(instruction, number, 1)
                                  : sass_may_write_predicate(instruction, number - PREDICATES_AT);
}

/* Rather one too many. */
static int reads(struct sass_instruction instruction, unsigned number)
{
    static const unsigned predicates[] = {SASS_GUARD_AT, SASS_PREDICATE_AT, SASS_PREDICATE_2_AT, SASS_PREDICATE_3_AT};
    unsigned a = (unsigned)sass_bits(instruction, SASS_A_AT, 8);
    int is_load = loads(instruction);
    int count = sass_opcode(instruction) == BRA ? 2 : sass_writes_predicate(instruction) && !is_load ? 4 : 1;
    if (number < PREDICATES_AT)
        return number == a || (is_load ? number == a + 1
                                       : number == sass_bits(instruction, SASS_C_AT, 8) ||
                                             (sass_bits(instruction, SASS_FORM_AT, 3) == 1 &&
                                              number == sass_bits(instruction, SASS_B_AT, 8)));
    for (int i = 0; i < count; i++)
        if (number - PREDICATES_AT == sass_bits(instruction, predicates[i], 3))
            return 1;
    return 0;
}

/* ---- loops ---- */

static size_t need(struct loop *loop, struct sass_instruction instruction)
{
    size_t added = 0;
    for (unsigned number = 0; number < NUMBERS; number++) {
        int is_new = !loop->is_needed[number] && number != SASS_RZ && number != PREDICATES_AT + ALWAYS;
        if (is_new && reads(instruction, number))
            added += loop->is_needed[number] = 1;
    }
    return added;
}

static int has_needed(const struct loop *loop, struct sass_instruction instruction)
{
    for (unsigned number = 0; number < NUMBERS; number++)
        if (loop->is_needed[number] && writes(instruction, number))
            return 1;
    return 0;
}

/* Marks all that decides, beginning with the guards of branches. */
static void find_needed(struct loop *loop)
{
    size_t added = 1;
    for (uint32_t i = loop->first; i <= loop->last; i++)
        if (sass_branches(ways_instruction(loop->ways, i)))
            need(loop, ways_instruction(loop->ways, i));
    while (added > 0) {
        added = 0;
        for (uint32_t i = loop->first; i <= loop->last; i++)
            if (has_needed(loop, ways_instruction(loop->ways, i)))
                added += need(loop, ways_instruction(loop->ways, i));
    }
}

/* Whether a turn finds what the turn before has left there. */
static int is_carried(const struct loop *loop, unsigned number)
{
    int is_read = 0, is_written = 0, is_sure = 0;
    for (uint32_t i = loop->first; i <= loop->last; i++) {
        struct sass_instruction instruction = ways_instruction(loop->ways, i);
        is_read |= !is_sure && reads(instruction, number);
        is_written |= writes(instruction, number);
        is_sure |= writes(instruction, number) && sass_bits(instruction, SASS_GUARD_AT, 4) == ALWAYS;
    }
    return is_read && is_written;
}

/* Returns the load whose value alone ends the loop, 0 if there is none. */
static uint32_t polled(struct loop *loop)
{
    uint32_t load = 0;
    find_needed(loop);
    for (uint32_t i = loop->first; i <= loop->last; i++) {
        struct sass_instruction instruction = ways_instruction(loop->ways, i);
        unsigned opcode = sass_opcode(instruction);
        int is_needed = has_needed(loop, instruction);
        if (!sass_is_known(instruction) || writes_memory(instruction) || ((opcode == S2R || opcode == CS2R) && is_needed))
            return 0;
        if (!load && is_needed && loads(instruction))
            load = i;
    }
    for (unsigned number = 0; load && number < NUMBERS; number++)
        if (loop->is_needed[number] && is_carried(loop, number))
            return 0;
    return load;
}

/* The shortest loop around the instruction. Returns 0 if there is none. */
static int find_loop(const struct ways *ways, uint32_t at, struct loop *loop)
{
    uint32_t least = LOOP_LIMIT;
    for (uint32_t i = 0; i < ways->branch_count; i++) {
        const struct branch *branch = &ways->branches[i];
        if (branch->to > at || branch->from < at || branch->from == branch->to || branch->from - branch->to >= least)
            continue;
        least = branch->from - branch->to;
        *loop = (struct loop){.ways = ways, .first = branch->to, .last = branch->from};
    }
    return least < LOOP_LIMIT;
}

static int has_same_base(const struct loop *loop, uint32_t load)
{
    unsigned base = (unsigned)sass_bits(ways_instruction(loop->ways, load), SASS_A_AT, 8);
    for (uint32_t i = loop->first; base != SASS_RZ && i <= loop->last; i++)
        if (sass_writes_register(ways_instruction(loop->ways, i), base, 2))
            return 0;
    return 1;
}

/* Returns the BAR that the warp has come to, `count` if it is at none. */
static uint32_t barrier_before(const struct ways *ways, uint32_t at)
{
    for (uint32_t back = 0; back <= BARRIER_BEHIND && back <= at; back++) {
        struct sass_instruction instruction = ways_instruction(ways, at - back);
        if (sass_opcode(instruction) == BAR)
            return at - back;
        if (back && sass_branches(instruction))
            break;
    }
    return ways->count;
}

/* A barrier just in front of a loop: the thread may have come past it, or another way. */
static struct wait wait_at(const struct ways *ways, uint32_t at)
{
    struct loop loop;
    unsigned opcode = sass_opcode(ways_instruction(ways, at));
    uint32_t barrier = barrier_before(ways, at), load = 0;
    if (opcode == BSYNC || opcode == WARPSYNC)
        return (struct wait){.kind = WAIT_WARP, .at = at};
    if (find_loop(ways, at, &loop) && (barrier == ways->count || barrier < loop.first))
        load = polled(&loop);
    if (load)
        return (struct wait){WAIT_POLL, load, has_same_base(&loop, load)};
    return barrier < ways->count ? (struct wait){.kind = WAIT_BARRIER, .at = barrier} : (struct wait){0};
}

struct wait wait_find(struct span code, uint64_t at, unsigned sm)
{
    struct ways *ways = malloc(sizeof *ways);
    struct wait wait = {0};
    if (ways && at % SASS_INSTRUCTION_BYTES == 0 && ways_find(ways, code, sm) && at / SASS_INSTRUCTION_BYTES < ways->count)
        wait = wait_at(ways, (uint32_t)(at / SASS_INSTRUCTION_BYTES));
    wait.at *= SASS_INSTRUCTION_BYTES;
    free(ways);
    return wait;
}
