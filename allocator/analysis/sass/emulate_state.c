#include "emulate_state.h"

#include <string.h>

int64_t instruction_branch_offset(struct sass_instruction instruction, unsigned sm)
{
    /* From sm_90 on, the low byte, in units of 4, is in [23:16]. */
    if (sm < 90)
        return sass_signed_bits(instruction, 32, 50);
    return (int64_t)((uint64_t)sass_signed_bits(instruction, 34, 48) << 8 | sass_bits(instruction, 16, 8)) * 4;
}

struct cell machine_get(const struct machine *machine, int file, unsigned number)
{
    return number == machine->zero[file] ? known(0) : machine->registers[file][number & 255];
}

void machine_set(struct machine *machine, int file, unsigned number, struct cell cell)
{
    if (number != machine->zero[file])
        machine->registers[file][number & 255] = cell.is_known ? cell : unknown;
}

enum truth machine_predicate(const struct machine *machine, struct sass_instruction instruction, unsigned at, int file)
{
    enum truth truth = (enum truth)machine->predicates[file][sass_bits(instruction, at, 3)];
    return sass_bits(instruction, at + 3, 1) && truth != TRUTH_UNKNOWN ? (enum truth) !truth : truth;
}

/* Constant bank 0: launch dimensions and parameters. The offset of the dimensions changed with sm_100. */
struct cell machine_constant(const struct machine *machine, uint64_t bank, uint64_t offset)
{
    const struct emulate_launch *launch = machine->launch;
    uint64_t block_at = launch->sm >= 100 ? 0x360 : 0, grid_at = launch->sm >= 100 ? 0x370 : 0xc;
    if (bank != 0)
        return unknown;
    if (offset >= launch->parameters_at) {
        struct span part = span_part(launch->parameters, offset - launch->parameters_at, 4);
        return part.bytes ? known(load_u32(part.bytes)) : unknown;
    }
    for (unsigned i = 0; i < 3; i++) {
        if (offset == block_at + 4ul * i)
            return known(launch->block[i]);
        if (offset == grid_at + 4ul * i)
            return known(launch->grid[i]);
    }
    return unknown;
}

/* The targets have the same positions in all instructions with known targets: up to 4 registers, vector or uniform, from
 * [23:16] on, and the predicates in [83:81] and [86:84]. */
void machine_forget(struct machine *machine, struct sass_instruction instruction)
{
    unsigned first = (unsigned)sass_bits(instruction, 16, 8);
    int is_known = sass_is_known(instruction);
    int uniforms = sass_writes_uniform(instruction);
    for (unsigned i = is_known ? first : 0; i < (is_known ? first + 4 : 255) && i < 255; i++)
        if (sass_writes_register(instruction, i, 1))
            machine->registers[VECTOR][i] = unknown;
    if (uniforms && !is_known)
        memset(machine->registers[UNIFORM], 0, sizeof(machine->registers[UNIFORM]));
    for (unsigned i = first & machine->zero[UNIFORM], end = i + 4; uniforms && i < end && i < 256; i++)
        machine->registers[UNIFORM][i] = unknown;
    for (unsigned i = 0; i < 7; i++) {
        int is_target = !is_known || sass_bits(instruction, 81, 3) == i || sass_bits(instruction, 84, 3) == i;
        if (sass_may_write_predicate(instruction, i))
            machine->predicates[VECTOR][i] = TRUTH_UNKNOWN;
        if (is_target && sass_writes_uniform_predicate(instruction))
            machine->predicates[UNIFORM][i] = TRUTH_UNKNOWN;
    }
}

/* LDG and LD, by [75:73]: the bytes, and whether the sign is extended. */
int machine_load(struct machine *machine, struct sass_instruction instruction)
{
    uint64_t opcode = sass_bits(instruction, 0, 9);
    unsigned type = (unsigned)sass_bits(instruction, 73, 3), target = (unsigned)sass_bits(instruction, 16, 8);
    const struct emulate_memory *memory = machine->launch->memory;
    struct sass_access access;
    uint8_t bytes[16] = {0};
    uint64_t address;
    int is_off;
    if ((opcode != 0x181 && opcode != 0x180) || !sass_decode(instruction, machine->launch->sm, &access) || !access.bytes ||
        access.bytes > sizeof(bytes) || !machine_address(machine, &access, &is_off, &address) ||
        !memory->read(memory->user, address, bytes, access.bytes))
        return 0;
    if ((type == 1 && bytes[0] & 0x80) || (type == 3 && bytes[1] & 0x80))
        memset(bytes + access.bytes, 0xff, 4 - access.bytes);
    for (unsigned i = 0; i < (access.bytes + 3) / 4 && target != SASS_RZ && target + i < SASS_RZ; i++)
        machine_set(machine, VECTOR, target + i, known(load_u32(bytes + 4ul * i)));
    for (unsigned i = 0; i < 7; i++) {
        if (sass_may_write_predicate(instruction, i))
            machine->predicates[VECTOR][i] = TRUTH_UNKNOWN;
    }
    return 1;
}
