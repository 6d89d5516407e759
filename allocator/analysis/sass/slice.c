#include "slice.h"

#include "emulate_state.h"
#include "ways.h"

#include <string.h>

/* Limits; beyond them, the source is unknown. */
#define VALUE_LIMIT 256u
#define STEP_LIMIT 1000000u

/* The terms summed up in a register: bits 0 to 61 are 4-byte words of the parameters. */
typedef uint64_t term_set;
#define PARAMETER_WORDS 62u
#define LOADED ((term_set)1 << 62)
#define UNKNOWN ((term_set)1 << 63)
#define NOTHING ((term_set)0) /* an index, or a constant */

#define ALWAYS 7u /* [15:12] of an instruction that is not predicated */

enum which { LOW, HIGH };

/* What an instruction writes into one register. */
struct value {
    uint32_t instruction;
    uint16_t number; /* of the register */
    uint8_t file;
    uint8_t is_reached; /* `terms` is valid for at least one path */
    term_set terms;
};

struct slicer {
    struct ways ways;
    unsigned sm;
    unsigned zero[2]; /* numbers of RZ and URZ */
    struct value values[VALUE_LIMIT];
    uint32_t value_count;
    uint8_t is_seen[2][WAYS_CODE_LIMIT / 8]; /* on the current walk back, without and with its guard */
    uint32_t way[WAYS_BRANCH_LIMIT];         /* indices of instructions from which to continue the walk back */
    uint32_t steps;
    int is_lost;
};

static unsigned register_field(const struct slicer *slicer, struct sass_instruction instruction, unsigned at, int file)
{
    return (unsigned)sass_bits(instruction, at, 8) & slicer->zero[file];
}

/* Merges the terms of several paths. They must agree, except that paths not reached yet are ignored. */
struct meeting {
    term_set terms;
    int is_reached;
};

static void meet(struct meeting *meeting, term_set terms)
{
    if (meeting->is_reached && meeting->terms != terms)
        terms |= meeting->terms | UNKNOWN;
    meeting->terms = terms;
    meeting->is_reached = 1;
}

uint64_t slice_parameters_at(unsigned sm)
{
    return sm >= 100 ? 0x380 : sm >= 90 ? 0x210 : 0x160;
}

/* ---- back through the code ---- */

/* TEX, TLD, TLD4, TXD */
static int is_fetch(struct sass_instruction instruction)
{
    enum access_kind kind;
    const char *name = sass_class(instruction, &kind);
    return name && *name == 'T';
}

static int writes(const struct slicer *slicer, struct sass_instruction instruction, int file, unsigned number)
{
    return file == VECTOR ? sass_writes_register(instruction, number, 1)
                          : sass_writes_uniform_register(instruction, number, slicer->zero[UNIFORM]) && !is_fetch(instruction);
}

/* Returns the index in `values` of what `instruction` writes into a register; -1 if the table is full. */
static int value_of(struct slicer *slicer, uint32_t instruction, int file, unsigned number)
{
    for (uint32_t i = 0; i < slicer->value_count; i++) {
        const struct value *value = &slicer->values[i];
        if (value->instruction == instruction && value->file == file && value->number == number)
            return (int)i;
    }
    if (slicer->value_count == VALUE_LIMIT)
        return -1;
    slicer->values[slicer->value_count] =
        (struct value){.instruction = instruction, .number = (uint16_t)number, .file = (uint8_t)file};
    return (int)slicer->value_count++;
}

/* A walk back: where it is, and whether the predicate `guard` is still the one of the instruction from which it began. A write
 * under the same predicate has then certainly executed. */
struct walk {
    uint32_t index;
    int is_guarded;
    unsigned guard; /* [15:12] of that instruction */
};

#define IS_GUARDED UINT32_C(0x80000000) /* in slicer.way */

static int has_certainly_run(const struct walk *walk, struct sass_instruction before)
{
    unsigned guard = (unsigned)sass_bits(before, SASS_GUARD_AT, 4);
    return guard == ALWAYS || (walk->is_guarded && guard == walk->guard && !sass_has_uniform_guard(before));
}

/* Adds the branches to the instruction: after such a branch, it is the next instruction. */
static void add_branches(struct slicer *slicer, const struct walk *walk, uint32_t *left)
{
    uint32_t index = walk->index;
    if (!(slicer->ways.is_target[index / 8] >> index % 8 & 1))
        return;
    slicer->steps += slicer->ways.branch_count;
    for (uint32_t i = 0; i < slicer->ways.branch_count; i++) {
        if (slicer->ways.branches[i].to != index)
            continue;
        if (*left == WAYS_BRANCH_LIMIT) {
            slicer->is_lost = 1;
            return;
        }
        slicer->way[(*left)++] = slicer->ways.branches[i].from | (walk->is_guarded ? IS_GUARDED : 0);
    }
}

/* Whether the function that is called leaves the register alone: nothing writes it from the function's start to the end of the
 * code, and control stays there until it returns. */
static int is_kept_by_call(struct slicer *slicer, uint32_t call, int file, unsigned number)
{
    const struct ways *ways = &slicer->ways;
    uint32_t start = ways->count;
    for (uint32_t i = 0; i < ways->branch_count && start == ways->count; i++)
        start = ways->branches[i].from == call ? ways->branches[i].to : start;
    for (uint32_t i = 0; i < ways->branch_count; i++) {
        if (ways->branches[i].from >= start && ways->branches[i].to < start)
            return 0;
    }
    slicer->steps += ways->count - start + ways->branch_count;
    for (uint32_t i = start; i < ways->count; i++) {
        struct sass_instruction instruction = ways_instruction(ways, i);
        if (way_of(instruction) == WAY_CALL && sass_bits(instruction, SASS_OPCODE_AT, 12) != 0x944)
            return 0; /* to another function */
        if (sass_opcode(instruction) != 0x144 && sass_opcode(instruction) != 0x150 && writes(slicer, instruction, file, number))
            return 0;
    }
    return start < ways->count;
}

/* Goes one instruction back. Returns 0 if the path ends there: at the start, or at an instruction that certainly writes the
 * register. */
static int go_back(struct slicer *slicer, struct walk *walk, int file, unsigned number, struct meeting *meeting)
{
    struct sass_instruction before = {0, 0};
    enum way way = WAY_CALL; /* the register was not written before the kernel's start */
    if (walk->index > 0) {
        before = ways_instruction(&slicer->ways, walk->index - 1);
        way = way_of(before);
        if (way == WAY_CALL && is_kept_by_call(slicer, walk->index - 1, file, number)) {
            walk->index--;
            walk->is_guarded = 0;
            return 1;
        }
    }
    if (way == WAY_CALL)
        meet(meeting, UNKNOWN);
    if (way != WAY_ON)
        return 0;
    walk->index--;
    walk->is_guarded &= !sass_may_write_predicate(before, walk->guard & 7);
    if (!writes(slicer, before, file, number))
        return 1;
    int value = value_of(slicer, walk->index, file, number);
    if (value < 0)
        slicer->is_lost = 1;
    else if (slicer->values[value].is_reached)
        meet(meeting, slicer->values[value].terms);
    return !has_certainly_run(walk, before); /* a predicated instruction may not have executed */
}

/* Returns whether the walk has been here. A walk without the guard goes on wherever one with it does. */
static int is_seen(struct slicer *slicer, const struct walk *walk)
{
    uint8_t bit = (uint8_t)(1u << walk->index % 8);
    int has_been = (slicer->is_seen[0][walk->index / 8] | (walk->is_guarded ? slicer->is_seen[1][walk->index / 8] : 0)) & bit;
    slicer->is_seen[walk->is_guarded][walk->index / 8] |= bit;
    return has_been;
}

/* Returns what a register holds before instruction `at`. is_reached = 0: no path is known to lead there yet. */
static struct meeting terms_before(struct slicer *slicer, uint32_t at, int file, unsigned number)
{
    struct meeting meeting = {NOTHING, 0};
    struct sass_instruction user = ways_instruction(&slicer->ways, at);
    struct walk walk = {.guard = (unsigned)sass_bits(user, SASS_GUARD_AT, 4)};
    uint32_t left = 0;
    if (number == slicer->zero[file])
        return (struct meeting){NOTHING, 1};
    for (int i = 0; i < 2; i++)
        memset(slicer->is_seen[i], 0, slicer->ways.count / 8 + 1);
    slicer->way[left++] = at | (walk.guard != ALWAYS && !sass_has_uniform_guard(user) ? IS_GUARDED : 0);
    while (left > 0 && !slicer->is_lost) {
        walk.index = slicer->way[--left];
        walk.is_guarded = (walk.index & IS_GUARDED) != 0;
        walk.index &= ~IS_GUARDED;
        do {
            if (is_seen(slicer, &walk))
                break;
            slicer->is_lost |= ++slicer->steps > STEP_LIMIT;
            add_branches(slicer, &walk, &left);
        } while (!slicer->is_lost && go_back(slicer, &walk, file, number, &meeting));
    }
    return slicer->is_lost ? (struct meeting){UNKNOWN, 1} : meeting;
}

/* ---- what instructions compute ---- */

/* The operands of an instruction that is being evaluated. */
struct reading {
    struct slicer *slicer;
    struct sass_instruction instruction;
    uint32_t at;
    int file;        /* of most operands */
    int is_complete; /* all operands read so far have been reached */
};

static term_set read_register(struct reading *reading, int file, unsigned number)
{
    struct meeting meeting = terms_before(reading->slicer, reading->at, file, number);
    reading->is_complete &= meeting.is_reached;
    return meeting.terms;
}

/* Bank 3 is __constant__ memory. Bank 0 below the parameters holds the launch dimensions and data of the driver. */
static term_set constant_terms(struct slicer *slicer, uint64_t bank, uint64_t offset)
{
    uint64_t start = slice_parameters_at(slicer->sm);
    if (bank == 3)
        return LOADED;
    if (bank != 0)
        return UNKNOWN;
    if (offset < start)
        return NOTHING;
    uint64_t word = (offset - start) / 4;
    return offset % 4 == 0 && word < PARAMETER_WORDS ? (term_set)1 << word : UNKNOWN;
}

/* Reads a register, or the next one for HIGH. */
static term_set read_field(struct reading *reading, unsigned at, int file, enum which which)
{
    unsigned number = register_field(reading->slicer, reading->instruction, at, file);
    return number == reading->slicer->zero[file] ? NOTHING : read_register(reading, file, number + (which == HIGH));
}

/* Reads operand b or c, whose source [11:9] selects; some forms swap their positions. */
static term_set read_operand(struct reading *reading, int is_c, enum which which)
{
    unsigned form = (unsigned)sass_bits(reading->instruction, SASS_FORM_AT, 3);
    uint64_t bank = sass_bits(reading->instruction, SASS_BANK_AT, 5),
             offset = sass_bits(reading->instruction, SASS_OFFSET_AT, 16);
    int is_elsewhere = is_c ? form == 2 || form == 3 || form == 7 : form == 1 || form == 4 || form == 5 || form == 6;
    int is_indexed = sass_bits(reading->instruction, SASS_UNIFORM_AT, 1) != 0 && reading->file == VECTOR;
    if (!is_elsewhere)
        return read_field(reading, SASS_C_AT, reading->file, which);
    switch (form) {
    case 1:
        return read_field(reading, SASS_B_AT, reading->file, which);
    case 2:
    case 4:
        return NOTHING;
    case 6:
    case 7:
        return read_field(reading, SASS_B_AT, UNIFORM, which);
    default: /* 3 and 5; with bit 91, a uniform register selects the bank */
        return is_indexed ? UNKNOWN : constant_terms(reading->slicer, bank, offset + (which == HIGH ? 4 : 0));
    }
}

static term_set read_a(struct reading *reading, enum which which)
{
    return read_field(reading, SASS_A_AT, reading->file, which);
}

/* ptxas encodes sums with a factor of 1; with any other factor, the product is an index. */
static term_set read_product(struct reading *reading)
{
    int is_immediate = sass_bits(reading->instruction, SASS_FORM_AT, 3) == 4;
    return is_immediate && sass_bits(reading->instruction, SASS_B_AT, 32) == 1 ? read_a(reading, LOW) : NOTHING;
}

static term_set of_select(struct reading *reading, enum which which)
{
    struct meeting meeting = {NOTHING, 0};
    int is_wide = sass_is_select_wide(reading->instruction),
        is_immediate = sass_bits(reading->instruction, SASS_FORM_AT, 3) == 2;
    meet(&meeting, read_a(reading, which));
    meet(&meeting, !is_wide       ? read_operand(reading, 0, LOW)
                   : is_immediate ? NOTHING
                                  : read_field(reading, SASS_B_AT, reading->file, which));
    return meeting.terms;
}

/* LDC, ULDC, LDCU: the n-th word. With an index register it may be any parameter. */
static term_set constant_load(const struct reading *reading, unsigned word)
{
    unsigned opcode = sass_opcode(reading->instruction);
    int is_indexed = opcode != 0xb9 && sass_bits(reading->instruction, SASS_A_AT, 8) != SASS_RZ;
    uint64_t offset = opcode == 0x1ac ? sass_bits(reading->instruction, SASS_OFFSET_LDCU_AT, 17)
                                      : sass_bits(reading->instruction, SASS_OFFSET_AT, 16);
    uint64_t bank = sass_bits(reading->instruction, SASS_BANK_AT, 5);
    if (is_indexed && bank == 0)
        return UNKNOWN;
    return constant_terms(reading->slicer, bank, offset + 4ul * word);
}

/* What an operation computes, or UNKNOWN. The high half of a product is an index, too, as is what was shifted. */
static term_set terms_of(struct reading *reading, unsigned operation, enum which which)
{
    const struct sass_instruction instruction = reading->instruction;
    unsigned form = (unsigned)sass_bits(instruction, SASS_FORM_AT, 3);
    int is_a_zero = sass_bits(instruction, SASS_A_AT, 8) == SASS_RZ,
        is_c_zero = sass_bits(instruction, SASS_C_AT, 8) == SASS_RZ;
    switch (operation) {
    case SASS_SPECIAL:
    case SASS_ABSOLUTE:
    case SASS_EXTEND:
    case SASS_SHIFT:
    case SASS_COUNT:
    case SASS_INDEX:
        return NOTHING;
    case SASS_LOAD:
        return LOADED;
    case SASS_MOVE:
        return form == 2 ? NOTHING : read_operand(reading, 0, which);
    case SASS_SELECT:
        return of_select(reading, which);
    case SASS_ADD:
    case SASS_ADD_PAIRS:
    case SASS_LESSER:
        return read_a(reading, which) | read_operand(reading, 0, which);
    case SASS_ADD3:
    case SASS_ADD3_WIDE:
    case SASS_LOGIC:
    case SASS_PERMUTE:
    case SASS_MIX:
        return read_a(reading, which) | read_operand(reading, 0, which) | read_operand(reading, 1, which);
    case SASS_LEA: /* (a << shift) + b; for the high half, a and c are shifted together */
        return (sass_bits(instruction, SASS_SHIFT_AT, 5) ? NOTHING : read_a(reading, LOW)) | read_operand(reading, 0, LOW);
    case SASS_MULTIPLY_ADD:
    case SASS_MULTIPLY_WIDE:
        return read_product(reading) | read_operand(reading, 1, which);
    case SASS_MULTIPLY_HIGH:
        return (form == 1 || form == 4 || form == 5) && is_c_zero ? NOTHING : UNKNOWN;
    case SASS_CONSTANT: /* HFMA2 and HFMA2.MMA */
        return form == 2 && is_a_zero && is_c_zero ? NOTHING : UNKNOWN;
    case SASS_TO_UNIFORM: /* R2UR: reads only a */
        return read_field(reading, SASS_A_AT, VECTOR, LOW);
    default:
        return UNKNOWN;
    }
}

/* Returns what the instruction of `value` writes, as far as known yet. */
static struct meeting terms_written(struct slicer *slicer, const struct value *value)
{
    struct reading reading = {slicer, ways_instruction(&slicer->ways, value->instruction), value->instruction, VECTOR, 1};
    unsigned operation = sass_row_of(reading.instruction)->operation, opcode = sass_opcode(reading.instruction);
    unsigned first = register_field(slicer, reading.instruction, SASS_TARGET_AT, value->file),
             word = (unsigned)value->number - first;
    if (value->number < first || word >= 4)
        return (struct meeting){UNKNOWN, 1};
    if (operation == SASS_LOAD_CONSTANT || operation == SASS_LOAD_INDEXED)
        return (struct meeting){constant_load(&reading, word), 1};
    if (word >= sass_width(reading.instruction))
        return (struct meeting){UNKNOWN, 1};
    reading.file = opcode >= 0x80 && opcode < 0x100 ? UNIFORM : VECTOR;
    term_set terms = terms_of(&reading, operation, word ? HIGH : LOW);
    return (struct meeting){terms, reading.is_complete};
}

/* ---- the answer ---- */

/* Registers written in a loop depend on themselves: evaluates all of them until nothing changes. Terms are only added, so
 * this terminates. */
static void settle(struct slicer *slicer)
{
    for (int is_changed = 1; is_changed && !slicer->is_lost;) {
        is_changed = 0;
        for (uint32_t i = slicer->value_count; i-- > 0 && !slicer->is_lost;) {
            uint32_t before = slicer->value_count;
            struct meeting now = terms_written(slicer, &slicer->values[i]);
            struct value *value = &slicer->values[i];
            term_set terms = value->terms | now.terms;
            /* A value is reached once all of its operands are. */
            int is_reached = value->is_reached || now.is_reached;
            is_changed |= before != slicer->value_count;
            if (!is_reached || (value->is_reached && terms == value->terms))
                continue;
            value->terms = terms;
            value->is_reached = 1;
            is_changed = 1;
        }
    }
}

/* Returns the terms of one half of the address. */
static term_set address_terms(struct slicer *slicer, uint32_t at, const struct sass_access *access, enum which which)
{
    struct meeting base = {NOTHING, 1}, uniform = {NOTHING, 1};
    if (access->base != SASS_RZ && (which == LOW || access->is_base_wide))
        base = terms_before(slicer, at, VECTOR, access->base + (which == HIGH));
    if (access->uniform >= 0)
        uniform = terms_before(slicer, at, UNIFORM, (unsigned)access->uniform + (which == HIGH));
    return base.terms | uniform.terms | (base.is_reached && uniform.is_reached ? NOTHING : UNKNOWN);
}

/* A word is a pointer if both its halves are added. A low half alone is a 4-byte number, so an index; a high half alone has
 * been combined in another way. */
static struct address_source answer(term_set low, term_set high)
{
    const struct address_source none = {0, 0, 0};
    struct address_source source = {1, 0, (low & LOADED) != 0};
    term_set pairs = 0;
    for (unsigned i = 0; i < SLICE_WORDS; i++) {
        if (!(low >> 2 * i & 1) || !(high >> (2 * i + 1) & 1))
            continue;
        source.words |= 1u << i;
        pairs |= (term_set)1 << (2 * i + 1);
    }
    if (((low | high) & UNKNOWN) || (high & ~pairs & ~LOADED) || ((high & LOADED) && !source.is_loaded) ||
        (!source.words && !source.is_loaded))
        return none;
    return source;
}

static int begin(struct slicer *slicer, struct span code, unsigned sm)
{
    memset(slicer, 0, sizeof *slicer);
    slicer->sm = sm;
    slicer->zero[VECTOR] = SASS_RZ;
    slicer->zero[UNIFORM] = sm >= 100 ? 255 : 63;
    return ways_find(&slicer->ways, code, sm);
}

struct address_source slice_address(struct span code, uint64_t at, const struct sass_access *access, unsigned sm)
{
    const struct address_source none = {0, 0, 0};
    struct slicer slicer;
    uint32_t index = (uint32_t)(at / SASS_INSTRUCTION_BYTES);
    if (at % SASS_INSTRUCTION_BYTES != 0 || at >= code.size || !begin(&slicer, code, sm) || index >= slicer.ways.count)
        return none;
    /* The first call adds the values to evaluate. */
    address_terms(&slicer, index, access, LOW);
    address_terms(&slicer, index, access, HIGH);
    settle(&slicer);
    term_set low = address_terms(&slicer, index, access, LOW), high = address_terms(&slicer, index, access, HIGH);
    return slicer.is_lost ? none : answer(low, high);
}

/* ---- textures ---- */

/* What the handle of a TEX, TLD, TLD4 or TXD is made of: a constant, or what is in a uniform register. */
static term_set handle_terms(struct slicer *slicer, uint32_t at, struct sass_instruction instruction)
{
    unsigned form = (unsigned)sass_bits(instruction, SASS_FORM_AT, 3);
    struct meeting meeting = {UNKNOWN, 0};
    slicer->value_count = 0;
    for (int i = 0; i < 2 && form == 7; i++) { /* the first call adds the values to evaluate */
        meeting = terms_before(slicer, at, UNIFORM, register_field(slicer, instruction, SASS_HANDLE_AT, UNIFORM));
        settle(slicer);
    }
    if (form == 5)
        return constant_terms(slicer, sass_bits(instruction, SASS_BANK_AT, 5), 4 * sass_bits(instruction, SASS_HANDLE_AT, 14));
    return meeting.is_reached && meeting.terms && !slicer->is_lost ? meeting.terms : UNKNOWN;
}

int slice_fetches(struct span code, unsigned sm, uint64_t offset)
{
    struct slicer slicer;
    int is_traced = begin(&slicer, code, sm) && offset / 4 + 1 < PARAMETER_WORDS, is_any = 0, is_other = 0;
    for (uint64_t at = 0; code.size - at >= SASS_INSTRUCTION_BYTES; at += SASS_INSTRUCTION_BYTES) {
        struct sass_instruction instruction = sass_load(code.bytes + at);
        unsigned opcode = sass_opcode(instruction); /* with .B the handle is in a vector register */
        is_other |= opcode == 0x161 || opcode == 0x164 || opcode == 0x167 || opcode == 0x16d;
        if (!is_fetch(instruction))
            continue;
        is_any = 1;
        term_set terms = is_traced ? handle_terms(&slicer, (uint32_t)(at / SASS_INSTRUCTION_BYTES), instruction) : UNKNOWN;
        if (terms & (UNKNOWN | LOADED) || terms >> offset / 4 & 3)
            return 1;
    }
    return is_any && is_other;
}
