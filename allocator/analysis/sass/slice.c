#include "slice_parts.h"

#include <string.h>

uint64_t slice_parameters_at(unsigned sm)
{
    return sm >= 100 ? 0x380 : sm >= 90 ? 0x210 : 0x160;
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
        if (sass_opcode(instruction) != 0x144 && sass_opcode(instruction) != 0x150 &&
            slice_writes(slicer, instruction, file, number))
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
    if (!slice_writes(slicer, before, file, number))
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

struct meeting slice_terms_before(struct slicer *slicer, uint32_t at, int file, unsigned number)
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

/* Registers written in a loop depend on themselves: evaluates all of them until nothing changes. Terms are only added, so
 * this terminates. */
static void settle(struct slicer *slicer)
{
    for (int is_changed = 1; is_changed && !slicer->is_lost;) {
        is_changed = 0;
        for (uint32_t i = slicer->value_count; i-- > 0 && !slicer->is_lost;) {
            uint32_t before = slicer->value_count;
            struct meeting now = slice_terms_of(slicer, &slicer->values[i]);
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
        base = slice_terms_before(slicer, at, VECTOR, access->base + (which == HIGH));
    if (access->uniform >= 0)
        uniform = slice_terms_before(slicer, at, UNIFORM, (unsigned)access->uniform + (which == HIGH));
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
    uint32_t index = (uint32_t)(at / SASS_INSTRUCTION_BYTES);
    if (index >= slicer.ways.count)
        return none;
    /* The first call adds the values to evaluate. */
    address_terms(&slicer, index, access, LOW);
    address_terms(&slicer, index, access, HIGH);
    settle(&slicer);
    term_set low = address_terms(&slicer, index, access, LOW), high = address_terms(&slicer, index, access, HIGH);
    return slicer.is_lost ? none : answer(low, high);
}
