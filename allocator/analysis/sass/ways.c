#include "ways.h"

#include "sass_rows.h"

#include <string.h>

#define STEPS_A_UNIT 16u /* a step of ways_lead() takes less time than one of the emulation, whose budget it is */

struct sass_instruction ways_instruction(const struct ways *ways, uint32_t index)
{
    return sass_load(ways->code.bytes + (size_t)index * SASS_INSTRUCTION_BYTES);
}

int64_t instruction_branch_offset(struct sass_instruction instruction, unsigned sm)
{
    /* In units of 4: [33:32] is the kind. From sm_90 on, the low byte is in [23:16]. */
    if (sm < 90)
        return sass_signed_bits(instruction, SASS_BRANCH_AT, 48) * 4;
    return (int64_t)((uint64_t)sass_signed_bits(instruction, SASS_BRANCH_AT, 48) << 8 |
                     sass_bits(instruction, SASS_TARGET_AT, 8)) *
           4;
}

enum way way_of(struct sass_instruction instruction)
{
    int is_always = sass_bits(instruction, SASS_GUARD_AT, 4) == 7;
    unsigned opcode = sass_opcode(instruction);
    switch (opcode) {
    case 0x141: /* BSYNC: waits for diverged lanes */
    case 0x146: /* YIELD */
    case 0x156: /* BMOV */
    case 0x157:
    case 0x15c: /* BPT */
        return WAY_ON;
    case 0x143: /* CALL.ABS, to another function */
    case 0x144: /* CALL.REL */
        return WAY_CALL;
    case 0x147: /* BRA; with a second predicate it may fall through, and so may .U and .DIV */
        return is_always && sass_bits(instruction, SASS_OPCODE_AT, 12) == 0x947 && sass_bits(instruction, SASS_B_AT, 2) == 0 &&
                       sass_bits(instruction, SASS_PREDICATE_AT, 4) == 7
                   ? WAY_END
                   : WAY_ON;
    case 0x14d: /* EXIT */
    case 0x150: /* RET, after a call */
        return is_always ? WAY_END : WAY_ON;
    default: /* only unknown instructions in this opcode range may branch */
        return sass_branches(instruction) && opcode >= 0x140 && opcode < 0x160 ? WAY_UNKNOWN : WAY_ON;
    }
}

/* Constant bank 0 has the number of blocks; ptxas takes no other way to it. Of an index register everything may come. */
static int reads_constants(struct sass_instruction instruction, uint64_t from, uint64_t to)
{
    unsigned opcode = sass_opcode(instruction), form = (unsigned)sass_bits(instruction, SASS_FORM_AT, 3),
             type = (unsigned)sass_bits(instruction, SASS_TYPE_AT, 3);
    int is_load = opcode == 0x182 || opcode == 0xb9 || opcode == 0x1ac; /* LDC, ULDC, LDCU */
    int is_indexed = is_load && opcode != 0xb9 && sass_bits(instruction, SASS_A_AT, 8) != SASS_RZ;
    uint64_t offset =
        opcode == 0x1ac ? sass_bits(instruction, SASS_OFFSET_LDCU_AT, 17) : sass_bits(instruction, SASS_OFFSET_AT, 16);
    if (!(is_load || form == 3 || form == 5) || sass_bits(instruction, SASS_BANK_AT, 5) != 0)
        return 0;
    uint64_t bytes = !is_load ? form == 3 ? 8 : 4 : type == 6 ? 16 : type == 5 ? 8 : 4; /* c may be a pair */
    return offset < to && (is_indexed || offset + bytes > from);
}

int code_reads_grid(struct span code, unsigned sm)
{
    uint64_t from = sm >= 100 ? 0x370 : 0xc; /* as in emulate.c */
    for (uint64_t at = 0; code.size - at >= SASS_INSTRUCTION_BYTES; at += SASS_INSTRUCTION_BYTES)
        if (reads_constants(sass_load(code.bytes + at), from, from + 12))
            return 1;
    return 0;
}

int ways_find(struct ways *ways, struct span code, unsigned sm)
{
    memset(ways, 0, sizeof(*ways));
    if (!code.bytes || code.size / SASS_INSTRUCTION_BYTES > WAYS_CODE_LIMIT)
        return 0;
    ways->code = code;
    ways->count = (uint32_t)(code.size / SASS_INSTRUCTION_BYTES);
    for (uint32_t i = 0; i < ways->count; i++) {
        struct sass_instruction instruction = ways_instruction(ways, i);
        unsigned opcode = sass_opcode(instruction);
        if (way_of(instruction) == WAY_UNKNOWN)
            return 0;
        if (opcode != 0x147 && sass_bits(instruction, SASS_OPCODE_AT, 12) != 0x944)
            continue;
        int64_t to = (int64_t)(i + 1) * SASS_INSTRUCTION_BYTES + instruction_branch_offset(instruction, sm);
        if (to < 0 || to % SASS_INSTRUCTION_BYTES != 0 || to / SASS_INSTRUCTION_BYTES >= ways->count ||
            ways->branch_count == WAYS_BRANCH_LIMIT)
            return 0;
        uint32_t target = (uint32_t)(to / SASS_INSTRUCTION_BYTES);
        ways->is_target[target / 8] |= (uint8_t)(1u << target % 8);
        ways->branches[ways->branch_count++] = (struct branch){i, target};
    }
    return 1;
}

static int mark(uint8_t *reached, uint32_t i)
{
    int is_new = !(reached[i / 8] >> i % 8 & 1);
    reached[i / 8] |= (uint8_t)(1u << i % 8);
    return is_new;
}

/* BRA.U.ANY: ptxas makes a loop over the lanes that are elected one by one, each once, to what only one can do. */
static int is_for_other_lanes(struct sass_instruction instruction)
{
    return sass_bits(instruction, SASS_OPCODE_AT, 12) == 0x947 && sass_bits(instruction, SASS_B_AT, 2) == 1 &&
           sass_bits(instruction, SASS_ANY_AT, 1);
}

/* Whether it is in a function behind the kernel's own code. */
static int is_called(const struct ways *ways, uint32_t index)
{
    for (uint32_t k = 0; k < ways->branch_count; k++)
        if (way_of(ways_instruction(ways, ways->branches[k].from)) == WAY_CALL && ways->branches[k].to <= index)
            return 1;
    return 0;
}

int ways_lead(struct span code, unsigned sm, uint64_t from, uint64_t to, uint64_t *budget)
{
    struct ways ways;
    uint8_t reached[WAYS_CODE_LIMIT / 8 + 1] = {0};
    const uint32_t first = (uint32_t)(from / SASS_INSTRUCTION_BYTES), last = (uint32_t)(to / SASS_INSTRUCTION_BYTES);
    const uint64_t work = code.size / SASS_INSTRUCTION_BYTES / STEPS_A_UNIT + 16;
    int is_changed = 1, is_inner = *budget < work || !ways_find(&ways, code, sm) || first >= ways.count || last >= ways.count ||
                                   is_called(&ways, first);
    while (is_changed && !is_inner && *budget >= work) {
        *budget -= work;
        is_changed = 0;
        for (uint32_t i = 0, k = 0; i < ways.count; i++) {
            struct sass_instruction instruction = ways_instruction(&ways, i);
            int is_on = i == first || reached[i / 8] >> i % 8 & 1, is_jump = is_on && !is_for_other_lanes(instruction);
            for (; k < ways.branch_count && ways.branches[k].from == i; k++)
                is_changed |= is_jump && mark(reached, ways.branches[k].to) && ways.branches[k].to <= i;
            if (is_on && way_of(instruction) != WAY_END)
                mark(reached, i + 1);
        }
    }
    return is_changed || reached[last / 8] >> last % 8 & 1;
}
