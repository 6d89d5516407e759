#include "kinds.h"

#include "emulate_state.h"
#include "uses.h"

#define NEAR 256 /* instructions that are searched */

static unsigned opcode_of(struct sass_instruction instruction)
{
    return (unsigned)(instruction.low & 0x1ff);
}

static int is_brain(struct sass_instruction instruction)
{
    return instruction_bits(instruction, 85, 1) != 0;
}

/* The type of what an instruction computes with; 0 if it only moves bits, or is not listed. */
static unsigned operands_of(struct sass_instruction instruction)
{
    switch (opcode_of(instruction)) {
    case 0x009: /* FMNMX */
    case 0x00b: /* FSETP */
    case 0x020: /* FMUL */
    case 0x021: /* FADD */
    case 0x023: /* FFMA */
        return USES_FLOAT32;
    case 0x028: /* DMUL */
    case 0x029: /* DADD */
    case 0x02a: /* DSETP */
    case 0x02b: /* DFMA */
        return USES_FLOAT64;
    case 0x030: /* HADD2 */
    case 0x031: /* HFMA2 */
    case 0x032: /* HMUL2 */
    case 0x035: /* HFMA2.MMA */
        return is_brain(instruction) ? USES_BFLOAT16 : USES_FLOAT16;
    case 0x024: /* IMAD.U32 R, R, 0x10000, RZ widens bfloat16 */
        return instruction_bits(instruction, 9, 3) == 4 && instruction_bits(instruction, 32, 32) == 0x10000 ? USES_BFLOAT16
                                                                                                            : USES_INTEGER;
    case 0x019: /* and so does SHF.L.U32 R, R, 0x10, RZ */
        return instruction_bits(instruction, 9, 3) == 4 && instruction_bits(instruction, 32, 32) == 0x10 ? USES_BFLOAT16 : 0;
    case 0x00c: /* ISETP */
    case 0x010: /* IADD3 */
    case 0x011: /* LEA */
    case 0x025: /* IMAD.WIDE */
    case 0x045: /* I2FP */
    case 0x106: /* I2F */
    case 0x112:
        return USES_INTEGER;
    default:
        return 0;
    }
}

/* The type of what an instruction makes; 0 if it only moves bits, or is not listed. */
static unsigned result_of(struct sass_instruction instruction)
{
    unsigned opcode = opcode_of(instruction);
    if (opcode == 0x03e) { /* F2FP; [78:76] is the type */
        unsigned made = (unsigned)instruction_bits(instruction, 76, 3);
        return made == 0 ? USES_FLOAT16 : made == 1 ? USES_BFLOAT16 : 0;
    }
    if (opcode == 0x030 && instruction_bits(instruction, 78, 1)) /* HADD2.F32 */
        return USES_FLOAT32;
    if (opcode == 0x024 || opcode == 0x019)
        return 0; /* either widens bfloat16, or is no arithmetic with floating-point numbers */
    if ((opcode == 0x031 || opcode == 0x035) && instruction_bits(instruction, 24, 8) == SASS_RZ)
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
    unsigned opcode = opcode_of(instruction);
    return opcode == 0x002 || opcode == 0x007 || opcode == 0x016 ||
           (opcode == 0x024 && instruction_bits(instruction, 24, 8) == SASS_RZ);
}

/* Whether [71:64] is an operand. Elsewhere these bits mean something else. */
static int has_third(unsigned opcode)
{
    return opcode == 0x010 || opcode == 0x016 || opcode == 0x019 || opcode == 0x023 || opcode == 0x024 || opcode == 0x025 ||
           opcode == 0x029 || opcode == 0x02b || opcode == 0x031 || opcode == 0x035;
}

/* EXIT is behind a predicate here, and what follows is near. */
static int leads_away(struct sass_instruction instruction)
{
    return sass_branches(instruction) && opcode_of(instruction) != 0x14d;
}

static int reads(struct sass_instruction instruction, const uint8_t *is_tracked)
{
    unsigned opcode = opcode_of(instruction);
    int has_first = opcode != 0x002 && opcode != 0x045 && opcode != 0x106 && opcode != 0x112;
    int has_second = instruction_bits(instruction, 9, 3) == 1;
    return (has_first && is_tracked[instruction_bits(instruction, 24, 8)]) ||
           (has_second && is_tracked[instruction_bits(instruction, 32, 8)]) ||
           (has_third(opcode) && is_tracked[instruction_bits(instruction, 64, 8)]);
}

/* Follows what was loaded until the code branches, or all of it is overwritten. */
static unsigned after_load(struct span code, uint64_t at, unsigned count)
{
    uint8_t is_tracked[256] = {0};
    unsigned found = 0, target = (unsigned)instruction_bits(sass_load(code.bytes + at), 16, 8);
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
            is_tracked[k] &= (uint8_t)(!sass_writes_register(next, k, 1) || instruction_bits(next, 12, 4) != 7);
        if (is_reading && moves(next))
            is_tracked[instruction_bits(next, 16, 8)] = 1;
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
    unsigned opcode = opcode_of(sass_load(code.bytes + at));
    unsigned data = (unsigned)instruction_bits(sass_load(code.bytes + at), 32, 8);
    if (opcode == 0x180 || opcode == 0x181) /* LD, LDG */
        return within(after_load(code, at, count), access->bytes);
    if (opcode != 0x185 && opcode != 0x186) /* ST, STG */
        return 0;
    for (unsigned i = 0; i < count && data + i < SASS_RZ; i++)
        kinds |= before_store(code, at, data + i);
    return within(kinds, access->bytes);
}
