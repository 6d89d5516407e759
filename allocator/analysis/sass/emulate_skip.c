/* Branches that depend on what is not known, such as floating-point results: the code that both ways pass. */
#include "emulate_state.h"
#include "ways.h"

#define BRA 0x147u
#define CALL 0x144u
#define RET 0x150u
#define BSYNC 0x141u
#define MOST 8192u      /* instructions that are looked at, those of functions again at each call */
#define RELATIVE 0x944u /* CALL.REL: the form with a known target */

/* Code that is entered at its start only, and left at its end, or, of a function, by RET. */
struct stretch {
    uint64_t start, end; /* the end grows with the branches that are found in it */
    int is_function;
    unsigned *left; /* instructions that may still be looked at */
};

static int scan(struct machine *machine, struct stretch *stretch);

/* Returns 0 if the branch may lead out of the stretch. */
static int scan_branch(struct machine *machine, struct sass_instruction instruction, uint64_t pc, struct stretch *stretch)
{
    unsigned opcode = (unsigned)sass_bits(instruction, 0, 9);
    uint64_t target = pc + SASS_INSTRUCTION_BYTES;
    if (opcode == BSYNC)
        return 1;
    if (opcode == RET)
        return stretch->is_function;
    if (opcode != BRA && sass_bits(instruction, 0, 12) != RELATIVE)
        return 0;
    target += (uint64_t)instruction_branch_offset(instruction, machine->launch->sm);
    if (opcode == CALL)
        return !stretch->is_function &&
               scan(machine, &(struct stretch){target, target + SASS_INSTRUCTION_BYTES, 1, stretch->left});
    if (target > stretch->end)
        stretch->end = target;
    return target >= stretch->start;
}

/* Forgets what the stretch may write. Returns 0 if it accesses memory, or can be left otherwise. */
static int scan(struct machine *machine, struct stretch *stretch)
{
    struct sass_access access;
    enum access_kind kind;
    for (uint64_t pc = stretch->start; pc < stretch->end; pc += SASS_INSTRUCTION_BYTES) {
        struct sass_instruction instruction;
        if (!*stretch->left || !machine_fetch(machine, pc, &instruction))
            return 0;
        uint64_t next = pc + SASS_INSTRUCTION_BYTES;
        --*stretch->left;
        if (sass_branches(instruction)
                ? !scan_branch(machine, instruction, pc, stretch)
                : !sass_is_known(instruction) || sass_decode(instruction, machine->launch->sm, &access) ||
                      sass_class(instruction, &kind))
            return 0;
        if (!sass_branches(instruction))
            machine_forget(machine, instruction);
        int is_last = sass_bits(instruction, 0, 9) == RET && machine_guard(machine, instruction) == TRUTH_TRUE;
        if (stretch->is_function && !is_last && stretch->end < next + SASS_INSTRUCTION_BYTES)
            stretch->end = next + SASS_INSTRUCTION_BYTES;
    }
    return 1;
}

int machine_skip(struct machine *machine, uint64_t *pc)
{
    struct sass_instruction instruction;
    if (!machine_fetch(machine, *pc, &instruction) || sass_bits(instruction, 0, 9) != BRA)
        return 0;
    uint64_t next = *pc + SASS_INSTRUCTION_BYTES;
    uint64_t target = next + (uint64_t)instruction_branch_offset(instruction, machine->launch->sm);
    unsigned left = MOST;
    struct stretch both = {next, target, 0, &left};
    if (target <= next || !scan(machine, &both))
        return 0;
    *pc = both.end;
    return 1;
}
