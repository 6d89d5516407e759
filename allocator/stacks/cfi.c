#include "cfi.h"

#include <dwarf.h>

#define BIT CFI_BIT

const struct cfi_abi cfi_x86_64 = {
    .registers = CFI_RIP + 1,
    .sp = CFI_RSP,
    .fp = CFI_RBP,
    .pc = CFI_RIP,
    .return_column = CFI_RIP,
    .preserved = BIT(CFI_RBX) | BIT(CFI_RBP) | BIT(CFI_R12) | BIT(CFI_R12 + 1) | BIT(CFI_R15 - 1) | BIT(CFI_R15),
    .address_bits = UINT64_MAX,
};

const struct cfi_abi cfi_aarch64 = {
    .registers = CFI_PC + 1,
    .sp = CFI_SP,
    .fp = CFI_X29,
    .pc = CFI_PC,
    .return_column = CFI_X30,
    .preserved = BIT(CFI_X30) - BIT(CFI_X19),
    .address_bits = CFI_AARCH64_ADDRESS,
};

/* Whether a call leaves the return address in a register. */
static int has_link(const struct cfi_abi *abi)
{
    return abi->return_column != abi->pc;
}

/* ---- executing the instructions ---- */

/* Of a vendor, and not in elfutils' dwarf.h. The first is DW_CFA_GNU_window_save elsewhere. */
enum { AARCH64_NEGATE_RA_STATE = 0x2d, AARCH64_NEGATE_RA_STATE_WITH_PC = 0x2c };

enum rule_kind { SAME, UNDEFINED, AT_OFFSET, IS_OFFSET, IN_REGISTER, AT_EXPRESSION, IS_EXPRESSION };

struct rule {
    enum rule_kind kind;
    uint64_t reg;
    int64_t offset;
    struct reader expression;
};

/* The rules at one place in the code. The CFA is register + offset, or IS_EXPRESSION. */
struct row {
    struct rule cfa, registers[CFI_REGISTERS];
};

#define REMEMBERED_MOST 8 /* compilers nest one level */

struct machine {
    const struct cfi_abi *abi;
    const struct cfi_entry *entry;
    uint64_t location, pc;
    struct row row, initial, remembered[REMEMBERED_MOST];
    size_t remembered_count;
};

/* Ignores rules for other registers, such as vector registers. */
static void set_rule(struct machine *machine, uint64_t reg, struct rule rule)
{
    if (reg < CFI_REGISTERS)
        machine->row.registers[reg] = rule;
}

static struct reader read_block(struct reader *reader)
{
    return reader_cut(reader, reader_uleb(reader));
}

static int64_t factored(const struct machine *machine, uint64_t offset)
{
    return (int64_t)(offset * (uint64_t)machine->entry->data_factor);
}

static void advance(struct machine *machine, uint64_t delta)
{
    machine->location += delta * machine->entry->code_factor;
}

static void restore(struct machine *machine, uint64_t reg)
{
    if (reg < CFI_REGISTERS)
        machine->row.registers[reg] = machine->initial.registers[reg];
}

static void remember_state(struct machine *machine, struct reader *reader)
{
    if (machine->remembered_count == REMEMBERED_MOST)
        reader_break(reader);
    else
        machine->remembered[machine->remembered_count++] = machine->row;
}

static void restore_state(struct machine *machine, struct reader *reader)
{
    if (machine->remembered_count == 0)
        reader_break(reader);
    else
        machine->row = machine->remembered[--machine->remembered_count];
}

/* The CFA's offset: factored if it is signed. */
static int64_t read_offset(const struct machine *machine, struct reader *reader, int is_signed)
{
    return is_signed ? factored(machine, (uint64_t)reader_sleb(reader)) : (int64_t)reader_uleb(reader);
}

static void run_rare(struct machine *machine, struct reader *reader, unsigned code)
{
    switch (code) {
    case DW_CFA_restore_extended:
        restore(machine, reader_uleb(reader));
        break;
    case DW_CFA_remember_state:
        remember_state(machine, reader);
        break;
    case DW_CFA_restore_state:
        restore_state(machine, reader);
        break;
    case DW_CFA_GNU_args_size:
        reader_uleb(reader);
        break;
    case AARCH64_NEGATE_RA_STATE: /* signed or not, a return address is cut down to its address */
    case AARCH64_NEGATE_RA_STATE_WITH_PC:
        if (!has_link(machine->abi))
            reader_break(reader);
        break;
    default:
        reader_break(reader);
    }
}

static void run_extended(struct machine *machine, struct reader *reader, unsigned code)
{
    struct rule *cfa = &machine->row.cfa, rule = {0};
    uint64_t reg;
    switch (code) {
    case DW_CFA_nop:
        break;
    case DW_CFA_advance_loc1:
    case DW_CFA_advance_loc2:
    case DW_CFA_advance_loc4:
        advance(machine, reader_unsigned(reader, 1u << (code - DW_CFA_advance_loc1)));
        break;
    case DW_CFA_def_cfa:
    case DW_CFA_def_cfa_sf:
        *cfa = (struct rule){.kind = IS_OFFSET, .reg = reader_uleb(reader)};
        cfa->offset = read_offset(machine, reader, code == DW_CFA_def_cfa_sf);
        break;
    case DW_CFA_def_cfa_register:
        cfa->reg = reader_uleb(reader);
        break;
    case DW_CFA_def_cfa_offset:
    case DW_CFA_def_cfa_offset_sf:
        cfa->offset = read_offset(machine, reader, code == DW_CFA_def_cfa_offset_sf);
        break;
    case DW_CFA_def_cfa_expression:
        *cfa = (struct rule){.kind = IS_EXPRESSION, .expression = read_block(reader)};
        break;
    case DW_CFA_same_value:
    case DW_CFA_undefined:
        rule.kind = code == DW_CFA_undefined ? UNDEFINED : SAME;
        set_rule(machine, reader_uleb(reader), rule);
        break;
    case DW_CFA_offset_extended:
    case DW_CFA_offset_extended_sf:
    case DW_CFA_val_offset:
        rule.kind = code == DW_CFA_val_offset ? IS_OFFSET : AT_OFFSET;
        reg = reader_uleb(reader);
        rule.offset =
            factored(machine, code == DW_CFA_offset_extended_sf ? (uint64_t)reader_sleb(reader) : reader_uleb(reader));
        set_rule(machine, reg, rule);
        break;
    case DW_CFA_register:
        reg = reader_uleb(reader);
        set_rule(machine, reg, (struct rule){.kind = IN_REGISTER, .reg = reader_uleb(reader)});
        break;
    case DW_CFA_expression:
    case DW_CFA_val_expression:
        rule.kind = code == DW_CFA_expression ? AT_EXPRESSION : IS_EXPRESSION;
        reg = reader_uleb(reader);
        rule.expression = read_block(reader);
        set_rule(machine, reg, rule);
        break;
    default:
        run_rare(machine, reader, code);
    }
}

/* Executes up to the end, or to the first instruction for code behind pc. Returns 0 if the data is invalid. */
static int run(struct machine *machine, struct reader reader)
{
    enum { PRIMARY = 0xc0, OPERAND = 0x3f };
    while (reader_left(&reader) > 0) {
        unsigned byte = reader_u8(&reader), operand = byte & OPERAND;
        switch (byte & PRIMARY) {
        case DW_CFA_advance_loc:
            advance(machine, operand);
            break;
        case DW_CFA_offset:
            set_rule(machine, operand, (struct rule){.kind = AT_OFFSET, .offset = factored(machine, reader_uleb(&reader))});
            break;
        case DW_CFA_restore:
            restore(machine, operand);
            break;
        default:
            run_extended(machine, &reader, byte);
        }
        if (machine->location > machine->pc)
            break;
    }
    return reader.at != NULL;
}

/* ---- applying the rules ---- */

/* Reads the stack word at `address`. Returns 0 if it was not saved. */
static int load_word(const struct cfi_bytes *stack, uint64_t address, uint64_t *value)
{
    struct reader reader = cfi_read(stack, address);
    *value = reader_u64(&reader);
    return reader.at && (address - stack->address) % sizeof *value == 0;
}

static int known_register(const struct cfi_frame *frame, uint64_t reg, uint64_t *value)
{
    if (reg >= CFI_REGISTERS || !(frame->known >> reg & 1))
        return 0;
    *value = frame->registers[reg];
    return 1;
}

#define OPERANDS_MOST 8

struct operands {
    uint64_t values[OPERANDS_MOST];
    size_t count;
};

static int push(struct operands *operands, uint64_t value)
{
    if (operands->count == OPERANDS_MOST)
        return 0;
    operands->values[operands->count++] = value;
    return 1;
}

static int apply_binary(struct operands *operands, unsigned code)
{
    if (operands->count < 2)
        return 0;
    uint64_t right = operands->values[--operands->count], *into = &operands->values[operands->count - 1];
    switch (code) {
    case DW_OP_plus:
        *into += right;
        return 1;
    case DW_OP_and:
        *into &= right;
        return 1;
    case DW_OP_shl:
        *into = right < 64 ? *into << right : 0;
        return 1;
    case DW_OP_ge:
        *into = (int64_t)*into >= (int64_t)right;
        return 1;
    default:
        return 0;
    }
}

static int apply_operation(const struct cfi_frame *frame, const struct cfi_bytes *stack, struct reader *reader,
                           struct operands *operands)
{
    unsigned code = reader_u8(reader);
    uint64_t value, *top = operands->count ? &operands->values[operands->count - 1] : NULL;
    if (code >= DW_OP_lit0 && code <= DW_OP_lit31)
        return push(operands, code - DW_OP_lit0);
    if (code >= DW_OP_breg0 && code <= DW_OP_breg31) {
        int64_t offset = reader_sleb(reader);
        return known_register(frame, code - DW_OP_breg0, &value) && push(operands, value + (uint64_t)offset);
    }
    switch (code) {
    case DW_OP_deref:
        return top && load_word(stack, *top, top);
    case DW_OP_plus_uconst:
        value = reader_uleb(reader);
        if (top)
            *top += value;
        return top != NULL;
    default:
        return apply_binary(operands, code);
    }
}

/* Evaluates a DWARF expression. The operand stack starts with the CFA, unless the expression computes the CFA. */
static int evaluate(const struct cfi_frame *frame, const struct cfi_bytes *stack, struct reader expression, const uint64_t *cfa,
                    uint64_t *value)
{
    struct operands operands = {.count = 0};
    if (cfa)
        push(&operands, *cfa);
    while (reader_left(&expression) > 0) {
        if (!apply_operation(frame, stack, &expression, &operands))
            return 0;
    }
    if (!expression.at || operands.count == 0)
        return 0;
    *value = operands.values[operands.count - 1];
    return 1;
}

/* Computes the caller's value of a register. Returns 0 if it is unknown. */
static int apply_rule(const struct cfi_abi *abi, const struct cfi_frame *frame, const struct cfi_bytes *stack, unsigned reg,
                      const struct rule *rule, uint64_t cfa, uint64_t *value)
{
    uint64_t address;
    switch (rule->kind) {
    case SAME:
        if (reg == abi->sp)
            *value = cfa;
        return reg == abi->sp || ((abi->preserved >> reg & 1) && known_register(frame, reg, value));
    case AT_OFFSET:
        return load_word(stack, cfa + (uint64_t)rule->offset, value);
    case IS_OFFSET:
        *value = cfa + (uint64_t)rule->offset;
        return 1;
    case IN_REGISTER:
        return known_register(frame, rule->reg, value);
    case AT_EXPRESSION:
        return evaluate(frame, stack, rule->expression, &cfa, &address) && load_word(stack, address, value);
    case IS_EXPRESSION:
        return evaluate(frame, stack, rule->expression, &cfa, value);
    case UNDEFINED:
        break;
    }
    return 0;
}

/* The frame pointer of AArch64 is the address of the frame record, which is where the caller's frame pointer was saved. */
static int find_cfa_by_record(const struct cfi_abi *abi, const struct cfi_frame *frame, const struct rule *saved, uint64_t *cfa)
{
    if (!has_link(abi) || saved->kind != AT_OFFSET || !known_register(frame, abi->fp, cfa))
        return 0;
    *cfa -= (uint64_t)saved->offset;
    return 1;
}

static int find_cfa(const struct cfi_abi *abi, const struct cfi_frame *frame, const struct cfi_bytes *stack,
                    const struct row *row, uint64_t *cfa)
{
    const struct rule *rule = &row->cfa;
    if (rule->kind == IS_EXPRESSION)
        return evaluate(frame, stack, rule->expression, NULL, cfa);
    if (rule->kind != IS_OFFSET)
        return 0;
    if (!known_register(frame, rule->reg, cfa))
        return rule->reg == abi->sp && find_cfa_by_record(abi, frame, &row->registers[abi->fp], cfa);
    *cfa += (uint64_t)rule->offset;
    return 1;
}

/* Where the return address still is in its register: only an interrupted function has not yet called another. */
static int find_return_address(const struct cfi_abi *abi, const struct cfi_frame *frame, const struct cfi_bytes *stack,
                               const struct row *row, uint64_t cfa, uint64_t *value)
{
    const struct rule *rule = &row->registers[abi->return_column];
    int is_found = rule->kind == SAME
                       ? frame->is_interrupted && has_link(abi) && known_register(frame, abi->return_column, value)
                       : apply_rule(abi, frame, stack, abi->return_column, rule, cfa, value);
    if (is_found)
        *value &= abi->address_bits;
    return is_found && *value != 0;
}

/* Executes the instructions for `pc`. `entry` must outlive the machine. */
static enum cfi_result find_row(const struct cfi_module *module, uint64_t pc, struct cfi_entry *entry, struct machine *machine)
{
    if (!cfi_find_entry(module, pc, entry))
        return CFI_NO_ENTRY;
    *machine = (struct machine){.abi = module->abi, .entry = entry, .pc = UINT64_MAX};
    if (entry->return_register != module->abi->return_column || !run(machine, entry->common))
        return CFI_ENDED;
    machine->initial = machine->row;
    machine->location = entry->start;
    machine->pc = pc;
    return run(machine, entry->own) ? CFI_STEPPED : CFI_ENDED;
}

/* The caller's frame must be further up, or the walk would not terminate. A function of AArch64 that was interrupted may have
 * none of its own. */
static int is_further_up(const struct cfi_abi *abi, const struct cfi_frame *frame, uint64_t cfa)
{
    uint64_t sp = frame->registers[abi->sp];
    return cfa > sp || (cfa == sp && frame->is_interrupted && has_link(abi));
}

enum cfi_result cfi_step(const struct cfi_module *module, const struct cfi_bytes *stack, struct cfi_frame *frame)
{
    const struct cfi_abi *abi = module->abi;
    struct cfi_entry entry;
    struct machine machine;
    uint64_t cfa;
    enum cfi_result result = find_row(module, frame->registers[abi->pc] - !frame->is_interrupted, &entry, &machine);
    if (result != CFI_STEPPED)
        return result;
    if (!find_cfa(abi, frame, stack, &machine.row, &cfa) || !is_further_up(abi, frame, cfa))
        return CFI_ENDED;
    struct cfi_frame caller = {.is_interrupted = entry.is_signal};
    for (unsigned reg = 0; reg < abi->registers; reg++) {
        if (reg != abi->pc && apply_rule(abi, frame, stack, reg, &machine.row.registers[reg], cfa, &caller.registers[reg]))
            caller.known |= BIT(reg);
    }
    uint64_t unused;
    if (!known_register(&caller, abi->sp, &unused) ||
        !find_return_address(abi, frame, stack, &machine.row, cfa, &caller.registers[abi->pc]))
        return CFI_ENDED;
    caller.known |= BIT(abi->pc);
    *frame = caller;
    return CFI_STEPPED;
}

/* ---- rules that need the stack and the frame pointer only ---- */

/* Decodes `breg6 offset`, and with `is_loaded` `breg6 offset; deref`: what compilers write for realigned stacks on x86-64. */
static int is_at_frame_pointer(const struct cfi_abi *abi, struct reader expression, int is_loaded, int64_t *offset)
{
    if (reader_u8(&expression) != DW_OP_breg0 + abi->fp)
        return 0;
    *offset = reader_sleb(&expression);
    if (is_loaded && reader_u8(&expression) != DW_OP_deref)
        return 0;
    return expression.at && reader_left(&expression) == 0;
}

static enum cfi_base base_of(const struct cfi_abi *abi, const struct rule *cfa, int64_t *offset)
{
    *offset = cfa->offset;
    if (cfa->kind == IS_OFFSET)
        return cfa->reg == abi->sp ? CFI_FROM_SP : cfa->reg == abi->fp ? CFI_FROM_FP : CFI_NOWHERE;
    return cfa->kind == IS_EXPRESSION && is_at_frame_pointer(abi, cfa->expression, 1, offset) ? CFI_AT_FP : CFI_NOWHERE;
}

static enum cfi_fp fp_of(const struct cfi_abi *abi, const struct rule *rule, int64_t *offset)
{
    *offset = rule->offset;
    if (rule->kind == SAME)
        return CFI_FP_SAME;
    if (rule->kind == AT_OFFSET)
        return CFI_FP_AT_CFA;
    return rule->kind == AT_EXPRESSION && is_at_frame_pointer(abi, rule->expression, 0, offset) ? CFI_FP_AT_FP : CFI_FP_LOST;
}

static const int64_t word = sizeof(uint64_t);

static int fits(int64_t offset)
{
    return offset % word == 0 && offset >= INT16_MIN * word && offset <= INT16_MAX * word;
}

/* On x86-64 a call puts the return address right below the CFA. */
static int is_return_address_kept(const struct cfi_abi *abi, const struct rule *rule)
{
    return rule->kind == AT_OFFSET && fits(rule->offset) && (has_link(abi) || rule->offset == -word);
}

struct cfi_rule cfi_rule_at(const struct cfi_module *module, uint64_t pc)
{
    static const struct cfi_rule none = {.base = CFI_NOWHERE};
    const struct cfi_abi *abi = module->abi;
    struct cfi_entry entry;
    struct machine machine;
    if (find_row(module, pc, &entry, &machine) != CFI_STEPPED || entry.is_signal)
        return none;
    const struct rule *registers = machine.row.registers;
    int64_t cfa, fp;
    enum cfi_base base = base_of(abi, &machine.row.cfa, &cfa);
    enum cfi_fp kept = fp_of(abi, &registers[abi->fp], &fp);
    if (base == CFI_NOWHERE || !fits(cfa) || !is_return_address_kept(abi, &registers[abi->return_column]) ||
        registers[abi->sp].kind != SAME)
        return none;
    if (!fits(fp))
        kept = CFI_FP_LOST;
    return (struct cfi_rule){.base = (uint8_t)base,
                             .fp = (uint8_t)kept,
                             .cfa_words = (int16_t)(cfa / word),
                             .fp_words = (int16_t)(kept == CFI_FP_LOST ? 0 : fp / word),
                             .return_words = (int16_t)(registers[abi->return_column].offset / word)};
}
