/*
 * What one turn of a loop makes of the registers: what each value depends on, and what ends the loop. Internal header.
 */
#pragma once

#include "sass.h"

#define PENDING_LIMIT 8u /* branches forwards that are under way at once */

/* From the first instruction to the branch back. None: both 0. */
struct loop {
    struct span code;
    uint32_t first, last;
    unsigned sm, zero; /* zero: of URZ */
};

/* What a value depends on. None of them: it is the same in each turn. */
enum {
    LOADED = 1,    /* memory, at an address that is the same in each turn as long as memory is */
    TIMED = 2,     /* a clock */
    OLD = 4,       /* a register's value of the turn before, unchanged */
    CHANGING = 8,  /* what the loop counts, or how often it went round */
    BRANCHED = 16, /* which way was taken; to be added where the ways meet */
    FIRST = 32     /* it may be what was there when the turn began */
};

enum { UNIFORM = 256, PREDICATE = 512, UNIFORM_PREDICATE = 520, CELLS = 528 }; /* behind the vector registers */

struct cell {
    uint8_t of, load; /* load: the number of the last load in the loop that it depends on */
};

struct state {
    struct cell cells[CELLS];
};

/* A branch forwards in the loop. */
struct pending {
    uint32_t to;
    struct cell condition;
    struct state state;
};

struct turn {
    const struct loop *loop;
    struct state state, back; /* now; where it goes round again */
    struct pending pending[PENDING_LIMIT];
    uint32_t pending_count;
    struct cell control, sticky; /* what it depends on that it comes here: of all pending branches; for the rest of the turn */
    int is_reached, comes_back, is_work, is_timed;
    int reaches_at;
    uint8_t is_carried[CELLS]; /* what was there when the turn began may be read */
    uint32_t load;             /* in the code: what ends the loop; 0: nothing that was loaded */
};

static inline struct sass_instruction instruction_at(struct span code, uint32_t i)
{
    return sass_load(code.bytes + (size_t)i * SASS_INSTRUCTION_BYTES);
}

/* Goes round once. Fills in all of *turn, which must be zero; reaches_at: whether it comes to instruction `at`. */
void turn_go_round(struct turn *turn, const struct loop *loop, const struct state *state, uint32_t at);

/* Puts a value wherever the instruction may write. */
void turn_write(struct turn *turn, struct sass_instruction instruction, struct cell value);
