#include "emulate.h"
#include "emulate_state.h"
#include "ways.h"

#include <string.h>

/* Maximum number of instructions from the access to the lane's current PC. */
#define STEPS_AFTER 4096

/* Returns whether a BRA whose guard is true is taken. */
static enum truth is_taken(const struct machine *machine, struct sass_instruction instruction)
{
    unsigned form = (unsigned)sass_bits(instruction, SASS_FORM_AT, 3), kind = (unsigned)sass_bits(instruction, SASS_B_AT, 2);
    if (form == 2 && kind == 1) /* BRA.U UPn: the uniform predicate is encoded in place of a register */
        return machine_predicate(machine, instruction, SASS_A_AT, UNIFORM);
    /* A second predicate at [90:87] must be true too; .DIV and .CONV depend on the other lanes. */
    int is_plain = form == 4 && kind == 0 && machine_predicate(machine, instruction, SASS_PREDICATE_AT, VECTOR) == TRUTH_TRUE;
    return is_plain ? TRUTH_TRUE : TRUTH_UNKNOWN;
}

/* Advances *pc after an instruction whose predicate is true. */
static enum flow go_on(const struct machine *machine, struct sass_instruction instruction, uint64_t *pc)
{
    uint64_t next = *pc + SASS_INSTRUCTION_BYTES;
    struct cell target;
    switch (sass_bits(instruction, SASS_OPCODE_AT, 9)) {
    case 0x141: /* BSYNC: waits for diverged lanes */
        break;
    case 0x144: /* CALL.REL; other forms have no known target */
        if (sass_bits(instruction, SASS_OPCODE_AT, 12) != 0x944)
            return FLOW_LOST;
        next += (uint64_t)instruction_branch_offset(instruction, machine->launch->sm);
        break;
    case 0x147: /* BRA */
        if (is_taken(machine, instruction) == TRUTH_UNKNOWN)
            return FLOW_LOST;
        if (is_taken(machine, instruction) == TRUTH_TRUE)
            next += (uint64_t)instruction_branch_offset(instruction, machine->launch->sm);
        break;
    case 0x14d: /* EXIT */
        return FLOW_DONE;
    case 0x150: /* RET.REL: a register holds the offset in the function at the branch target */
        target = machine_get(machine, 0, (unsigned)sass_bits(instruction, SASS_A_AT, 8));
        if (!target.is_known)
            return FLOW_LOST;
        next += (uint64_t)instruction_branch_offset(instruction, machine->launch->sm) + target.value;
        break;
    default:
        if (sass_branches(instruction))
            return FLOW_LOST;
    }
    *pc = next;
    return FLOW_ON;
}

void machine_take_loaded(struct machine *machine, struct sass_instruction instruction, unsigned bytes, const uint8_t loaded[16])
{
    unsigned type = (unsigned)sass_bits(instruction, SASS_TYPE_AT, 3),
             target = (unsigned)sass_bits(instruction, SASS_TARGET_AT, 8);
    uint8_t extended[16] = {0};
    memcpy(extended, loaded, bytes);
    if ((type == 1 && extended[0] & 0x80) || (type == 3 && extended[1] & 0x80))
        memset(extended + bytes, 0xff, 4 - bytes);
    for (unsigned i = 0; i < (bytes + 3) / 4 && target != SASS_RZ && target + i < SASS_RZ; i++)
        machine_set(machine, VECTOR, target + i, known(load_u32(extended + 4ul * i)));
    for (unsigned i = 0; i < 7; i++) {
        if (sass_may_write_predicate(instruction, i))
            machine->predicates[VECTOR][i] = TRUTH_UNKNOWN;
    }
}

/* LDG and LD. */
static int load(struct machine *machine, struct sass_instruction instruction)
{
    uint64_t opcode = sass_bits(instruction, SASS_OPCODE_AT, 9);
    const struct emulate_memory *memory = machine->launch->memory;
    struct sass_access access;
    uint8_t bytes[16] = {0};
    uint64_t address;
    int is_off;
    if ((opcode != 0x181 && opcode != 0x180) || !sass_decode(instruction, machine->launch->sm, &access) || !access.bytes ||
        access.bytes > sizeof(bytes) || !machine_address(machine, &access, &is_off, &address) ||
        !memory->read(memory->user, address, bytes, access.bytes))
        return 0;
    machine_take_loaded(machine, instruction, access.bytes, bytes);
    return 1;
}

/* [90:64] of the three instructions, the same from sm_80 to sm_120. */
#define MODIFIERS ((UINT64_C(1) << 27) - 1)
#define I2F_RP UINT64_C(0x209400)
#define I2F_U32_RP UINT64_C(0x209000)
#define MUFU_RCP UINT64_C(0x1000)
#define F2I_U32_TRUNC UINT64_C(0x21f000)

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The least float that is not less; the next one has the next bits. */
static uint32_t rounded_up(uint32_t value)
{
    float nearest = (float)value;
    return bits_of(nearest) + ((double)nearest < (double)value);
}

/* What the division of integers does with floating-point numbers: the result of I2F, MUFU.RCP and F2I, if they are as ptxas
 * uses them there; else unknown. It then corrects the result, so that the last bits of the reciprocal don't matter. */
static struct cell divided(struct sass_instruction instruction, struct cell operand)
{
    uint32_t value = operand.value; /* 0 if unknown, which none of them takes */
    uint64_t modifiers = instruction.high & MODIFIERS;
    float number;
    memcpy(&number, &value, sizeof number);
    switch (sass_opcode(instruction)) {
    case 0x106:
        return (modifiers == I2F_RP && (int32_t)value > 0) || (modifiers == I2F_U32_RP && value) ? known(rounded_up(value))
                                                                                                 : unknown;
    case 0x108:
        return modifiers == MUFU_RCP && number >= 1 && number <= 4294967296.0f ? known(bits_of(1 / number)) : unknown;
    case 0x105:
        return modifiers == F2I_U32_TRUNC && operand.is_known && number >= 0 && number < 4294967296.0f ? known((uint32_t)number)
                                                                                                       : unknown;
    default:
        return unknown;
    }
}

static int divide(struct machine *machine, struct sass_instruction instruction)
{
    struct cell result = divided(instruction, machine_operands(machine, instruction).cells[1]);
    if (result.is_known)
        machine_set(machine, VECTOR, (unsigned)sass_bits(instruction, SASS_TARGET_AT, 8), result);
    return result.is_known;
}

void machine_run(struct machine *machine, struct sass_instruction instruction)
{
    if (!machine_compute(machine, instruction) && !divide(machine, instruction) &&
        !(machine->launch->memory && load(machine, instruction)))
        machine_forget(machine, instruction);
}

enum truth machine_guard(const struct machine *machine, struct sass_instruction instruction)
{
    return machine_predicate(machine, instruction, SASS_GUARD_AT, sass_has_uniform_guard(instruction) ? UNIFORM : VECTOR);
}

int machine_fetch(const struct machine *machine, uint64_t pc, struct sass_instruction *instruction)
{
    const struct emulate_launch *launch = machine->launch;
    struct span bytes = span_part(launch->code, pc - launch->start, SASS_INSTRUCTION_BYTES);
    if (pc < launch->start || !bytes.bytes)
        return 0;
    *instruction = sass_load(bytes.bytes);
    return 1;
}

enum flow machine_step(struct machine *machine, uint64_t *pc)
{
    struct sass_instruction instruction;
    if (!machine_fetch(machine, *pc, &instruction))
        return FLOW_LOST;
    enum truth guard = machine_guard(machine, instruction);
    int branches = sass_branches(instruction);
    if (guard == TRUTH_UNKNOWN && branches)
        return FLOW_LOST;
    if (guard == TRUTH_UNKNOWN)
        machine_forget(machine, instruction);
    else if (guard == TRUTH_TRUE && !branches)
        machine_run(machine, instruction);
    if (guard == TRUTH_TRUE)
        return go_on(machine, instruction, pc);
    *pc += SASS_INSTRUCTION_BYTES;
    return FLOW_ON;
}

/* Returns 1 if the known registers match those that the lane holds in the dump. */
static int agrees(const struct machine *machine)
{
    const struct emulate_lane *lane = machine->lane;
    for (size_t i = 0; i < lane->register_count && i < 255; i++)
        if (machine->registers[0][i].is_known && machine->registers[0][i].value != lane->registers[i])
            return 0;
    return 1;
}

static enum truth guard_of(const struct machine *machine, unsigned predicate, int is_negated)
{
    enum truth truth = (enum truth)machine->predicates[VECTOR][predicate & 7];
    return truth == TRUTH_UNKNOWN ? truth : (truth == TRUTH_TRUE) != is_negated ? TRUTH_TRUE : TRUTH_FALSE;
}

int machine_address(const struct machine *machine, const struct sass_access *access, int *is_off, uint64_t *address)
{
    enum truth guard = guard_of(machine, access->predicate, access->is_negated);
    enum truth source = access->has_source ? guard_of(machine, access->source, access->is_source_negated) : TRUTH_TRUE;
    *is_off = guard == TRUTH_FALSE || source == TRUTH_FALSE;
    struct cell low = machine_get(machine, 0, access->base);
    struct cell high =
        access->base == SASS_RZ || !access->is_base_wide ? (struct cell){0, 1} : machine_get(machine, 0, access->base + 1);
    struct cell uniform[2] = {{0, 1}, {0, 1}};
    for (unsigned i = 0; access->uniform >= 0 && i < (access->is_uniform_low ? 1 : 2); i++)
        uniform[i] = machine_get(machine, 1, (unsigned)access->uniform + i);
    *address = ((uint64_t)high.value << 32 | low.value) + ((uint64_t)uniform[1].value << 32 | uniform[0].value) +
               (uint64_t)access->immediate;
    return guard == TRUTH_TRUE && source == TRUTH_TRUE && low.is_known && high.is_known && uniform[0].is_known &&
           uniform[1].is_known;
}

void machine_begin(struct machine *machine, const struct emulate_launch *launch, const struct emulate_lane *lane)
{
    memset(machine, 0, sizeof(*machine));
    machine->launch = launch;
    machine->lane = lane;
    machine->zero[0] = SASS_RZ;
    machine->zero[1] = launch->sm >= 100 ? 255 : 63;
    for (unsigned i = 0; i < 7; i++)
        machine->predicates[0][i] = machine->predicates[1][i] = TRUTH_UNKNOWN;
    machine->predicates[0][7] = machine->predicates[1][7] = TRUTH_TRUE;
}

/* What the lane may still do, by the code. */
static int may_come(const struct machine *machine, uint64_t from, uint64_t to, uint64_t *budget)
{
    const struct emulate_launch *launch = machine->launch;
    return ways_lead(launch->code, launch->sm, from - launch->start, to - launch->start, budget);
}

/* Goes a step on the way to the access, even where it is not known whether the lane goes there; stays where that is lost.
 * Returns 0 if no way leads there. */
static int go_there(struct machine *machine, uint64_t *pc, uint64_t access_pc, uint64_t *budget)
{
    const uint64_t next = *pc + SASS_INSTRUCTION_BYTES;
    struct sass_instruction instruction;
    enum flow flow = machine_step(machine, pc);
    if (flow != FLOW_LOST)
        return flow == FLOW_ON;
    if (!machine_fetch(machine, *pc, &instruction))
        return 1;
    if (!may_come(machine, *pc, access_pc, budget))
        return 0;
    uint64_t target = next + (uint64_t)instruction_branch_offset(instruction, machine->launch->sm);
    unsigned opcode = sass_opcode(instruction);
    if (opcode == 0x147) /* BRA */
        *pc = target == access_pc || may_come(machine, target, access_pc, budget) ? target : next;
    else if (opcode == 0x14d) /* EXIT */
        *pc = next;
    return 1;
}

/* Whether the lane, whose registers are as in the dump, can be at its PC in no later turn of a loop around the access: it has
 * gone on from here, and at the same place would have others. */
static int is_last_turn(const struct machine *machine, uint64_t access_pc, uint64_t *budget)
{
    struct machine next = *machine;
    uint64_t pc = machine->lane->pc;
    int has_arrived = 0;
    if (!may_come(machine, pc, access_pc, budget))
        return 1;
    for (unsigned steps = 0; *budget > 0 && steps < STEPS_AFTER; steps++, --*budget) {
        const uint64_t before = pc;
        if (!go_there(&next, &pc, access_pc, budget))
            return 1;
        if (pc == before)
            return 0;
        has_arrived |= pc == access_pc;
        if (has_arrived && pc == machine->lane->pc)
            return !agrees(&next);
    }
    return 0;
}

enum emulate_result emulate(const struct emulate_launch *launch, const struct emulate_lane *lane, uint64_t access_pc,
                            const struct sass_access *access, uint64_t *budget, uint64_t *address)
{
    struct machine machine;
    machine_begin(&machine, launch, lane);
    uint64_t pc = launch->start, found = 0;
    unsigned arrivals = 0, after = 0;
    int is_known = 0, is_there = 0;
    enum flow flow = FLOW_ON;
    for (; *budget > 0 && flow == FLOW_ON && after <= STEPS_AFTER; --*budget) {
        int is_off = 0;
        if (pc == access_pc) {
            uint64_t now = 0;
            int is_now = machine_address(&machine, access, &is_off, &now);
            if (!is_off) {
                arrivals++;
                after = 0;
                found = now;
                is_known = is_now;
            }
        }
        is_there = pc == lane->pc && !is_off && (arrivals > 0 || pc > access_pc) && agrees(&machine);
        if (is_there)
            break;
        after += arrivals > 0;
        flow = machine_step(&machine, &pc);
    }
    *address = found;
    int is_last = flow == FLOW_DONE ||
                  (is_there ? is_last_turn(&machine, access_pc, budget) : !may_come(&machine, pc, access_pc, budget));
    if (is_there && is_last && !arrivals)
        return EMULATE_NOT_THERE;
    /* If the emulation failed before it reached the lane's PC, but passed the access once, it was this access. */
    if (!is_known || (arrivals != 1 && !is_there))
        return EMULATE_UNKNOWN;
    return is_last ? EMULATE_ADDRESS : EMULATE_EARLIER;
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

/* The targets have the same positions in all instructions with known targets: registers from [23:16] on, one after the other,
 * and the predicates in [83:81] and [86:84]. */
void machine_forget(struct machine *machine, struct sass_instruction instruction)
{
    unsigned zero = machine->zero[UNIFORM],
             target = sass_is_known(instruction) ? (unsigned)sass_bits(instruction, SASS_TARGET_AT, 8) : 0;
    for (unsigned i = target; i < SASS_RZ && sass_writes_register(instruction, i, 1); i++)
        machine->registers[VECTOR][i] = unknown;
    for (unsigned i = target & zero; i < zero && sass_writes_uniform_register(instruction, i, zero); i++)
        machine->registers[UNIFORM][i] = unknown;
    for (unsigned i = 0; i < 7; i++) {
        if (sass_may_write_predicate(instruction, i))
            machine->predicates[VECTOR][i] = TRUTH_UNKNOWN;
        if (sass_may_write_uniform_predicate(instruction, i))
            machine->predicates[UNIFORM][i] = TRUTH_UNKNOWN;
    }
}
