/*
 * The path of one thread through a kernel's code, recorded by emulating it up to an access, and executed again with one of its
 * inputs changed. So it is seen what the address depends on, and how, whatever instructions have computed it.
 *
 * Only the instructions that the address depends on are executed again. What was loaded stays what it was, unless it is the
 * input that changes, and branches go where they went.
 * Pure. The work is bounded for any code.
 */
#pragma once

#include "emulate_state.h"

#define PATH_STEPS (1u << 20) /* instructions up to the access, at most */
#define PATH_WORK (1u << 22)  /* instructions that are executed again, in all */
#define PATH_CHECKPOINTS 256u
#define PATH_NO_LOAD UINT32_MAX

/* An instruction that the address depends on. */
struct path_step {
    uint32_t number;  /* in the code */
    int is_forgotten; /* it may not have executed: what it writes is not known */
    uint32_t load;    /* its number among the loads, or PATH_NO_LOAD */
};

/* A load of a buffer. */
struct path_load {
    uint32_t number; /* of the instruction in the code */
    uint32_t bytes;
    uint64_t address;
    uint8_t value[16];
    uint32_t step; /* its number among the steps, if it is one */
};

struct path {
    const struct emulate_launch *launch;
    const struct emulate_lane *lane;
    const struct sass_access *access;
    struct path_step *steps; /* in their order */
    size_t step_count;
    struct path_load *loads;
    size_t load_count;
    uint64_t address; /* of the access */
    uint32_t work;    /* instructions that may still be executed again */
    /* The thread before each of some steps, so that a change is executed from about where it matters on. */
    struct machine *checkpoints;
    size_t stride; /* of them; 0: there are none */
};

/* What a change concerns. */
enum path_input {
    PATH_PARAMETER, /* `bytes` at offset `at` of the parameters */
    PATH_BLOCK,     /* dimension `at` of the block's index */
    PATH_THREAD,    /* and of the thread's */
    PATH_LOADED,    /* `bytes` of what load `at` loads, from byte `from` on */
    PATH_RESULT     /* what step `at` writes into its first register */
};

struct path_change {
    enum path_input input;
    uint32_t at, from, bytes;
    uint64_t value;
};

/*
 * Follows the thread until it performs the access at `address`. Returns 0 if it is not known to, or out of host memory.
 * What is borrowed must outlive the path, which is to be freed in any case.
 */
int path_follow(const struct emulate_launch *launch, const struct emulate_lane *lane, uint64_t access_pc,
                const struct sass_access *access, uint64_t address, struct path *path);
void path_free(struct path *path);

static inline struct sass_instruction path_instruction(const struct path *path, size_t step)
{
    return sass_load(path->launch->code.bytes + (size_t)path->steps[step].number * SASS_INSTRUCTION_BYTES);
}

/* Computes the address with these changes. Returns 0 if it is unknown then, or if there has been too much work. */
int path_address(struct path *path, const struct path_change *changes, size_t count, uint64_t *address);

/* Calls visit for each step, before it is executed. */
void path_each(struct path *path,
               void (*visit)(void *user, uint32_t step, const struct machine *machine, struct sass_instruction instruction),
               void *user);
