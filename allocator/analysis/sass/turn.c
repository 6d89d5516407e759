#include "turn.h"

#include "sass_rows.h"
#include "ways.h"

enum {
    P2R = 0x003,
    VOTE = 0x006,
    VOTEU = 0x086,
    B2R = 0x11c,
    BAR = 0x11d,
    BRA = 0x147,
    EXIT = 0x14d,
    LD = 0x180,
    LDC = 0x182,
    SHFL = 0x189,
    ATOM = 0x18a,
    CAS = 0x18b,
    ATOMS = 0x18c,
    CAS_SHARED = 0x18d,
    SYNCS = 0x1a7,
    ATOMG = 0x1a8,
    CAS_GLOBAL = 0x1a9,
    PHASECHK = 0x5a7 /* 12 bits: SYNCS.PHASECHK, which writes a predicate only */
};
enum { INCREASE = 3, DECREASE = 4 }; /* atomics */
enum { MOST_REGISTERS = 128 };       /* that a row names; above are its codes for what depends on a type */
/* Special registers: of clocks, and those that never change: up to the block's index, and up to the mask of greater lanes. */
enum { CLOCK = 0x50, GLOBAL_TIMER_END = 0x53 };
enum { LANE = 0, THREAD = 0x21, BLOCK = 0x27, MASK = 0x38, MASK_END = 0x3c, BLOCK_OF_CLUSTER = 0x88 };

static struct cell join(struct cell a, struct cell b)
{
    return (struct cell){a.of | b.of, a.load > b.load ? a.load : b.load};
}

static void join_states(struct state *into, const struct state *from)
{
    for (unsigned i = 0; i < CELLS; i++)
        into->cells[i] = join(into->cells[i], from->cells[i]);
}

/* ---- what an instruction reads: rather one too many ---- */

enum { A = 1, B = 2, C = 4 };

static int polls(struct sass_instruction instruction)
{
    return sass_row_of(instruction)->flags & SASS_POLLS;
}

static int is_atomic(struct sass_instruction instruction)
{
    unsigned opcode = sass_opcode(instruction);
    return opcode == ATOM || opcode == ATOMS || opcode == ATOMG;
}

/* Which of its fields are registers. What others hold means something else. */
static unsigned fields_of(struct sass_instruction instruction)
{
    unsigned opcode = sass_opcode(instruction);
    switch (sass_row_of(instruction)->operation) {
    case SASS_SPECIAL:
        return 0;
    case SASS_MOVE:
    case SASS_COUNT:
        return B;
    case SASS_COMPARE:
    case SASS_ADD:
    case SASS_LESSER:
        return A | B;
    case SASS_LOAD:
        return is_atomic(instruction) ? A | B : opcode == CAS_GLOBAL ? A | B | C : A;
    case SASS_LOAD_CONSTANT:
        return opcode == LDC ? A : 0;
    default:
        return opcode == VOTE || opcode == VOTEU ? 0 : opcode == SYNCS ? A | B : A | B | C;
    }
}

/* How many registers an operand may be: the one at that bit. Of what has an operation, as many as the result; an address is a
 * pair at most. */
static unsigned operand_width(struct sass_instruction instruction, unsigned at)
{
    unsigned operation = sass_row_of(instruction)->operation, width = sass_width(instruction);
    if (operation == SASS_COMPARE)
        return sass_bits(instruction, SASS_WIDE_AT, 1) ? 2 : 1;
    if (sass_opcode(instruction) >= LD && at == SASS_A_AT)
        return 2;
    return operation == SASS_NO_OPERATION && width < 2 && sass_opcode(instruction) != SHFL ? 2 : width;
}

static struct cell look(struct turn *turn, unsigned number)
{
    struct cell cell = turn->state.cells[number];
    turn->is_carried[number] |= (cell.of & FIRST) != 0;
    cell.of &= (uint8_t)~FIRST;
    return cell;
}

/* From a cell on: up to `end`, which is one that holds zero. */
static struct cell look_at(struct turn *turn, unsigned first, unsigned count, unsigned end)
{
    struct cell all = {0, 0};
    for (unsigned i = first; i < first + count && i < end; i++)
        all = join(all, look(turn, i));
    return all;
}

static struct cell vector(struct turn *turn, struct sass_instruction instruction, unsigned at)
{
    return look_at(turn, (unsigned)sass_bits(instruction, at, 8), operand_width(instruction, at), SASS_RZ);
}

static struct cell uniform(struct turn *turn, struct sass_instruction instruction, unsigned at)
{
    unsigned zero = turn->loop->zero;
    return look_at(turn, UNIFORM + ((unsigned)sass_bits(instruction, at, 8) & zero), 2, UNIFORM + zero);
}

static struct cell predicate(struct turn *turn, struct sass_instruction instruction, unsigned at, unsigned file)
{
    return look(turn, file + (unsigned)sass_bits(instruction, at, 3));
}

/* What guards it, and a branch's other conditions. */
static struct cell condition(struct turn *turn, struct sass_instruction instruction)
{
    unsigned file = sass_has_uniform_guard(instruction) ? UNIFORM_PREDICATE : PREDICATE;
    struct cell all = predicate(turn, instruction, SASS_GUARD_AT, file);
    if (sass_opcode(instruction) != BRA)
        return all;
    all = join(all, predicate(turn, instruction, SASS_PREDICATE_AT, PREDICATE));
    if (sass_bits(instruction, SASS_OPCODE_AT, 12) == 0x947)
        return all;
    all = join(all, look_at(turn, UNIFORM_PREDICATE, 7, CELLS)); /* .U, .DIV */
    return join(all, join(uniform(turn, instruction, SASS_A_AT), uniform(turn, instruction, SASS_B_AT)));
}

/* The predicates from which it computes. */
static struct cell predicates(struct turn *turn, struct sass_instruction instruction)
{
    static const unsigned places[] = {SASS_PREDICATE_AT, SASS_PREDICATE_2_AT, SASS_PREDICATE_3_AT};
    unsigned file = sass_has_uniform_guard(instruction) ? UNIFORM_PREDICATE : PREDICATE;
    struct cell all = {0, 0};
    if (sass_opcode(instruction) == P2R)
        return look_at(turn, PREDICATE, 7, CELLS);
    for (unsigned i = 0; i < 3; i++)
        if (sass_reads_predicate(instruction, places[i]))
            all = join(all, predicate(turn, instruction, places[i], file));
    if (sass_row_of(instruction)->operation == SASS_PREDICATE_LOGIC && sass_bits(instruction, SASS_UNIFORM_PREDICATE_AT, 1))
        all = join(all, predicate(turn, instruction, SASS_PREDICATE_3_AT, UNIFORM_PREDICATE));
    return all;
}

/* All but its guard. */
static struct cell operands(struct turn *turn, struct sass_instruction instruction)
{
    unsigned form = (unsigned)sass_bits(instruction, SASS_FORM_AT, 3), fields = fields_of(instruction);
    int is_memory = sass_opcode(instruction) >= LD && fields, is_uniform = sass_has_uniform_guard(instruction);
    int has_b = fields & B && (form == 1 || is_memory);
    struct cell all = predicates(turn, instruction);
    if (is_uniform ? fields & A : 0)
        all = join(all, uniform(turn, instruction, SASS_A_AT));
    if (is_memory || form == 6 || form == 7 || (is_uniform && has_b))
        all = join(all, uniform(turn, instruction, SASS_B_AT));
    if (is_memory || (is_uniform && fields & C))
        all = join(all, uniform(turn, instruction, SASS_C_AT));
    if (is_uniform)
        return all;
    all = fields & A ? join(all, vector(turn, instruction, SASS_A_AT)) : all;
    all = has_b ? join(all, vector(turn, instruction, SASS_B_AT)) : all;
    return fields & C ? join(all, vector(turn, instruction, SASS_C_AT)) : all;
}

/* ---- one turn ---- */

/* Whether an atomic leaves the same in memory each time: at the same address, what it stores, or joins with what is there, is
 * always the same. */
static int is_idle(struct turn *turn, struct sass_instruction instruction)
{
    unsigned operation = (unsigned)sass_bits(instruction, SASS_OPERATION_AT, 4);
    int is_zero = sass_bits(instruction, SASS_B_AT, 8) == SASS_RZ;
    return is_atomic(instruction) && !operands(turn, instruction).of &&
           (is_zero ? operation <= 8 && operation != INCREASE && operation != DECREASE
                    : operation == 1 || operation == 2 || operation == 5 || operation == 6 || operation == 8);
}

/* Only they write so many registers. */
static int is_of_matrices(struct sass_instruction instruction)
{
    const struct sass_row *row = sass_row_of(instruction);
    return row->operation == SASS_NO_OPERATION && row->width > 2 && row->width <= MOST_REGISTERS;
}

/* It may get something done that goes on from turn to turn. */
static int works(struct turn *turn, struct sass_instruction instruction)
{
    switch (sass_opcode(instruction)) {
    case CAS:
    case CAS_SHARED:
    case CAS_GLOBAL:
        return operands(turn, instruction).of != 0;
    case SYNCS: /* ARRIVE and others */
        return sass_bits(instruction, SASS_OPCODE_AT, 12) != PHASECHK;
    default:
        return !sass_is_known(instruction) || is_of_matrices(instruction) ||
               (sass_row_of(instruction)->flags & SASS_WRITES && !is_idle(turn, instruction));
    }
}

/* More than a counter, or how long to sleep, needs. */
static int computes(struct sass_instruction instruction)
{
    return sass_row_of(instruction)->operation == SASS_NO_OPERATION && sass_opcode(instruction) < 0x118;
}

/* It only chooses between values that were there. */
static int copies(struct sass_instruction instruction)
{
    unsigned operation = sass_row_of(instruction)->operation, opcode = sass_opcode(instruction);
    return operation == SASS_MOVE || operation == SASS_SELECT || operation == SASS_TO_UNIFORM || opcode == SHFL ||
           (operation == SASS_MULTIPLY_ADD && sass_bits(instruction, SASS_A_AT, 8) == SASS_RZ);
}

/* What a special register depends on. */
static uint8_t special_of(struct sass_instruction instruction)
{
    unsigned special = (unsigned)sass_bits(instruction, SASS_SPECIAL_AT, 8);
    if (special >= CLOCK && special <= GLOBAL_TIMER_END)
        return TIMED;
    return special == LANE || (special >= THREAD && special <= BLOCK) || (special >= MASK && special <= MASK_END) ||
                   special == BLOCK_OF_CLUSTER || special == SASS_RZ
               ? 0
               : CHANGING;
}

static struct cell value_of(struct turn *turn, struct sass_instruction instruction, uint32_t i)
{
    unsigned opcode = sass_opcode(instruction);
    struct cell value = operands(turn, instruction);
    if (value.of & OLD && !copies(instruction))
        value.of |= CHANGING;
    if (polls(instruction) || is_atomic(instruction))
        value = (struct cell){value.of | LOADED, (uint8_t)(i - turn->loop->first)};
    if (sass_row_of(instruction)->operation == SASS_SPECIAL)
        value.of |= special_of(instruction);
    if (opcode == B2R || opcode == BAR)
        value.of |= CHANGING;
    return value;
}

static void put(struct turn *turn, unsigned cell, struct cell value, int is_sure)
{
    struct cell *at = &turn->state.cells[cell];
    value.of |= turn->control.of | turn->sticky.of ? BRANCHED : 0;
    *at = is_sure ? value : join(*at, value);
}

void turn_write(struct turn *turn, struct sass_instruction instruction, struct cell value)
{
    unsigned target = (unsigned)sass_bits(instruction, SASS_TARGET_AT, 8), width = sass_width(instruction);
    unsigned zero = turn->loop->zero, first = target & zero;
    int is_sure = sass_bits(instruction, SASS_GUARD_AT, 4) == 7;
    value = is_sure ? value : join(value, condition(turn, instruction));
    if (sass_bits(instruction, SASS_OPCODE_AT, 12) == PHASECHK)
        width = 0;
    for (unsigned i = target; sass_writes_register(instruction, target, 1) && i < target + width && i < SASS_RZ; i++)
        put(turn, i, value, is_sure);
    for (unsigned i = first; sass_writes_uniform(instruction) && i < first + width && i < zero; i++)
        put(turn, UNIFORM + i, value, is_sure);
    for (unsigned i = 0; i < 7; i++) {
        if (sass_may_write_predicate(instruction, i))
            put(turn, PREDICATE + i, value, is_sure);
        if (sass_may_write_uniform_predicate(instruction, i))
            put(turn, UNIFORM_PREDICATE + i, value, is_sure);
    }
}

/* The loop may be left here. */
static void leave(struct turn *turn, struct cell why)
{
    if (!(why.of & LOADED))
        why = join(why, join(turn->control, turn->sticky));
    turn->is_work |= (why.of & CHANGING) != 0;
    turn->is_timed |= (why.of & TIMED) != 0;
    if (why.of & LOADED)
        turn->load = turn->loop->first + why.load;
}

/* Ways meet here: what they have written depends on which one was taken. */
static void meet(struct turn *turn, struct state *state)
{
    struct cell control = join(turn->control, turn->sticky);
    for (unsigned i = 0; i < CELLS; i++)
        if (state->cells[i].of & BRANCHED) {
            state->cells[i] = join(state->cells[i], control);
            state->cells[i].of &= (uint8_t)~BRANCHED;
        }
}

static void go_back(struct turn *turn)
{
    struct state state = turn->state;
    meet(turn, &state);
    for (unsigned i = 0; i < CELLS; i++)
        state.cells[i].of &= (uint8_t)~FIRST;
    join_states(&turn->back, &state);
    turn->comes_back = 1;
}

/* The branches that come here. */
static void arrive(struct turn *turn, uint32_t i)
{
    uint32_t left = 0;
    int has_met = 0;
    struct cell control = {0, 0};
    for (uint32_t k = 0; k < turn->pending_count; k++) {
        struct pending *pending = &turn->pending[k];
        if (pending->to != i) {
            control = join(control, pending->condition);
            turn->pending[left++] = *pending;
            continue;
        }
        if (!turn->is_reached)
            turn->state = pending->state;
        else
            join_states(&turn->state, &pending->state);
        turn->is_reached = has_met = 1;
    }
    if (has_met)
        meet(turn, &turn->state);
    turn->pending_count = left;
    turn->control = control;
}

static void branch(struct turn *turn, struct sass_instruction instruction, uint32_t i)
{
    const struct loop *loop = turn->loop;
    int64_t to = (int64_t)i + 1 + instruction_branch_offset(instruction, loop->sm) / SASS_INSTRUCTION_BYTES;
    struct cell why = condition(turn, instruction);
    if (to == loop->first) {
        go_back(turn);
        if (i == loop->last)
            leave(turn, why);
        else
            turn->sticky = join(turn->sticky, why);
    } else if (to < loop->first || to > loop->last) {
        leave(turn, why);
    } else if (to <= i || turn->pending_count == PENDING_LIMIT) {
        turn->is_work = 1;
    } else {
        why = join(why, turn->control);
        turn->pending[turn->pending_count++] = (struct pending){(uint32_t)to, why, turn->state};
        turn->control = join(turn->control, why);
    }
    turn->is_reached = way_of(instruction) != WAY_END;
}

void turn_go_round(struct turn *turn, const struct loop *loop, const struct state *state, uint32_t at)
{
    turn->loop = loop;
    turn->state = *state;
    for (unsigned i = 0; i < CELLS; i++)
        turn->state.cells[i].of |= FIRST;
    turn->is_reached = 1;
    for (uint32_t i = loop->first; i <= loop->last; i++) {
        struct sass_instruction instruction = instruction_at(loop->code, i);
        unsigned opcode = sass_opcode(instruction);
        arrive(turn, i);
        if (!turn->is_reached)
            continue;
        turn->reaches_at |= i == at;
        turn->is_work |= works(turn, instruction);
        if (opcode == BRA) {
            branch(turn, instruction, i);
        } else if (opcode == EXIT) {
            leave(turn, condition(turn, instruction));
            turn->is_reached = way_of(instruction) != WAY_END;
        } else {
            struct cell value = value_of(turn, instruction, i);
            turn->is_work |= value.of & CHANGING && computes(instruction);
            turn_write(turn, instruction, value);
        }
    }
}
