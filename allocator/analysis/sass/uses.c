#include "uses.h"

#include "emulate_state.h"
#include "ways.h"

#include <stdlib.h>
#include <string.h>

/* For all accesses of a kernel. Most need a tenth of it, a few milliseconds; the worst take a fifth of a second. */
#define STEPS 500000u

#define CALL_ABSOLUTE 0x143u /* a function elsewhere */
#define EXIT 0x94du

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

/* Returns USES_ flags for what an access loads or stores, according to the instructions near it: those that first use a loaded
 * register, and the one that makes a stored register; 0 if nothing near tells. Hints, not proofs: bits may be moved with any of
 * them. */
static unsigned kinds_at(struct span code, uint64_t at, const struct sass_access *access)
{
    unsigned count = access->bytes > 4 ? access->bytes / 4 : 1, kinds = 0;
    unsigned opcode = sass_opcode(sass_load(code.bytes + at));
    unsigned form = (unsigned)sass_bits(sass_load(code.bytes + at), 0, 12);
    unsigned data = (unsigned)sass_bits(sass_load(code.bytes + at), form == 0x385 ? 64 : 32, 8); /* ST without a descriptor */
    if (opcode == 0x180 || opcode == 0x181)                                                      /* LD, LDG */
        return within(after_load(code, at, count), access->bytes);
    if (opcode != 0x185 && opcode != 0x186) /* ST, STG */
        return 0;
    for (unsigned i = 0; i < count && data + i < SASS_RZ; i++)
        kinds |= before_store(code, at, data + i);
    return within(kinds, access->bytes);
}

/* Whether an instruction that is no access of a known form may write memory of a buffer, itself or by calling a function. */
static int may_write(struct sass_instruction instruction)
{
    enum access_kind kind;
    if (sass_class(instruction, &kind))
        return kind != ACCESS_READ;
    /* CALL.REL: its target is in the code, or the code is not analysed. RET */
    if (sass_opcode(instruction) == 0x144 || sass_opcode(instruction) == 0x150)
        return 0;
    return !sass_is_known(instruction) || (sass_row_of(instruction)->flags & SASS_WRITES);
}

static void add_write(struct use *use, uint64_t at)
{
    if (use->write_count < USES_WRITES)
        use->write_at[use->write_count] = (uint32_t)at;
    use->write_count++;
}

/* Enters an access. Its words are all that were added up to its address: one of them is the pointer. */
static void add_access(struct uses *uses, struct span code, uint64_t at, const struct sass_access *access,
                       const struct address_source *source, uint32_t first)
{
    int is_write = access->kind != ACCESS_READ, is_alone = !(source->words & (source->words - 1));
    for (unsigned i = 0; i < SLICE_WORDS; i++) {
        if (!(source->words >> i & 1))
            continue;
        struct use *use = &uses->words[first + i];
        if (is_write)
            add_write(use, at);
        if (!is_alone || !access->bytes)
            continue;
        if (!use->narrowest || access->bytes < use->narrowest)
            use->narrowest = (uint8_t)access->bytes;
        use->kinds |= (uint8_t)kinds_at(code, at, access);
    }
}

/* The window moves on where an address comes from parameters behind it, and stays there: kernels have all of their pointers in
 * one place. Returns 0 if the source is unknown. */
static int find_source(struct span code, uint64_t at, const struct sass_access *access, unsigned sm,
                       struct slice_window *window, struct address_source *source)
{
    for (int i = 0; i < 2; i++) {
        *source = slice_within(code, at, access, sm, window);
        if (source->is_known || window->missed > USES_WORDS - SLICE_WORDS)
            break;
        window->first = window->missed;
    }
    return source->is_known && source->words && !source->is_loaded;
}

/* Looks at one instruction. Returns 0 if it writes what is unknown. */
static int look_at(struct uses *uses, struct span code, uint64_t at, unsigned sm, int is_for_reads, struct slice_window *window)
{
    struct sass_access access;
    struct sass_instruction instruction = sass_load(code.bytes + at);
    struct address_source source;
    if (!sass_decode(instruction, sm, &access))
        return !may_write(instruction);
    if ((access.kind == ACCESS_READ) != is_for_reads)
        return 1;
    if (!find_source(code, at, &access, sm, window, &source))
        return 0;
    add_access(uses, code, at, &access, &source, window->first);
    return 1;
}

static int look_at_all(struct uses *uses, struct span code, unsigned sm, int is_for_reads)
{
    struct slice_window window = {.steps = STEPS};
    int is_complete = 1;
    for (uint64_t at = 0; at + SASS_INSTRUCTION_BYTES <= code.size; at += SASS_INSTRUCTION_BYTES)
        is_complete &= look_at(uses, code, at, sm, is_for_reads, &window);
    return is_complete;
}

uint8_t *uses_end_at_calls(struct span code)
{
    uint8_t *copy = malloc(code.size);
    if (!copy)
        return NULL;
    memcpy(copy, code.bytes, code.size);
    for (uint64_t at = 0; at + SASS_INSTRUCTION_BYTES <= code.size; at += SASS_INSTRUCTION_BYTES) {
        struct sass_instruction instruction = sass_load(copy + at);
        if (sass_opcode(instruction) != CALL_ABSOLUTE)
            continue;
        copy[at] = EXIT & 0xff;
        copy[at + 1] = (uint8_t)((copy[at + 1] & 0xf0) | EXIT >> 8); /* the predicate stays */
    }
    return copy;
}

void uses_find_writes(struct span code, unsigned sm, struct uses *out)
{
    struct ways ways;
    memset(out, 0, sizeof *out);
    out->knows_writes = ways_find(&ways, code, sm) && look_at_all(out, code, sm, 0);
}

void uses_find_reads(struct span code, unsigned sm, struct uses *uses)
{
    look_at_all(uses, code, sm, 1);
}
