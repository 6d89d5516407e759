/*
 * A lane's way from the kernel's start to the faulting access, run again: by the time a dump is taken the registers that
 * held the address are mostly overwritten (`LDG R2, [R2]`), but what went into it is still known: the parameters, the launch's
 * shape, the block and thread index. Instructions are run on values that are known or not; what comes from memory is not.
 *
 * What it knows: integer arithmetic, moves, shifts, logic, comparisons, constant loads, special registers, branches and
 * calls, from sm_70 to sm_120. Anything else makes its results unknown, and an unknown branch ends the run.
 * Thread safety: pure. The work is bounded by the caller's step budget.
 */
#ifndef CUFENCE_ANALYSIS_SASS_EMULATE_H
#define CUFENCE_ANALYSIS_SASS_EMULATE_H

#include "base/image.h"
#include "sass.h"

struct emulate_launch {
    struct span code; /* of the kernel, from `start` on */
    uint64_t start;
    unsigned sm; /* compute capability, 90 for 9.0 */
    struct span parameters;
    uint64_t parameters_at; /* their offset in constant bank 0 */
    uint32_t grid[3], block[3];
};

struct emulate_lane {
    uint32_t block_index[3], thread[3], lane;
    uint64_t pc;               /* where the lane stands now; 0: it has exited */
    const uint32_t *registers; /* what it holds now; NULL if it has exited */
    size_t register_count;
};

enum emulate_result {
    EMULATE_UNKNOWN,  /* the way or the address cannot be known */
    EMULATE_ADDRESS,  /* the lane ran the access at *address; the registers it holds now do not contradict that */
    EMULATE_NOT_THERE /* the lane's way to where it stands now leads around the access */
};

/* Runs the lane until it stands where the dump says, or to its end if it has exited, at most *budget instructions, which it
 * counts down. */
enum emulate_result emulate(const struct emulate_launch *launch, const struct emulate_lane *lane, uint64_t access_pc,
                            const struct sass_access *access, uint64_t *budget, uint64_t *address);

#endif
