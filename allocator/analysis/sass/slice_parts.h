/*
 * The parts of the slicer: slice.c walks back through the code, slice_terms.c evaluates instructions. Internal header of
 * slice*.c.
 */
#pragma once

#include "emulate_state.h"
#include "slice.h"
#include "ways.h"

/* Limits; beyond them, the source is unknown. */
#define VALUE_LIMIT 256u
#define STEP_LIMIT 1000000u

/* The terms summed up in a register: bits 0 to 61 are 4-byte words of the parameters. */
typedef uint64_t term_set;
#define PARAMETER_WORDS 62u
#define LOADED ((term_set)1 << 62)
#define UNKNOWN ((term_set)1 << 63)
#define NOTHING ((term_set)0) /* an index, or a constant */

#define ALWAYS 7u /* [15:12] of an instruction that is not predicated */

enum which { LOW, HIGH };

/* What an instruction writes into one register. */
struct value {
    uint32_t instruction;
    uint16_t number; /* of the register */
    uint8_t file;
    uint8_t is_reached; /* `terms` is valid for at least one path */
    term_set terms;
};

struct slicer {
    struct ways ways;
    unsigned sm;
    unsigned zero[2]; /* numbers of RZ and URZ */
    struct value values[VALUE_LIMIT];
    uint32_t value_count;
    uint8_t is_seen[2][WAYS_CODE_LIMIT / 8]; /* on the current walk back, without and with its guard */
    uint32_t way[WAYS_BRANCH_LIMIT];         /* indices of instructions from which to continue the walk back */
    uint32_t steps;
    int is_lost;
};

static inline unsigned register_field(const struct slicer *slicer, struct sass_instruction instruction, unsigned at, int file)
{
    return (unsigned)sass_bits(instruction, at, 8) & slicer->zero[file];
}

/* Merges the terms of several paths. They must agree, except that paths not reached yet are ignored. */
struct meeting {
    term_set terms;
    int is_reached;
};

static inline void meet(struct meeting *meeting, term_set terms)
{
    if (meeting->is_reached && meeting->terms != terms)
        terms |= meeting->terms | UNKNOWN;
    meeting->terms = terms;
    meeting->is_reached = 1;
}

/* Whether an instruction may write a register. */
int slice_writes(const struct slicer *slicer, struct sass_instruction instruction, int file, unsigned number);

/* Returns what the instruction of `value` writes, as far as known yet. */
struct meeting slice_terms_of(struct slicer *slicer, const struct value *value);

/* Returns what a register holds before instruction `at`. is_reached = 0: no path is known to lead there yet. */
struct meeting slice_terms_before(struct slicer *slicer, uint32_t at, int file, unsigned number);
