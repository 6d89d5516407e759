#include "operand_uses.h"

#include "emulate_state.h"
#include "ways.h"

#include <stdlib.h>
#include <string.h>

/* For all writes of a kernel. Most need a tenth of it, a few milliseconds; the worst take a fifth of a second. */
#define STEPS 500000u

#define CALL_ABSOLUTE 0x143u /* a function elsewhere */
#define EXIT 0x94du

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

static void add_write(struct operand_use *use, uint64_t at)
{
    if (use->write_count < USES_WRITES)
        use->write_at[use->write_count] = (uint32_t)at;
    use->write_count++;
}

/* Enters a write. Its words are all that were added up to its address: one of them is the pointer. */
static void add_writes(struct operand_uses *uses, uint64_t at, const struct address_source *source, uint32_t first)
{
    for (unsigned i = 0; i < SLICE_WORDS; i++)
        if (source->words >> i & 1)
            add_write(&uses->words[first + i], at);
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
static int look_at(struct operand_uses *uses, struct span code, uint64_t at, unsigned sm, struct slice_window *window)
{
    struct sass_access access;
    struct sass_instruction instruction = sass_load(code.bytes + at);
    struct address_source source;
    if (!sass_decode(instruction, sm, &access))
        return !may_write(instruction);
    if (access.kind == ACCESS_READ)
        return 1;
    if (!find_source(code, at, &access, sm, window, &source))
        return 0;
    add_writes(uses, at, &source, window->first);
    return 1;
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

void uses_find_writes(struct span code, unsigned sm, struct operand_uses *out)
{
    struct ways ways;
    struct slice_window window = {.steps = STEPS};
    memset(out, 0, sizeof *out);
    out->knows_writes = ways_find(&ways, code, sm);
    for (uint64_t at = 0; out->knows_writes && at + SASS_INSTRUCTION_BYTES <= code.size; at += SASS_INSTRUCTION_BYTES)
        out->knows_writes = look_at(out, code, at, sm, &window);
}
