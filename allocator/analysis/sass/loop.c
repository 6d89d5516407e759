#include "loop.h"

#include "sass_rows.h"
#include "ways.h"

#define LOOP_LIMIT 256u /* instructions */
/* A warp that waits at a barrier is up to three instructions behind it in a dump (580.159). */
#define BARRIER_BEHIND 3u

enum { BAR = 0x11d, BSYNC = 0x141, BRA = 0x147, WARPSYNC = 0x148 };

/* From the first instruction to the branch back. None: both 0. */
struct loop {
    struct span code;
    uint32_t first, last;
};

static struct sass_instruction instruction_at(struct span code, uint32_t i)
{
    return sass_load(code.bytes + (size_t)i * SASS_INSTRUCTION_BYTES);
}

static int polls(struct sass_instruction instruction)
{
    return sass_row_of(instruction)->flags & SASS_POLLS;
}

/* Rather one too many. Of what polls, only the address. */
static int reads(struct sass_instruction instruction, unsigned number)
{
    unsigned a = (unsigned)sass_bits(instruction, SASS_A_AT, 8);
    if (polls(instruction))
        return number == a || number == a + 1;
    return number == a || number == sass_bits(instruction, SASS_C_AT, 8) ||
           (sass_bits(instruction, SASS_FORM_AT, 3) == 1 && number == sass_bits(instruction, SASS_B_AT, 8));
}

/* It does what a loop that only waits does not: it writes to memory, looks at a clock, or counts in a uniform register. */
static int works(struct sass_instruction instruction)
{
    const struct sass_row *row = sass_row_of(instruction);
    return !sass_is_known(instruction) || (row->flags & SASS_WRITES) || row->operation == SASS_SPECIAL ||
           (sass_has_uniform_guard(instruction) && reads(instruction, (unsigned)sass_bits(instruction, SASS_TARGET_AT, 8)));
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
        load = polls(instruction) ? i : load;
        for (unsigned number = 0; number < SASS_RZ; number++) {
            int writes = sass_writes_register(instruction, number, 1);
            is_written[number] |= writes;
            is_live[number] = (is_live[number] && !(writes && is_sure)) || reads(instruction, number);
        }
    }
    for (unsigned number = 0; number < SASS_RZ; number++)
        load = is_live[number] && is_written[number] ? 0 : load;
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
enum wait_kind wait_find(struct span code, uint64_t *at, unsigned sm)
{
    const uint64_t pc = *at / SASS_INSTRUCTION_BYTES;
    if (*at % SASS_INSTRUCTION_BYTES || pc >= code.size / SASS_INSTRUCTION_BYTES)
        return WAIT_NOT;
    struct loop loop = find_loop(code, (uint32_t)pc, sm);
    unsigned opcode = sass_opcode(instruction_at(code, (uint32_t)pc));
    if (opcode == BSYNC || opcode == WARPSYNC)
        return WAIT_WARP;
    for (uint32_t i = (uint32_t)pc; i + BARRIER_BEHIND >= pc && i + 1 > loop.first; i--) {
        *at = (uint64_t)i * SASS_INSTRUCTION_BYTES;
        if (sass_opcode(instruction_at(code, i)) == BAR)
            return WAIT_BARRIER;
        if (i < pc && sass_branches(instruction_at(code, i)))
            break;
    }
    *at = (uint64_t)polled(&loop) * SASS_INSTRUCTION_BYTES;
    return *at ? WAIT_POLL : WAIT_NOT;
}
