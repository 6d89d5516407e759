#include "cfi.h"

#include <dwarf.h>

const struct cfi_abi cfi_x86_64 = {.sp = CFI_RSP, .fp = CFI_RBP, .return_column = CFI_RIP};
const struct cfi_abi cfi_aarch64 = {.sp = CFI_SP, .fp = CFI_X29, .return_column = CFI_X30, .has_link = 1};

/* ---- executing the instructions ---- */

/* Of a vendor, and not in elfutils' dwarf.h. The first is DW_CFA_GNU_window_save elsewhere. */
enum { AARCH64_NEGATE_RA_STATE = 0x2d, AARCH64_NEGATE_RA_STATE_WITH_PC = 0x2c };

enum rule_kind { SAME, AT_OFFSET, IS_OFFSET, AT_EXPRESSION, IS_EXPRESSION, OTHERWISE };

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
        if (machine->remembered_count == REMEMBERED_MOST)
            reader_break(reader);
        else
            machine->remembered[machine->remembered_count++] = machine->row;
        break;
    case DW_CFA_restore_state:
        if (machine->remembered_count == 0)
            reader_break(reader);
        else
            machine->row = machine->remembered[--machine->remembered_count];
        break;
    case DW_CFA_GNU_args_size:
        reader_uleb(reader);
        break;
    case AARCH64_NEGATE_RA_STATE: /* signed or not, a return address is cut down to its address */
    case AARCH64_NEGATE_RA_STATE_WITH_PC:
        if (!machine->abi->has_link)
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
        rule.kind = code == DW_CFA_undefined ? OTHERWISE : SAME;
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
        set_rule(machine, reader_uleb(reader), (struct rule){.kind = OTHERWISE});
        reader_uleb(reader);
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

/* Executes the instructions for the machine's pc. Returns 0 if the data is invalid. */
static int find_row(struct machine *machine)
{
    const struct cfi_entry *entry = machine->entry;
    const uint64_t pc = machine->pc;
    machine->pc = UINT64_MAX;
    if (entry->return_register != machine->abi->return_column || !run(machine, entry->common))
        return 0;
    machine->initial = machine->row;
    machine->location = entry->start;
    machine->pc = pc;
    return run(machine, entry->own);
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
    return rule->kind == AT_OFFSET && fits(rule->offset) && (abi->has_link || rule->offset == -word);
}

/* The caller's frame pointer and the return address lie where the frame pointer points to (System V ABI, section 3.2.2). */
const struct cfi_rule cfi_no_entry = {
    .base = CFI_NO_ENTRY, .fp = CFI_FP_AT_CFA, .cfa_words = 2, .fp_words = -2, .return_words = -1};

struct cfi_rule cfi_rule_at(const struct cfi_module *module, uint64_t pc)
{
    static const struct cfi_rule none = {.base = CFI_NOWHERE};
    const struct cfi_abi *abi = module->abi;
    struct cfi_entry entry;
    struct machine machine = {.abi = abi, .entry = &entry, .pc = pc};
    if (!cfi_find_entry(module, pc, &entry))
        return cfi_no_entry;
    if (entry.is_signal || !find_row(&machine))
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
