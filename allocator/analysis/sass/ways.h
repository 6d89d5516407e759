/*
 * The control flow of a kernel's machine code, according to its branches, for walking it backwards. Pure; any thread.
 */
#pragma once

#include "sass.h"

/* Longer code, or code with more branches, is not analysed: this bounds the work on damaged code. */
#define WAYS_CODE_LIMIT 65536u /* instructions, 1 MiB */
#define WAYS_BRANCH_LIMIT 2048u

enum way {
    WAY_ON,     /* to the next instruction, or a branch target */
    WAY_CALL,   /* to the callee; registers then hold what the callee left */
    WAY_END,    /* not to the next instruction */
    WAY_UNKNOWN /* to an unknown place */
};

struct branch {
    uint32_t from, to; /* numbers of instructions */
};

struct ways {
    struct span code;
    uint32_t count; /* number of instructions */
    struct branch branches[WAYS_BRANCH_LIMIT];
    uint32_t branch_count;
    uint8_t is_target[WAYS_CODE_LIMIT / 8]; /* is the target of a branch */
};

/* Fills in *ways. Returns 0 if a branch has an unknown target, or a limit is exceeded. `code` must outlive *ways. */
int ways_find(struct ways *ways, struct span code, unsigned sm);

struct sass_instruction ways_instruction(const struct ways *ways, uint32_t index);

/* Returns the target of a BRA, CALL.REL or RET.REL, in bytes from the next instruction. */
int64_t instruction_branch_offset(struct sass_instruction instruction, unsigned sm);

/* Whether the code may read how many blocks the grid has. */
int code_reads_grid(struct span code, unsigned sm);

/* Returns where execution continues after an instruction. */
enum way way_of(struct sass_instruction instruction);

/* Whether a lane may come from the instruction at offset `from` to the one at `to`; to itself by a loop. Returns 1 if unsure,
 * also if *budget, which is counted down, is too small. */
int ways_lead(struct span code, unsigned sm, uint64_t from, uint64_t to, uint64_t *budget);
