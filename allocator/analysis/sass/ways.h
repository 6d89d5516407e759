/*
 * The ways through a kernel's machine code, as its branches say, for whoever goes back along them. Pure; any thread.
 */
#ifndef CUFENCE_ANALYSIS_SASS_WAYS_H
#define CUFENCE_ANALYSIS_SASS_WAYS_H

#include "base/image.h"
#include "sass.h"

/* Longer code, or code with more branches, is not looked at: that bounds the work on damaged code. */
#define WAYS_CODE_LIMIT 65536u /* instructions, 1 MiB */
#define WAYS_BRANCH_LIMIT 2048u

enum way {
    WAY_ON,     /* the next instruction, or a branch's target */
    WAY_CALL,   /* the callee; what comes behind it holds what the callee left */
    WAY_END,    /* not the next instruction */
    WAY_UNKNOWN /* anywhere */
};

struct branch {
    uint32_t from, to; /* numbers of instructions */
};

struct ways {
    struct span code;
    uint32_t count; /* of instructions */
    struct branch branches[WAYS_BRANCH_LIMIT];
    uint32_t branch_count;
    uint8_t is_target[WAYS_CODE_LIMIT / 8]; /* of a branch */
};

/* Fills in *ways. 0 if a branch may lead anywhere, or a limit is exceeded. `code` must stay. */
int ways_find(struct ways *ways, struct span code, unsigned sm);

struct sass_instruction ways_instruction(const struct ways *ways, uint32_t index);

/* How it goes on behind an instruction. */
enum way way_of(struct sass_instruction instruction);

#endif
