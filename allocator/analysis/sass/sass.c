#include "sass_rows.h"

#include <stdio.h>
#include <string.h>

/* The encodings changed twice: descriptors were added with sm_80, 8-bit uniform registers with sm_100. */
enum era { ERA_70, ERA_80, ERA_100 };

enum data_type { TYPE_MEMORY, TYPE_INTEGER, TYPE_COMPARE, TYPE_FLOAT, TYPE_COPY, TYPE_256 };

/* Bit numbers in the 128 bits. NEVER and ALWAYS stand for a bit that is always 0 or 1. */
#define NEVER 0
#define ALWAYS 255
/* Marks the form without a descriptor, which adds a uniform register that is not supported. */
#define NO_UNIFORM 254

struct encoding {
    uint16_t opcode;     /* [11:0] */
    uint8_t is_extended; /* bit 91: has a uniform register */
    uint8_t first, last; /* eras */
    const char *name;
    uint8_t kind;           /* enum access_kind */
    uint8_t type;           /* enum data_type */
    uint8_t operation_bits; /* of atomics, from bit 87; 0 if none */
    uint8_t data_at;        /* register field of the data */
    uint8_t immediate_at, immediate_bits;
    uint8_t uniform_at;
    uint8_t wide_bit;       /* if set, the base is a pair */
    uint8_t descriptor_bit; /* if set, the uniform register is a cache policy and not part of the address */
};

#define R ACCESS_READ
#define W ACCESS_WRITE
#define A ACCESS_ATOMIC
static const struct encoding encodings[] = {
    {0x381, 0, ERA_70, ERA_100, "LDG.E", R, TYPE_MEMORY, 0, 16, 40, 24, 0, 72, NEVER},
    {0x981, 1, ERA_70, ERA_70, "LDG.E", R, TYPE_MEMORY, 0, 16, 40, 24, 32, 90, NEVER},
    {0x981, 1, ERA_80, ERA_100, "LDG.E", R, TYPE_MEMORY, 0, 16, 40, 24, 32, 90, 76},
    {0x386, 0, ERA_70, ERA_100, "STG.E", W, TYPE_MEMORY, 0, 32, 40, 24, 0, 72, NEVER},
    {0x986, 1, ERA_70, ERA_70, "STG.E", W, TYPE_MEMORY, 0, 32, 40, 24, 64, 90, NEVER},
    {0x986, 1, ERA_80, ERA_100, "STG.E", W, TYPE_MEMORY, 0, 32, 40, 24, 64, 90, 76},
    {0x980, 0, ERA_70, ERA_100, "LD.E", R, TYPE_MEMORY, 0, 16, 32, 32, 0, 72, NEVER},
    {0x980, 1, ERA_70, ERA_70, "LD.E", R, TYPE_MEMORY, 0, 16, 40, 24, 32, 90, NEVER},
    {0x980, 1, ERA_80, ERA_100, "LD.E", R, TYPE_MEMORY, 0, 16, 40, 24, 32, 90, 76},
    {0x385, 0, ERA_70, ERA_100, "ST.E", W, TYPE_MEMORY, 0, 64, 32, 32, 0, 72, NEVER},
    {0x985, 1, ERA_70, ERA_70, "ST.E", W, TYPE_MEMORY, 0, 32, 40, 24, 64, 90, NEVER},
    {0x985, 1, ERA_80, ERA_100, "ST.E", W, TYPE_MEMORY, 0, 32, 40, 24, 64, 90, 76},
    {0x97e, 1, ERA_100, ERA_100, "LDG.E.ENL2.256", R, TYPE_256, 0, 16, 40, 17, 32, ALWAYS, 76},
    {0x97f, 1, ERA_100, ERA_100, "STG.E.ENL2.256", W, TYPE_256, 0, 32, 40, 19, 64, ALWAYS, 76},
    {0x3a8, 0, ERA_70, ERA_100, "ATOMG.E", A, TYPE_INTEGER, 4, 32, 40, 24, 0, 72, NEVER},
    {0x9a8, 1, ERA_80, ERA_80, "ATOMG.E", A, TYPE_INTEGER, 4, 32, 40, 24, 64, 70, 71},
    {0x9a8, 1, ERA_100, ERA_100, "ATOMG.E", A, TYPE_INTEGER, 4, 32, 40, 23, 64, 63, 76},
    {0x9a8, 1, ERA_70, ERA_70, "ATOMG.E", A, TYPE_INTEGER, 4, 32, 40, 24, 64, 70, NEVER},
    {0x38a, 0, ERA_70, ERA_100, "ATOM.E", A, TYPE_INTEGER, 4, 32, 40, 24, 0, 72, NEVER},
    {0x98a, 1, ERA_80, ERA_80, "ATOM.E", A, TYPE_INTEGER, 4, 32, 40, 24, 64, 70, 71},
    {0x98a, 1, ERA_100, ERA_100, "ATOM.E", A, TYPE_INTEGER, 4, 32, 40, 23, 64, 63, 76},
    {0x3a3, 0, ERA_80, ERA_100, "ATOMG.E", A, TYPE_FLOAT, 0, 32, 40, 24, 0, 72, NEVER},
    {0x9a3, 1, ERA_80, ERA_80, "ATOMG.E", A, TYPE_FLOAT, 0, 32, 40, 24, 64, 70, 71},
    {0x9a3, 1, ERA_100, ERA_100, "ATOMG.E", A, TYPE_FLOAT, 0, 32, 40, 23, 64, 63, 90},
    {0x9a2, 1, ERA_80, ERA_80, "ATOM.E", A, TYPE_FLOAT, 0, 32, 40, 24, 64, 70, 71},
    {0x9a2, 1, ERA_100, ERA_100, "ATOM.E", A, TYPE_FLOAT, 0, 32, 40, 23, 64, 63, 90},
    {0x3a9, 0, ERA_70, ERA_100, "ATOMG.E.CAS", A, TYPE_COMPARE, 0, 32, 40, 24, 0, 72, NEVER},
    {0x38b, 0, ERA_70, ERA_100, "ATOM.E.CAS", A, TYPE_COMPARE, 0, 32, 40, 24, 0, 72, NEVER},
    {0x98e, 0, ERA_70, ERA_100, "RED.E", A, TYPE_INTEGER, 3, 32, 40, 24, 0, 72, NEVER},
    {0x98e, 1, ERA_70, ERA_70, "RED.E", A, TYPE_INTEGER, 3, 32, 40, 24, 64, 90, NEVER},
    {0x98e, 1, ERA_80, ERA_80, "RED.E", A, TYPE_INTEGER, 3, 32, 40, 24, 64, 90, 71},
    {0x98e, 1, ERA_100, ERA_100, "RED.E", A, TYPE_INTEGER, 3, 32, 40, 24, 64, 90, 81},
    {0x9a6, 0, ERA_80, ERA_100, "RED.E", A, TYPE_FLOAT, 0, 32, 40, 24, 0, 72, NEVER},
    {0x9a6, 1, ERA_80, ERA_80, "RED.E", A, TYPE_FLOAT, 0, 32, 40, 24, 64, 90, 71},
    {0x9a6, 1, ERA_100, ERA_100, "RED.E", A, TYPE_FLOAT, 0, 32, 40, 24, 64, 90, 81},
    {0x9a4, 1, ERA_80, ERA_80, "LDGMC.E", R, TYPE_INTEGER, 3, 16, 40, 24, 64, 70, NEVER},
    {0x9a4, 1, ERA_100, ERA_100, "LDGMC.E", R, TYPE_INTEGER, 3, 16, 40, 24, 64, ALWAYS, NEVER},
    {0x9a5, 1, ERA_80, ERA_80, "LDGMC.E", R, TYPE_FLOAT, 0, 16, 40, 24, 64, 70, NEVER},
    {0x9a5, 1, ERA_100, ERA_100, "LDGMC.E", R, TYPE_FLOAT, 0, 16, 40, 24, 64, ALWAYS, NEVER},
    {0xfae, 1, ERA_80, ERA_80, "LDGSTS.E", R, TYPE_COPY, 0, 16, 32, 12, 64, 70, 76},
    {0xfae, 1, ERA_100, ERA_100, "LDGSTS.E", R, TYPE_COPY, 0, 16, 32, 12, 64, 83, 76},
    {0xdae, 1, ERA_80, ERA_80, "LDGSTS.E", R, TYPE_COPY, 0, 16, 32, 12, NO_UNIFORM, 70, 76},
    {0xdae, 1, ERA_100, ERA_100, "LDGSTS.E", R, TYPE_COPY, 0, 16, 32, 12, NO_UNIFORM, 83, 76},
};
#undef R
#undef W
#undef A

struct data_width {
    const char *suffix;
    uint8_t bytes;
};

/* By [75:73]; sm_75 also has 7. */
static const struct data_width memory_widths[8] = {{".U8", 1}, {".S8", 1}, {".U16", 2},  {".S16", 2},
                                                   {"", 4},    {".64", 8}, {".128", 16}, {"", 0}};
static const struct data_width unsigned_128 = {".U.128", 16};
static const struct data_width integer_widths_70[8] = {{"", 4},       {".S32", 4}, {".64", 8},  {".F32", 4},
                                                       {".F16x2", 4}, {".S64", 8}, {".F64", 8}, {"", 0}};
static const struct data_width integer_widths_90[8] = {{"", 4},      {".S32", 4}, {".64", 8}, {".S64", 8},
                                                       {".128", 16}, {"", 0},     {"", 0},    {"", 0}};
/* By [76:73]. */
static const struct data_width float_widths[16] = {
    {".F16x2", 4}, {".F16x4", 8}, {".F16x8", 16}, {".BF16x2", 4}, {".BF16x4", 8}, {".BF16x8", 16}, {"", 0},        {"", 0},
    {"", 0},       {".F32", 4},   {".F32x2", 8},  {".F32x4", 16}, {".F32", 4},    {".F32x2", 8},   {".F32x4", 16}, {".F64", 8}};
static const struct data_width copy_widths[4] = {{"", 4}, {".64", 8}, {".128", 16}, {"", 0}};

/* Operations of atomics, from bit 87. */
static const char *const operations[16] = {".ADD",  ".MIN", ".MAX", ".INC", ".DEC", ".AND", ".OR", ".XOR",
                                           ".EXCH", "",     "",     "",     "",     "",     "",    ""};

/* Floating point operations, by [89:88]. */
static const char *const float_operations[4] = {".ADD", ".MIN", ".MAX", ""};

static int bit(struct sass_instruction instruction, unsigned at)
{
    return at == ALWAYS || (at != NEVER && sass_bits(instruction, at, 1) != 0);
}

static struct data_width width_of(const struct encoding *encoding, struct sass_instruction instruction, unsigned sm)
{
    switch (encoding->type) {
    case TYPE_INTEGER:
    case TYPE_COMPARE:
        return (sm >= 90 ? integer_widths_90 : integer_widths_70)[sass_bits(instruction, SASS_TYPE_AT, 3)];
    case TYPE_FLOAT:
        return float_widths[sass_bits(instruction, SASS_TYPE_AT, 4)];
    case TYPE_COPY:
        return sm >= 100 ? copy_widths[sass_bits(instruction, SASS_COPY_TYPE_AT, 2)]
                         : memory_widths[sass_bits(instruction, SASS_TYPE_AT, 3)];
    case TYPE_256:
        return (struct data_width){"", 32};
    default:
        return sm < 80 && sass_bits(instruction, SASS_TYPE_AT, 3) == 7 ? unsigned_128
                                                                       : memory_widths[sass_bits(instruction, SASS_TYPE_AT, 3)];
    }
}

struct sass_instruction sass_load(const uint8_t *bytes)
{
    return (struct sass_instruction){load_u64(bytes), load_u64(bytes + 8)};
}

static const struct encoding *find_encoding(struct sass_instruction instruction, unsigned sm)
{
    uint64_t opcode = sass_bits(instruction, SASS_OPCODE_AT, 12);
    int is_extended = bit(instruction, SASS_UNIFORM_AT);
    enum era era = sm >= 100 ? ERA_100 : sm >= 80 ? ERA_80 : ERA_70;
    for (size_t i = 0; i < sizeof(encodings) / sizeof(encodings[0]); i++) {
        const struct encoding *encoding = &encodings[i];
        if (encoding->opcode == opcode && encoding->is_extended == is_extended && era >= encoding->first &&
            era <= encoding->last)
            return encoding;
    }
    return NULL;
}

static const char *register_name(unsigned number, char text[8])
{
    if (number == SASS_RZ)
        return "RZ";
    snprintf(text, 8, "R%u", number & 255);
    return text;
}

/* Returns "+0x10", "-0x10", or nothing for 0. */
static const char *offset_text(int64_t offset, char text[24])
{
    uint64_t size = offset < 0 ? (uint64_t)0 - (uint64_t)offset : (uint64_t)offset;
    text[0] = '\0';
    if (size != 0)
        snprintf(text, 24, "%c0x%llx", offset < 0 ? '-' : '+', (unsigned long long)size);
    return text;
}

static void write_text(const struct encoding *encoding, struct sass_instruction instruction, const char *suffix,
                       struct sass_access *access)
{
    char name[8], other[8], offset[24], guard[8] = "", to[40] = "", base[16] = "", uniform[16] = "", from[24] = "";
    const char *operation = "", *data = register_name((unsigned)sass_bits(instruction, encoding->data_at, 8), name);
    int is_reduction = encoding->kind == ACCESS_ATOMIC && strncmp(encoding->name, "RED", 3) == 0;
    if (encoding->operation_bits)
        operation = operations[sass_bits(instruction, SASS_OPERATION_AT, encoding->operation_bits)];
    else if (encoding->type == TYPE_FLOAT)
        operation = float_operations[sass_bits(instruction, SASS_FLOAT_OPERATION_AT, 2)];
    if (access->predicate != 7)
        snprintf(guard, sizeof(guard), "@%sP%u ", access->is_negated ? "!" : "", access->predicate & 7);
    if (encoding->type == TYPE_COPY) /* to shared memory */
        snprintf(to, sizeof(to), "[%s%s], ", data,
                 offset_text(sass_signed_bits(instruction, SASS_SHARED_OFFSET_AT, 20), offset));
    else if (encoding->kind == ACCESS_READ || (encoding->kind == ACCESS_ATOMIC && !is_reduction))
        snprintf(to, sizeof(to), "%s, ", register_name((unsigned)sass_bits(instruction, SASS_TARGET_AT, 8), other));
    if (access->base != SASS_RZ || access->uniform < 0)
        snprintf(base, sizeof(base), "%s%s", register_name(access->base, other),
                 !encoding->is_extended ? ""
                 : access->is_base_wide ? ".64"
                                        : ".U32");
    if (access->uniform >= 0)
        snprintf(uniform, sizeof(uniform), "%sUR%d", base[0] ? "+" : "", access->uniform);
    if (encoding->type == TYPE_COMPARE)
        snprintf(from, sizeof(from), ", %s, %s", data, register_name((unsigned)sass_bits(instruction, SASS_C_AT, 8), other));
    else if (encoding->kind != ACCESS_READ)
        snprintf(from, sizeof(from), ", %s", data);
    else if (access->has_source)
        snprintf(from, sizeof(from), ", %sP%u", access->is_source_negated ? "!" : "", access->source & 7);
    /* Truncated where it is too long. */
    if (snprintf(access->text, sizeof(access->text), "%s%s%s%s %s[%s%s%s]%s", guard, encoding->name, operation, suffix, to,
                 base, uniform, offset_text(access->immediate, offset), from) < 0)
        access->text[0] = '\0';
}

int sass_decode(struct sass_instruction instruction, unsigned sm, struct sass_access *access)
{
    memset(access, 0, sizeof(*access));
    const struct encoding *encoding = find_encoding(instruction, sm);
    if (!encoding)
        return 0;
    int is_descriptor = bit(instruction, encoding->descriptor_bit);
    if (encoding->uniform_at == NO_UNIFORM && !is_descriptor)
        return 0;
    struct data_width width = width_of(encoding, instruction, sm);
    access->kind = (enum access_kind)encoding->kind;
    access->bytes = width.bytes;
    access->predicate = (unsigned)sass_bits(instruction, SASS_GUARD_AT, 3);
    access->is_negated = bit(instruction, SASS_GUARD_NEGATED_AT);
    if (encoding->type == TYPE_COPY && sass_bits(instruction, SASS_PREDICATE_AT, 4) != 7) {
        access->has_source = 1;
        access->source = (unsigned)sass_bits(instruction, SASS_PREDICATE_AT, 3);
        access->is_source_negated = bit(instruction, SASS_PREDICATE_NEGATED_AT);
    }
    access->base = (unsigned)sass_bits(instruction, SASS_A_AT, 8);
    access->is_base_wide = bit(instruction, encoding->wide_bit);
    access->immediate = sass_signed_bits(instruction, encoding->immediate_at, encoding->immediate_bits);
    if (encoding->type == TYPE_256)
        access->immediate *= 32; /* in units of the access width */
    access->uniform = -1;
    if (encoding->is_extended && !is_descriptor) {
        unsigned field = sm >= 100 ? 8 : 6;
        unsigned uniform = (unsigned)sass_bits(instruction, encoding->uniform_at, field);
        if (uniform != (1u << field) - 1)
            access->uniform = (int)uniform;
    }
    write_text(encoding, instruction, width.suffix, access);
    return 1;
}

int sass_probe(struct sass_instruction instruction, unsigned sm, struct sass_instruction *probe)
{
    const struct encoding *encoding = find_encoding(instruction, sm);
    uint64_t policy = encoding ? sass_bits(instruction, encoding->uniform_at, sm >= 100 ? 8 : 6) : 0;
    if (encoding && encoding->kind == ACCESS_READ && encoding->type == TYPE_MEMORY) {
        *probe = instruction;
        probe->low |= (uint64_t)SASS_RZ << 16;
        return 1;
    }
    if (!encoding || strncmp(encoding->name, "ATOMG", 5) != 0 || !bit(instruction, encoding->descriptor_bit))
        return 0;
    /* LDG.E.U8 RZ, desc[UR][R.64+immediate]; a form of one base register lacks bit 90. */
    uint64_t immediate = (uint64_t)sass_signed_bits(instruction, encoding->immediate_at, encoding->immediate_bits);
    probe->low = 0x981 | (instruction.low & 0xff00f000) | (uint64_t)SASS_RZ << 16 | policy << 32 | immediate << 40;
    probe->high = (instruction.high >> SASS_SCHEDULE_AT << SASS_SCHEDULE_AT) | 0x81e1100 |
                  (bit(instruction, encoding->wide_bit) ? 0x4000000 : 0);
    return 1;
}

int sass_address(const struct sass_access *access, const uint32_t *registers, size_t register_count, const uint32_t *uniforms,
                 size_t uniform_count, uint64_t *address)
{
    *address = (uint64_t)access->immediate;
    if (access->uniform >= 0) {
        if ((size_t)access->uniform + 1 >= uniform_count)
            return 0;
        *address += (uint64_t)uniforms[access->uniform + 1] << 32 | uniforms[access->uniform];
    }
    if (access->base == SASS_RZ)
        return 1;
    if (access->base + (access->is_base_wide ? 1u : 0u) >= register_count)
        return 0;
    *address += registers[access->base];
    if (access->is_base_wide)
        *address += (uint64_t)registers[access->base + 1] << 32;
    return 1;
}

/* The first ones that copy boxes, and bytes in a row, and the last of them. */
enum { UTMALDG = 0x1b4, UBLKCP = 0x1ba, UBLKRED = 0x1bb };

const char *sass_class(struct sass_instruction instruction, enum access_kind *kind)
{
    /* By [8:0]. sass_bulk() tells the direction of UBLKCP. */
    static const struct {
        uint16_t opcode;
        uint8_t kind;
        const char *name;
    } classes[] = {
        {0x160, ACCESS_READ, "TEX"},        {0x163, ACCESS_READ, "TLD4"},       {0x166, ACCESS_READ, "TLD"},
        {0x16c, ACCESS_READ, "TXD"},        {0x199, ACCESS_READ, "SULD"},       {0x19d, ACCESS_WRITE, "SUST"},
        {0x19f, ACCESS_ATOMIC, "SURED"},    {UTMALDG, ACCESS_READ, "UTMALDG"},  {0x1b5, ACCESS_WRITE, "UTMASTG"},
        {0x1b6, ACCESS_ATOMIC, "UTMAREDG"}, {UBLKCP, ACCESS_UNKNOWN, "UBLKCP"}, {UBLKRED, ACCESS_ATOMIC, "UBLKRED"},
        {0x183, ACCESS_UNKNOWN, "LDL"},     {0x184, ACCESS_UNKNOWN, "LDS"},     {0x187, ACCESS_UNKNOWN, "STL"},
        {0x188, ACCESS_UNKNOWN, "STS"},     {0x006, ACCESS_UNKNOWN, "VOTE"},    {0x148, ACCESS_UNKNOWN, "WARPSYNC"},
        {0x15c, ACCESS_UNKNOWN, "BPT"},     {0x189, ACCESS_UNKNOWN, "SHFL"},    {0x1a1, ACCESS_UNKNOWN, "MATCH"},
        {0x1c4, ACCESS_UNKNOWN, "REDUX"},   {0x03b, ACCESS_UNKNOWN, "LDSM"},    {0x044, ACCESS_UNKNOWN, "STSM"},
        {0x18c, ACCESS_UNKNOWN, "ATOMS"},   {0x18d, ACCESS_UNKNOWN, "ATOMS"},
    };
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        if (classes[i].opcode != sass_opcode(instruction))
            continue;
        *kind = (enum access_kind)classes[i].kind;
        return classes[i].name;
    }
    return NULL;
}

/* Of ptxas 13.0 for sm_90, 100 and 120, against nvdisasm 13.5: the same for all three. */
int sass_bulk(struct sass_instruction instruction, struct sass_bulk *bulk)
{
    /* By [84:82]. The four rows of a gather or scatter lie in as many coordinates behind the first one. */
    static const char *const modes[2][8] = {{"", ".IM2COL", ".SCATTER4", "", "", "", "", ""},
                                            {"", ".IM2COL", ".W128", ".W", ".GATHER4", "", "", ""}};
    const unsigned first = (unsigned)sass_bits(instruction, SASS_B_AT, 8),
                   second = (unsigned)sass_bits(instruction, SASS_A_AT, 8);
    enum access_kind kind;
    const char *name = sass_class(instruction, &kind);
    if (!name || sass_opcode(instruction) < UTMALDG || sass_opcode(instruction) > UBLKRED)
        return 0;
    int is_from_shared = (int)sass_bits(instruction, SASS_FROM_SHARED_AT, 1);
    *bulk = (struct sass_bulk){.kind = kind, .at = second};
    if (sass_opcode(instruction) < UBLKCP) {
        bulk->dimensions = 1 + (unsigned)sass_bits(instruction, SASS_DIMENSIONS_AT, 3);
        /* behind the addresses in shared memory of the box and of the barrier */
        bulk->coordinates = first + (kind == ACCESS_READ ? 2 : 1);
        snprintf(bulk->text, sizeof bulk->text, "%s.%uD%s [UR%u], [UR%u]", name, bulk->dimensions,
                 modes[kind == ACCESS_READ][sass_bits(instruction, SASS_COPY_MODE_AT, 3)], first, second);
        return bulk->dimensions <= 5;
    }
    if (is_from_shared && sass_bits(instruction, SASS_TO_SHARED_AT, 1)) /* to the shared memory of another block */
        return 0;
    bulk->size = (unsigned)sass_bits(instruction, SASS_C_AT, 8);
    if (kind == ACCESS_UNKNOWN)
        bulk->kind = is_from_shared ? ACCESS_WRITE : ACCESS_READ;
    if (bulk->kind != ACCESS_READ)
        bulk->at = first;
    snprintf(bulk->text, sizeof bulk->text, "%s%s [UR%u], [UR%u], UR%u", name, bulk->kind == ACCESS_READ ? ".S.G" : ".G.S",
             first, second, bulk->size);
    return 1;
}
