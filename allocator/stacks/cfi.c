#include "cfi.h"

#include <dwarf.h>
#include <string.h>

/* ---- reading ---- */

/* A reader that came to its end, or to something it does not know, gives 0 from then on. */
struct reader {
    const uint8_t *at, *end;
    uint64_t address; /* of `at` */
    int is_broken;
};

static struct reader part_of(const struct cfi_bytes *bytes, uint64_t address)
{
    uint64_t offset = address - bytes->address;
    if (address < bytes->address || offset >= bytes->size)
        return (struct reader){.is_broken = 1};
    return (struct reader){bytes->bytes + offset, bytes->bytes + bytes->size, address, 0};
}

static struct reader part_of_module(const struct cfi_module *module, uint64_t address)
{
    for (size_t i = 0; i < module->segment_count; i++) {
        struct reader reader = part_of(&module->segments[i], address);
        if (!reader.is_broken)
            return reader;
    }
    return (struct reader){.is_broken = 1};
}

static size_t left(const struct reader *reader)
{
    return reader->is_broken ? 0 : (size_t)(reader->end - reader->at);
}

static uint64_t broken(struct reader *reader)
{
    reader->is_broken = 1;
    return 0;
}

static void skip(struct reader *reader, uint64_t size)
{
    if (size > left(reader)) {
        broken(reader);
        return;
    }
    reader->at += size;
    reader->address += size;
}

/* The next `size` bytes, and behind them. */
static struct reader cut(struct reader *reader, uint64_t size)
{
    struct reader inner = *reader;
    skip(reader, size);
    if (reader->is_broken)
        return (struct reader){.is_broken = 1};
    inner.end = reader->at;
    return inner;
}

static uint64_t read_unsigned(struct reader *reader, unsigned size)
{
    uint64_t value = 0;
    const uint8_t *at = reader->at;
    skip(reader, size);
    if (reader->is_broken)
        return 0;
    memcpy(&value, at, size); /* little-endian, as the processor is */
    return value;
}

static int64_t read_signed(struct reader *reader, unsigned size)
{
    uint64_t value = read_unsigned(reader, size), sign = 1ull << (8 * size - 1);
    return (int64_t)((value ^ sign) - sign);
}

static uint64_t read_leb(struct reader *reader, int is_signed)
{
    uint64_t value = 0, byte;
    unsigned shift = 0;
    do {
        byte = read_unsigned(reader, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += 7;
    } while ((byte & 0x80) && shift < 70);
    if (byte & 0x80)
        return broken(reader);
    if (is_signed && (byte & 0x40) && shift < 64)
        value |= UINT64_MAX << shift;
    return value;
}

static uint64_t read_uleb(struct reader *reader)
{
    return read_leb(reader, 0);
}

static int64_t read_sleb(struct reader *reader)
{
    return (int64_t)read_leb(reader, 1);
}

/* A pointer as DW_EH_PE_* encodes it; `data` is what a data-relative one is relative to, 0: there is nothing. */
static uint64_t read_encoded(struct reader *reader, unsigned encoding, uint64_t data)
{
    enum { FORMAT = 0x0f, APPLICATION = 0x70 };
    uint64_t base = 0, value;
    switch (encoding & APPLICATION) {
    case DW_EH_PE_absptr:
        break;
    case DW_EH_PE_pcrel:
        base = reader->address;
        break;
    case DW_EH_PE_datarel:
        base = data;
        if (data)
            break;
        return broken(reader);
    default:
        return broken(reader);
    }
    switch (encoding & FORMAT) {
    case DW_EH_PE_absptr:
    case DW_EH_PE_udata8:
    case DW_EH_PE_sdata8:
        value = read_unsigned(reader, 8);
        break;
    case DW_EH_PE_udata2:
        value = read_unsigned(reader, 2);
        break;
    case DW_EH_PE_udata4:
        value = read_unsigned(reader, 4);
        break;
    case DW_EH_PE_sdata2:
        value = (uint64_t)read_signed(reader, 2);
        break;
    case DW_EH_PE_sdata4:
        value = (uint64_t)read_signed(reader, 4);
        break;
    case DW_EH_PE_uleb128:
        value = read_uleb(reader);
        break;
    case DW_EH_PE_sleb128:
        value = (uint64_t)read_sleb(reader);
        break;
    default:
        return broken(reader);
    }
    return base + value;
}

/* ---- finding the entry of a place in code ---- */

/* Where the frame description entry lies whose code starts last at or before `pc`; 0 if there is none. */
static uint64_t search_table(const struct cfi_bytes *header, uint64_t pc)
{
    enum { VERSION = 1, SORTED = DW_EH_PE_datarel | DW_EH_PE_sdata4, ENTRY_BYTES = 8 };
    struct reader reader = part_of(header, header->address);
    uint64_t version = read_unsigned(&reader, 1);
    unsigned frame_encoding = (unsigned)read_unsigned(&reader, 1), count_encoding = (unsigned)read_unsigned(&reader, 1);
    if (version != VERSION || read_unsigned(&reader, 1) != SORTED)
        return 0;
    read_encoded(&reader, frame_encoding, header->address);
    uint64_t count = read_encoded(&reader, count_encoding, header->address), first = 0;
    if (count > left(&reader) / ENTRY_BYTES)
        return 0;
    while (count > 0) { /* the last of those that start at or before pc is at `first` or among the `count` from there */
        struct reader middle = reader;
        skip(&middle, (first + count / 2) * ENTRY_BYTES);
        if (header->address + (uint64_t)read_signed(&middle, 4) > pc) {
            count /= 2;
        } else if (count == 1) {
            return header->address + (uint64_t)read_signed(&middle, 4);
        } else {
            first += count / 2;
            count -= count / 2;
        }
    }
    return 0;
}

struct entry {
    uint64_t code_factor;
    int64_t data_factor;
    uint64_t return_register;
    unsigned encoding;
    int has_augmentation, is_signal;
    uint64_t start;            /* of the code */
    struct reader common, own; /* instructions */
};

/* The body of the record at `address`, behind its identifier; that one's address is then in *id_at. */
static struct reader open_record(const struct cfi_module *module, uint64_t address, uint64_t *id_at, uint64_t *id)
{
    enum { LARGEST = 0xfffffff0 - 1 }; /* above: other formats */
    struct reader reader = part_of_module(module, address);
    uint64_t size = read_unsigned(&reader, 4);
    if (size > LARGEST)
        broken(&reader);
    struct reader body = cut(&reader, size);
    *id_at = body.address;
    *id = read_unsigned(&body, 4);
    return body;
}

static void read_augmentation(struct reader *body, const char *letters, struct entry *entry)
{
    if (!*letters)
        return;
    if (*letters != 'z') { /* how much there is to skip is then unknown */
        broken(body);
        return;
    }
    struct reader data = cut(body, read_uleb(body));
    entry->has_augmentation = 1;
    while (*++letters) {
        if (*letters == 'R')
            entry->encoding = (unsigned)read_unsigned(&data, 1);
        else if (*letters == 'L')
            read_unsigned(&data, 1);
        else if (*letters == 'P')
            read_encoded(&data, (unsigned)read_unsigned(&data, 1) & ~(unsigned)DW_EH_PE_indirect, 1);
        else if (*letters == 'S')
            entry->is_signal = 1;
        else
            broken(&data);
    }
    if (data.is_broken)
        broken(body);
}

/* The common information entry; its instructions are the body, or an empty one that is broken. */
static void read_common(const struct cfi_module *module, uint64_t address, struct entry *entry)
{
    uint64_t id_at, id;
    struct reader body = open_record(module, address, &id_at, &id);
    uint64_t version = read_unsigned(&body, 1);
    const char *letters = (const char *)body.at;
    const uint8_t *end = left(&body) ? memchr(body.at, 0, left(&body)) : NULL;
    entry->common = (struct reader){.is_broken = 1};
    if (!end || id != 0 || (version != 1 && version != 3))
        return;
    skip(&body, (uint64_t)(end - body.at) + 1);
    entry->code_factor = read_uleb(&body);
    entry->data_factor = read_sleb(&body);
    entry->return_register = version == 1 ? read_unsigned(&body, 1) : read_uleb(&body);
    read_augmentation(&body, letters, entry);
    entry->common = body;
}

static int find_entry(const struct cfi_module *module, uint64_t pc, struct entry *entry)
{
    uint64_t id_at, id, address = search_table(&module->header, pc);
    *entry = (struct entry){0};
    if (!address)
        return 0;
    struct reader body = open_record(module, address, &id_at, &id);
    if (body.is_broken || id == 0)
        return 0;
    read_common(module, id_at - id, entry);
    entry->start = read_encoded(&body, entry->encoding, 0);
    uint64_t size = read_encoded(&body, entry->encoding & 0x0f, 0);
    if (entry->has_augmentation)
        cut(&body, read_uleb(&body));
    entry->own = body;
    return !entry->common.is_broken && !body.is_broken && pc >= entry->start && pc - entry->start < size;
}

/* ---- running the instructions ---- */

enum rule_kind { SAME, UNDEFINED, AT_OFFSET, IS_OFFSET, IN_REGISTER, AT_EXPRESSION, IS_EXPRESSION };

struct rule {
    enum rule_kind kind;
    uint64_t reg;
    int64_t offset;
    struct reader expression;
};

/* What holds at one place in the code. The CFA is register + offset, or IS_EXPRESSION. */
struct row {
    struct rule cfa, registers[CFI_REGISTERS];
};

#define REMEMBERED_MOST 8 /* compilers nest them one deep */

struct machine {
    const struct entry *entry;
    uint64_t location, pc;
    struct row row, initial, remembered[REMEMBERED_MOST];
    size_t remembered_count;
};

/* Rules of registers that are not followed (of vectors) go nowhere. */
static void set_rule(struct machine *machine, uint64_t reg, struct rule rule)
{
    if (reg < CFI_REGISTERS)
        machine->row.registers[reg] = rule;
}

static struct reader read_block(struct reader *reader)
{
    return cut(reader, read_uleb(reader));
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
        broken(reader);
    else
        machine->remembered[machine->remembered_count++] = machine->row;
}

static void restore_state(struct machine *machine, struct reader *reader)
{
    if (machine->remembered_count == 0)
        broken(reader);
    else
        machine->row = machine->remembered[--machine->remembered_count];
}

static void run_extended(struct machine *machine, struct reader *reader, unsigned code)
{
    struct rule *cfa = &machine->row.cfa;
    uint64_t reg;
    switch (code) {
    case DW_CFA_nop:
        break;
    case DW_CFA_advance_loc1:
        advance(machine, read_unsigned(reader, 1));
        break;
    case DW_CFA_advance_loc2:
        advance(machine, read_unsigned(reader, 2));
        break;
    case DW_CFA_advance_loc4:
        advance(machine, read_unsigned(reader, 4));
        break;
    case DW_CFA_def_cfa:
        reg = read_uleb(reader);
        *cfa = (struct rule){.kind = IS_OFFSET, .reg = reg, .offset = (int64_t)read_uleb(reader)};
        break;
    case DW_CFA_def_cfa_sf:
        reg = read_uleb(reader);
        *cfa = (struct rule){.kind = IS_OFFSET, .reg = reg, .offset = factored(machine, (uint64_t)read_sleb(reader))};
        break;
    case DW_CFA_def_cfa_register:
        cfa->reg = read_uleb(reader);
        break;
    case DW_CFA_def_cfa_offset:
        cfa->offset = (int64_t)read_uleb(reader);
        break;
    case DW_CFA_def_cfa_offset_sf:
        cfa->offset = factored(machine, (uint64_t)read_sleb(reader));
        break;
    case DW_CFA_def_cfa_expression:
        *cfa = (struct rule){.kind = IS_EXPRESSION, .expression = read_block(reader)};
        break;
    case DW_CFA_same_value:
        set_rule(machine, read_uleb(reader), (struct rule){.kind = SAME});
        break;
    case DW_CFA_undefined:
        set_rule(machine, read_uleb(reader), (struct rule){.kind = UNDEFINED});
        break;
    case DW_CFA_offset_extended:
        reg = read_uleb(reader);
        set_rule(machine, reg, (struct rule){.kind = AT_OFFSET, .offset = factored(machine, read_uleb(reader))});
        break;
    case DW_CFA_offset_extended_sf:
        reg = read_uleb(reader);
        set_rule(machine, reg, (struct rule){.kind = AT_OFFSET, .offset = factored(machine, (uint64_t)read_sleb(reader))});
        break;
    case DW_CFA_val_offset:
        reg = read_uleb(reader);
        set_rule(machine, reg, (struct rule){.kind = IS_OFFSET, .offset = factored(machine, read_uleb(reader))});
        break;
    case DW_CFA_register:
        reg = read_uleb(reader);
        set_rule(machine, reg, (struct rule){.kind = IN_REGISTER, .reg = read_uleb(reader)});
        break;
    case DW_CFA_expression:
        reg = read_uleb(reader);
        set_rule(machine, reg, (struct rule){.kind = AT_EXPRESSION, .expression = read_block(reader)});
        break;
    case DW_CFA_val_expression:
        reg = read_uleb(reader);
        set_rule(machine, reg, (struct rule){.kind = IS_EXPRESSION, .expression = read_block(reader)});
        break;
    case DW_CFA_restore_extended:
        restore(machine, read_uleb(reader));
        break;
    case DW_CFA_remember_state:
        remember_state(machine, reader);
        break;
    case DW_CFA_restore_state:
        restore_state(machine, reader);
        break;
    case DW_CFA_GNU_args_size:
        read_uleb(reader);
        break;
    default:
        broken(reader);
    }
}

/* Until the end, or the first instruction of what lies behind pc. Returns 0 if something makes no sense. */
static int run(struct machine *machine, struct reader reader)
{
    enum { PRIMARY = 0xc0, OPERAND = 0x3f };
    while (left(&reader) > 0) {
        unsigned byte = (unsigned)read_unsigned(&reader, 1), operand = byte & OPERAND;
        switch (byte & PRIMARY) {
        case DW_CFA_advance_loc:
            advance(machine, operand);
            break;
        case DW_CFA_offset:
            set_rule(machine, operand, (struct rule){.kind = AT_OFFSET, .offset = factored(machine, read_uleb(&reader))});
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
    return !reader.is_broken;
}

/* ---- applying what they say ---- */

/* The word of the stack at `address`. Returns 0 if it is not among the saved ones. */
static int load_word(const struct cfi_bytes *stack, uint64_t address, uint64_t *value)
{
    struct reader reader = part_of(stack, address);
    *value = read_unsigned(&reader, sizeof *value);
    return !reader.is_broken;
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
    unsigned code = (unsigned)read_unsigned(reader, 1);
    uint64_t value, *top = operands->count ? &operands->values[operands->count - 1] : NULL;
    if (code >= DW_OP_lit0 && code <= DW_OP_lit31)
        return push(operands, code - DW_OP_lit0);
    if (code >= DW_OP_breg0 && code <= DW_OP_breg31) {
        int64_t offset = read_sleb(reader);
        return known_register(frame, code - DW_OP_breg0, &value) && push(operands, value + (uint64_t)offset);
    }
    switch (code) {
    case DW_OP_deref:
        return top && load_word(stack, *top, top);
    case DW_OP_plus_uconst:
        value = read_uleb(reader);
        if (top)
            *top += value;
        return top != NULL;
    default:
        return apply_binary(operands, code);
    }
}

/* Starts with the CFA on the stack of operands, except where it is the CFA that is asked for. */
static int evaluate(const struct cfi_frame *frame, const struct cfi_bytes *stack, struct reader expression, const uint64_t *cfa,
                    uint64_t *value)
{
    struct operands operands = {.count = 0};
    if (cfa)
        push(&operands, *cfa);
    while (left(&expression) > 0) {
        if (!apply_operation(frame, stack, &expression, &operands))
            return 0;
    }
    if (expression.is_broken || operands.count == 0)
        return 0;
    *value = operands.values[operands.count - 1];
    return 1;
}

static int is_preserved(unsigned reg)
{
    return reg == CFI_RBX || reg == CFI_RBP || (reg >= CFI_R12 && reg <= CFI_R15);
}

/* The caller's value of a register; 0 if it is not known. */
static int apply_rule(const struct cfi_frame *frame, const struct cfi_bytes *stack, unsigned reg, const struct rule *rule,
                      uint64_t cfa, uint64_t *value)
{
    uint64_t address;
    switch (rule->kind) {
    case SAME:
        if (reg == CFI_RSP)
            *value = cfa;
        return reg == CFI_RSP || (is_preserved(reg) && known_register(frame, reg, value));
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

static int find_cfa(const struct cfi_frame *frame, const struct cfi_bytes *stack, const struct rule *rule, uint64_t *cfa)
{
    if (rule->kind == IS_EXPRESSION)
        return evaluate(frame, stack, rule->expression, NULL, cfa);
    if (rule->kind != IS_OFFSET || !known_register(frame, rule->reg, cfa))
        return 0;
    *cfa += (uint64_t)rule->offset;
    return 1;
}

enum cfi_result cfi_step(const struct cfi_module *module, const struct cfi_bytes *stack, struct cfi_frame *frame)
{
    struct entry entry;
    uint64_t cfa, pc = frame->registers[CFI_RIP] - !frame->is_interrupted;
    if (!find_entry(module, pc, &entry))
        return CFI_NO_ENTRY;
    struct machine machine = {.entry = &entry, .pc = UINT64_MAX};
    if (entry.return_register != CFI_RIP || !run(&machine, entry.common))
        return CFI_ENDED;
    machine.initial = machine.row;
    machine.location = entry.start;
    machine.pc = pc;
    if (!run(&machine, entry.own))
        return CFI_ENDED;
    /* The caller's frame lies further up, or the walk would go round in circles. */
    if (!find_cfa(frame, stack, &machine.row.cfa, &cfa) || cfa <= frame->registers[CFI_RSP])
        return CFI_ENDED;
    struct cfi_frame caller = {.is_interrupted = entry.is_signal};
    for (unsigned reg = 0; reg < CFI_REGISTERS; reg++) {
        if (apply_rule(frame, stack, reg, &machine.row.registers[reg], cfa, &caller.registers[reg]))
            caller.known |= 1u << reg;
    }
    uint64_t unused;
    if (!known_register(&caller, CFI_RIP, &unused) || !known_register(&caller, CFI_RSP, &unused) ||
        caller.registers[CFI_RIP] == 0)
        return CFI_ENDED;
    *frame = caller;
    return CFI_STEPPED;
}
