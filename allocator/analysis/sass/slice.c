#include "slice.h"

#include "emulate_state.h"
#include "ways.h"

#include <string.h>

/* Limits on values and steps; beyond them, the source is unknown. */
#define VALUE_LIMIT 256u
#define STEP_LIMIT 1000000u

/* The terms summed up in a register: bits 0 to 61 are 4-byte words of the parameters. */
typedef uint64_t term_set;
#define PARAMETER_WORDS 62u
#define LOADED ((term_set)1 << 62)
#define UNKNOWN ((term_set)1 << 63)
#define NOTHING ((term_set)0) /* an index, or a constant */

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
    uint8_t is_seen[WAYS_CODE_LIMIT / 8]; /* on the current walk back */
    uint32_t way[WAYS_BRANCH_LIMIT];      /* places from which to continue the walk back */
    uint32_t steps;
    int is_lost;
};

uint64_t slice_parameters_at(unsigned sm)
{
    return sm >= 100 ? 0x380 : sm >= 90 ? 0x210 : 0x160;
}

static unsigned opcode_of(struct sass_instruction instruction)
{
    return (unsigned)instruction_bits(instruction, 0, 9);
}

static unsigned register_field(const struct slicer *slicer, struct sass_instruction instruction, unsigned at, int file)
{
    return (unsigned)instruction_bits(instruction, at, 8) & slicer->zero[file];
}

static int writes(const struct slicer *slicer, struct sass_instruction instruction, int file, unsigned number);

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

/* Adds the branches to `place`: after such a branch, `place` is the next instruction. */
static void add_branches(struct slicer *slicer, uint32_t place, uint32_t *left)
{
    if (!(slicer->ways.is_target[place / 8] >> place % 8 & 1))
        return;
    slicer->steps += slicer->ways.branch_count;
    for (uint32_t i = 0; i < slicer->ways.branch_count; i++) {
        if (slicer->ways.branches[i].to != place)
            continue;
        if (*left == WAYS_BRANCH_LIMIT) {
            slicer->is_lost = 1;
            return;
        }
        slicer->way[(*left)++] = slicer->ways.branches[i].from;
    }
}

/* Goes one instruction back. Returns 0 if the path ends there: at the start, or at an instruction that certainly writes the
 * register. */
static int go_back(struct slicer *slicer, uint32_t *place, int file, unsigned number, struct meeting *meeting)
{
    struct sass_instruction before = {0, 0};
    enum way way = WAY_CALL; /* the register was not written before the kernel's start */
    if (*place > 0) {
        before = ways_instruction(&slicer->ways, *place - 1);
        way = way_of(before);
    }
    if (way == WAY_CALL)
        meet(meeting, UNKNOWN);
    if (way != WAY_ON)
        return 0;
    --*place;
    if (!writes(slicer, before, file, number))
        return 1;
    int value = value_of(slicer, *place, file, number);
    if (value < 0)
        slicer->is_lost = 1;
    else if (slicer->values[value].is_reached)
        meet(meeting, slicer->values[value].terms);
    return instruction_bits(before, 12, 4) != 7; /* a predicated instruction may not have executed */
}

/* Returns what a register holds before instruction `at`. is_reached = 0: no path is known to lead there yet. */
static struct meeting terms_before(struct slicer *slicer, uint32_t at, int file, unsigned number)
{
    struct meeting meeting = {NOTHING, 0};
    uint32_t left = 0;
    if (number == slicer->zero[file])
        return (struct meeting){NOTHING, 1};
    memset(slicer->is_seen, 0, slicer->ways.count / 8 + 1);
    slicer->way[left++] = at;
    while (left > 0 && !slicer->is_lost) {
        uint32_t place = slicer->way[--left];
        do {
            if (slicer->is_seen[place / 8] >> place % 8 & 1)
                break;
            slicer->is_seen[place / 8] |= (uint8_t)(1u << place % 8);
            slicer->is_lost |= ++slicer->steps > STEP_LIMIT;
            add_branches(slicer, place, &left);
        } while (!slicer->is_lost && go_back(slicer, &place, file, number, &meeting));
    }
    return slicer->is_lost ? (struct meeting){UNKNOWN, 1} : meeting;
}

/* ---- instructions ---- */

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
static term_set constant_terms(const struct slicer *slicer, uint64_t bank, uint64_t offset)
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
    unsigned form = (unsigned)instruction_bits(reading->instruction, 9, 3);
    uint64_t bank = instruction_bits(reading->instruction, 54, 5), offset = instruction_bits(reading->instruction, 38, 16);
    int is_elsewhere = is_c ? form == 2 || form == 3 || form == 7 : form == 1 || form == 4 || form == 5 || form == 6;
    int is_indexed = instruction_bits(reading->instruction, 91, 1) != 0 && reading->file == VECTOR;
    if (!is_elsewhere)
        return read_field(reading, 64, reading->file, which);
    switch (form) {
    case 1:
        return read_field(reading, 32, reading->file, which);
    case 2:
    case 4:
        return NOTHING;
    case 6:
    case 7:
        return read_field(reading, 32, UNIFORM, which);
    default: /* 3 and 5; with bit 91, a uniform register selects the bank */
        return is_indexed ? UNKNOWN : constant_terms(reading->slicer, bank, offset + (which == HIGH ? 4 : 0));
    }
}

static term_set read_a(struct reading *reading, enum which which)
{
    return read_field(reading, 24, reading->file, which);
}

/* ptxas encodes sums with a factor of 1; with any other factor, the product is an index. */
static term_set read_product(struct reading *reading)
{
    int is_immediate = instruction_bits(reading->instruction, 9, 3) == 4;
    return is_immediate && instruction_bits(reading->instruction, 32, 32) == 1 ? read_a(reading, LOW) : NOTHING;
}

static term_set of_nothing(struct reading *reading, enum which which)
{
    (void)reading;
    (void)which;
    return NOTHING;
}

static term_set of_memory(struct reading *reading, enum which which)
{
    (void)reading;
    (void)which;
    return LOADED;
}

static term_set of_move(struct reading *reading, enum which which)
{
    return instruction_bits(reading->instruction, 9, 3) == 2 ? NOTHING : read_operand(reading, 0, which);
}

static term_set of_select(struct reading *reading, enum which which)
{
    struct meeting meeting = {NOTHING, 0};
    (void)which;
    meet(&meeting, read_a(reading, LOW));
    meet(&meeting, read_operand(reading, 0, LOW));
    return meeting.terms;
}

static term_set of_two(struct reading *reading, enum which which)
{
    return read_a(reading, which) | read_operand(reading, 0, which);
}

static term_set of_three(struct reading *reading, enum which which)
{
    return of_two(reading, which) | read_operand(reading, 1, which);
}

/* (a << shift) + b; for the high half, a and c are shifted together. */
static term_set of_lea(struct reading *reading, enum which which)
{
    (void)which;
    return (instruction_bits(reading->instruction, 75, 5) ? NOTHING : read_a(reading, LOW)) | read_operand(reading, 0, LOW);
}

static term_set of_multiply_add(struct reading *reading, enum which which)
{
    return read_product(reading) | read_operand(reading, 1, which);
}

/* HFMA2.MMA of constants, or IADD.64 from sm_100 on. */
static term_set of_constant_or_add(struct reading *reading, enum which which)
{
    int is_constant = instruction_bits(reading->instruction, 9, 3) == 2 &&
                      instruction_bits(reading->instruction, 24, 8) == SASS_RZ &&
                      instruction_bits(reading->instruction, 64, 8) == SASS_RZ;
    if (is_constant)
        return NOTHING;
    return reading->slicer->sm >= 100 && opcode_of(reading->instruction) == 0x35 ? of_two(reading, which) : UNKNOWN;
}

/* LDC, ULDC, LDCU: the n-th word. With an index register it may be any parameter. */
static term_set constant_load(const struct reading *reading, unsigned word)
{
    unsigned opcode = opcode_of(reading->instruction);
    int is_indexed = opcode != 0xb9 && instruction_bits(reading->instruction, 24, 8) != SASS_RZ;
    uint64_t offset =
        opcode == 0x1ac ? instruction_bits(reading->instruction, 37, 17) : instruction_bits(reading->instruction, 38, 16);
    uint64_t bank = instruction_bits(reading->instruction, 54, 5);
    if (is_indexed && bank == 0)
        return UNKNOWN;
    return constant_terms(reading->slicer, bank, offset + 4ul * word);
}

/* R2UR: reads only a. */
static term_set of_to_uniform(struct reading *reading, enum which which)
{
    (void)which;
    return read_field(reading, 24, VECTOR, LOW);
}

/* By [8:0]; instructions that are not listed are not supported. The uniform variant of a vector instruction has the opcode
 * plus 0x80. */
static const struct operation {
    uint16_t opcode;
    uint8_t width; /* number of registers written */
    term_set (*read)(struct reading *, enum which);
} operations[] = {
    {0x002, 2, of_move},            /* MOV; 2 with .64 */
    {0x082, 2, of_move},            /* UMOV */
    {0x005, 2, of_nothing},         /* CS2R */
    {0x119, 1, of_nothing},         /* S2R */
    {0x1c3, 1, of_nothing},         /* S2UR */
    {0x007, 1, of_select},          /* SEL */
    {0x087, 1, of_select},          /* USEL */
    {0x010, 1, of_three},           /* IADD3 */
    {0x090, 1, of_three},           /* UIADD3 */
    {0x012, 1, of_three},           /* LOP3 */
    {0x092, 1, of_three},           /* ULOP3 */
    {0x016, 1, of_three},           /* PRMT */
    {0x097, 2, of_three},           /* UIADD3.64 */
    {0x036, 1, of_two},             /* VIADD */
    {0x017, 1, of_two},             /* IMNMX */
    {0x048, 1, of_two},             /* VIMNMX */
    {0x011, 1, of_lea},             /* LEA */
    {0x091, 1, of_lea},             /* ULEA */
    {0x019, 1, of_nothing},         /* SHF */
    {0x099, 1, of_nothing},         /* USHF */
    {0x024, 1, of_multiply_add},    /* IMAD */
    {0x0a4, 1, of_multiply_add},    /* UIMAD */
    {0x025, 2, of_multiply_add},    /* IMAD.WIDE */
    {0x0a5, 2, of_multiply_add},    /* UIMAD.WIDE */
    {0x031, 1, of_constant_or_add}, /* HFMA2 */
    {0x035, 2, of_constant_or_add}, /* HFMA2.MMA, IADD.64 */
    {0x1c2, 1, of_to_uniform},      /* R2UR */
    {0x100, 1, of_nothing},         /* FLO */
    {0x109, 1, of_nothing},         /* POPC */
    {0x180, 4, of_memory},          /* LD */
    {0x181, 4, of_memory},          /* LDG */
    {0x184, 4, of_memory},          /* LDS */
    {0x18a, 4, of_memory},          /* ATOM */
    {0x18c, 4, of_memory},          /* ATOMS */
    {0x1a8, 4, of_memory},          /* ATOMG */
    {0x1a9, 4, of_memory},          /* ATOMG.CAS */
};

static const struct operation *operation_of(struct sass_instruction instruction)
{
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
        if (operations[i].opcode == opcode_of(instruction))
            return &operations[i];
    return NULL;
}

static int is_constant_load(struct sass_instruction instruction)
{
    unsigned opcode = opcode_of(instruction);
    return opcode == 0x182 || opcode == 0x0b9 || opcode == 0x1ac;
}

/* Returns the number of uniform registers written; more than exist if unknown. */
static unsigned uniform_width(struct sass_instruction instruction)
{
    static const uint8_t loads[8] = {1, 1, 1, 1, 1, 2, 4, 255};
    const struct operation *operation = operation_of(instruction);
    if (is_constant_load(instruction))
        return loads[instruction_bits(instruction, 73, 3)];
    if (opcode_of(instruction) == 0x082)
        return instruction_bits(instruction, 80, 1) || instruction_bits(instruction, 9, 3) == 2 ? 2 : 1;
    return operation ? operation->width : 255;
}

static int writes(const struct slicer *slicer, struct sass_instruction instruction, int file, unsigned number)
{
    if (file == VECTOR)
        return sass_writes_register(instruction, number, 1);
    unsigned first = register_field(slicer, instruction, 16, UNIFORM);
    return sass_writes_uniform(instruction) &&
           (!sass_is_known(instruction) || (number >= first && number - first < uniform_width(instruction)));
}

/* Returns what the instruction of `value` writes, as far as known yet. */
static struct meeting terms_of(struct slicer *slicer, const struct value *value)
{
    struct reading reading = {slicer, ways_instruction(&slicer->ways, value->instruction), value->instruction, VECTOR, 1};
    const struct operation *operation = operation_of(reading.instruction);
    unsigned opcode = opcode_of(reading.instruction);
    unsigned first = register_field(slicer, reading.instruction, 16, value->file), word = (unsigned)value->number - first;
    if (value->number < first || word >= 4)
        return (struct meeting){UNKNOWN, 1};
    if (is_constant_load(reading.instruction))
        return (struct meeting){constant_load(&reading, word), 1};
    if (!operation || word >= operation->width)
        return (struct meeting){UNKNOWN, 1};
    reading.file = opcode >= 0x80 && opcode < 0x100 ? UNIFORM : VECTOR;
    term_set terms = operation->read(&reading, word ? HIGH : LOW);
    return (struct meeting){terms, reading.is_complete};
}

/* Registers written in a loop depend on themselves: evaluates all of them until nothing changes. Terms are only added, so
 * this terminates. */
static void settle(struct slicer *slicer)
{
    for (int is_changed = 1; is_changed && !slicer->is_lost;) {
        is_changed = 0;
        for (uint32_t i = slicer->value_count; i-- > 0 && !slicer->is_lost;) {
            uint32_t before = slicer->value_count;
            struct meeting now = terms_of(slicer, &slicer->values[i]);
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

struct address_source slice_address(struct span code, uint64_t at, const struct sass_access *access, unsigned sm)
{
    const struct address_source none = {0, 0, 0};
    struct slicer slicer;
    memset(&slicer, 0, sizeof(slicer));
    if (at % SASS_INSTRUCTION_BYTES != 0 || at >= code.size || !ways_find(&slicer.ways, code, sm))
        return none;
    slicer.sm = sm;
    slicer.zero[VECTOR] = SASS_RZ;
    slicer.zero[UNIFORM] = sm >= 100 ? 255 : 63;
    uint32_t place = (uint32_t)(at / SASS_INSTRUCTION_BYTES);
    if (place >= slicer.ways.count)
        return none;
    /* The first call adds the values to evaluate. */
    address_terms(&slicer, place, access, LOW);
    address_terms(&slicer, place, access, HIGH);
    settle(&slicer);
    term_set low = address_terms(&slicer, place, access, LOW), high = address_terms(&slicer, place, access, HIGH);
    return slicer.is_lost ? none : answer(low, high);
}
