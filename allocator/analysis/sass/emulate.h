/*
 * Emulates a lane's path from the kernel's start to the faulting access. When a dump is taken, the registers that held the
 * address are often overwritten (`LDG R2, [R2]`), but the inputs are still known: the parameters, grid and block dimensions,
 * the block and thread index. Values are known or unknown; so are those of loads, unless the memory is at hand.
 *
 * Supported: integer arithmetic with divisions, moves, shifts, logic, comparisons, constant loads, special registers, branches
 * and calls, from sm_70 to sm_120. Other instructions make their results unknown, and an unknown branch ends the emulation.
 * Pure. The work is bounded by the caller's step budget.
 */
#pragma once

#include "sass.h"

/* The memory of the device. read() returns 0 if the bytes are not known. */
struct emulate_memory {
    int (*read)(void *user, uint64_t address, void *bytes, size_t size);
    void *user;
};

struct emulate_launch {
    struct span code; /* of the kernel, from `start` */
    uint64_t start;
    unsigned sm; /* compute capability, 90 for 9.0 */
    struct span parameters;
    uint64_t parameters_at; /* offset in constant bank 0 */
    SHAPE;
    const struct emulate_memory *memory; /* that loads read; NULL: they give unknown values */
};

struct emulate_lane {
    uint32_t block_index[3], thread[3], lane;
    uint64_t pc;               /* the lane's current PC; 0 if it has exited */
    const uint32_t *registers; /* current values; NULL if the lane has exited */
    size_t register_count;
};

enum emulate_result {
    EMULATE_UNKNOWN,  /* the path or the address can't be determined */
    EMULATE_ADDRESS,  /* the lane performed the access at *address; its current registers do not contradict that */
    EMULATE_EARLIER,  /* it did so; by a loop it may have come to the access again since, elsewhere */
    EMULATE_NOT_THERE /* the lane's path to its current PC bypasses the access */
};

/* Emulates the lane until its current PC, or to its end if it has exited. Executes at most *budget instructions, and counts
 * *budget down. */
enum emulate_result emulate(const struct emulate_launch *launch, const struct emulate_lane *lane, uint64_t access_pc,
                            const struct sass_access *access, uint64_t *budget, uint64_t *address);
