#include "loop.h"

#include "sass_rows.h"
#include "ways.h"

#include <stdlib.h>

#define LOOP_LIMIT 256u /* instructions */
/* A warp that waits at a barrier is up to three instructions behind it in a dump (580.159). */
#define BARRIER_BEHIND 3u
#define PREDICATES_AT 256u /* numbers of predicates, behind those of registers */
#define NUMBERS (PREDICATES_AT + 7)

enum { CS2R = 0x005, S2R = 0x119, BAR = 0x11d, BSYNC = 0x141, BRA = 0x147, WARPSYNC = 0x148, STL = 0x187, STS = 0x188 };

/* From the first instruction to the branch back. */
struct loop {
    const struct ways *ways;
    uint32_t first, last;
};

/* LD, LDG, LDS, SYNCS, and atomics that compare and swap. */
static int loads(struct sass_instruction instruction)
{
    unsigned opcode = sass_opcode(instruction);
    return opcode == 0x180 || opcode == 0x181 || opcode == 0x184 || opcode == 0x1a7 || opcode == 0x18b || opcode == 0x18d ||
           opcode == 0x1a9;
}

/* It does what a loop that only waits does not: it writes to memory, or looks at a clock. */
static int works(struct sass_instruction instruction)
{
    unsigned opcode = sass_opcode(instruction);
    return !loads(instruction) && (!sass_is_known(instruction) || (sass_row_of(instruction)->flags & SASS_WRITES) ||
                                   opcode == 0x18c || opcode == STL || opcode == STS || opcode == S2R || opcode == CS2R);
}

static int writes(struct sass_instruction instruction, unsigned number)
{
    return number < PREDICATES_AT ? number != SASS_RZ && sass_writes_register(instruction, number, 1)
                                  : sass_may_write_predicate(instruction, number - PREDICATES_AT);
}

/* Rather one too many. */
static int reads(struct sass_instruction instruction, unsigned number)
{
    static const unsigned predicates[] = {SASS_GUARD_AT, SASS_PREDICATE_AT, SASS_PREDICATE_2_AT, SASS_PREDICATE_3_AT};
    unsigned a = (unsigned)sass_bits(instruction, SASS_A_AT, 8);
    int is_load = loads(instruction);
    int count = sass_opcode(instruction) == BRA ? 2 : sass_writes_predicate(instruction) && !is_load ? 4 : 1;
    int has_b = sass_bits(instruction, SASS_FORM_AT, 3) == 1;
    if (number < PREDICATES_AT && is_load)
        return number == a || number == a + 1;
    if (number < PREDICATES_AT)
        return number == a || number == sass_bits(instruction, SASS_C_AT, 8) ||
               (has_b && number == sass_bits(instruction, SASS_B_AT, 8));
    for (int i = 0; i < count; i++)
        if (number - PREDICATES_AT == sass_bits(instruction, predicates[i], 3))
            return 1;
    return 0;
}

/* Whether a turn finds in a register or predicate what the turn before has left there. */
static int is_carried(const struct loop *loop, unsigned number)
{
    int is_read = 0, is_written = 0, is_sure = 0;
    for (uint32_t i = loop->first; i <= loop->last; i++) {
        struct sass_instruction instruction = ways_instruction(loop->ways, i);
        is_read |= !is_sure && reads(instruction, number);
        is_written |= writes(instruction, number);
        is_sure |= writes(instruction, number) && sass_bits(instruction, SASS_GUARD_AT, 4) == 7;
    }
    return is_read && is_written;
}

/* Returns the first load of a loop in which nothing else changes from turn to turn, 0 if there is none. */
static uint32_t polled(const struct loop *loop)
{
    uint32_t load = 0;
    for (uint32_t i = loop->last + 1; i-- > loop->first;) {
        if (works(ways_instruction(loop->ways, i)))
            return 0;
        load = loads(ways_instruction(loop->ways, i)) ? i : load;
    }
    for (unsigned number = 0; load && number < NUMBERS; number++)
        if (is_carried(loop, number))
            return 0;
    return load;
}

/* The shortest loop around the instruction, with a condition at its end: code that was moved away comes back without one.
 * Returns 0 if there is none. */
static int find_loop(const struct ways *ways, uint32_t at, struct loop *loop)
{
    uint32_t least = LOOP_LIMIT;
    for (uint32_t i = 0; i < ways->branch_count; i++) {
        const struct branch *branch = &ways->branches[i];
        if (branch->to <= at && at <= branch->from && branch->from - branch->to < least &&
            way_of(ways_instruction(ways, branch->from)) == WAY_ON) {
            least = branch->from - branch->to;
            *loop = (struct loop){ways, branch->to, branch->from};
        }
    }
    return least < LOOP_LIMIT;
}

/* Where a barrier is just in front of a loop, the thread may have come another way: the loop decides. */
static struct wait wait_at(const struct ways *ways, uint32_t at)
{
    struct loop loop = {.ways = ways};
    uint32_t back = 0, most = at < BARRIER_BEHIND ? at : BARRIER_BEHIND, load = 0;
    unsigned opcode = sass_opcode(ways_instruction(ways, at)), before = opcode;
    int is_in_loop = find_loop(ways, at, &loop);
    while (before != BAR && back < most && !(back && sass_branches(ways_instruction(ways, at - back))))
        before = sass_opcode(ways_instruction(ways, at - ++back));
    if (opcode == BSYNC || opcode == WARPSYNC)
        return (struct wait){WAIT_WARP, at};
    if (before == BAR && (!is_in_loop || at - back >= loop.first))
        return (struct wait){WAIT_BARRIER, at - back};
    load = is_in_loop ? polled(&loop) : 0;
    return load ? (struct wait){WAIT_POLL, load} : (struct wait){0};
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
