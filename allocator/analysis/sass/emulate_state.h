/*
 * The state of an emulated lane, and the arithmetic instructions. Internal header of emulate*.c.
 */
#pragma once

#include "emulate.h"
#include "sass_rows.h"

struct cell {
    uint32_t value; /* 0 if unknown */
    int is_known;
};

/* Register files. */
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
    struct cell registers[2][256]; /* vector, of the lane; uniform */
    uint8_t predicates[2][8];      /* enum truth; the last one is always true */
    unsigned zero[2];              /* numbers of RZ and URZ */
};

/* Returns a predicate operand: 3 bits, followed by a negation bit. */
enum truth machine_predicate(const struct machine *machine, struct sass_instruction instruction, unsigned at, int file);

struct cell machine_get(const struct machine *machine, int file, unsigned number);
void machine_set(struct machine *machine, int file, unsigned number, struct cell cell);

/* Returns a word of a constant bank. */
struct cell machine_constant(const struct machine *machine, uint64_t bank, uint64_t offset);

enum flow { FLOW_ON, FLOW_DONE, FLOW_LOST };

/* The lane at the start of the kernel. */
void machine_begin(struct machine *machine, const struct emulate_launch *launch, const struct emulate_lane *lane);

/* Reads the instruction at a PC. Returns 0 if that is not in the kernel's code. */
int machine_fetch(const struct machine *machine, uint64_t pc, struct sass_instruction *instruction);

/* Executes the instruction at *pc, and advances it. */
enum flow machine_step(struct machine *machine, uint64_t *pc);

/* Executes the instruction, which is no branch, whatever its guard. */
void machine_run(struct machine *machine, struct sass_instruction instruction);

/* Fills the registers of a load, LDG or LD, with what it has loaded, by [75:73]. bytes: at most 16. */
void machine_take_loaded(struct machine *machine, struct sass_instruction instruction, unsigned bytes,
                         const uint8_t loaded[16]);

/* The predicate under which it executes. */
enum truth machine_guard(const struct machine *machine, struct sass_instruction instruction);

/* Computes an access's address. Returns 0 if it is unknown, or if the lane's predicate is false (*is_off). */
int machine_address(const struct machine *machine, const struct sass_access *access, int *is_off, uint64_t *address);

/* Executes an arithmetic instruction. Returns 0 if it is not supported. */
int machine_compute(struct machine *machine, struct sass_instruction instruction);

/* The operands of an arithmetic instruction. */
struct operands {
    struct cell cells[3];
    int is_b_immediate;
};
struct operands machine_operands(const struct machine *machine, struct sass_instruction instruction);

/* Makes everything that an instruction may write unknown. */
void machine_forget(struct machine *machine, struct sass_instruction instruction);
