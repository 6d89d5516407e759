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
enum { BARRIER_COUNT_AT = 42, BARRIER_KIND_AT = 77 };

/* ---- turn after turn ---- */

/* Sets *state to what is known of the registers at each start of a turn. Returns the number of registers for which that is
 * more than that they may change.
 * What a turn leaves is the next one's. First for what the loop computes anew; then, with `is_copied`, for what it only moves
 * around: those are as many values as there were. */
static unsigned settle(struct turn *turn, const struct loop *loop, struct state *state, int is_copied, unsigned *passes)
{
    struct state trial = *state;
    unsigned changed, settled = 0;
    for (unsigned i = 0; i < CELLS && is_copied; i++)
        trial.cells[i].of = trial.cells[i].of & CHANGING ? OLD : trial.cells[i].of;
    do {
        changed = 0;
        if (!*passes)
            return 0;
        --*passes;
        memset(turn, 0, sizeof *turn);
        turn_go_round(turn, loop, &trial, 0);
        for (unsigned i = 0; i < CELLS; i++) {
            struct cell *cell = &trial.cells[i], next = turn->back.cells[i];
            int is_better = !is_copied && cell->of & CHANGING && !(next.of & CHANGING);
            if (is_better || (is_copied && cell->of & OLD && next.of & CHANGING)) {
                *cell = is_copied ? (struct cell){CHANGING, 0} : next;
                changed++;
            }
        }
        settled += is_copied ? 0 : changed;
    } while (changed);
    for (unsigned i = 0; i < CELLS && is_copied; i++)
        if (trial.cells[i].of & OLD) {
            trial.cells[i] = (struct cell){turn->back.cells[i].of & (uint8_t)~OLD, turn->back.cells[i].load};
            settled++;
        }
    *state = trial;
    return settled;
}

/* Returns the load without whose value, or another one's, the loop would not end; 0 if there is none. */
static uint32_t polled(const struct loop *loop, uint32_t at, int *is_timed)
{
    struct state state;
    struct turn turn;
    unsigned passes = PASS_LIMIT;
    int changes = 0;
    memset(&turn, 0, sizeof turn);
    for (uint32_t i = loop->first; i <= loop->last; i++) {
        turn.loop = loop;
        turn_write(&turn, instruction_at(loop->code, i), (struct cell){CHANGING, 0});
    }
    state = turn.state;
    for (unsigned settled = 1; settled && passes;) {
        settled = settle(&turn, loop, &state, 0, &passes);
        settled += settle(&turn, loop, &state, 1, &passes);
    }
    memset(&turn, 0, sizeof turn);
    turn_go_round(&turn, loop, &state, at);
    for (unsigned i = 0; i < CELLS; i++) {
        int of = turn.is_carried[i] ? turn.back.cells[i].of : 0;
        changes |= of & CHANGING;
        turn.is_work |= of & CHANGING && of & LOADED; /* it sums up what it loads */
    }
    if (turn.is_work || !turn.comes_back || !turn.reaches_at || (turn.is_timed && changes))
        return 0;
    *is_timed = turn.load && turn.is_timed;
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

int wait_is_whole(struct sass_instruction barrier)
{
    return sass_bits(barrier, SASS_OPCODE_AT, 12) == 0xb1d && sass_bits(barrier, BARRIER_COUNT_AT, 12) == 0;
}

/* BAR.ARV does not wait. */
static int is_barrier(struct sass_instruction instruction)
{
    return sass_opcode(instruction) == BAR && sass_bits(instruction, BARRIER_KIND_AT, 3) != 1;
}

/* Where a barrier is just in front of a loop, the thread may have come another way: the loop decides. */
enum wait_kind wait_find(struct span code, uint64_t *at, unsigned sm, int *is_timed)
{
    const uint64_t pc = *at / SASS_INSTRUCTION_BYTES;
    *is_timed = 0;
    if (*at % SASS_INSTRUCTION_BYTES || pc >= code.size / SASS_INSTRUCTION_BYTES)
        return WAIT_NOT;
    struct loop loop = find_loop(code, (uint32_t)pc, sm, 0);
    unsigned opcode = sass_opcode(instruction_at(code, (uint32_t)pc));
    if (opcode == BSYNC || opcode == WARPSYNC)
        return WAIT_WARP;
    for (uint32_t i = (uint32_t)pc; i + BARRIER_BEHIND >= pc && i + 1 > loop.first; i--) {
        *at = (uint64_t)i * SASS_INSTRUCTION_BYTES;
        if (is_barrier(instruction_at(code, i)))
            return WAIT_BARRIER;
        if (i < pc && sass_branches(instruction_at(code, i)))
            break;
    }
    for (int tries = 0; tries < LOOPS && loop.last; tries++) {
        *at = (uint64_t)polled(&loop, (uint32_t)pc, is_timed) * SASS_INSTRUCTION_BYTES;
        if (*at)
            return WAIT_POLL;
        loop = find_loop(code, (uint32_t)pc, sm, loop.last - loop.first);
    }
    *at = 0;
    return WAIT_NOT;
}
