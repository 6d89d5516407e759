/*
 * What the files of this folder know of each opcode: one row for all of them. Internal header.
 */
#pragma once

#include "sass.h"

enum {
    SASS_BRANCHES = 1,
    SASS_ONE_PREDICATE = 2, /* of those that write predicates: only one */
    SASS_WRITES = 4         /* memory of a buffer */
};

/* What it computes, for those that emulate.h or slice.h understands. Both have functions for them. */
enum sass_operation {
    SASS_NO_OPERATION,
    SASS_MOVE,
    SASS_SPECIAL,
    SASS_SELECT,
    SASS_COMPARE,
    SASS_ADD3,
    SASS_ADD3_WIDE,
    SASS_ADD,
    SASS_LEA,
    SASS_LOGIC,
    SASS_ABSOLUTE,
    SASS_PERMUTE,
    SASS_MIX, /* of the operands */
    SASS_LESSER,
    SASS_EXTEND,
    SASS_SHIFT,
    SASS_PREDICATE_LOGIC,
    SASS_MULTIPLY_ADD,
    SASS_MULTIPLY_WIDE,
    SASS_MULTIPLY_HIGH,
    SASS_CONSTANT,
    SASS_ADD_PAIRS,
    SASS_COUNT,
    SASS_INDEX, /* an index, whatever the operands are */
    SASS_TO_UNIFORM,
    SASS_LOAD,
    SASS_LOAD_CONSTANT,
    SASS_LOAD_INDEXED,
    SASS_OPERATIONS
};

struct sass_row {
    uint8_t effect; /* what it writes: see sass_effects.c */
    uint8_t width;  /* number of registers, where sass_width() says no other */
    uint8_t flags;
    uint8_t operation;
};

const struct sass_row *sass_row_of(struct sass_instruction instruction);

/* The number of registers that it writes: vector ones, or uniform ones. */
unsigned sass_width(struct sass_instruction instruction);

/* Whether it is SEL.64 or USEL.64. */
int sass_is_select_wide(struct sass_instruction instruction);

/* Returns `count` bits of the instruction from bit `at`; count < 64. */
static inline uint64_t sass_bits(struct sass_instruction instruction, unsigned at, unsigned count)
{
    uint64_t value = at >= 64 ? instruction.high >> (at - 64) : instruction.low >> at;
    if (at < 64 && at + count > 64)
        value |= instruction.high << (64 - at);
    return value & (((uint64_t)1 << count) - 1);
}

static inline int64_t sass_signed_bits(struct sass_instruction instruction, unsigned at, unsigned count)
{
    uint64_t sign = (uint64_t)1 << (count - 1);
    return (int64_t)((sass_bits(instruction, at, count) ^ sign) - sign);
}

static inline unsigned sass_opcode(struct sass_instruction instruction)
{
    return instruction.low & 0x1ff;
}
