/*
 * One arithmetic instruction that is being emulated, and its parts. Internal header of emulate_alu.c.
 */
#pragma once

#include "emulate_state.h"

/* An instruction and its operands. Wide ones are a low and a high word. */
struct step {
    struct machine *machine;
    struct sass_instruction instruction;
    int file; /* VECTOR or UNIFORM: of the result and of most operands */
    struct cell a, b, c, c_high;
    int is_b_immediate;
};

/* The other half of a pair. */
static inline struct cell next_of(const struct machine *machine, int file, unsigned number)
{
    return number == machine->zero[file] ? known(0) : machine_get(machine, file, number + 1);
}

static inline unsigned field(const struct step *step, unsigned at, unsigned count)
{
    return (unsigned)sass_bits(step->instruction, at, count);
}

static inline int flag(const struct step *step, unsigned at)
{
    return (int)field(step, at, 1);
}

static inline int is_b_negated(const struct step *step)
{
    return !step->is_b_immediate && flag(step, SASS_NEGATE_B_AT);
}

/* The number of a register of the file. */
static inline unsigned register_at(const struct step *step, unsigned at, int file)
{
    return field(step, at, 8) & step->machine->zero[file];
}

static inline void set_predicate(struct step *step, unsigned at, enum truth truth)
{
    unsigned number = field(step, at, 3);
    if (number != 7)
        step->machine->predicates[step->file][number] = (uint8_t)truth;
}

static inline enum truth predicate(const struct step *step, unsigned at)
{
    return machine_predicate(step->machine, step->instruction, at, step->file);
}

static inline void set_result(struct step *step, struct cell cell)
{
    machine_set(step->machine, step->file, register_at(step, SASS_TARGET_AT, step->file), cell);
}

struct wide {
    uint64_t value;
    int is_known;
};

static inline struct wide join(struct cell low, struct cell high)
{
    return (struct wide){(uint64_t)high.value << 32 | low.value, low.is_known && high.is_known};
}

static inline struct wide sum_of(struct wide a, struct wide b, int is_b_negative)
{
    return (struct wide){is_b_negative ? a.value - b.value : a.value + b.value, a.is_known && b.is_known};
}

static inline void set_wide(struct step *step, struct wide wide)
{
    unsigned number = register_at(step, SASS_TARGET_AT, step->file);
    if (number == step->machine->zero[step->file])
        return;
    machine_set(step->machine, step->file, number, wide.is_known ? known(wide.value) : unknown);
    machine_set(step->machine, step->file, number + 1, wide.is_known ? known(wide.value >> 32) : unknown);
}
