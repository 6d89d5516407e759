/*
 * The state of one emulated lane, and the instructions that compute. Inner header of emulate*.c.
 */
#ifndef CUFENCE_ANALYSIS_SASS_EMULATE_STATE_H
#define CUFENCE_ANALYSIS_SASS_EMULATE_STATE_H

#include "emulate.h"

struct cell {
    uint32_t value; /* 0 if not known */
    int is_known;
};

/* Files of registers. */
#define VECTOR 0
#define UNIFORM 1

static const struct cell unknown = {0, 0};

static inline struct cell known(uint64_t value)
{
    return (struct cell){(uint32_t)value, 1};
}

enum truth { TRUTH_FALSE, TRUTH_TRUE, TRUTH_UNKNOWN };

struct machine {
    const struct emulate_launch *launch;
    const struct emulate_lane *lane;
    struct cell registers[2][256]; /* of the lane; uniform */
    uint8_t predicates[2][8];      /* enum truth; the last is always true */
    unsigned zero[2];              /* numbers of RZ and URZ */
};

/* `count` bits of the instruction from `at` on; count < 64. */
uint64_t instruction_bits(struct sass_instruction instruction, unsigned at, unsigned count);

/* Where a BRA, CALL.REL or RET.REL leads, in bytes from the next instruction on. */
int64_t instruction_branch_offset(struct sass_instruction instruction, unsigned sm);

/* A predicate operand: 3 bits and a negation above them. */
enum truth machine_predicate(const struct machine *machine, struct sass_instruction instruction, unsigned at, int file);

struct cell machine_get(const struct machine *machine, int file, unsigned number);
void machine_set(struct machine *machine, int file, unsigned number, struct cell cell);

/* A word of a constant bank. */
struct cell machine_constant(const struct machine *machine, uint64_t bank, uint64_t offset);

/* Runs an instruction that computes; 0 if it is not known. */
int machine_compute(struct machine *machine, struct sass_instruction instruction);

/* Makes unknown what an instruction may write. */
void machine_forget(struct machine *machine, struct sass_instruction instruction);

#endif
