#include "emulate_state.h"

/* The operands of an instruction. Wide ones are a low and a high word. */
struct operands {
    int file; /* VECTOR or UNIFORM: of the result and of most operands */
    struct cell a, b, c, c_high;
    int is_b_immediate;
};

/* The other half of a pair. */
static struct cell next_of(const struct machine *machine, int file, unsigned number)
{
    return number == machine->zero[file] ? known(0) : machine_get(machine, file, number + 1);
}

static int flag(struct sass_instruction instruction, unsigned at)
{
    return (int)sass_bits(instruction, at, 1);
}

static void set_predicate(struct machine *machine, struct sass_instruction instruction, unsigned at, int file, enum truth truth)
{
    uint64_t number = sass_bits(instruction, at, 3);
    if (number != 7)
        machine->predicates[file][number] = (uint8_t)truth;
}

/* [11:9] selects the sources of b and c; a is always a register. */
static struct operands get_operands(const struct machine *machine, struct sass_instruction instruction)
{
    unsigned opcode = sass_opcode(instruction), form = (unsigned)sass_bits(instruction, 9, 3);
    struct operands operands = {.file = opcode >= 0x80 && opcode < 0x100 ? UNIFORM : VECTOR};
    int file = operands.file;
    unsigned mask = machine->zero[UNIFORM], wide_mask = file == UNIFORM ? mask : 255;
    unsigned rb = (unsigned)sass_bits(instruction, 32, 8) & wide_mask;
    unsigned rc = (unsigned)sass_bits(instruction, 64, 8) & wide_mask;
    unsigned ub = (unsigned)sass_bits(instruction, 32, 8) & mask;
    uint64_t bank = sass_bits(instruction, 54, 5), offset = sass_bits(instruction, 38, 16);
    struct cell immediate = known(sass_bits(instruction, 32, 32));
    struct cell register_c = machine_get(machine, file, rc);
    operands.a = machine_get(machine, file, (unsigned)sass_bits(instruction, 24, 8) & wide_mask);
    operands.b = register_c;
    operands.c = register_c;
    operands.c_high = next_of(machine, file, rc);
    switch (form) {
    case 1:
        operands.b = machine_get(machine, file, rb);
        break;
    case 2:
        operands.c = immediate;
        operands.c_high = unknown;
        break;
    case 3:
        operands.c = machine_constant(machine, bank, offset);
        operands.c_high = machine_constant(machine, bank, offset + 4);
        break;
    case 4:
        operands.b = immediate;
        operands.is_b_immediate = 1;
        break;
    case 5:
        operands.b = machine_constant(machine, bank, offset);
        break;
    case 6:
        operands.b = machine_get(machine, UNIFORM, ub);
        break;
    case 7:
        operands.c = machine_get(machine, UNIFORM, ub);
        operands.c_high = next_of(machine, UNIFORM, ub);
        break;
    default:
        operands.b = operands.c = operands.c_high = unknown;
    }
    return operands;
}

static void set_result(struct machine *machine, struct sass_instruction instruction, const struct operands *operands,
                       struct cell cell)
{
    unsigned number = (unsigned)sass_bits(instruction, 16, 8);
    machine_set(machine, operands->file, operands->file == UNIFORM ? number & machine->zero[UNIFORM] : number, cell);
}

static void set_wide(struct machine *machine, struct sass_instruction instruction, const struct operands *operands,
                     int is_known, uint64_t value)
{
    unsigned number = (unsigned)sass_bits(instruction, 16, 8);
    if (operands->file == UNIFORM)
        number &= machine->zero[UNIFORM];
    if (number == machine->zero[operands->file])
        return;
    machine_set(machine, operands->file, number, is_known ? known(value) : unknown);
    machine_set(machine, operands->file, number + 1, is_known ? known(value >> 32) : unknown);
}

/* Sums operands that may be negated. With .X, negation is a complement, and the lower half's carry is added. */
struct sum {
    uint64_t value;
    int is_known;
    int is_extended;
};

static void add(struct sum *sum, struct cell cell, int is_negative)
{
    sum->is_known &= cell.is_known;
    if (!is_negative)
        sum->value += cell.value;
    else
        sum->value += (uint64_t)(uint32_t)~cell.value + (sum->is_extended ? 0 : 1);
}

static void add_carry(struct sum *sum, enum truth truth)
{
    sum->is_known &= truth != TRUTH_UNKNOWN;
    sum->value += truth == TRUTH_TRUE;
}

static enum truth carry_of(const struct sum *sum, unsigned least)
{
    return !sum->is_known ? TRUTH_UNKNOWN : sum->value >> 32 >= least ? TRUTH_TRUE : TRUTH_FALSE;
}

static void finish_sum(struct machine *machine, struct sass_instruction instruction, const struct operands *operands,
                       const struct sum *sum)
{
    set_result(machine, instruction, operands, sum->is_known ? known(sum->value) : unknown);
    set_predicate(machine, instruction, 81, operands->file, carry_of(sum, 1));
}

/* Returns the register after b, if operands are pairs. */
static struct cell high_of_b(const struct machine *machine, struct sass_instruction instruction,
                             const struct operands *operands)
{
    unsigned form = (unsigned)sass_bits(instruction, 9, 3);
    int file = form == 6 ? UNIFORM : operands->file;
    unsigned number = (unsigned)sass_bits(instruction, 32, 8);
    if (operands->is_b_immediate)
        return known((int32_t)operands->b.value < 0 ? 0xffffffffu : 0);
    if (form != 1 && form != 6)
        return unknown;
    return next_of(machine, file, file == UNIFORM ? number & machine->zero[UNIFORM] : number);
}

/* MOV, and MOV.64 (bit 80, or a 64-bit immediate in [87:24]) of sm_120. */
static void run_move(struct machine *machine, struct sass_instruction instruction, struct operands *operands)
{
    if (sass_bits(instruction, 9, 3) == 2) {
        set_wide(machine, instruction, operands, 1, sass_bits(instruction, 24, 40) | sass_bits(instruction, 64, 24) << 40);
    } else if (flag(instruction, 80)) {
        struct cell high = high_of_b(machine, instruction, operands);
        set_wide(machine, instruction, operands, operands->b.is_known && high.is_known,
                 (uint64_t)high.value << 32 | operands->b.value);
    } else {
        set_result(machine, instruction, operands, operands->b);
    }
}

static void run_select(struct machine *machine, struct sass_instruction instruction, struct operands *operands)
{
    enum truth truth = machine_predicate(machine, instruction, 87, operands->file);
    set_result(machine, instruction, operands,
               truth == TRUTH_UNKNOWN ? unknown
               : truth == TRUTH_TRUE  ? operands->a
                                      : operands->b);
}

static int compare(unsigned comparison, int64_t a, int64_t b)
{
    /* Bit 0: less, bit 1: equal, bit 2: greater. */
    return (comparison >> (a < b ? 0 : a == b ? 1 : 2)) & 1;
}

static void run_compare(struct machine *machine, struct sass_instruction instruction, struct operands *operands)
{
    int is_signed = flag(instruction, 73);
    unsigned comparison = (unsigned)sass_bits(instruction, 76, 3);
    int64_t a = is_signed ? (int32_t)operands->a.value : (int64_t)operands->a.value;
    int64_t b = is_signed ? (int32_t)operands->b.value : (int64_t)operands->b.value;
    enum truth truth = TRUTH_UNKNOWN;
    if (operands->a.is_known && operands->b.is_known)
        truth = compare(comparison, a, b) ? TRUTH_TRUE : TRUTH_FALSE;
    /* .EX: compares the upper halves; if they are equal, the result for the lower ones decides. */
    if (flag(instruction, 72) && truth != TRUTH_UNKNOWN && a == b)
        truth = machine_predicate(machine, instruction, 68, operands->file);
    enum truth other = machine_predicate(machine, instruction, 87, operands->file);
    unsigned combination = (unsigned)sass_bits(instruction, 74, 2);
    enum truth results[2] = {truth, truth == TRUTH_UNKNOWN ? truth : (enum truth) !truth};
    for (unsigned i = 0; i < 2; i++) {
        enum truth result = results[i];
        if (combination == 0 && (other == TRUTH_FALSE || result == TRUTH_FALSE))
            result = TRUTH_FALSE;
        else if (combination == 1 && (other == TRUTH_TRUE || result == TRUTH_TRUE))
            result = TRUTH_TRUE;
        else if (other == TRUTH_UNKNOWN || result == TRUTH_UNKNOWN || combination == 3)
            result = TRUTH_UNKNOWN;
        else if (combination == 2)
            result = (enum truth)(result != other);
        set_predicate(machine, instruction, i == 0 ? 81 : 84, operands->file, result);
    }
}

/* PLOP3: two functions of three predicates, as 8-bit tables. An unknown predicate may have either value. */
static void run_predicate_logic(struct machine *machine, struct sass_instruction instruction, struct operands *operands)
{
    /* In the vector form, bit 67 makes the last predicate a uniform one. */
    int file = operands->file == VECTOR && flag(instruction, 67) ? UNIFORM : operands->file;
    const enum truth inputs[3] = {machine_predicate(machine, instruction, 68, file),
                                  machine_predicate(machine, instruction, 77, operands->file),
                                  machine_predicate(machine, instruction, 87, operands->file)};
    const uint64_t tables[2] = {sass_bits(instruction, 72, 5) << 3 | sass_bits(instruction, 64, 3),
                                sass_bits(instruction, 16, 8)};
    for (unsigned i = 0; i < 2; i++) {
        int can_be[2] = {0, 0};
        for (unsigned row = 0; row < 8; row++) {
            int is_possible = 1;
            for (unsigned k = 0; k < 3; k++)
                is_possible &= inputs[k] == TRUTH_UNKNOWN || (row >> k & 1) == (inputs[k] == TRUTH_TRUE);
            if (is_possible)
                can_be[tables[i] >> row & 1] = 1;
        }
        set_predicate(machine, instruction, i == 0 ? 81 : 84, operands->file,
                      can_be[0] && can_be[1] ? TRUTH_UNKNOWN
                      : can_be[1]            ? TRUTH_TRUE
                                             : TRUTH_FALSE);
    }
}

static void run_add3(struct machine *machine, struct sass_instruction instruction, struct operands *operands)
{
    struct sum sum = {0, 1, flag(instruction, 74)};
    add(&sum, operands->a, flag(instruction, 72));
    add(&sum, operands->b, !operands->is_b_immediate && flag(instruction, 63));
    add(&sum, operands->c, flag(instruction, 75));
    if (sum.is_extended) {
        add_carry(&sum, machine_predicate(machine, instruction, 87, operands->file));
        add_carry(&sum, machine_predicate(machine, instruction, 77, operands->file));
    }
    finish_sum(machine, instruction, operands, &sum);
    set_predicate(machine, instruction, 84, operands->file, carry_of(&sum, 2));
}

/* VIADD; its modifiers, if any, are unknown. */
static void run_add(struct machine *machine, struct sass_instruction instruction, struct operands *operands)
{
    int is_known = operands->a.is_known && operands->b.is_known && sass_bits(instruction, 72, 8) == 0 &&
                   (operands->is_b_immediate || !flag(instruction, 63));
    set_result(machine, instruction, operands, is_known ? known((uint64_t)operands->a.value + operands->b.value) : unknown);
}

/* IADD.64 of sm_120; a or b may be negated. */
static void run_add_wide(struct machine *machine, struct sass_instruction instruction, struct operands *operands)
{
    struct cell high = next_of(machine, VECTOR, (unsigned)sass_bits(instruction, 24, 8));
    struct cell other = high_of_b(machine, instruction, operands);
    uint64_t a = (uint64_t)high.value << 32 | operands->a.value, b = (uint64_t)other.value << 32 | operands->b.value;
    if (flag(instruction, 72))
        a = 0 - a;
    if (!operands->is_b_immediate && flag(instruction, 63))
        b = 0 - b;
    set_wide(machine, instruction, operands, operands->a.is_known && high.is_known && operands->b.is_known && other.is_known,
             a + b);
}

/* UIADD3.64 of sm_120; its carries are not tracked. */
static void run_add3_wide(struct machine *machine, struct sass_instruction instruction, struct operands *operands)
{
    unsigned number = (unsigned)sass_bits(instruction, 24, 8) & machine->zero[UNIFORM];
    struct cell a_high = next_of(machine, UNIFORM, number);
    struct cell b_high = high_of_b(machine, instruction, operands);
    uint64_t terms[3] = {(uint64_t)a_high.value << 32 | operands->a.value, (uint64_t)b_high.value << 32 | operands->b.value,
                         (uint64_t)operands->c_high.value << 32 | operands->c.value};
    const int is_negative[3] = {flag(instruction, 72), !operands->is_b_immediate && flag(instruction, 63),
                                flag(instruction, 75)};
    int is_known = operands->a.is_known && a_high.is_known && operands->b.is_known && b_high.is_known && operands->c.is_known &&
                   operands->c_high.is_known && !flag(instruction, 74);
    uint64_t sum = 0;
    for (unsigned i = 0; i < 3; i++)
        sum += is_negative[i] ? 0 - terms[i] : terms[i];
    set_wide(machine, instruction, operands, is_known, sum);
    set_predicate(machine, instruction, 81, UNIFORM, TRUTH_UNKNOWN);
    set_predicate(machine, instruction, 84, UNIFORM, TRUTH_UNKNOWN);
}

/* ptxas loads constants with HFMA2 and HFMA2.MMA with -RZ * RZ. From sm_100 on, the opcode of HFMA2.MMA is IADD.64. */
static void run_constant_or_add(struct machine *machine, struct sass_instruction instruction, struct operands *operands)
{
    int is_constant = sass_bits(instruction, 9, 3) == 2 && sass_bits(instruction, 24, 8) == SASS_RZ &&
                      sass_bits(instruction, 64, 8) == SASS_RZ;
    if (is_constant)
        set_result(machine, instruction, operands, operands->c);
    else if (machine->launch->sm >= 100 && sass_bits(instruction, 0, 9) == 0x35)
        run_add_wide(machine, instruction, operands);
    else
        machine_forget(machine, instruction);
}

static void run_lea(struct machine *machine, struct sass_instruction instruction, struct operands *operands)
{
    unsigned shift = (unsigned)sass_bits(instruction, 75, 5);
    int is_high = flag(instruction, 80);
    struct sum sum = {0, operands->a.is_known, flag(instruction, 74)};
    uint64_t low = operands->a.value;
    if (flag(instruction, 73)) {
        low = (uint64_t)(int64_t)(int32_t)operands->a.value;
    } else if (is_high) {
        sum.is_known &= operands->c.is_known;
        low |= (uint64_t)operands->c.value << 32;
    }
    if (flag(instruction, 72))
        sum.is_known = 0; /* addresses with a negated base have not been seen */
    sum.value = is_high ? (uint32_t)(low << shift >> 32) : (uint32_t)(low << shift);
    add(&sum, operands->b, !operands->is_b_immediate && flag(instruction, 63));
    if (sum.is_extended)
        add_carry(&sum, machine_predicate(machine, instruction, 87, operands->file));
    finish_sum(machine, instruction, operands, &sum);
}

static void run_logic(struct machine *machine, struct sass_instruction instruction, struct operands *operands)
{
    unsigned table = (unsigned)sass_bits(instruction, 72, 8);
    int is_known = operands->a.is_known && operands->b.is_known && operands->c.is_known;
    uint32_t a = operands->a.value, b = operands->b.value, c = operands->c.value, value = 0;
    for (unsigned i = 0; i < 8; i++)
        if (table >> i & 1)
            value |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    set_result(machine, instruction, operands, is_known ? known(value) : unknown);
    enum truth truth = !is_known ? TRUTH_UNKNOWN : value ? TRUTH_TRUE : TRUTH_FALSE;
    if (machine_predicate(machine, instruction, 87, operands->file) != TRUTH_FALSE)
        truth = TRUTH_UNKNOWN;
    set_predicate(machine, instruction, 81, operands->file, truth);
}

static void run_shift(struct machine *machine, struct sass_instruction instruction, struct operands *operands)
{
    unsigned type = (unsigned)sass_bits(instruction, 73, 2), shift = operands->b.value;
    int is_right = flag(instruction, 76), is_high = flag(instruction, 80), is_signed = type == 0 || type == 2;
    int is_narrow_high = is_right && is_high && type >= 2;
    int is_known = operands->b.is_known && shift < (type < 2 ? 64u : 32u);
    is_known &= is_narrow_high || operands->a.is_known;
    is_known &= (!is_right && !is_high) || operands->c.is_known;
    uint64_t value = (uint64_t)operands->c.value << 32 | operands->a.value;
    if (!is_known)
        value = 0;
    else if (!is_right)
        value <<= shift;
    else if (is_signed)
        value = (uint64_t)((int64_t)value >> shift);
    else
        value >>= shift;
    set_result(machine, instruction, operands, is_known ? known(is_high ? value >> 32 : value) : unknown);
}

static void run_multiply_add(struct machine *machine, struct sass_instruction instruction, struct operands *operands)
{
    struct sum sum = {0, 1, flag(instruction, 74)};
    sum.is_known = operands->a.is_known && operands->b.is_known && !flag(instruction, 72);
    /* ptxas encodes moves with a factor of 0: the other factor need not be known. */
    if ((operands->a.is_known && operands->a.value == 0) || (operands->b.is_known && operands->b.value == 0))
        sum.is_known = !flag(instruction, 72);
    sum.value = (uint32_t)(operands->a.value * operands->b.value);
    add(&sum, operands->c, flag(instruction, 75));
    if (sum.is_extended)
        add_carry(&sum, machine_predicate(machine, instruction, 87, operands->file));
    finish_sum(machine, instruction, operands, &sum);
}

static int wide_product(struct sass_instruction instruction, const struct operands *operands, uint64_t *value)
{
    if (!operands->a.is_known || !operands->b.is_known || !operands->c.is_known || !operands->c_high.is_known ||
        flag(instruction, 72) || flag(instruction, 74) || flag(instruction, 75))
        return 0;
    uint64_t product = flag(instruction, 73) ? (uint64_t)((int64_t)(int32_t)operands->a.value * (int32_t)operands->b.value)
                                             : (uint64_t)operands->a.value * operands->b.value;
    *value = product + ((uint64_t)operands->c_high.value << 32 | operands->c.value);
    return 1;
}

static void run_multiply_wide(struct machine *machine, struct sass_instruction instruction, struct operands *operands)
{
    uint64_t value = 0;
    int is_known = wide_product(instruction, operands, &value);
    set_wide(machine, instruction, operands, is_known, value);
    set_predicate(machine, instruction, 81, operands->file, TRUTH_UNKNOWN);
}

static void run_multiply_high(struct machine *machine, struct sass_instruction instruction, struct operands *operands)
{
    uint64_t value = 0;
    int is_known = wide_product(instruction, operands, &value);
    set_result(machine, instruction, operands, is_known ? known(value >> 32) : unknown);
    set_predicate(machine, instruction, 81, operands->file, TRUTH_UNKNOWN);
}

static void run_absolute(struct machine *machine, struct sass_instruction instruction, struct operands *operands)
{
    uint32_t value = operands->b.value;
    set_result(machine, instruction, operands, operands->b.is_known ? known((int32_t)value < 0 ? 0u - value : value) : unknown);
}

/* Loads from a constant bank: LDC, ULDC, LDCU. Handles whole words without an index register only. */
static void run_load_constant(struct machine *machine, struct sass_instruction instruction, struct operands *operands)
{
    unsigned opcode = sass_opcode(instruction), type = (unsigned)sass_bits(instruction, 73, 3);
    int is_indexed = opcode != 0xb9 && sass_bits(instruction, 24, 8) != SASS_RZ;
    uint64_t offset = sass_bits(instruction, opcode == 0x1ac ? 37 : 38, opcode == 0x1ac ? 17 : 16);
    uint64_t bank = sass_bits(instruction, 54, 5);
    unsigned number = (unsigned)sass_bits(instruction, 16, 8), words = type == 6 ? 4 : type == 5 ? 2 : 1;
    operands->file = opcode == 0x182 ? VECTOR : UNIFORM;
    if (operands->file == UNIFORM)
        number &= machine->zero[UNIFORM];
    if (number == machine->zero[operands->file])
        return;
    for (unsigned i = 0; i < words && number + i < 256; i++)
        machine_set(machine, operands->file, number + i,
                    is_indexed || type < 4 ? unknown : machine_constant(machine, bank, offset + 4ul * i));
}

/* S2R, S2UR, CS2R: the special registers that identify a thread. Numbers: nvdisasm. */
static void run_special(struct machine *machine, struct sass_instruction instruction, struct operands *operands)
{
    const struct emulate_lane *lane = machine->lane;
    unsigned opcode = sass_opcode(instruction);
    unsigned special = (unsigned)sass_bits(instruction, 72, 8);
    struct cell cell = unknown;
    operands->file = opcode == 0x1c3 ? UNIFORM : VECTOR;
    if (special >= 0x21 && special <= 0x23)
        cell = known(lane->thread[special - 0x21]);
    else if (special >= 0x25 && special <= 0x27)
        cell = known(lane->block_index[special - 0x25]);
    else if (special == 0)
        cell = known(lane->lane);
    else if (special == 0xff)
        cell = known(0);
    set_result(machine, instruction, operands, cell);
    if (opcode == 0x005)
        set_wide(machine, instruction, operands, special == 0xff, 0);
}

/* Moves a register to a uniform register. Only this lane's value is known; in correct code it is that of the whole warp. */
static void run_to_uniform(struct machine *machine, struct sass_instruction instruction, struct operands *operands)
{
    operands->file = UNIFORM;
    set_result(machine, instruction, operands, machine_get(machine, VECTOR, (unsigned)sass_bits(instruction, 24, 8)));
}

int machine_compute(struct machine *machine, struct sass_instruction instruction)
{
    static void (*const runs[SASS_OPERATIONS])(struct machine *, struct sass_instruction, struct operands *) = {
        [SASS_MOVE] = run_move,
        [SASS_SPECIAL] = run_special,
        [SASS_SELECT] = run_select,
        [SASS_COMPARE] = run_compare,
        [SASS_ADD3] = run_add3,
        [SASS_ADD3_WIDE] = run_add3_wide,
        [SASS_ADD] = run_add,
        [SASS_LEA] = run_lea,
        [SASS_LOGIC] = run_logic,
        [SASS_ABSOLUTE] = run_absolute,
        [SASS_SHIFT] = run_shift,
        [SASS_PREDICATE_LOGIC] = run_predicate_logic,
        [SASS_MULTIPLY_ADD] = run_multiply_add,
        [SASS_MULTIPLY_WIDE] = run_multiply_wide,
        [SASS_MULTIPLY_HIGH] = run_multiply_high,
        [SASS_CONSTANT_OR_ADD] = run_constant_or_add,
        [SASS_TO_UNIFORM] = run_to_uniform,
        [SASS_LOAD_CONSTANT] = run_load_constant,
    };
    unsigned operation = sass_row_of(instruction)->operation;
    if (!runs[operation])
        return 0;
    struct operands operands = get_operands(machine, instruction);
    runs[operation](machine, instruction, &operands);
    return 1;
}
