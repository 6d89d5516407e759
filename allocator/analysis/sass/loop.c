#include "loop.h"

#include "sass_rows.h"
#include "ways.h"

#define LOOP_LIMIT 256u /* instructions */
/* A warp that waits at a barrier is up to three instructions behind it in a dump (580.159). */
#define BARRIER_BEHIND 3u

enum { BAR = 0x11d, BSYNC = 0x141, BRA = 0x147, WARPSYNC = 0x148, STL = 0x187, STS = 0x188, ATOMS = 0x18c };

/* From the first instruction to the branch back. None: both 0. */
struct loop {
    struct span code;
    uint32_t first, last;
};

static struct sass_instruction instruction_at(struct span code, uint32_t i)
{
    return sass_load(code.bytes + (size_t)i * SASS_INSTRUCTION_BYTES);
}

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
    const struct sass_row *row = sass_row_of(instruction);
    unsigned opcode = sass_opcode(instruction);
    return !loads(instruction) && (!sass_is_known(instruction) || (row->flags & SASS_WRITES) ||
                                   row->operation == SASS_SPECIAL || opcode == STL || opcode == STS || opcode == ATOMS);
}

/* Rather one too many. */
static int reads(struct sass_instruction instruction, unsigned number)
{
    unsigned a = (unsigned)sass_bits(instruction, SASS_A_AT, 8);
    return number == a || (loads(instruction) ? number == a + 1
                                              : number == sass_bits(instruction, SASS_C_AT, 8) ||
                                                    (sass_bits(instruction, SASS_FORM_AT, 3) == 1 &&
                                                     number == sass_bits(instruction, SASS_B_AT, 8)));
}

/* Returns the first load of a loop in which nothing else changes from turn to turn, 0 if there is none: no register that it
 * writes is live at its start. Predicates alone have too few states to count far. */
static uint32_t polled(const struct loop *loop)
{
    uint32_t load = 0;
    int is_live[SASS_RZ] = {0}, is_written[SASS_RZ] = {0};
    for (uint32_t i = loop->last + 1; i-- > loop->first;) {
        struct sass_instruction instruction = instruction_at(loop->code, i);
        int is_sure = sass_bits(instruction, SASS_GUARD_AT, 4) == 7;
        if (works(instruction))
            return 0;
        load = loads(instruction) ? i : load;
        for (unsigned number = 0; number < SASS_RZ; number++) {
            int writes = sass_writes_register(instruction, number, 1);
            is_written[number] |= writes;
            is_live[number] = (is_live[number] && !(writes && is_sure)) || reads(instruction, number);
        }
    }
    for (unsigned number = 0; number < SASS_RZ; number++)
        if (is_live[number] && is_written[number])
            return 0;
    return load;
}

/* The shortest loop around the instruction, with a condition at its end: code that was moved away comes back without one. */
static struct loop find_loop(struct span code, uint32_t at, unsigned sm)
{
    struct loop loop = {.code = code};
    uint32_t least = LOOP_LIMIT;
    for (uint32_t i = at; i < at + LOOP_LIMIT && i < code.size / SASS_INSTRUCTION_BYTES; i++) {
        struct sass_instruction instruction = instruction_at(code, i);
        int64_t back = -1 - instruction_branch_offset(instruction, sm) / SASS_INSTRUCTION_BYTES; /* instructions */
        if (sass_opcode(instruction) == BRA && way_of(instruction) == WAY_ON && back >= i - at && back <= i && back < least) {
            least = (uint32_t)back;
            loop = (struct loop){code, i - least, i};
        }
    }
    return loop;
}

/* Where a barrier is just in front of a loop, the thread may have come another way: the loop decides. */
struct wait wait_find(struct span code, uint64_t pc, unsigned sm)
{
    uint32_t at = (uint32_t)(pc / SASS_INSTRUCTION_BYTES);
    if (pc % SASS_INSTRUCTION_BYTES || pc >= code.size / SASS_INSTRUCTION_BYTES * SASS_INSTRUCTION_BYTES)
        return (struct wait){0};
    struct loop loop = find_loop(code, at, sm);
    unsigned opcode = sass_opcode(instruction_at(code, at));
    if (opcode == BSYNC || opcode == WARPSYNC)
        return (struct wait){WAIT_WARP, pc};
    for (uint32_t i = at; i + BARRIER_BEHIND >= at && i + 1 > loop.first; i--) {
        if (sass_opcode(instruction_at(code, i)) == BAR)
            return (struct wait){WAIT_BARRIER, (uint64_t)i * SASS_INSTRUCTION_BYTES};
        if (i < at && sass_branches(instruction_at(code, i)))
            break;
    }
    uint64_t load = polled(&loop);
    return load ? (struct wait){WAIT_POLL, load * SASS_INSTRUCTION_BYTES} : (struct wait){0};
}
