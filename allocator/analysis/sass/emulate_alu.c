#include "emulate_step.h"

/* [11:9] selects the sources of b and c; a is always a register. */
static struct step begin(struct machine *machine, struct sass_instruction instruction)
{
    unsigned opcode = sass_opcode(instruction);
    struct step step = {machine, instruction, .file = opcode >= 0x80 && opcode < 0x100 ? UNIFORM : VECTOR};
    int file = step.file;
    unsigned rc = register_at(&step, SASS_C_AT, file), ub = register_at(&step, SASS_B_AT, UNIFORM);
    uint64_t bank = field(&step, SASS_BANK_AT, 5), offset = field(&step, SASS_OFFSET_AT, 16);
    struct cell immediate = known(field(&step, SASS_B_AT, 32));
    step.a = machine_get(machine, file, register_at(&step, SASS_A_AT, file));
    step.b = step.c = machine_get(machine, file, rc);
    step.c_high = next_of(machine, file, rc);
    switch (field(&step, SASS_FORM_AT, 3)) {
    case 1:
        step.b = machine_get(machine, file, register_at(&step, SASS_B_AT, file));
        break;
    case 2:
        step.c = immediate;
        step.c_high = unknown;
        break;
    case 3:
        step.c = machine_constant(machine, bank, offset);
        step.c_high = machine_constant(machine, bank, offset + 4);
        break;
    case 4:
        step.b = immediate;
        step.is_b_immediate = 1;
        break;
    case 5:
        step.b = machine_constant(machine, bank, offset);
        break;
    case 6:
        step.b = machine_get(machine, UNIFORM, ub);
        break;
    case 7:
        step.c = machine_get(machine, UNIFORM, ub);
        step.c_high = next_of(machine, UNIFORM, ub);
        break;
    default:
        step.b = step.c = step.c_high = unknown;
    }
    return step;
}

struct operands machine_operands(const struct machine *machine, struct sass_instruction instruction)
{
    struct step step = begin((struct machine *)(uintptr_t)machine, instruction); /* nothing is changed */
    return (struct operands){{step.a, step.b, step.c}, step.is_b_immediate};
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

/* With .X, there is a carry; IADD3 has a second one. */
static void finish_sum(struct step *step, struct sum *sum)
{
    if (sum->is_extended)
        add_carry(sum, predicate(step, SASS_PREDICATE_AT));
    set_result(step, sum->is_known ? known(sum->value) : unknown);
    set_predicate(step, SASS_WRITTEN_AT, carry_of(sum, 1));
}

/* The operands a and b where operands are pairs. */
static struct wide wide_a(const struct step *step)
{
    return join(step->a, next_of(step->machine, step->file, register_at(step, SASS_A_AT, step->file)));
}

static struct wide wide_b(const struct step *step)
{
    unsigned form = field(step, SASS_FORM_AT, 3);
    int file = form == 6 ? UNIFORM : step->file;
    struct cell high = unknown;
    if (step->is_b_immediate)
        high = known((int32_t)step->b.value < 0 ? 0xffffffffu : 0);
    else if (form == 1 || form == 6)
        high = next_of(step->machine, file, register_at(step, SASS_B_AT, file));
    return join(step->b, high);
}

/* MOV, and MOV.64 of sm_120, also with an immediate of 64 bits. */
static void run_move(struct step *step)
{
    if (field(step, SASS_FORM_AT, 3) == 2)
        set_wide(step, join(known(field(step, SASS_A_AT, 32)), known(sass_bits(step->instruction, SASS_A_AT + 32, 32))));
    else if (flag(step, SASS_WIDE_AT))
        set_wide(step, wide_b(step));
    else
        set_result(step, step->b);
}

/* The second operand of SEL.64; an immediate has 33 bits. */
static struct wide select_b(const struct step *step)
{
    unsigned number = register_at(step, SASS_B_AT, step->file);
    if (field(step, SASS_FORM_AT, 3) == 2)
        return (struct wide){(uint64_t)sass_signed_bits(step->instruction, SASS_B_AT, 33), 1};
    return join(machine_get(step->machine, step->file, number), next_of(step->machine, step->file, number));
}

static void run_select(struct step *step)
{
    enum truth truth = predicate(step, SASS_PREDICATE_AT);
    if (sass_is_select_wide(step->instruction)) {
        struct wide chosen = truth == TRUTH_TRUE ? wide_a(step) : select_b(step);
        chosen.is_known &= truth != TRUTH_UNKNOWN;
        set_wide(step, chosen);
        return;
    }
    set_result(step, truth == TRUTH_UNKNOWN ? unknown : truth == TRUTH_TRUE ? step->a : step->b);
}

/* Whether a is less than b, in 64 bits. */
static int is_less(uint64_t a, uint64_t b, int is_signed)
{
    return is_signed ? (int64_t)a < (int64_t)b : a < b;
}

/* An operand in 64 bits. */
static uint64_t extended(struct cell cell, int is_signed)
{
    return is_signed ? (uint64_t)(int64_t)(int32_t)cell.value : cell.value;
}

static void run_compare(struct step *step)
{
    int is_signed = flag(step, SASS_SIGNED_AT), is_wide = flag(step, SASS_WIDE_AT); /* .U64 and .S64 of sm_120 */
    struct wide a = is_wide ? wide_a(step) : (struct wide){extended(step->a, is_signed), step->a.is_known};
    struct wide b = is_wide ? wide_b(step) : (struct wide){extended(step->b, is_signed), step->b.is_known};
    /* Bit 0: less, bit 1: equal, bit 2: greater. */
    unsigned relation = is_less(a.value, b.value, is_signed) ? 0 : a.value == b.value ? 1 : 2;
    enum truth truth = TRUTH_UNKNOWN;
    if (a.is_known && b.is_known)
        truth = field(step, SASS_RELATION_AT, 3) >> relation & 1 ? TRUTH_TRUE : TRUTH_FALSE;
    /* .EX: compares the upper halves; if they are equal, the result for the lower ones decides. */
    if (flag(step, SASS_CHAINED_AT) && truth != TRUTH_UNKNOWN && relation == 1)
        truth = predicate(step, SASS_PREDICATE_3_AT);
    enum truth other = predicate(step, SASS_PREDICATE_AT);
    unsigned combination = field(step, SASS_COMBINATION_AT, 2);
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
        set_predicate(step, i == 0 ? SASS_WRITTEN_AT : SASS_WRITTEN_2_AT, result);
    }
}

/* PLOP3: two functions of three predicates, as 8-bit tables. An unknown predicate may have either value. */
static void run_predicate_logic(struct step *step)
{
    int file = step->file == VECTOR && flag(step, SASS_UNIFORM_PREDICATE_AT) ? UNIFORM : step->file;
    const enum truth inputs[3] = {machine_predicate(step->machine, step->instruction, SASS_PREDICATE_3_AT, file),
                                  predicate(step, SASS_PREDICATE_2_AT), predicate(step, SASS_PREDICATE_AT)};
    const uint64_t tables[2] = {field(step, SASS_TABLE_AT, 5) << 3 | field(step, SASS_TABLE_LOW_AT, 3),
                                field(step, SASS_TARGET_AT, 8)};
    for (unsigned i = 0; i < 2; i++) {
        int can_be[2] = {0, 0};
        for (unsigned row = 0; row < 8; row++) {
            int is_possible = 1;
            for (unsigned k = 0; k < 3; k++)
                is_possible &= inputs[k] == TRUTH_UNKNOWN || (row >> k & 1) == (inputs[k] == TRUTH_TRUE);
            can_be[tables[i] >> row & 1] |= is_possible;
        }
        enum truth truth = can_be[0] && can_be[1] ? TRUTH_UNKNOWN : can_be[1] ? TRUTH_TRUE : TRUTH_FALSE;
        set_predicate(step, i == 0 ? SASS_WRITTEN_AT : SASS_WRITTEN_2_AT, truth);
    }
}

static void run_add3(struct step *step)
{
    struct sum sum = {0, 1, flag(step, SASS_EXTENDED_AT)};
    add(&sum, step->a, flag(step, SASS_NEGATE_A_AT));
    add(&sum, step->b, is_b_negated(step));
    add(&sum, step->c, flag(step, SASS_NEGATE_C_AT));
    if (sum.is_extended)
        add_carry(&sum, predicate(step, SASS_PREDICATE_2_AT));
    finish_sum(step, &sum);
    set_predicate(step, SASS_WRITTEN_2_AT, carry_of(&sum, 2));
}

/* VIADD; its modifiers, if any, are unknown. */
static void run_add(struct step *step)
{
    int is_known = step->a.is_known && step->b.is_known && field(step, SASS_TABLE_AT, 8) == 0 && !is_b_negated(step);
    set_result(step, is_known ? known((uint64_t)step->a.value + step->b.value) : unknown);
}

/* Of pairs; a or b may be negated. */
static struct wide wide_sum(const struct step *step)
{
    return sum_of(sum_of((struct wide){0, 1}, wide_a(step), flag(step, SASS_NEGATE_A_AT)), wide_b(step), is_b_negated(step));
}

/* IADD and IADD.64 of sm_120; the carry of pairs is not tracked. */
static void run_add_pairs(struct step *step)
{
    struct sum sum = {0, step->machine->launch->sm >= 100, flag(step, SASS_EXTENDED_AT)};
    if (flag(step, SASS_PAIRS_AT)) {
        struct wide wide = wide_sum(step);
        wide.is_known &= !sum.is_extended;
        set_wide(step, wide);
        set_predicate(step, SASS_WRITTEN_AT, TRUTH_UNKNOWN);
        return;
    }
    add(&sum, step->a, flag(step, SASS_NEGATE_A_AT));
    add(&sum, step->b, is_b_negated(step));
    finish_sum(step, &sum);
}

/* UIADD3.64 of sm_120; its carries are not tracked. */
static void run_add3_wide(struct step *step)
{
    struct wide sum = sum_of(wide_sum(step), join(step->c, step->c_high), flag(step, SASS_NEGATE_C_AT));
    sum.is_known &= !flag(step, SASS_EXTENDED_AT);
    set_wide(step, sum);
    set_predicate(step, SASS_WRITTEN_AT, TRUTH_UNKNOWN);
    set_predicate(step, SASS_WRITTEN_2_AT, TRUTH_UNKNOWN);
}

/* ptxas loads constants with HFMA2 and HFMA2.MMA with -RZ * RZ. */
static void run_constant(struct step *step)
{
    int is_constant =
        field(step, SASS_FORM_AT, 3) == 2 && field(step, SASS_A_AT, 8) == SASS_RZ && field(step, SASS_C_AT, 8) == SASS_RZ;
    set_result(step, is_constant ? step->c : unknown);
}

static void run_lea(struct step *step)
{
    unsigned shift = field(step, SASS_SHIFT_AT, 5);
    int is_high = flag(step, SASS_HIGH_AT);
    int is_negated = flag(step, SASS_NEGATE_A_AT); /* in divisions by warpSize; with more than a shift it has not been seen */
    int is_seen = !is_negated || (!is_high && !field(step, SASS_SIGNED_AT, 2) && field(step, SASS_WRITTEN_AT, 3) == 7);
    struct sum sum = {0, step->a.is_known && is_seen, flag(step, SASS_EXTENDED_AT)};
    uint64_t low = is_negated ? 0 - (uint64_t)step->a.value : step->a.value;
    if (flag(step, SASS_SIGNED_AT)) {
        low = (uint64_t)(int64_t)(int32_t)step->a.value;
    } else if (is_high) {
        sum.is_known &= step->c.is_known;
        low |= (uint64_t)step->c.value << 32;
    }
    sum.value = is_high ? (uint32_t)(low << shift >> 32) : (uint32_t)(low << shift);
    add(&sum, step->b, is_b_negated(step));
    finish_sum(step, &sum);
}

static void run_logic(struct step *step)
{
    unsigned table = field(step, SASS_TABLE_AT, 8);
    int is_known = step->a.is_known && step->b.is_known && step->c.is_known;
    uint32_t a = step->a.value, b = step->b.value, c = step->c.value, value = 0;
    for (unsigned i = 0; i < 8; i++)
        if (table >> i & 1)
            value |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    set_result(step, is_known ? known(value) : unknown);
    enum truth truth = !is_known ? TRUTH_UNKNOWN : value ? TRUTH_TRUE : TRUTH_FALSE;
    if (predicate(step, SASS_PREDICATE_AT) != TRUTH_FALSE)
        truth = TRUTH_UNKNOWN;
    set_predicate(step, SASS_WRITTEN_AT, truth);
}

static void run_shift(struct step *step)
{
    unsigned type = field(step, SASS_TYPE_AT, 2), shift = step->b.value;
    int is_right = flag(step, SASS_RIGHT_AT), is_high = flag(step, SASS_HIGH_AT), is_signed = type == 0 || type == 2;
    int is_narrow_high = is_right && is_high && type >= 2;
    unsigned width = type < 2 ? 64 : 32;
    int is_known = step->b.is_known && (is_narrow_high || step->a.is_known) && ((!is_right && !is_high) || step->c.is_known);
    shift = flag(step, SASS_WRAPS_AT) ? shift % width : shift < width ? shift : width; /* .W, or PTX's clamp */
    uint64_t value = (uint64_t)step->c.value << 32 | step->a.value;
    if (!is_known)
        value = 0;
    else if (!is_right)
        value = shift < 64 ? value << shift : 0;
    else if (is_signed)
        value = (uint64_t)((int64_t)value >> (shift < 64 ? shift : 63));
    else
        value = shift < 64 ? value >> shift : 0;
    set_result(step, is_known ? known(is_high ? value >> 32 : value) : unknown);
}

static void run_multiply_add(struct step *step)
{
    int is_known = step->a.is_known && step->b.is_known && !flag(step, SASS_NEGATE_A_AT);
    struct sum sum = {(uint32_t)(step->a.value * step->b.value), is_known, flag(step, SASS_EXTENDED_AT)};
    /* ptxas encodes moves with a factor of 0: the other factor need not be known. */
    if ((step->a.is_known && step->a.value == 0) || (step->b.is_known && step->b.value == 0))
        sum.is_known = !flag(step, SASS_NEGATE_A_AT);
    add(&sum, step->c, flag(step, SASS_NEGATE_C_AT));
    finish_sum(step, &sum);
}

static struct wide wide_product(const struct step *step)
{
    struct wide product = {(uint64_t)step->a.value * step->b.value, step->a.is_known && step->b.is_known};
    if (flag(step, SASS_SIGNED_AT))
        product.value = (uint64_t)((int64_t)(int32_t)step->a.value * (int32_t)step->b.value);
    product.is_known &= !flag(step, SASS_NEGATE_A_AT) && !flag(step, SASS_EXTENDED_AT) && !flag(step, SASS_NEGATE_C_AT);
    return sum_of(product, join(step->c, step->c_high), 0);
}

static void run_multiply_wide(struct step *step)
{
    set_wide(step, wide_product(step));
    set_predicate(step, SASS_WRITTEN_AT, TRUTH_UNKNOWN);
}

static void run_multiply_high(struct step *step)
{
    struct wide product = wide_product(step);
    set_result(step, product.is_known ? known(product.value >> 32) : unknown);
    set_predicate(step, SASS_WRITTEN_AT, TRUTH_UNKNOWN);
}

static void run_absolute(struct step *step)
{
    uint32_t value = step->b.value;
    set_result(step, step->b.is_known ? known((int32_t)value < 0 ? 0u - value : value) : unknown);
}

/* PRMT without a mode: by each nibble of b a byte of {c, a}, or its sign. */
static void run_permute(struct step *step)
{
    uint64_t bytes = (uint64_t)step->c.value << 32 | step->a.value;
    int is_known = step->a.is_known && step->b.is_known && step->c.is_known && field(step, SASS_MODE_AT, 3) == 0;
    uint32_t value = 0;
    for (unsigned i = 0; i < 4; i++) {
        unsigned selector = step->b.value >> 4 * i & 15, byte = bytes >> 8 * (selector & 7) & 0xff;
        value |= (uint32_t)(!(selector & 8) ? byte : byte & 0x80 ? 0xffu : 0) << 8 * i;
    }
    set_result(step, is_known ? known(value) : unknown);
}

/* FLO.U32, the highest bit that is set, .SH from the left; POPC. */
static void run_count(struct step *step)
{
    unsigned opcode = sass_opcode(step->instruction);
    uint32_t value = step->b.value, count = 0, highest = value ? 31u - (unsigned)__builtin_clz(value) : UINT32_MAX;
    int is_plain = !flag(step, SASS_NEGATE_B_AT) && !flag(step, SASS_SIGNED_AT) && !field(step, SASS_NEGATE_C_AT, 3);
    int is_known = step->b.is_known && is_plain;
    if (opcode == 0x100)
        count = flag(step, SASS_FROM_LEFT_AT) && value ? 31 - highest : highest;
    else if (opcode == 0x109)
        for (; value; value &= value - 1)
            count++;
    else
        is_known = 0;
    set_result(step, is_known ? known(count) : unknown);
    if (opcode == 0x100)
        set_predicate(step, SASS_WRITTEN_AT, TRUTH_UNKNOWN);
}

/* SGXT: the lowest bits of a, as a number with a sign, or without. More than 31 of them are seldom, and their number is not
 * known to wrap. */
static void run_extend(struct step *step)
{
    unsigned shift = 32 - (step->b.value & 31);
    int is_known = step->a.is_known && step->b.is_known && step->b.value < 32 && step->b.value > 0;
    uint32_t high = is_known ? step->a.value << shift : 0;
    high = flag(step, SASS_SIGNED_AT) ? (uint32_t)((int32_t)high >> shift) : high >> shift;
    set_result(step, is_known ? known(high) : unknown);
}

/* IMNMX, and VIMNMX of whole registers: the lesser one, or the greater if the predicate is false. */
static void run_lesser(struct step *step)
{
    int is_vector = sass_opcode(step->instruction) == 0x048,
        is_signed = flag(step, is_vector ? SASS_SIGNED_VECTOR_AT : SASS_SIGNED_AT);
    int is_wide = !is_vector && flag(step, SASS_WIDE_LESSER_AT); /* IMNMX.U64 and .S64 of sm_120 */
    struct wide a = is_wide ? wide_a(step) : (struct wide){extended(step->a, is_signed), step->a.is_known};
    struct wide b = is_wide ? wide_b(step) : (struct wide){extended(step->b, is_signed), step->b.is_known};
    enum truth truth = predicate(step, SASS_PREDICATE_AT);
    struct wide chosen = is_less(a.value, b.value, is_signed) == (truth == TRUTH_TRUE) ? a : b;
    chosen.is_known = a.is_known && b.is_known && truth != TRUTH_UNKNOWN && !(is_vector && field(step, SASS_TYPE_AT, 4));
    if (is_wide)
        set_wide(step, chosen);
    else
        set_result(step, chosen.is_known ? known(chosen.value) : unknown);
    set_predicate(step, SASS_WRITTEN_AT, TRUTH_UNKNOWN);
    if (is_wide)
        set_predicate(step, SASS_WRITTEN_2_AT, TRUTH_UNKNOWN);
}

/* Loads from a constant bank: LDC, ULDC, LDCU. Handles whole words without an index register only. */
static void run_load_constant(struct step *step)
{
    unsigned opcode = sass_opcode(step->instruction), type = field(step, SASS_TYPE_AT, 3);
    int is_indexed = opcode != 0xb9 && field(step, SASS_A_AT, 8) != SASS_RZ;
    uint64_t offset = opcode == 0x1ac ? field(step, SASS_OFFSET_LDCU_AT, 17) : field(step, SASS_OFFSET_AT, 16);
    uint64_t bank = field(step, SASS_BANK_AT, 5);
    step->file = opcode == 0x182 ? VECTOR : UNIFORM;
    unsigned number = register_at(step, SASS_TARGET_AT, step->file), words = type == 6 ? 4 : type == 5 ? 2 : 1;
    if (number == step->machine->zero[step->file])
        return;
    for (unsigned i = 0; i < words && number + i < 256; i++)
        machine_set(step->machine, step->file, number + i,
                    is_indexed || type < 4 ? unknown : machine_constant(step->machine, bank, offset + 4ul * i));
}

/* S2R, S2UR, CS2R: the special registers that identify a thread. Numbers: nvdisasm. */
static void run_special(struct step *step)
{
    const struct emulate_lane *lane = step->machine->lane;
    unsigned opcode = sass_opcode(step->instruction), special = field(step, SASS_SPECIAL_AT, 8);
    struct cell cell = unknown;
    step->file = opcode == 0x1c3 ? UNIFORM : VECTOR;
    if (special >= 0x21 && special <= 0x23)
        cell = known(lane->thread[special - 0x21]);
    else if (special >= 0x25 && special <= 0x27)
        cell = known(lane->block_index[special - 0x25]);
    else if (special == 0)
        cell = known(lane->lane);
    else if (special == 0xff)
        cell = known(0);
    set_result(step, cell);
    if (opcode == 0x005 && flag(step, SASS_WIDE_AT)) /* not .32 */
        set_wide(step, (struct wide){0, special == 0xff});
}

/* Moves a register to a uniform register. Only this lane's value is known; in correct code it is that of the whole warp. */
static void run_to_uniform(struct step *step)
{
    step->file = UNIFORM;
    set_result(step, machine_get(step->machine, VECTOR, field(step, SASS_A_AT, 8)));
    step->file = VECTOR; /* of the predicate: whether the lanes agree */
    set_predicate(step, SASS_WRITTEN_AT, TRUTH_UNKNOWN);
}

int machine_compute(struct machine *machine, struct sass_instruction instruction)
{
    static void (*const runs[SASS_OPERATIONS])(struct step *) = {
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
        [SASS_EXTEND] = run_extend,
        [SASS_PERMUTE] = run_permute,
        [SASS_COUNT] = run_count,
        [SASS_LESSER] = run_lesser,
        [SASS_SHIFT] = run_shift,
        [SASS_PREDICATE_LOGIC] = run_predicate_logic,
        [SASS_MULTIPLY_ADD] = run_multiply_add,
        [SASS_MULTIPLY_WIDE] = run_multiply_wide,
        [SASS_MULTIPLY_HIGH] = run_multiply_high,
        [SASS_CONSTANT] = run_constant,
        [SASS_ADD_PAIRS] = run_add_pairs,
        [SASS_TO_UNIFORM] = run_to_uniform,
        [SASS_LOAD_CONSTANT] = run_load_constant,
    };
    unsigned operation = sass_row_of(instruction)->operation;
    if (!runs[operation])
        return 0;
    struct step step = begin(machine, instruction);
    runs[operation](&step);
    return 1;
}
