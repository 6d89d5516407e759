#include "origin.h"

#include "path.h"

#include <string.h>

#define FAR ((uint64_t)1 << 40) /* a pointer can be moved by that, and a 4-byte number cannot */
#define POINTERS_FROM ((uint64_t)1 << 32)
#define MOST_PARAMETERS 4096u
#define MOST_LOADS 256u /* that are looked at, the last ones */
#define MOST_WRAPS 64u  /* likewise of results that do not fit: a hash has one in each of its rounds */

/* The search for the origin of one address. */
struct hunt {
    struct path path;
    struct origin *out;
    struct path_change zeros[ORIGIN_TERMS]; /* for each term, that it is 0 */
    uint32_t wraps[MOST_WRAPS];             /* a ring of steps: which do not fit, and how many those are in all */
    size_t wrap_count, looked_at;
};

/* The address with one change. Returns 0 if it is unknown then. */
static int with(struct hunt *hunt, struct path_change change, uint64_t value, uint64_t *address)
{
    change.value = value;
    return path_address(&hunt->path, &change, 1, address);
}

/* How much the address moves if an input has `value` instead of `before`. 0 if it is unknown. */
static int moved(struct hunt *hunt, struct path_change change, uint64_t value, uint64_t *by)
{
    uint64_t address;
    if (!with(hunt, change, value, &address))
        return 0;
    *by = address - hunt->path.address;
    return 1;
}

/* ---- the pointer ---- */

/* Enters the value as the base if all of it is added. at: its offset in the parameters, or -1. Returns 1 then. */
static unsigned take_base(struct hunt *hunt, struct path_change change, uint64_t value, int32_t at, uint64_t from)
{
    uint64_t near = 0, far = 0;
    if (value < POINTERS_FROM || !moved(hunt, change, value + 1, &near) || near != 1 ||
        !moved(hunt, change, value + FAR, &far) || far != FAR)
        return 0;
    hunt->out->base = value;
    hunt->out->base_at = at;
    hunt->out->base_from = from;
    return 1;
}

static uint64_t parameter_at(const struct hunt *hunt, uint32_t at, uint32_t bytes)
{
    uint64_t value = 0;
    struct span part = span_part(hunt->path.launch->parameters, at, bytes);
    if (part.bytes)
        memcpy(&value, part.bytes, bytes);
    return value;
}

static uint32_t parameter_bytes(const struct hunt *hunt)
{
    size_t size = hunt->path.launch->parameters.size;
    return size < MOST_PARAMETERS ? (uint32_t)size : MOST_PARAMETERS;
}

/* Returns how many words of the parameters may be the pointer; the last of them is the origin's base. */
static unsigned find_parameter(struct hunt *hunt)
{
    unsigned found = 0;
    for (uint32_t at = 0; at + 8 <= parameter_bytes(hunt); at += 8) {
        const struct path_change change = {.input = PATH_PARAMETER, .at = at, .bytes = 8};
        found += take_base(hunt, change, parameter_at(hunt, at, 8), (int32_t)at, 0);
    }
    return found;
}

static uint64_t loaded_value(const struct path_load *load, uint32_t from, uint32_t bytes)
{
    uint64_t value = 0;
    memcpy(&value, load->value + from, bytes);
    return value;
}

/* Calls look for each load that the address depends on: the last MOST_LOADS. */
static void each_load(struct hunt *hunt, void (*look)(struct hunt *hunt, uint32_t load))
{
    const struct path *path = &hunt->path;
    uint32_t left = MOST_LOADS;
    for (size_t i = path->step_count; i-- > 0 && left > 0;) {
        if (path->steps[i].load == PATH_NO_LOAD)
            continue;
        left--;
        look(hunt, path->steps[i].load);
    }
}

static void look_for_pointer(struct hunt *hunt, uint32_t number)
{
    const struct path_load *load = &hunt->path.loads[number];
    for (uint32_t from = 0; from + 8 <= load->bytes; from += 8) {
        const struct path_change change = {.input = PATH_LOADED, .at = number, .from = from, .bytes = 8};
        hunt->out->is_known += (int)take_base(hunt, change, loaded_value(load, from, 8), -1, load->address + from);
    }
}

/* Returns 1 if there is one pointer that it can be. */
static int find_base(struct hunt *hunt)
{
    unsigned found = find_parameter(hunt);
    if (!found) {
        each_load(hunt, look_for_pointer);
        found = (unsigned)hunt->out->is_known;
        hunt->out->is_known = 0;
    }
    return found == 1;
}

/* ---- what is added to it ---- */

static uint64_t sign_extended(uint64_t value, uint32_t bytes)
{
    unsigned shift = 64 - 8 * bytes;
    return (uint64_t)((int64_t)(value << shift) >> shift);
}

/* Whether what is added is the value, with its sign or without, times one factor. */
static int is_multiple(struct hunt *hunt, struct path_change change, struct origin_term *term)
{
    uint64_t value = term->value, zero, one;
    if (!with(hunt, change, 0, &zero) || !with(hunt, change, 1, &one))
        return 0;
    uint64_t factor = one - zero, extended = sign_extended(value, change.bytes);
    term->adds = hunt->path.address - zero;
    if (!factor || (factor * value != term->adds && factor * extended != term->adds))
        return 0;
    term->is_negative = factor * value != term->adds;
    if (change.bytes == 8)
        term->is_negative = (int64_t)value < 0;
    term->value = term->is_negative ? extended : value;
    term->factor = factor;
    return 1;
}

static void add_term(struct hunt *hunt, struct path_change change, struct origin_term term)
{
    struct origin *out = hunt->out;
    if (out->term_count == ORIGIN_TERMS)
        return;
    change.value = 0;
    term.times = -1;
    hunt->zeros[out->term_count] = change;
    out->terms[out->term_count++] = term;
}

/* Tries the bytes of a load in pieces of that size. Returns 1 if one of them is added. */
static int add_loaded_in(struct hunt *hunt, uint32_t number, uint32_t bytes)
{
    const struct path_load *load = &hunt->path.loads[number];
    int is_added = 0;
    for (uint32_t from = 0; from + bytes <= load->bytes; from += bytes) {
        const struct path_change change = {.input = PATH_LOADED, .at = number, .from = from, .bytes = bytes};
        struct origin_term term = {.input = ORIGIN_LOADED,
                                   .value = loaded_value(load, from, bytes),
                                   .from = load->address + from,
                                   .bytes = bytes,
                                   .place.code_at = (uint64_t)load->number * SASS_INSTRUCTION_BYTES};
        if (hunt->out->base_at < 0 && hunt->out->base_from == term.from)
            is_added = 1;
        else if (is_multiple(hunt, change, &term) && term.adds) {
            add_term(hunt, change, term);
            is_added = 1;
        }
    }
    return is_added;
}

static void add_loaded(struct hunt *hunt, uint32_t number)
{
    uint32_t bytes = hunt->path.loads[number].bytes;
    if (bytes >= 8 && add_loaded_in(hunt, number, 8))
        return;
    if (bytes >= 1 && bytes <= 16)
        add_loaded_in(hunt, number, bytes < 4 ? bytes : 4);
}

/* Blocks and threads; what they add may be no multiple of them, as with `i % 32`. */
static void add_coordinates(struct hunt *hunt, enum path_input input)
{
    for (uint32_t axis = 3; axis-- > 0;) {
        const struct emulate_lane *lane = hunt->path.lane;
        const struct path_change change = {.input = input, .at = axis, .bytes = 4};
        struct origin_term term = {.input = input == PATH_BLOCK ? ORIGIN_BLOCK : ORIGIN_THREAD,
                                   .at = axis,
                                   .value = input == PATH_BLOCK ? lane->block_index[axis] : lane->thread[axis]};
        uint64_t zero;
        if (!term.value)
            continue;
        if (!is_multiple(hunt, change, &term)) {
            term.factor = 0;
            if (!with(hunt, change, 0, &zero))
                continue;
            term.adds = hunt->path.address - zero;
        }
        if (term.adds)
            add_term(hunt, change, term);
    }
}

/* Returns 1 if the terms do not depend on each other: together they add what each of them adds. Then what is left is a
 * constant. */
static int is_sum(struct hunt *hunt)
{
    struct origin *out = hunt->out;
    uint64_t rest, sum = 0;
    if (!path_address(&hunt->path, hunt->zeros, out->term_count, &rest))
        return 0;
    for (uint32_t i = 0; i < out->term_count; i++)
        sum += out->terms[i].adds;
    out->constant = rest - out->base;
    return rest + sum == out->address;
}

static int is_base(const struct hunt *hunt, uint32_t at)
{
    return hunt->out->base_at >= 0 && at / 8 == (uint32_t)hunt->out->base_at / 8;
}

/* Whether a term's factor is a multiple of that parameter. */
static int is_times(struct hunt *hunt, uint32_t term, uint32_t at, uint32_t value)
{
    const struct origin_term *of = &hunt->out->terms[term];
    struct path_change both[2] = {hunt->zeros[term], {.input = PATH_PARAMETER, .at = at, .bytes = 4, .value = value + 1}};
    uint64_t zero, one;
    both[0].value = 0;
    if (!path_address(&hunt->path, both, 2, &zero))
        return 0;
    both[0].value = 1;
    if (!path_address(&hunt->path, both, 2, &one))
        return 0;
    uint64_t more = one - zero - of->factor;
    return more && more * value == of->factor;
}

/* Finds the parameters that the terms are multiplied with: strides. */
static void find_strides(struct hunt *hunt)
{
    for (uint32_t at = 0; at + 4 <= parameter_bytes(hunt); at += 4) {
        uint32_t value = (uint32_t)parameter_at(hunt, at, 4);
        for (uint32_t i = 0; i < hunt->out->term_count && value > 1 && value <= INT32_MAX && !is_base(hunt, at); i++) {
            struct origin_term *term = &hunt->out->terms[i];
            if (!term->factor || term->times >= 0 || !is_times(hunt, i, at, value))
                continue;
            term->times = (int32_t)at;
            term->times_value = value;
        }
    }
}

/* Finds the parameters whose multiples the constant is made of. If they do not add up to it, it stays what it is. */
static void split_constant(struct hunt *hunt)
{
    struct origin *out = hunt->out;
    uint32_t first = out->term_count, zeros = first;
    uint64_t sum = 0;
    for (uint32_t at = 0; at + 4 <= parameter_bytes(hunt) && out->constant; at += 4) {
        const struct path_change change = {.input = PATH_PARAMETER, .at = at, .bytes = 4};
        struct path_change changes[ORIGIN_TERMS + 1];
        struct origin_term term = {
            .input = ORIGIN_PARAMETER, .at = at, .value = parameter_at(hunt, at, 4), .bytes = 4, .times = -1};
        uint64_t more;
        memcpy(changes, hunt->zeros, sizeof hunt->zeros);
        changes[zeros] = change;
        changes[zeros].value = term.value + 1;
        if (is_base(hunt, at) || !term.value || !path_address(&hunt->path, changes, zeros + 1, &more))
            continue;
        term.factor = more - (out->base + out->constant);
        term.is_negative = (int32_t)term.value < 0;
        term.value = term.is_negative ? sign_extended(term.value, 4) : term.value;
        term.adds = term.factor * term.value;
        if (!term.factor)
            continue;
        if (out->term_count == ORIGIN_TERMS)
            break;
        out->terms[out->term_count++] = term;
        sum += term.adds;
    }
    if (sum == out->constant)
        out->constant = 0;
    else
        out->term_count = first;
}

/* ---- 32-bit numbers ---- */

/* What an instruction computes in 32 bits: its kind, and which bits negate a, b and c. 0: its upper half, or a part that
 * another instruction goes on with, so that it may well have no room for all. */
static int is_narrow(struct sass_instruction instruction, uint32_t *kind, unsigned negations[3])
{
    static const unsigned product[3] = {SASS_NEGATE_A_AT, SASS_NEGATE_A_AT, SASS_NEGATE_C_AT},
                          sum[3] = {SASS_NEGATE_A_AT, SASS_NEGATE_B_AT, SASS_NEGATE_C_AT},
                          shift[3] = {SASS_NEGATE_A_AT, SASS_NEGATE_A_AT, SASS_NEGATE_B_AT};
    unsigned operation = sass_row_of(instruction)->operation, has_carry = sass_bits(instruction, SASS_WRITTEN_AT, 3) != 7;
    unsigned is_extended = (unsigned)sass_bits(instruction, SASS_EXTENDED_AT, 1),
             is_high = (unsigned)sass_bits(instruction, SASS_HIGH_AT, 1);
    const unsigned *bits = operation == SASS_MULTIPLY_ADD ? product : operation == SASS_LEA ? shift : sum;
    memcpy(negations, bits, sizeof product);
    *kind = operation == SASS_MULTIPLY_ADD                     ? ORIGIN_WRAPPED_PRODUCT
            : operation == SASS_LEA || operation == SASS_SHIFT ? ORIGIN_WRAPPED_SHIFT
                                                               : ORIGIN_WRAPPED_SUM;
    switch (operation) {
    case SASS_MULTIPLY_ADD:
        return !is_extended && !has_carry && !sass_bits(instruction, SASS_NEGATE_A_AT, 1);
    case SASS_ADD3:
        return !is_extended && !has_carry && sass_bits(instruction, SASS_WRITTEN_2_AT, 3) == 7;
    case SASS_ADD:
        return sass_bits(instruction, SASS_NEGATE_A_AT, 8) == 0; /* nothing but a sum of two */
    case SASS_LEA:
        return !is_extended && !has_carry && !is_high && !sass_bits(instruction, SASS_NEGATE_A_AT, 1);
    case SASS_SHIFT: /* to the left, and the lower half */
        return !is_high && !sass_bits(instruction, SASS_RIGHT_AT, 1);
    default:
        return 0;
    }
}

/* What it computes without a limit. Returns 0 if that is not known. */
static int is_exact(const struct machine *machine, struct sass_instruction instruction, int is_signed, struct origin_wrap *wrap)
{
    struct operands operands = machine_operands(machine, instruction);
    unsigned operation = sass_row_of(instruction)->operation, negations[3];
    int64_t values[3];
    if (!is_narrow(instruction, &wrap->kind, negations))
        return 0;
    if (operation == SASS_LEA) { /* (a << shift) + b */
        operands.cells[2] = operands.cells[1];
        operands.cells[1] = known(sass_bits(instruction, SASS_SHIFT_AT, 5));
    } else if (operation == SASS_SHIFT || operation == SASS_ADD) {
        operands.cells[2] = known(0);
    }
    for (unsigned i = 0; i < 3; i++) {
        uint32_t value = operands.cells[i].value;
        int is_immediate = i == 1 ? operands.is_b_immediate : i == 2, is_negated = (int)sass_bits(instruction, negations[i], 1);
        if (!operands.cells[i].is_known)
            return 0;
        values[i] = is_signed || is_immediate ? (int32_t)value : (int64_t)value;
        if (is_negated && !(i == 1 && operands.is_b_immediate) && operation != SASS_SHIFT)
            values[i] = -values[i];
    }
    wrap->a = values[0];
    wrap->b = values[1];
    wrap->c = values[2];
    if (wrap->kind == ORIGIN_WRAPPED_SHIFT)
        wrap->exact = values[0] * ((int64_t)1 << (values[1] & 31)) + values[2];
    else
        wrap->exact = (wrap->kind == ORIGIN_WRAPPED_SUM ? values[0] + values[1] : values[0] * values[1]) + values[2];
    return 1;
}

/* Whether it writes the register of the file that `like` computes in. */
static int overwrites(struct sass_instruction instruction, struct sass_instruction like, unsigned number)
{
    if (!sass_writes_uniform(like))
        return sass_writes_register(instruction, number, 1);
    return sass_writes_uniform(instruction) && sass_bits(instruction, SASS_TARGET_AT, 8) == number;
}

/* Whether the upper half of a shift is computed, too: then the lower one may lose bits. */
static int has_upper_half(const struct path *path, uint32_t step, struct sass_instruction instruction)
{
    unsigned operand = (unsigned)sass_bits(instruction, SASS_A_AT, 8);
    for (size_t i = step + 1; i < path->step_count && !overwrites(instruction, instruction, operand); i++) {
        struct sass_instruction other = path_instruction(path, i);
        unsigned operation = sass_row_of(other)->operation;
        if ((operation == SASS_SHIFT || operation == SASS_LEA) && sass_bits(other, SASS_HIGH_AT, 1) &&
            (sass_bits(other, SASS_A_AT, 8) == operand || sass_bits(other, SASS_C_AT, 8) == operand))
            return 1;
        if (overwrites(other, instruction, operand))
            break;
    }
    return 0;
}

/* Whether the result does not fit, with a sign or without. */
static int wraps(const struct hunt *hunt, uint32_t step, const struct machine *machine, struct sass_instruction instruction,
                 struct origin_wrap *signed_one, struct origin_wrap *unsigned_one)
{
    if (hunt->path.steps[step].is_forgotten || !is_exact(machine, instruction, 1, signed_one) ||
        !is_exact(machine, instruction, 0, unsigned_one))
        return 0;
    uint32_t result = (uint32_t)signed_one->exact;
    return signed_one->exact != (int32_t)result || unsigned_one->exact != (int64_t)result;
}

static void note_wrap(void *user, uint32_t step, const struct machine *machine, struct sass_instruction instruction)
{
    struct hunt *hunt = user;
    struct origin_wrap signed_one, unsigned_one;
    if (wraps(hunt, step, machine, instruction, &signed_one, &unsigned_one))
        hunt->wraps[hunt->wrap_count++ % MOST_WRAPS] = step;
}

/* Looks at one step of the path, if it is one of those that were noted. */
static void look_for_wrap(void *user, uint32_t step, const struct machine *machine, struct sass_instruction instruction)
{
    struct hunt *hunt = user;
    struct origin *out = hunt->out;
    const struct path_change change = {.input = PATH_RESULT, .at = step};
    struct origin_wrap signed_one = {0}, unsigned_one = {0};
    uint64_t zero, one, half;
    if (hunt->looked_at == hunt->wrap_count || hunt->wraps[hunt->looked_at % MOST_WRAPS] != step)
        return;
    hunt->looked_at++;
    if (out->wrap_count == ORIGIN_WRAPS || !wraps(hunt, step, machine, instruction, &signed_one, &unsigned_one))
        return;
    uint32_t result = (uint32_t)signed_one.exact;
    if (has_upper_half(&hunt->path, step, instruction) || !with(hunt, change, 0, &zero) || !with(hunt, change, 1, &one) ||
        !with(hunt, change, UINT32_C(1) << 31, &half))
        return;
    uint64_t factor = one - zero, moved = half - zero;
    int is_signed = moved == factor * sign_extended(UINT32_C(1) << 31, 4);
    struct origin_wrap wrap = is_signed ? signed_one : unsigned_one;
    wrap.wrapped = is_signed ? (int32_t)result : (int64_t)result;
    if (!factor || (!is_signed && moved != factor << 31) || wrap.exact == wrap.wrapped ||
        out->address - zero != factor * (uint64_t)wrap.wrapped)
        return;
    wrap.place.code_at = (uint64_t)hunt->path.steps[step].number * SASS_INSTRUCTION_BYTES;
    wrap.address = zero + factor * (uint64_t)wrap.exact;
    out->wraps[out->wrap_count++] = wrap;
}

static int find(struct hunt *hunt)
{
    struct origin *out = hunt->out;
    out->address = hunt->path.address;
    if (!find_base(hunt))
        return 0;
    each_load(hunt, add_loaded);
    add_coordinates(hunt, PATH_BLOCK);
    add_coordinates(hunt, PATH_THREAD);
    out->has_formula = is_sum(hunt);
    if (out->has_formula) {
        find_strides(hunt);
        split_constant(hunt);
    }
    path_each(&hunt->path, note_wrap, hunt);
    hunt->looked_at = hunt->wrap_count > MOST_WRAPS ? hunt->wrap_count - MOST_WRAPS : 0;
    path_each(&hunt->path, look_for_wrap, hunt);
    return 1;
}

int origin_find(const struct emulate_launch *launch, const struct emulate_lane *lane, uint64_t access_pc,
                const struct sass_access *access, uint64_t address, struct origin *out)
{
    struct hunt hunt = {.out = out};
    memset(out, 0, sizeof *out);
    if (path_follow(launch, lane, access_pc, access, address, &hunt.path))
        out->is_known = find(&hunt);
    path_free(&hunt.path);
    return out->is_known;
}
