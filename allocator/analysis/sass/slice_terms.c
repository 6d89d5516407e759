#include "slice_parts.h"

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
    struct meeting meeting = slice_terms_before(reading->slicer, reading->at, file, number);
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
    return sass_bits(reading->instruction, SASS_FORM_AT, 3) == 2 ? NOTHING : read_operand(reading, 0, which);
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
    return (sass_bits(reading->instruction, SASS_SHIFT_AT, 5) ? NOTHING : read_a(reading, LOW)) | read_operand(reading, 0, LOW);
}

static term_set of_multiply_add(struct reading *reading, enum which which)
{
    return read_product(reading) | read_operand(reading, 1, which);
}

/* The high half of a product is an index, too. */
static term_set of_high_product(struct reading *reading, enum which which)
{
    unsigned form = (unsigned)sass_bits(reading->instruction, SASS_FORM_AT, 3);
    (void)which;
    return (form == 1 || form == 4 || form == 5) && sass_bits(reading->instruction, SASS_C_AT, 8) == SASS_RZ ? NOTHING
                                                                                                             : UNKNOWN;
}

/* HFMA2 and HFMA2.MMA */
static term_set of_constant(struct reading *reading, enum which which)
{
    (void)which;
    return sass_bits(reading->instruction, SASS_FORM_AT, 3) == 2 && sass_bits(reading->instruction, SASS_A_AT, 8) == SASS_RZ &&
                   sass_bits(reading->instruction, SASS_C_AT, 8) == SASS_RZ
               ? NOTHING
               : UNKNOWN;
}

/* LDC, ULDC, LDCU: the n-th word. With an index register it may be any parameter. */
static term_set constant_load(const struct reading *reading, unsigned word)
{
    unsigned opcode = sass_opcode(reading->instruction);
    int is_indexed = opcode != 0xb9 && sass_bits(reading->instruction, SASS_A_AT, 8) != SASS_RZ;
    uint64_t offset =
        opcode == 0x1ac ? sass_bits(reading->instruction, 37, 17) : sass_bits(reading->instruction, SASS_OFFSET_AT, 16);
    uint64_t bank = sass_bits(reading->instruction, SASS_BANK_AT, 5);
    if (is_indexed && bank == 0)
        return UNKNOWN;
    return constant_terms(reading->slicer, bank, offset + 4ul * word);
}

/* R2UR: reads only a. */
static term_set of_to_uniform(struct reading *reading, enum which which)
{
    (void)which;
    return read_field(reading, SASS_A_AT, VECTOR, LOW);
}

/* Of the operations that are supported. */
static term_set (*const readers[SASS_OPERATIONS])(struct reading *, enum which) = {
    [SASS_MOVE] = of_move,
    [SASS_SPECIAL] = of_nothing,
    [SASS_SELECT] = of_select,
    [SASS_ADD3] = of_three,
    [SASS_ADD3_WIDE] = of_three,
    [SASS_ADD] = of_two,
    [SASS_LEA] = of_lea,
    [SASS_LOGIC] = of_three,
    [SASS_ABSOLUTE] = of_nothing,
    [SASS_EXTEND] = of_nothing,
    [SASS_PERMUTE] = of_three,
    [SASS_MIX] = of_three,
    [SASS_LESSER] = of_two,
    [SASS_SHIFT] = of_nothing,
    [SASS_MULTIPLY_ADD] = of_multiply_add,
    [SASS_MULTIPLY_WIDE] = of_multiply_add,
    [SASS_MULTIPLY_HIGH] = of_high_product,
    [SASS_CONSTANT] = of_constant,
    [SASS_ADD_PAIRS] = of_two,
    [SASS_COUNT] = of_nothing,
    [SASS_INDEX] = of_nothing,
    [SASS_TO_UNIFORM] = of_to_uniform,
    [SASS_LOAD] = of_memory,
};

static int is_constant_load(struct sass_instruction instruction)
{
    unsigned operation = sass_row_of(instruction)->operation;
    return operation == SASS_LOAD_CONSTANT || operation == SASS_LOAD_INDEXED;
}

int slice_writes(const struct slicer *slicer, struct sass_instruction instruction, int file, unsigned number)
{
    return file == VECTOR ? sass_writes_register(instruction, number, 1)
                          : sass_writes_uniform_register(instruction, number, slicer->zero[UNIFORM]);
}

struct meeting slice_terms_of(struct slicer *slicer, const struct value *value)
{
    struct reading reading = {slicer, ways_instruction(&slicer->ways, value->instruction), value->instruction, VECTOR, 1};
    const struct sass_row *row = sass_row_of(reading.instruction);
    unsigned opcode = sass_opcode(reading.instruction);
    unsigned first = register_field(slicer, reading.instruction, SASS_TARGET_AT, value->file),
             word = (unsigned)value->number - first;
    if (value->number < first || word >= 4)
        return (struct meeting){UNKNOWN, 1};
    if (is_constant_load(reading.instruction))
        return (struct meeting){constant_load(&reading, word), 1};
    if (!readers[row->operation] || word >= sass_width(reading.instruction))
        return (struct meeting){UNKNOWN, 1};
    reading.file = opcode >= 0x80 && opcode < 0x100 ? UNIFORM : VECTOR;
    term_set terms = readers[row->operation](&reading, word ? HIGH : LOW);
    return (struct meeting){terms, reading.is_complete};
}
