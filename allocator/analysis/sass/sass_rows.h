/*
 * What the files of this folder know of each opcode: one row for all of them. Internal header.
 */
#pragma once

#include "sass.h"

enum {
    SASS_BRANCHES = 1,
    SASS_ONE_PREDICATE = 2, /* of those that write predicates: only one */
    SASS_WRITES = 4,        /* memory, whatever is there */
    SASS_POLLS = 8          /* loads, or compares and swaps */
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

/* Whether it computes something from the predicate whose number is at that bit, 3 bits. Returns 1 if unsure. */
int sass_reads_predicate(struct sass_instruction instruction, unsigned at);

/* Whether it is SEL.64 or USEL.64. */
int sass_is_select_wide(struct sass_instruction instruction);

/*
 * Where the fields of an instruction begin, as bit numbers in its 128 bits. NVIDIA does not document them; they were found by
 * flipping single bits of what ptxas 13.0 has made, and reading nvdisasm 13.5. Two names for one bit are those of different
 * instructions. The tables of sass.c have those of its rows.
 */
enum sass_field {
    SASS_OPCODE_AT = 0, /* 9 bits, or 12 with the form */
    SASS_FORM_AT = 9,   /* 3 bits: whether b and c are registers, an immediate or a constant */
    SASS_GUARD_AT = 12, /* a predicate: 3 bits, and 1 that negates it */
    SASS_GUARD_NEGATED_AT = 15,
    SASS_TARGET_AT = 16, /* a register, 8 bits, like a, b and c */
    SASS_A_AT = 24,
    SASS_B_AT = 32,             /* also an immediate of 32 bits */
    SASS_BRANCH_AT = 34,        /* 48 bits */
    SASS_OFFSET_LDCU_AT = 37,   /* 17 bits, as: */
    SASS_OFFSET_AT = 38,        /* 16 bits: of b in a constant bank */
    SASS_HANDLE_AT = 40,        /* of a texture: a uniform register, or the word of the constant bank */
    SASS_SHARED_OFFSET_AT = 44, /* LDGSTS: 20 bits */
    SASS_BANK_AT = 54,          /* 5 bits */
    SASS_NEGATE_B_AT = 63,      /* of LEA: c */
    SASS_C_AT = 64,
    SASS_TABLE_LOW_AT = 64,         /* PLOP3: 3 bits of the first table */
    SASS_UNIFORM_PREDICATE_AT = 67, /* PLOP3: the last predicate is a uniform one */
    SASS_PREDICATE_3_AT = 68,       /* predicates that it reads, like the guard */
    SASS_NEGATE_A_AT = 72,          /* of IMAD: the product */
    SASS_TABLE_AT = 72,             /* LOP3: 8 bits; PLOP3: the other 5 */
    SASS_MODE_AT = 72,              /* PRMT: 3 bits */
    SASS_SPECIAL_AT = 72,           /* S2R: 8 bits */
    SASS_SIGNED_VECTOR_AT = 72,     /* VIMNMX */
    SASS_CHAINED_AT = 72,           /* ISETP.EX: goes on with the lower half */
    SASS_TYPE_AT = 73,              /* 3 bits: what a load or store moves */
    SASS_SIGNED_AT = 73,
    SASS_PAIRS_AT = 73,     /* IADD.64 */
    SASS_TO_SHARED_AT = 73, /* UBLKCP; from there: */
    SASS_FROM_SHARED_AT = 74,
    SASS_COPY_TYPE_AT = 74,   /* LDGSTS of sm_100: 2 bits */
    SASS_COMBINATION_AT = 74, /* ISETP: 2 bits: and, or, exclusive or, with another predicate */
    SASS_FROM_LEFT_AT = 74,   /* FLO.SH */
    SASS_WIDE_LESSER_AT = 74, /* IMNMX.64 */
    SASS_EXTENDED_AT = 74,    /* .X: with a carry */
    SASS_NEGATE_C_AT = 75,
    SASS_SHIFT_AT = 75,    /* LEA: 5 bits */
    SASS_WRAPS_AT = 75,    /* SHF.W */
    SASS_RIGHT_AT = 76,    /* SHF */
    SASS_RELATION_AT = 76, /* ISETP: 3 bits: less, equal, greater */
    SASS_PREDICATE_2_AT = 77,
    SASS_DIMENSIONS_AT = 79, /* of a tensor map, less one: 3 bits */
    SASS_WIDE_AT = 80,       /* .64 of MOV, ISETP and CS2R */
    SASS_HIGH_AT = 80,       /* .HI: the upper half */
    SASS_WRITTEN_AT = 81,    /* predicates that it writes, 3 bits each; 7: none */
    SASS_COPY_MODE_AT = 82,  /* UTMALDG, UTMASTG: 3 bits */
    SASS_WRITTEN_2_AT = 84,
    SASS_ANY_AT = 84, /* BRA.U.ANY */
    SASS_PREDICATE_AT = 87,
    SASS_OPERATION_AT = 87,       /* of an atomic: 3 or 4 bits */
    SASS_FLOAT_OPERATION_AT = 88, /* 2 bits */
    SASS_PREDICATE_NEGATED_AT = 90,
    SASS_UNIFORM_AT = 91 /* it has a uniform register */
};

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
