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

static const struct sass_row table[512] = {
    [0x002] = {REGISTERS, 1, 0, SASS_MOVE},                                         /* MOV */
    [0x003] = {REGISTERS, 1, 0, 0},                                                 /* P2R */
    [0x004] = {PREDICATES, 0, 0, 0},                                                /* R2P: any of them */
    [0x005] = {REGISTERS, 2, 0, SASS_SPECIAL},                                      /* CS2R */
    [0x006] = {PREDICATES, 1, SASS_ONE_PREDICATE, 0},                               /* VOTE */
    [0x007] = {REGISTERS, 1, 0, SASS_SELECT},                                       /* SEL */
    [0x008] = {REGISTERS, 1, 0, 0},                                                 /* FSEL */
    [0x009] = {REGISTERS, 1, 0, 0},                                                 /* FMNMX */
    [0x00a] = {REGISTERS, 1, 0, 0},                                                 /* FSET */
    [0x00b] = {PREDICATES, 0, 0, 0},                                                /* FSETP */
    [0x00c] = {PREDICATES, 0, 0, SASS_COMPARE},                                     /* ISETP */
    [0x00f] = {REGISTERS, 1, 0, SASS_MIX},                                          /* VIMNMX3 */
    [0x010] = {PREDICATES, 1, 0, SASS_ADD3},                                        /* IADD3 */
    [0x011] = {PREDICATES, 1, SASS_ONE_PREDICATE, SASS_LEA},                        /* LEA */
    [0x012] = {PREDICATES, 1, SASS_ONE_PREDICATE, SASS_LOGIC},                      /* LOP3 */
    [0x013] = {REGISTERS, 1, 0, SASS_ABSOLUTE},                                     /* IABS */
    [0x014] = {REGISTERS, 1, 0, 0},                                                 /* VABSDIFF */
    [0x016] = {REGISTERS, 1, 0, SASS_PERMUTE},                                      /* PRMT */
    [0x017] = {PREDICATES, 1, 0, SASS_LESSER},                                      /* IMNMX */
    [0x019] = {REGISTERS, 1, 0, SASS_SHIFT},                                        /* SHF */
    [0x01a] = {REGISTERS, 1, 0, SASS_EXTEND},                                       /* SGXT */
    [0x01b] = {REGISTERS, 1, 0, 0},                                                 /* BMSK */
    [0x01c] = {PREDICATES, 0, 0, SASS_PREDICATE_LOGIC},                             /* PLOP3 */
    [0x020] = {REGISTERS, 1, 0, 0},                                                 /* FMUL */
    [0x021] = {REGISTERS, 1, 0, 0},                                                 /* FADD */
    [0x023] = {REGISTERS, 1, 0, 0},                                                 /* FFMA */
    [0x024] = {PREDICATES, 1, SASS_ONE_PREDICATE, SASS_MULTIPLY_ADD},               /* IMAD */
    [0x025] = {PREDICATES, 2, SASS_ONE_PREDICATE, SASS_MULTIPLY_WIDE},              /* IMAD.WIDE */
    [0x026] = {REGISTERS, 1, 0, 0},                                                 /* IDP */
    [0x027] = {PREDICATES, 1, SASS_ONE_PREDICATE, SASS_MULTIPLY_HIGH},              /* IMAD.HI */
    [0x028] = {REGISTERS, 2, 0, 0},                                                 /* DMUL */
    [0x029] = {REGISTERS, 2, 0, 0},                                                 /* DADD */
    [0x02a] = {PREDICATES, 0, 0, 0},                                                /* DSETP */
    [0x02b] = {REGISTERS, 2, 0, 0},                                                 /* DFMA */
    [0x02d] = {NOTHING, 0, 0, 0},                                                   /* PREEXIT */
    [0x02e] = {NOTHING, 0, 0, 0},                                                   /* ACQBULK */
    [0x030] = {REGISTERS, 1, 0, 0},                                                 /* HADD2 */
    [0x031] = {REGISTERS, 1, 0, SASS_CONSTANT},                                     /* HFMA2 */
    [0x032] = {REGISTERS, 1, 0, 0},                                                 /* HMUL2 */
    [0x033] = {REGISTERS, 1, 0, 0},                                                 /* HSET2 */
    [0x034] = {PREDICATES, 0, 0, 0},                                                /* HSETP2 */
    [0x035] = {REGISTERS, 1, 0, SASS_CONSTANT},                                     /* HFMA2.MMA */
    [0x036] = {REGISTERS, 1, 0, SASS_ADD},                                          /* VIADD */
    [0x037] = {REGISTERS, 4, 0, 0},                                                 /* IMMA: at most */
    [0x039] = {REGISTERS, 1, 0, 0},                                                 /* I2IP */
    [0x02f] = {ELECTION, 1, SASS_ONE_PREDICATE, 0},                                 /* ELECT */
    [0x03a] = {REGISTERS, 1, 0, 0},                                                 /* MOVM */
    [0x03b] = {REGISTERS, 4, 0, 0},                                                 /* LDSM: at most */
    [0x03c] = {REGISTERS, 4, 0, 0},                                                 /* HMMA: at most */
    [0x03e] = {REGISTERS, 1, 0, 0},                                                 /* F2FP */
    [0x03f] = {REGISTERS, 8, 0, 0},                                                 /* DMMA: at most */
    [0x040] = {REGISTERS, 1, 0, 0},                                                 /* HMNMX2 */
    [0x043] = {REGISTERS, 1, 0, 0},                                                 /* F2IP */
    [0x044] = {NOTHING, 0, 0, 0},                                                   /* STSM */
    [0x045] = {REGISTERS, 1, 0, 0},                                                 /* I2FP */
    [0x046] = {REGISTERS, 1, 0, SASS_MIX},                                          /* VIADDMNMX */
    [0x047] = {REGISTERS, 1, 0, 0},                                                 /* VHMNMX */
    [0x048] = {PREDICATES, 1, 0, SASS_LESSER},                                      /* VIMNMX */
    [0x049] = {REGISTERS, 2, 0, 0},                                                 /* FFMA2 */
    [0x04a] = {REGISTERS, 2, 0, 0},                                                 /* FMUL2 */
    [0x04c] = {NOTHING, 0, 0, 0},                                                   /* UVIRTCOUNT */
    [0x050] = {UNIFORM, 1, 0, 0},                                                   /* UFMNMX */
    [0x051] = {UNIFORM, 1, 0, 0},                                                   /* UFSEL */
    [0x052] = {UNIFORM, 1, 0, 0},                                                   /* UFSET */
    [0x053] = {UPREDICATES, 0, 0, 0},                                               /* UFSETP */
    [0x054] = {UNIFORM, 1, 0, 0},                                                   /* UFADD */
    [0x055] = {UNIFORM, 1, 0, 0},                                                   /* UFFMA */
    [0x056] = {UNIFORM, 1, 0, 0},                                                   /* UFMUL */
    [0x05a] = {UNIFORM, 2, 0, 0},                                                   /* UI2F: at most */
    [0x05c] = {UNIFORM, 2, 0, 0},                                                   /* UF2I: at most */
    [0x05e] = {UNIFORM, 1, 0, 0},                                                   /* UI2FP */
    [0x076] = {REGISTERS, 1, 0, 0},                                                 /* FMNMX3 */
    [0x07a] = {REGISTERS, 4, 0, 0},                                                 /* QMMA: at most */
    [0x082] = {UNIFORM, 1, 0, SASS_MOVE},                                           /* UMOV */
    [0x083] = {UNIFORM, 1, 0, 0},                                                   /* UP2UR */
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
    [0x09a] = {UNIFORM, 1, 0, 0},                                                   /* USGXT */
    [0x09b] = {UNIFORM, 1, 0, 0},                                                   /* UBMSK */
    [0x09c] = {UPREDICATES, 0, 0, SASS_PREDICATE_LOGIC},                            /* UPLOP3 */
    [0x0a4] = {UPREDICATES, 1, 0, SASS_MULTIPLY_ADD},                               /* UIMAD */
    [0x0a5] = {UPREDICATES, 2, 0, SASS_MULTIPLY_WIDE},                              /* UIMAD.WIDE */
    [0x0a6] = {UPREDICATES, 1, 0, SASS_MULTIPLY_HIGH},                              /* UIMAD.HI */
    [0x0b9] = {UNIFORM, BY_LOAD, 0, SASS_LOAD_CONSTANT},                            /* ULDC */
    [0x0bb] = {UNIFORM, BY_LOAD, 0, SASS_LOAD_INDEXED},                             /* ULDC, indexed */
    [0x0bd] = {UPREDICATES, 1, 0, 0},                                               /* UFLO */
    [0x0be] = {UNIFORM, 1, 0, 0},                                                   /* UBREV */
    [0x0bf] = {UNIFORM, 1, 0, 0},                                                   /* UPOPC */
    [0x0ca] = {ELECTION, 1, SASS_ONE_PREDICATE, SASS_TO_UNIFORM},                   /* R2UR */
    [0x0cb] = {UNIFORM, 2, 0, 0},                                                   /* CS2UR: at most */
    [0x0cc] = {UNIFORM, 1, 0, 0},                                                   /* CREDUX */
    [0x100] = {PREDICATES, 1, SASS_ONE_PREDICATE, SASS_COUNT},                      /* FLO */
    [0x101] = {REGISTERS, 1, 0, SASS_COUNT},                                        /* BREV */
    [0x102] = {PREDICATES, 0, SASS_ONE_PREDICATE, 0},                               /* FCHK */
    [0x104] = {REGISTERS, 2, 0, 0},                                                 /* F2F */
    [0x105] = {REGISTERS, 2, 0, SASS_INDEX},                                        /* F2I */
    [0x106] = {REGISTERS, 2, 0, 0},                                                 /* I2F */
    [0x107] = {REGISTERS, 1, 0, 0},                                                 /* FRND */
    [0x108] = {REGISTERS, 1, 0, 0},                                                 /* MUFU */
    [0x109] = {REGISTERS, 1, 0, SASS_COUNT},                                        /* POPC */
    [0x110] = {REGISTERS, 2, 0, 0},                                                 /* F2F, 64-bit */
    [0x111] = {REGISTERS, 2, 0, SASS_INDEX},                                        /* F2I, 64-bit */
    [0x112] = {REGISTERS, 2, 0, 0},                                                 /* I2F, 64-bit */
    [0x113] = {REGISTERS, 2, 0, 0},                                                 /* FRND, 64-bit */
    [0x118] = {NOTHING, 0, 0, 0},                                                   /* NOP */
    [0x119] = {REGISTERS, 1, 0, SASS_SPECIAL},                                      /* S2R */
    [0x11a] = {NOTHING, 0, 0, 0},                                                   /* DEPBAR */
    [0x11b] = {NOTHING, 0, 0, 0},                                                   /* ENDCOLLECTIVE */
    [0x11c] = {PREDICATES, 1, SASS_ONE_PREDICATE, 0},                               /* B2R */
    [0x11d] = {PREDICATES, 1, SASS_ONE_PREDICATE, 0},                               /* BAR */
    [0x140] = {NOTHING, 0, 0, 0},                                                   /* CCTL of LDCU */
    [0x141] = {NOTHING, 0, SASS_BRANCHES, 0},                                       /* BSYNC */
    [0x142] = {NOTHING, 0, 0, 0},                                                   /* BREAK */
    [0x144] = {ANYTHING, 0, SASS_BRANCHES, 0},                                      /* CALL */
    [0x145] = {NOTHING, 0, 0, 0},                                                   /* BSSY */
    [0x146] = {NOTHING, 0, 0, 0},                                                   /* YIELD */
    [0x147] = {NOTHING, 0, SASS_BRANCHES, 0},                                       /* BRA */
    [0x148] = {NOTHING, 0, 0, 0},                                                   /* WARPSYNC */
    [0x14e] = {REGISTERS, 2, 0, 0},                                                 /* LEPC */
    [0x14d] = {NOTHING, 0, SASS_BRANCHES, 0},                                       /* EXIT */
    [0x150] = {ANYTHING, 0, SASS_BRANCHES, 0},                                      /* RET */
    [0x152] = {NOTHING, 0, 0, 0},                                                   /* RPCMOV, to it */
    [0x153] = {REGISTERS, 1, 0, 0},                                                 /* RPCMOV, from it */
    [0x155] = {REGISTERS, 1, 0, 0},                                                 /* BMOV */
    [0x156] = {NOTHING, 0, 0, 0},                                                   /* BMOV, to a barrier */
    [0x15c] = {NOTHING, 0, SASS_BRANCHES, 0},                                       /* BPT */
    [0x15d] = {NOTHING, 0, 0, 0},                                                   /* NANOSLEEP */
    [0x180] = {REGISTERS, BY_LOAD, 0, SASS_LOAD},                                   /* LD */
    [0x181] = {PREDICATES, BY_LOAD, 0, SASS_LOAD},                                  /* LDG */
    [0x182] = {REGISTERS, BY_LOAD, 0, SASS_LOAD_CONSTANT},                          /* LDC */
    [0x183] = {REGISTERS, BY_LOAD, 0, 0},                                           /* LDL */
    [0x184] = {REGISTERS, BY_LOAD, 0, SASS_LOAD},                                   /* LDS */
    [0x185] = {NOTHING, 0, SASS_WRITES, 0},                                         /* ST */
    [0x186] = {NOTHING, 0, SASS_WRITES, 0},                                         /* STG */
    [0x187] = {NOTHING, 0, 0, 0},                                                   /* STL */
    [0x188] = {NOTHING, 0, 0, 0},                                                   /* STS */
    [0x189] = {PREDICATES, 1, SASS_ONE_PREDICATE, 0},                               /* SHFL */
    [0x18a] = {PREDICATES, BY_ATOMIC, SASS_WRITES | SASS_ONE_PREDICATE, SASS_LOAD}, /* ATOM */
    [0x18b] = {PREDICATES, BY_ATOMIC, SASS_WRITES | SASS_ONE_PREDICATE, 0},         /* ATOM.CAS */
    [0x18c] = {PREDICATES, BY_ATOMIC, SASS_ONE_PREDICATE, SASS_LOAD},               /* ATOMS */
    [0x18d] = {PREDICATES, BY_ATOMIC, SASS_ONE_PREDICATE, 0},                       /* ATOMS.CAS */
    [0x18e] = {NOTHING, 0, SASS_WRITES, 0},                                         /* RED */
    [0x18f] = {NOTHING, 0, 0, 0},                                                   /* CCTL */
    [0x192] = {NOTHING, 0, 0, 0},                                                   /* MEMBAR */
    [0x1a1] = {PREDICATES, 1, SASS_ONE_PREDICATE, 0},                               /* MATCH */
    [0x1a2] = {PREDICATES, BY_FLOAT, SASS_WRITES | SASS_ONE_PREDICATE, 0},          /* ATOM, float */
    [0x1a3] = {PREDICATES, BY_FLOAT, SASS_WRITES | SASS_ONE_PREDICATE, 0},          /* ATOMG, float */
    [0x1a4] = {REGISTERS, BY_ATOMIC, 0, SASS_LOAD},                                 /* LDGMC */
    [0x1a5] = {REGISTERS, BY_FLOAT, 0, 0},                                          /* LDGMC, float */
    [0x1a6] = {NOTHING, 0, SASS_WRITES, 0},                                         /* RED, float */
    [0x1a7] = {PREDICATES, 2, SASS_ONE_PREDICATE, 0},                               /* SYNCS: of an mbarrier */
    [0x1a8] = {PREDICATES, BY_ATOMIC, SASS_WRITES | SASS_ONE_PREDICATE, SASS_LOAD}, /* ATOMG */
    [0x1a9] = {PREDICATES, BY_ATOMIC, SASS_WRITES | SASS_ONE_PREDICATE, SASS_LOAD}, /* ATOMG.CAS */
    [0x1aa] = {PREDICATES, 1, SASS_ONE_PREDICATE, 0},                               /* QSPC */
    [0x1ab] = {NOTHING, 0, 0, 0},                                                   /* ERRBAR */
    [0x1ac] = {UNIFORM, BY_LOAD, 0, SASS_LOAD_CONSTANT},                            /* LDCU */
    [0x1ae] = {NOTHING, 0, 0, 0},                                                   /* LDGSTS */
    [0x1af] = {NOTHING, 0, 0, 0},                                                   /* LDGDEPBAR */
    [0x1b1] = {NOTHING, 0, 0, 0},                                                   /* SYNCS.CCTL */
    [0x1b2] = {UNIFORM, 2, 0, 0},                                                   /* SYNCS.EXCH */
    [0x1b4] = {NOTHING, 0, 0, 0},                                                   /* UTMALDG */
    [0x1b5] = {NOTHING, 0, SASS_WRITES, 0},                                         /* UTMASTG */
    [0x1b6] = {NOTHING, 0, SASS_WRITES, 0},                                         /* UTMAREDG */
    [0x1b7] = {NOTHING, 0, 0, 0},                                                   /* UTMACMDFLUSH */
    [0x1b8] = {NOTHING, 0, 0, 0},                                                   /* UTMAPF */
    [0x1b9] = {NOTHING, 0, 0, 0},                                                   /* UTMACCTL */
    [0x1ba] = {NOTHING, 0, SASS_WRITES, 0},                                         /* UBLKCP */
    [0x1bb] = {NOTHING, 0, SASS_WRITES, 0},                                         /* UBLKRED */
    [0x1bc] = {NOTHING, 0, 0, 0},                                                   /* UBLKPF */
    [0x1bd] = {NOTHING, 0, 0, 0},                                                   /* STAS */
    [0x1be] = {NOTHING, 0, 0, 0},                                                   /* REDAS */
    [0x1c2] = {ELECTION, 1, SASS_ONE_PREDICATE, SASS_TO_UNIFORM},                   /* R2UR, before sm_90 */
    [0x1c3] = {UNIFORM, 1, 0, SASS_SPECIAL},                                        /* S2UR */
    [0x1c4] = {UNIFORM, 1, 0, 0},                                                   /* REDUX */
    [0x1c5] = {NOTHING, 0, 0, 0},                                                   /* WARPGROUP */
    [0x1c6] = {NOTHING, 0, 0, 0},                                                   /* FENCE.VIEW */
    [0x1c7] = {NOTHING, 0, 0, 0},                                                   /* UCGABAR */
    [0x1c8] = {UPREDICATES, 0, 0, 0},                                               /* USETMAXREG */
    [0x1c9] = {NOTHING, 0, 0, 0},                                                   /* USETSHMSZ */
    [0x1ca] = {NOTHING, 0, 0, 0},                                                   /* UGETNEXTWORKID */
    [0x1e3] = {UPREDICATES, 1, 0, 0},                                               /* UTCATOMSWS */
    [0x1e7] = {NOTHING, 0, 0, 0},                                                   /* UTCCP */
    [0x1e9] = {NOTHING, 0, 0, 0},                                                   /* UTCBAR */
    [0x1ea] = {NOTHING, 0, 0, 0},                                                   /* UTCHMMA and others */
    [0x1ed] = {NOTHING, 0, 0, 0},                                                   /* STTM */
    [0x1ee] = {REGISTERS, 128, 0, 0},                                               /* LDTM: at most */
    [0x1f0] = {REGISTERS, 128, 0, 0},                                               /* HGMMA: at most */
    [0x1f1] = {REGISTERS, 128, 0, 0},                                               /* IGMMA */
    [0x1f3] = {REGISTERS, 128, 0, 0},                                               /* QGMMA */
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
