#include "sass_rows.h"

/* By [8:0] of the opcode; [11:9] only select the form of the operands. Instructions that are not listed may change anything.
 * The uniform variant of a vector instruction has the opcode plus 0x80. Derived from code of ptxas 13.0 for sm_75 to sm_120,
 * and from PyTorch's kernels. */
enum effect {
    ANYTHING,
    NOTHING,     /* stores, barriers, branches */
    REGISTERS,   /* `width` registers from [23:16] on */
    PREDICATES,  /* predicates, and `width` registers from [23:16] on */
    UNIFORM,     /* `width` uniform registers from [23:16] on; 0 if that is not known */
    UPREDICATES, /* the same, and uniform predicates */
    ELECTION     /* a uniform register and a predicate */
};

/* Instead of a width: it depends on the type. */
enum { BY_LOAD = 253, BY_ATOMIC, BY_FLOAT };

/* The rows that many instructions share. `name` is what nvdisasm prints. */
#define ONE(opcode, name) [opcode] = {REGISTERS, 1, 0, 0}
#define TWO(opcode, name) [opcode] = {REGISTERS, 2, 0, 0}
#define FOUR(opcode, name) [opcode] = {REGISTERS, 4, 0, 0}
#define MANY(opcode, name) [opcode] = {REGISTERS, 128, 0, 0}
#define NONE(opcode, name) [opcode] = {NOTHING, 0, 0, 0}
#define STORE(opcode, name) [opcode] = {NOTHING, 0, SASS_WRITES, 0}
#define JUMP(opcode, name) [opcode] = {NOTHING, 0, SASS_BRANCHES, 0}
#define TEST(opcode, name) [opcode] = {PREDICATES, 0, 0, 0}
#define VOTE(opcode, name) [opcode] = {PREDICATES, 1, SASS_ONE_PREDICATE, 0}
#define UNIFORM_ONE(opcode, name) [opcode] = {UNIFORM, 1, 0, 0}
#define UNIFORM_TWO(opcode, name) [opcode] = {UNIFORM, 2, 0, 0}

static const struct sass_row table[512] = {
    /* They write one register. */
    ONE(0x003, P2R), ONE(0x008, FSEL), ONE(0x009, FMNMX), ONE(0x00a, FSET), ONE(0x014, VABSDIFF), ONE(0x01b, BMSK),
    ONE(0x020, FMUL), ONE(0x021, FADD), ONE(0x023, FFMA), ONE(0x026, IDP), ONE(0x030, HADD2), ONE(0x032, HMUL2),
    ONE(0x033, HSET2), ONE(0x039, I2IP), ONE(0x03a, MOVM), ONE(0x03e, F2FP), ONE(0x040, HMNMX2), ONE(0x043, F2IP),
    ONE(0x045, I2FP), ONE(0x047, VHMNMX), ONE(0x076, FMNMX3), ONE(0x107, FRND), ONE(0x108, MUFU), ONE(0x153, RPCMOV from it),
    ONE(0x155, BMOV),
    /* Two. */
    TWO(0x028, DMUL), TWO(0x029, DADD), TWO(0x02b, DFMA), TWO(0x049, FFMA2), TWO(0x04a, FMUL2), TWO(0x104, F2F),
    TWO(0x106, I2F), TWO(0x110, F2F 64 - bit), TWO(0x112, I2F 64 - bit), TWO(0x113, FRND 64 - bit), TWO(0x14e, LEPC),
    /* At most four. */
    FOUR(0x037, IMMA), FOUR(0x03b, LDSM), FOUR(0x03c, HMMA), FOUR(0x07a, QMMA),
    /* At most 128. */
    MANY(0x1ee, LDTM), MANY(0x1f0, HGMMA), MANY(0x1f1, IGMMA), MANY(0x1f3, QGMMA),
    /* None. */
    NONE(0x02d, PREEXIT), NONE(0x02e, ACQBULK), NONE(0x04c, UVIRTCOUNT), NONE(0x118, NOP), NONE(0x11a, DEPBAR),
    NONE(0x11b, ENDCOLLECTIVE), NONE(0x140, CCTL of LDCU), NONE(0x142, BREAK), NONE(0x145, BSSY), NONE(0x146, YIELD),
    NONE(0x148, WARPSYNC), NONE(0x152, RPCMOV to it), NONE(0x156, BMOV to a barrier), NONE(0x15d, NANOSLEEP), NONE(0x18f, CCTL),
    NONE(0x192, MEMBAR), NONE(0x1ab, ERRBAR), NONE(0x1af, LDGDEPBAR), NONE(0x1b1, SYNCS.CCTL), NONE(0x1b7, UTMACMDFLUSH),
    NONE(0x1b8, UTMAPF), NONE(0x1b9, UTMACCTL), NONE(0x1bc, UBLKPF), NONE(0x1c5, WARPGROUP), NONE(0x1c6, FENCE.VIEW),
    NONE(0x1c7, UCGABAR), NONE(0x1c9, USETSHMSZ), NONE(0x1ca, UGETNEXTWORKID), NONE(0x1e7, UTCCP), NONE(0x1e9, UTCBAR),
    NONE(0x1ea, UTCHMMA and others), NONE(0x1ed, STTM),
    /* Memory, also shared or local. */
    STORE(0x044, STSM), STORE(0x185, ST), STORE(0x186, STG), STORE(0x187, STL), STORE(0x188, STS), STORE(0x18e, RED),
    STORE(0x1a6, RED float), STORE(0x1ae, LDGSTS), STORE(0x1b4, UTMALDG), STORE(0x1b5, UTMASTG), STORE(0x1b6, UTMAREDG),
    STORE(0x1ba, UBLKCP), STORE(0x1bb, UBLKRED), STORE(0x1bd, STAS), STORE(0x1be, REDAS),
    /* Branches. */
    JUMP(0x141, BSYNC), JUMP(0x147, BRA), JUMP(0x14d, EXIT), JUMP(0x15c, BPT),
    /* Predicates; R2P any of them. */
    TEST(0x004, R2P), TEST(0x00b, FSETP), TEST(0x02a, DSETP), TEST(0x034, HSETP2),
    /* One register and one predicate. */
    VOTE(0x006, VOTE), VOTE(0x11c, B2R), VOTE(0x11d, BAR), VOTE(0x189, SHFL), VOTE(0x1a1, MATCH), VOTE(0x1aa, QSPC),
    /* One uniform register. */
    UNIFORM_ONE(0x050, UFMNMX), UNIFORM_ONE(0x051, UFSEL), UNIFORM_ONE(0x052, UFSET), UNIFORM_ONE(0x054, UFADD),
    UNIFORM_ONE(0x055, UFFMA), UNIFORM_ONE(0x056, UFMUL), UNIFORM_ONE(0x05e, UI2FP), UNIFORM_ONE(0x083, UP2UR),
    UNIFORM_ONE(0x09a, USGXT), UNIFORM_ONE(0x09b, UBMSK), UNIFORM_ONE(0x0be, UBREV), UNIFORM_ONE(0x0bf, UPOPC),
    UNIFORM_ONE(0x0cc, CREDUX), UNIFORM_ONE(0x1c4, REDUX),
    /* At most two. */
    UNIFORM_TWO(0x05a, UI2F), UNIFORM_TWO(0x05c, UF2I), UNIFORM_TWO(0x0cb, CS2UR), UNIFORM_TWO(0x1b2, SYNCS.EXCH),
    /* Each of the others has its own. */
    [0x002] = {REGISTERS, 1, 0, SASS_MOVE},                                         /* MOV */
    [0x005] = {REGISTERS, 2, 0, SASS_SPECIAL},                                      /* CS2R */
    [0x007] = {REGISTERS, 1, 0, SASS_SELECT},                                       /* SEL */
    [0x00c] = {PREDICATES, 0, 0, SASS_COMPARE},                                     /* ISETP */
    [0x00f] = {REGISTERS, 1, 0, SASS_MIX},                                          /* VIMNMX3 */
    [0x010] = {PREDICATES, 1, 0, SASS_ADD3},                                        /* IADD3 */
    [0x011] = {PREDICATES, 1, SASS_ONE_PREDICATE, SASS_LEA},                        /* LEA */
    [0x012] = {PREDICATES, 1, SASS_ONE_PREDICATE, SASS_LOGIC},                      /* LOP3 */
    [0x013] = {REGISTERS, 1, 0, SASS_ABSOLUTE},                                     /* IABS */
    [0x016] = {REGISTERS, 1, 0, SASS_PERMUTE},                                      /* PRMT */
    [0x017] = {PREDICATES, 1, 0, SASS_LESSER},                                      /* IMNMX */
    [0x019] = {REGISTERS, 1, 0, SASS_SHIFT},                                        /* SHF */
    [0x01a] = {REGISTERS, 1, 0, SASS_EXTEND},                                       /* SGXT */
    [0x01c] = {PREDICATES, 0, 0, SASS_PREDICATE_LOGIC},                             /* PLOP3 */
    [0x024] = {PREDICATES, 1, SASS_ONE_PREDICATE, SASS_MULTIPLY_ADD},               /* IMAD */
    [0x025] = {PREDICATES, 2, SASS_ONE_PREDICATE, SASS_MULTIPLY_WIDE},              /* IMAD.WIDE */
    [0x027] = {PREDICATES, 1, SASS_ONE_PREDICATE, SASS_MULTIPLY_HIGH},              /* IMAD.HI */
    [0x02f] = {ELECTION, 1, SASS_ONE_PREDICATE, 0},                                 /* ELECT */
    [0x031] = {REGISTERS, 1, 0, SASS_CONSTANT},                                     /* HFMA2 */
    [0x035] = {REGISTERS, 1, 0, SASS_CONSTANT},                                     /* HFMA2.MMA */
    [0x036] = {REGISTERS, 1, 0, SASS_ADD},                                          /* VIADD */
    [0x03f] = {REGISTERS, 8, 0, 0},                                                 /* DMMA: at most */
    [0x046] = {REGISTERS, 1, 0, SASS_MIX},                                          /* VIADDMNMX */
    [0x048] = {PREDICATES, 1, 0, SASS_LESSER},                                      /* VIMNMX */
    [0x053] = {UPREDICATES, 0, 0, 0},                                               /* UFSETP */
    [0x082] = {UNIFORM, 1, 0, SASS_MOVE},                                           /* UMOV */
    [0x085] = {UPREDICATES, 2, 0, 0},                                               /* UIMNMX: at most */
    [0x086] = {UPREDICATES, 1, 0, 0},                                               /* VOTEU */
    [0x087] = {UNIFORM, 1, 0, SASS_SELECT},                                         /* USEL */
    [0x08c] = {UPREDICATES, 0, 0, SASS_COMPARE},                                    /* UISETP */
    [0x090] = {UPREDICATES, 1, 0, SASS_ADD3},                                       /* UIADD3 */
    [0x091] = {UPREDICATES, 1, 0, SASS_LEA},                                        /* ULEA */
    [0x092] = {UPREDICATES, 1, 0, SASS_LOGIC},                                      /* ULOP3 */
    [0x096] = {UNIFORM, 1, 0, SASS_PERMUTE},                                        /* UPRMT */
    [0x097] = {UPREDICATES, 2, 0, SASS_ADD3_WIDE},                                  /* UIADD3.64 */
    [0x099] = {UNIFORM, 1, 0, SASS_SHIFT},                                          /* USHF */
    [0x09c] = {UPREDICATES, 0, 0, SASS_PREDICATE_LOGIC},                            /* UPLOP3 */
    [0x0a4] = {UPREDICATES, 1, 0, SASS_MULTIPLY_ADD},                               /* UIMAD */
    [0x0a5] = {UPREDICATES, 2, 0, SASS_MULTIPLY_WIDE},                              /* UIMAD.WIDE */
    [0x0a6] = {UPREDICATES, 1, 0, SASS_MULTIPLY_HIGH},                              /* UIMAD.HI */
    [0x0b9] = {UNIFORM, BY_LOAD, 0, SASS_LOAD_CONSTANT},                            /* ULDC */
    [0x0bb] = {UNIFORM, BY_LOAD, 0, SASS_LOAD_INDEXED},                             /* ULDC, indexed */
    [0x0bd] = {UPREDICATES, 1, 0, 0},                                               /* UFLO */
    [0x0ca] = {ELECTION, 1, SASS_ONE_PREDICATE, SASS_TO_UNIFORM},                   /* R2UR */
    [0x100] = {PREDICATES, 1, SASS_ONE_PREDICATE, SASS_COUNT},                      /* FLO */
    [0x101] = {REGISTERS, 1, 0, SASS_COUNT},                                        /* BREV */
    [0x102] = {PREDICATES, 0, SASS_ONE_PREDICATE, 0},                               /* FCHK */
    [0x105] = {REGISTERS, 2, 0, SASS_INDEX},                                        /* F2I */
    [0x109] = {REGISTERS, 1, 0, SASS_COUNT},                                        /* POPC */
    [0x111] = {REGISTERS, 2, 0, SASS_INDEX},                                        /* F2I, 64-bit */
    [0x119] = {REGISTERS, 1, 0, SASS_SPECIAL},                                      /* S2R */
    [0x144] = {ANYTHING, 0, SASS_BRANCHES, 0},                                      /* CALL */
    [0x150] = {ANYTHING, 0, SASS_BRANCHES, 0},                                      /* RET */
    [0x180] = {REGISTERS, BY_LOAD, SASS_POLLS, SASS_LOAD},                          /* LD */
    [0x181] = {PREDICATES, BY_LOAD, SASS_POLLS, SASS_LOAD},                         /* LDG */
    [0x182] = {REGISTERS, BY_LOAD, 0, SASS_LOAD_CONSTANT},                          /* LDC */
    [0x183] = {REGISTERS, BY_LOAD, 0, 0},                                           /* LDL */
    [0x184] = {REGISTERS, BY_LOAD, SASS_POLLS, SASS_LOAD},                          /* LDS */
    [0x18a] = {PREDICATES, BY_ATOMIC, SASS_WRITES | SASS_ONE_PREDICATE, SASS_LOAD}, /* ATOM */
    [0x18b] = {PREDICATES, BY_ATOMIC, SASS_POLLS | SASS_ONE_PREDICATE, 0},          /* ATOM.CAS */
    [0x18c] = {PREDICATES, BY_ATOMIC, SASS_WRITES | SASS_ONE_PREDICATE, SASS_LOAD}, /* ATOMS */
    [0x18d] = {PREDICATES, BY_ATOMIC, SASS_POLLS | SASS_ONE_PREDICATE, 0},          /* ATOMS.CAS */
    [0x1a2] = {PREDICATES, BY_FLOAT, SASS_WRITES | SASS_ONE_PREDICATE, 0},          /* ATOM, float */
    [0x1a3] = {PREDICATES, BY_FLOAT, SASS_WRITES | SASS_ONE_PREDICATE, 0},          /* ATOMG, float */
    [0x1a4] = {REGISTERS, BY_ATOMIC, 0, SASS_LOAD},                                 /* LDGMC */
    [0x1a5] = {REGISTERS, BY_FLOAT, 0, 0},                                          /* LDGMC, float */
    [0x1a7] = {PREDICATES, 2, SASS_POLLS | SASS_ONE_PREDICATE, 0},                  /* SYNCS: of an mbarrier */
    [0x1a8] = {PREDICATES, BY_ATOMIC, SASS_WRITES | SASS_ONE_PREDICATE, SASS_LOAD}, /* ATOMG */
    [0x1a9] = {PREDICATES, BY_ATOMIC, SASS_POLLS | SASS_ONE_PREDICATE, SASS_LOAD},  /* ATOMG.CAS */
    [0x1ac] = {UNIFORM, BY_LOAD, 0, SASS_LOAD_CONSTANT},                            /* LDCU */
    [0x1c2] = {ELECTION, 1, SASS_ONE_PREDICATE, SASS_TO_UNIFORM},                   /* R2UR, before sm_90 */
    [0x1c3] = {UNIFORM, 1, 0, SASS_SPECIAL},                                        /* S2UR */
    [0x1c8] = {UPREDICATES, 0, 0, 0},                                               /* USETMAXREG */
    [0x1e3] = {UPREDICATES, 1, 0, 0},                                               /* UTCATOMSWS */
};

/* Registers that a load writes, by [75:73]: LDG.U.128 has 7. */
static const uint8_t load_registers[8] = {1, 1, 1, 1, 1, 2, 4, 4};
/* Those of atomics with integers: at most, as 3, 4 and 5 mean something else since sm_90. */
static const uint8_t atomic_registers[8] = {1, 1, 2, 2, 4, 2, 2, 4};
static const uint8_t float_registers[16] = {1, 2, 4, 1, 2, 4, 4, 4, 4, 1, 2, 4, 1, 2, 4, 2}; /* by [76:73] */

/* Opcodes that mean something else on another architecture, or in another form. */
const struct sass_row *sass_row_of(struct sass_instruction instruction)
{
    static const struct sass_row barrier = {NOTHING, 0, 0, 0};
    static const struct sass_row add = {PREDICATES, 1, SASS_ONE_PREDICATE, SASS_ADD_PAIRS};
    static const struct sass_row lesser = {UNIFORM, 1, 0, 0}, multiply = {REGISTERS, 2, 0, 0};
    const uint64_t high = instruction.high;
    unsigned form = instruction.low >> 9 & 7;
    switch (sass_opcode(instruction)) {
    case 0x035: /* IADD of sm_120: without .X, [90:87] is 15; HFMA2.MMA, before sm_100, has other bits in [79:64] */
        return (high >> 23 & 15) == 15 || (form != 2 && (high & 0xfeff) == 0x0400 && (high >> 20 & 7) == 0) ? &add
                                                                                                            : &table[0x035];
    case 0x036: /* HMMA.884 of sm_70 and 75; VIADD has no such bits */
        return form == 1 && (high >> 12 & 15) != 0 ? &multiply : &table[0x036];
    case 0x04a: /* UVIMNMX of sm_120 */
        return (form == 1 || form == 4) && (high >> 27 & 1) ? &lesser : &table[0x04a];
    case 0x11d: /* BAR.SYNC, with or without .DEFER_BLOCKING (bit 80), writes nothing; for a reduction, [79:64] has its kind */
        return (high & 0xffffffff & ~((uint64_t)1 << 16)) == 0 ? &barrier : &table[0x11d];
    default:
        return &table[sass_opcode(instruction)];
    }
}

/* SEL.64 of sm_120 has forms that SEL does not have: 3 for registers, 2 for an immediate. USEL.64: 6 and 2. */
int sass_is_select_wide(struct sass_instruction instruction)
{
    unsigned form = instruction.low >> 9 & 7, opcode = sass_opcode(instruction);
    return (opcode == 0x007 && (form == 2 || form == 3)) || (opcode == 0x087 && (form == 2 || form == 6));
}

unsigned sass_width(struct sass_instruction instruction)
{
    unsigned opcode = sass_opcode(instruction), width = sass_row_of(instruction)->width;
    switch (opcode) {
    case 0x002: /* MOV.64 of sm_120: bit 80, or the form with a 64-bit immediate */
    case 0x082:
        return (instruction.high >> 16 & 1) || (instruction.low >> 9 & 7) == 2 ? 2 : 1;
    case 0x005: /* CS2R, CS2R.32 */
        return instruction.high >> 16 & 1 ? 2 : 1;
    case 0x007:
    case 0x087:
        return sass_is_select_wide(instruction) ? 2 : 1;
    case 0x017: /* IMNMX.64 of sm_120 */
        return instruction.high >> 10 & 1 ? 2 : 1;
    case 0x035: /* IADD.64 */
        return sass_row_of(instruction)->operation == SASS_ADD_PAIRS && (instruction.high >> 9 & 1) ? 2 : width;
    case 0x03b: /* LDSM, by [73:72] */
        return instruction.high >> 8 & 2 ? 4 : 1 + (instruction.high >> 8 & 1);
    case 0x105: /* F2I and I2F: 8- to 32-bit results, by [76:75]. 64-bit ones have their own opcodes, so 3 is unexpected. */
    case 0x106:
        return (instruction.high >> 11 & 3) == 3 ? 2 : 1;
    default:
        return width == BY_LOAD     ? load_registers[instruction.high >> 9 & 7]
               : width == BY_ATOMIC ? atomic_registers[instruction.high >> 9 & 7]
               : width == BY_FLOAT  ? float_registers[instruction.high >> 9 & 15]
                                    : width;
    }
}

int sass_writes_register(struct sass_instruction instruction, unsigned first, unsigned count)
{
    const struct sass_row *row = sass_row_of(instruction);
    if (row->effect == ANYTHING)
        return 1;
    if (row->effect != REGISTERS && row->effect != PREDICATES)
        return 0;
    unsigned width = sass_width(instruction);
    unsigned target = instruction.low >> 16 & 0xff;
    return width != 0 && target != SASS_RZ && target < first + count && first < target + width;
}

int sass_writes_uniform(struct sass_instruction instruction)
{
    enum effect effect = (enum effect)sass_row_of(instruction)->effect;
    return effect == ANYTHING || effect == UNIFORM || effect == UPREDICATES || effect == ELECTION;
}

int sass_writes_uniform_register(struct sass_instruction instruction, unsigned number, unsigned zero)
{
    unsigned first = (unsigned)(instruction.low >> 16) & zero;
    return !sass_is_known(instruction) ||
           (sass_writes_uniform(instruction) && number >= first && number - first < sass_width(instruction));
}

int sass_may_write_uniform_predicate(struct sass_instruction instruction, unsigned number)
{
    enum effect effect = (enum effect)sass_row_of(instruction)->effect;
    return effect == ANYTHING ||
           (effect == UPREDICATES && ((instruction.high >> 17 & 7) == number || (instruction.high >> 20 & 7) == number));
}

int sass_writes_predicate(struct sass_instruction instruction)
{
    const struct sass_row *row = sass_row_of(instruction);
    /* The predicate result of a load is in [83:81]; 7 means none. */
    if (sass_opcode(instruction) == 0x181)
        return (instruction.high >> 17 & 7) != 7;
    return row->effect == ANYTHING || row->effect == PREDICATES || row->effect == ELECTION;
}

int sass_may_write_predicate(struct sass_instruction instruction, unsigned number)
{
    if (!sass_is_known(instruction) || sass_opcode(instruction) == 0x004)
        return 1;
    /* The results are in [83:81] and [86:84]; some instructions have only the first one, and other things in the second. */
    int has_one = sass_row_of(instruction)->flags & SASS_ONE_PREDICATE;
    return sass_writes_predicate(instruction) &&
           ((instruction.high >> 17 & 7) == number || ((instruction.high >> 20 & 7) == number && !has_one));
}

int sass_reads_predicate(struct sass_instruction instruction, unsigned at)
{
    int is_extended = (int)sass_bits(instruction, SASS_EXTENDED_AT, 1), is_last = at == SASS_PREDICATE_AT;
    if (sass_opcode(instruction) >= 0x100)
        return 0;
    switch (sass_row_of(instruction)->operation) {
    case SASS_MOVE:
    case SASS_SPECIAL:
    case SASS_SHIFT:
    case SASS_PERMUTE:
    case SASS_ADD:
    case SASS_CONSTANT:
        return 0;
    case SASS_PREDICATE_LOGIC:
        return 1;
    case SASS_COMPARE:
        return is_last || (at == SASS_PREDICATE_3_AT && sass_bits(instruction, SASS_CHAINED_AT, 1));
    case SASS_ADD3:
        return at != SASS_PREDICATE_3_AT && is_extended;
    case SASS_NO_OPERATION:
    case SASS_SELECT:
    case SASS_LESSER:
    case SASS_LOGIC:
        return is_last;
    default: /* with a carry */
        return is_last && is_extended;
    }
}

int sass_branches(struct sass_instruction instruction)
{
    const struct sass_row *row = sass_row_of(instruction);
    return row->effect == ANYTHING || (row->flags & SASS_BRANCHES) != 0;
}

int sass_is_known(struct sass_instruction instruction)
{
    return sass_row_of(instruction)->effect != ANYTHING;
}

int sass_has_uniform_guard(struct sass_instruction instruction)
{
    unsigned opcode = sass_opcode(instruction);
    if (opcode == 0x04a)
        return sass_row_of(instruction)->effect == UNIFORM;    /* UVIMNMX */
    if (opcode == 0x086 || opcode == 0x0ca || opcode == 0x0cc) /* VOTEU, R2UR, CREDUX */
        return 0;
    return (opcode >= 0x80 && opcode < 0x100) || (opcode >= 0x50 && opcode < 0x60) || opcode == 0x04c || opcode == 0x1ac ||
           opcode == 0x1b2 || opcode == 0x1c3 || (opcode >= 0x1b4 && opcode <= 0x1bc) || opcode == 0x1c7 || opcode == 0x1c8 ||
           opcode == 0x1c9 || opcode == 0x1ca || (opcode >= 0x1e3 && opcode <= 0x1ee);
}
