#include "loop.h"

#include "sass_rows.h"
#include "turn.h"
#include "ways.h"

#include <string.h>

#define LOOP_LIMIT 256u /* instructions */
/* A warp that waits at a barrier is up to three instructions behind it in a dump (580.159). */
#define BARRIER_BEHIND 3u
#define PASS_LIMIT 32u /* over a loop */
#define LOOPS 3        /* around a PC; the longer ones go on where the shorter ones do */

enum { BAR = 0x11d, BSYNC = 0x141, BRA = 0x147, WARPSYNC = 0x148 };
enum { BARRIER_COUNT_AT = 42, BARRIER_NUMBER_AT = 54, BARRIER_KIND_AT = 77 };

/* ---- turn after turn ---- */

/* What a turn leaves in a register is the next one's. */
enum learned {
    COMPUTED, /* what each turn computes anew */
    COUNTED,  /* what is made from what the turn before has left */
    MOVED     /* what is only moved around: as many values as there were */
};

/* Takes over what the turn that began with *state, and left *next, tells of that kind. Returns the number of registers. */
static unsigned learn(struct state *state, const struct state *next, enum learned what)
{
    unsigned count = 0;
    for (unsigned i = 0; i < CELLS; i++) {
        struct cell *cell = &state->cells[i], left = next->cells[i];
        int is_new = what == COMPUTED  ? cell->of & (OLD | CHANGING) && !(left.of & (OLD | CHANGING))
                     : what == COUNTED ? cell->of & OLD && left.of & CHANGING
                                       : cell->of & OLD;
        if (is_new)
            *cell = what == COUNTED ? (struct cell){CHANGING, 0} : (struct cell){left.of & (uint8_t)~OLD, left.load};
        count += is_new != 0;
    }
    return count;
}

/* Returns the load without whose value, or another one's, the loop would not end; 0 if there is none. */
static uint32_t polled(const struct loop *loop, uint32_t at, int *is_timed)
{
    struct state state;
    struct turn turn;
    unsigned passes = PASS_LIMIT, learned = 1;
    int changes = 0;
    memset(&turn, 0, sizeof turn);
    for (uint32_t i = loop->first; i <= loop->last; i++) {
        turn.loop = loop;
        turn_write(&turn, instruction_at(loop->code, i), (struct cell){OLD, 0});
    }
    state = turn.state;
    while (learned && passes--) {
        memset(&turn, 0, sizeof turn);
        turn_go_round(&turn, loop, &state, at);
        learned = learn(&state, &turn.back, COMPUTED) ?: learn(&state, &turn.back, COUNTED) ?: learn(&state, &turn.back, MOVED);
    }
    if (learned)
        return 0;
    for (unsigned i = 0; i < CELLS; i++) {
        int of = turn.is_carried[i] ? turn.back.cells[i].of : 0;
        changes |= of & CHANGING;
        turn.is_work |= of & CHANGING && of & LOADED; /* it sums up what it loads */
    }
    if (turn.is_work || !turn.comes_back || !turn.reaches_at || (turn.is_timed && changes))
        return 0;
    *is_timed = turn.is_timed;
    return turn.load;
}

/* Returns the shortest loop around the instruction that is longer than `more`, with a condition at its end: code that was moved
 * away comes back without one. */
static struct loop find_loop(struct span code, uint32_t at, unsigned sm, uint32_t more)
{
    struct loop loop = {.code = code, .sm = sm, .zero = sm >= 100 ? 255 : 63};
    uint32_t least = LOOP_LIMIT;
    for (uint32_t i = at; i < at + LOOP_LIMIT && i < code.size / SASS_INSTRUCTION_BYTES; i++) {
        struct sass_instruction instruction = instruction_at(code, i);
        int64_t back = -1 - instruction_branch_offset(instruction, sm) / SASS_INSTRUCTION_BYTES; /* instructions */
        if (sass_opcode(instruction) == BRA && way_of(instruction) == WAY_ON && back >= i - at && back <= i && back < least &&
            back > more) {
            least = (uint32_t)back;
            loop.first = i - least;
            loop.last = i;
        }
    }
    return loop;
}

/* As in struct wait. */
static unsigned barrier_of(struct sass_instruction instruction)
{
    int is_whole = sass_bits(instruction, SASS_OPCODE_AT, 12) == 0xb1d && sass_bits(instruction, BARRIER_COUNT_AT, 12) == 0;
    return is_whole ? 1 + (unsigned)sass_bits(instruction, BARRIER_NUMBER_AT, 4) : 0;
}

/* BAR.ARV does not wait. */
static int is_barrier(struct sass_instruction instruction)
{
    return sass_opcode(instruction) == BAR && sass_bits(instruction, BARRIER_KIND_AT, 3) != 1;
}

/* Where a barrier is just in front of a loop, the thread may have come another way: the loop decides. */
struct wait wait_find(struct span code, uint64_t at, unsigned sm)
{
    const struct wait not = {WAIT_NOT, 0, 0, 0};
    const uint32_t pc = (uint32_t)(at / SASS_INSTRUCTION_BYTES);
    if (at % SASS_INSTRUCTION_BYTES || at / SASS_INSTRUCTION_BYTES >= code.size / SASS_INSTRUCTION_BYTES)
        return not ;
    struct loop loop = find_loop(code, pc, sm, 0);
    unsigned opcode = sass_opcode(instruction_at(code, pc));
    if (opcode == BSYNC || opcode == WARPSYNC)
        return (struct wait){WAIT_WARP, at, 0, 0};
    for (uint32_t i = pc; i + BARRIER_BEHIND >= pc && i + 1 > loop.first; i--) {
        struct sass_instruction instruction = instruction_at(code, i);
        if (is_barrier(instruction))
            return (struct wait){WAIT_BARRIER, (uint64_t)i * SASS_INSTRUCTION_BYTES, 0, barrier_of(instruction)};
        if (i < pc && sass_branches(instruction))
            break;
    }
    for (int tries = 0; tries < LOOPS && loop.last; tries++) {
        int is_timed;
        uint32_t load = polled(&loop, pc, &is_timed);
        if (load)
            return (struct wait){WAIT_POLL, (uint64_t)load * SASS_INSTRUCTION_BYTES, is_timed, 0};
        loop = find_loop(code, pc, sm, loop.last - loop.first);
    }
    return not ;
}
