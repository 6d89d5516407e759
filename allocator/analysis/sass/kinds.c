#include "uses.h"

#include "emulate_state.h"

#define NEAR 256 /* instructions that are searched */

/* The type of what an instruction computes with; 0 if it only moves bits, or is not listed. */
static unsigned operands_of(struct sass_instruction instruction)
{
    unsigned opcode = sass_opcode(instruction), numbers = sass_row_of(instruction)->numbers;
    /* IMAD.U32 R, R, 0x10000, RZ widens bfloat16, and so does SHF.L.U32 R, R, 0x10, RZ. */
    uint64_t factor = opcode == 0x024 ? 0x10000 : opcode == 0x019 ? 0x10 : 0;
    if (factor && sass_bits(instruction, 9, 3) == 4 && sass_bits(instruction, 32, 32) == factor)
        return USES_BFLOAT16;
    if (numbers == (USES_FLOAT16 | USES_BFLOAT16))
        return sass_bits(instruction, 85, 1) ? USES_BFLOAT16 : USES_FLOAT16;
    return numbers;
}

/* The type of what an instruction makes; 0 if it only moves bits, or is not listed. */
static unsigned result_of(struct sass_instruction instruction)
{
    unsigned opcode = sass_opcode(instruction);
    if (opcode == 0x03e) { /* F2FP; [78:76] is the type */
        unsigned made = (unsigned)sass_bits(instruction, 76, 3);
        return made == 0 ? USES_FLOAT16 : made == 1 ? USES_BFLOAT16 : 0;
    }
    if (opcode == 0x030 && sass_bits(instruction, 78, 1)) /* HADD2.F32 */
        return USES_FLOAT32;
    if (opcode == 0x024 || opcode == 0x019)
        return 0; /* either widens bfloat16, or is no arithmetic with floating-point numbers */
    if ((opcode == 0x031 || opcode == 0x035) && sass_bits(instruction, 24, 8) == SASS_RZ)
        return 0;        /* a constant of any type */
    if (opcode == 0x108) /* MUFU */
        return USES_FLOAT32;
    if (opcode == 0x105 || opcode == 0x111) /* F2I */
        return USES_INTEGER;
    return operands_of(instruction) & ~(unsigned)USES_INTEGER;
}

/* MOV, SEL, PRMT, and IMAD.MOV, whose first factor is 0. */
static int moves(struct sass_instruction instruction)
{
    return (sass_row_of(instruction)->flags & SASS_MOVES) ||
           (sass_opcode(instruction) == 0x024 && sass_bits(instruction, 24, 8) == SASS_RZ);
}

/* EXIT is behind a predicate here, and what follows is near. */
static int leads_away(struct sass_instruction instruction)
{
    return sass_branches(instruction) && sass_opcode(instruction) != 0x14d;
}

static int reads(struct sass_instruction instruction, const uint8_t *is_tracked)
{
    unsigned flags = sass_row_of(instruction)->flags;
    int has_second = sass_bits(instruction, 9, 3) == 1;
    return (!(flags & SASS_NO_FIRST) && is_tracked[sass_bits(instruction, 24, 8)]) ||
           (has_second && is_tracked[sass_bits(instruction, 32, 8)]) ||
           ((flags & SASS_THIRD) && is_tracked[sass_bits(instruction, 64, 8)]);
}

/* Follows what was loaded until the code branches, or all of it is overwritten. */
static unsigned after_load(struct span code, uint64_t at, unsigned count)
{
    uint8_t is_tracked[256] = {0};
    unsigned found = 0, target = (unsigned)sass_bits(sass_load(code.bytes + at), 16, 8);
    for (unsigned i = 0; i < count && target + i < SASS_RZ; i++)
        is_tracked[target + i] = 1;
    for (unsigned i = 1; i < NEAR && at + (i + 1) * SASS_INSTRUCTION_BYTES <= code.size; i++) {
        struct sass_instruction next = sass_load(code.bytes + at + (uint64_t)i * SASS_INSTRUCTION_BYTES);
        if (leads_away(next))
            break;
        int is_reading = reads(next, is_tracked);
        if (is_reading && !moves(next))
            found |= operands_of(next);
        for (unsigned k = 0; k < SASS_RZ; k++) /* under a predicate, it may keep what it had */
            is_tracked[k] &= (uint8_t)(!sass_writes_register(next, k, 1) || sass_bits(next, 12, 4) != 7);
        if (is_reading && moves(next))
            is_tracked[sass_bits(next, 16, 8)] = 1;
        is_tracked[SASS_RZ] = 0;
    }
    return found;
}

/* Finds what has made a register that is stored. */
static unsigned before_store(struct span code, uint64_t at, unsigned number)
{
    for (unsigned i = 1; i < NEAR && at >= (uint64_t)i * SASS_INSTRUCTION_BYTES; i++) {
        struct sass_instruction earlier = sass_load(code.bytes + at - (uint64_t)i * SASS_INSTRUCTION_BYTES);
        if (leads_away(earlier))
            return 0;
        if (sass_writes_register(earlier, number, 1))
            return sass_is_known(earlier) ? result_of(earlier) : 0;
    }
    return 0;
}

/* A number of that many bytes cannot be wider than the access. */
static unsigned within(unsigned kinds, unsigned bytes)
{
    unsigned all = USES_INTEGER | (bytes >= 2 ? USES_FLOAT16 | USES_BFLOAT16 : 0);
    all |= bytes >= 4 ? USES_FLOAT32 : 0;
    return kinds & (all | (bytes >= 8 ? USES_FLOAT64 : 0));
}

unsigned kinds_at(struct span code, uint64_t at, const struct sass_access *access)
{
    unsigned count = access->bytes > 4 ? access->bytes / 4 : 1, kinds = 0;
    unsigned opcode = sass_opcode(sass_load(code.bytes + at));
    unsigned data = (unsigned)sass_bits(sass_load(code.bytes + at), 32, 8);
    if (opcode == 0x180 || opcode == 0x181) /* LD, LDG */
        return within(after_load(code, at, count), access->bytes);
    if (opcode != 0x185 && opcode != 0x186) /* ST, STG */
        return 0;
    for (unsigned i = 0; i < count && data + i < SASS_RZ; i++)
        kinds |= before_store(code, at, data + i);
    return within(kinds, access->bytes);
}
