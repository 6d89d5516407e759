#include "locate.h"

#include "analysis/lines/cubin.h"
#include "analysis/sass/fence.h"
#include "analysis/sass/slice.h"
#include "analysis/sass/sass_rows.h"
#include "analysis/sass/ways.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How far a lane may have continued with its registers still trusted: 256 instructions. */
#define TRUSTED_BYTES 4096

/* The demangler has no limit, and in crafted names, back references make the output grow exponentially: two of them double
 * it. Kernels of PyTorch have about 10; a name with more than 40 is printed mangled. */
#define REFERENCE_LIMIT 40
#define SYMBOL_LIMIT 16384

static int is_demangleable(const char *symbol)
{
    unsigned references = 0;
    size_t size = 0;
    for (; symbol[size]; size++) {
        char next = symbol[size + 1];
        int is_number = next == '_' || (next >= '0' && next <= '9');
        references += symbol[size] == 'S' && (is_number || (next >= 'A' && next <= 'Z'));
        references += symbol[size] == 'T' && is_number;
    }
    return strncmp(symbol, "_Z", 2) == 0 && references <= REFERENCE_LIMIT && size <= SYMBOL_LIMIT;
}

/* Returns NULL if out of host memory, or if text is NULL. */
static const char *copy_text(struct json_memory *memory, const char *text)
{
    size_t size = text ? strlen(text) + 1 : 0;
    char *copy = text ? json_take(memory, 1, size) : NULL;
    return copy ? memcpy(copy, text, size) : NULL;
}

static const char *demangle(struct json_memory *memory, const char *symbol)
{
    if (!is_demangleable(symbol))
        return symbol;
    char *name = text_demangled(symbol);
    const char *copy = copy_text(memory, name);
    free(name);
    return copy ? copy : symbol;
}

/* Returns "directory/file", or the file alone if it is absolute or has no directory. */
static const char *join_path(struct json_memory *memory, const char *directory, const char *file)
{
    if (!directory || !*directory || file[0] == '/')
        return copy_text(memory, file);
    size_t head = strlen(directory), tail = strlen(file);
    int has_slash = directory[head - 1] == '/';
    size_t size = head + tail + 2;
    char *path = json_take(memory, 1, size);
    if (path)
        snprintf(path, size, "%s%s%s", directory, has_slash ? "" : "/", file);
    return path;
}

/* Returns the first PC behind the location's that a branch leads to; UINT64_MAX if there is none. */
static uint64_t next_target(const struct location *location, unsigned sm)
{
    uint64_t first = UINT64_MAX;
    for (uint64_t at = 0; at + SASS_INSTRUCTION_BYTES <= location->code.size; at += SASS_INSTRUCTION_BYTES) {
        struct sass_instruction instruction = sass_load(location->code.bytes + at);
        uint64_t next = location->code_start + at + SASS_INSTRUCTION_BYTES, target = 0;
        if (sass_opcode(instruction) == 0x147) /* BRA */
            target = next + (uint64_t)instruction_branch_offset(instruction, sm);
        else if (way_of(instruction) == WAY_UNKNOWN)
            target = location->pc + SASS_INSTRUCTION_BYTES;
        first = target > location->pc && target < first ? target : first;
    }
    return first;
}

static void decode(struct location *location, struct json_memory *memory, unsigned sm)
{
    if (sass_decode(location->instruction, sm, &location->access)) {
        location->has_access = 1;
        location->kind = location->access.kind;
        location->joined_at = next_target(location, sm);
        location->source = slice_address(location->kernel_code, location->pc - location->kernel_start, &location->access, sm);
        location->text = copy_text(memory, location->access.text);
        return;
    }
    location->has_bulk = sass_bulk(location->instruction, &location->bulk);
    if (location->has_bulk) {
        location->kind = location->bulk.kind;
        location->text = copy_text(memory, location->bulk.text);
        return;
    }
    location->text = sass_class(location->instruction, &location->kind);
}

/* Finds the instruction at the PC; an access that has moved to a stub is told as it was. Returns 0 if it is not there. */
static int find_instruction(struct location *location, unsigned sm)
{
    uint64_t offset = location->pc - location->code_start;
    struct span bytes = span_part(location->code, offset, SASS_INSTRUCTION_BYTES);
    if (!bytes.bytes || offset % SASS_INSTRUCTION_BYTES != 0)
        return 0;
    location->instruction = sass_load(bytes.bytes);
    uint64_t end;
    if (fence_origin(location->kernel_code, sm, location->kernel_offset, &location->kernel_offset, &end,
                     &location->instruction))
        location->held_until = location->kernel_start + end;
    return 1;
}

/* Returns 1 if the cubin in `section` contains the PC, and fills in the location. */
static int look_into(const struct locator *locator, uint32_t section, struct location *location, unsigned sm, uint64_t *work)
{
    struct span cubin = coredump_content(locator->dump, section);
    struct cubin_function function;
    struct cubin_line line;
    if (!cubin_find(cubin, location->pc, work, &function))
        return 0;
    location->symbol = copy_text(locator->memory, function.symbol);
    if (!location->symbol)
        return 1;
    location->kernel = demangle(locator->memory, location->symbol);
    location->kernel_offset = location->pc - function.start;
    location->kernel_start = function.start;
    location->is_kernel = function.is_kernel;
    location->kernel_code = function.kernel_code;
    location->code = function.code;
    location->code_start = function.code_start;
    int has_instruction = find_instruction(location, sm);
    if (cubin_find_line(cubin, location->kernel_start + location->kernel_offset, &line)) {
        location->file = join_path(locator->memory, line.directory, line.file);
        location->line = line.line;
    }
    if (has_instruction)
        decode(location, locator->memory, sm);
    return 1;
}

/* Returns the module row with this handle in a context of the device. */
static struct coredump_ref find_module(const struct coredump *dump, struct coredump_ref device, uint64_t handle)
{
    struct coredump_ref context = {coredump_child(dump, device, COREDUMP_CONTEXTS), 0};
    uint32_t contexts = coredump_rows(dump, context.section, COREDUMP_CONTEXTS);
    for (; context.row < contexts; context.row++) {
        struct coredump_ref ref = {coredump_child(dump, context, COREDUMP_MODULES), 0};
        uint32_t count = coredump_rows(dump, ref.section, COREDUMP_MODULES);
        struct coredump_module module;
        for (; ref.row < count; ref.row++)
            if (coredump_row(dump, COREDUMP_MODULES, ref, &module) && module.handle == handle)
                return ref;
    }
    return (struct coredump_ref){0, 0};
}

/* Whether a cubin may be loaded on the device: another one may have other code at the same address. */
static int may_be_on(const struct coredump *dump, uint32_t cubin, struct coredump_ref device)
{
    struct coredump_ref module = coredump_parent(dump, cubin, COREDUMP_MODULES);
    struct coredump_ref context = coredump_parent(dump, module.section, COREDUMP_CONTEXTS);
    struct coredump_ref owner = coredump_parent(dump, context.section, COREDUMP_DEVICES);
    return owner.section == 0 || (owner.section == device.section && owner.row == device.row);
}

const struct location *locate(struct locator *locator, uint64_t pc, struct coredump_ref device, uint64_t module, unsigned sm)
{
    static const struct location nowhere;
    for (const struct location *known = locator->found; known; known = known->next)
        if (known->pc == pc && known->module == module)
            return known;
    if (pc == 0 || locator->count >= LOCATE_LIMIT)
        return &nowhere;
    struct location *location = json_take(locator->memory, 1, sizeof(*location));
    struct location_memo *memo = location ? json_take(locator->memory, 1, sizeof(*memo)) : NULL;
    if (!memo)
        return NULL;
    location->pc = pc;
    location->module = module;
    location->memo = memo;
    location->next = locator->found;
    locator->found = location;
    locator->count++;

    /* Skip the unrelocated image: it is only useful with the load address. */
    struct coredump_ref row = module ? find_module(locator->dump, device, module) : (struct coredump_ref){0, 0};
    uint32_t hint = row.section ? coredump_child(locator->dump, row, COREDUMP_RELOCATED_CUBIN) : 0;
    uint64_t work = locator->dump->image.file.size; /* bounds the work if sections overlap */
    if (hint && look_into(locator, hint, location, sm, &work))
        return location;
    uint32_t section = 0;
    while (work > 0 && (section = coredump_next(locator->dump, COREDUMP_RELOCATED_CUBIN, section)) != 0)
        if (section != hint && may_be_on(locator->dump, section, device) && look_into(locator, section, location, sm, &work))
            break;
    return location;
}

/* Returns whether the instruction changes a register that the address was computed from: EXACT if not, DERIVED if perhaps,
 * NOT if certainly. */
static enum certainty after(const struct sass_access *access, struct sass_instruction instruction)
{
    unsigned count = access->is_base_wide ? 2 : 1;
    if (access->base != SASS_RZ && sass_writes_register(instruction, access->base, count))
        return sass_is_known(instruction) ? CERTAIN_NOT : CERTAIN_DERIVED;
    if (access->uniform >= 0 && sass_writes_uniform(instruction))
        return CERTAIN_DERIVED;
    return CERTAIN_EXACT;
}

static struct location_kept find_kept(const struct location *location, uint64_t lane_pc)
{
    const struct sass_access *access = &location->access;
    struct location_memo *memo = location->memo;
    int was_lost = 0;
    struct location_kept kept = {CERTAIN_EXACT, 0, 1, KEPT_LOW | KEPT_HIGH | KEPT_UNIFORM};
    uint64_t end = lane_pc;
    if (lane_pc < location->pc ||
        lane_pc - location->pc > TRUSTED_BYTES) /* in a loop, registers may be those of a later turn */
        return (struct location_kept){after(access, location->instruction) == CERTAIN_NOT ? CERTAIN_NOT : CERTAIN_DERIVED, 0, 0,
                                      0};
    /* Start with the access itself: a faulting load leaves a value in its target, which may be its own address register. */
    for (uint64_t pc = location->pc; pc < end; pc += SASS_INSTRUCTION_BYTES) {
        struct span bytes = span_part(location->code, pc - location->code_start, SASS_INSTRUCTION_BYTES);
        struct sass_instruction instruction = bytes.bytes ? sass_load(bytes.bytes) : (struct sass_instruction){0, 0};
        enum certainty then = bytes.bytes ? after(access, instruction) : CERTAIN_DERIVED;
        int is_lost = !bytes.bytes || sass_branches(instruction);
        was_lost |= is_lost;
        if (is_lost && memo->has_lost)
            return memo->lost;
        if (is_lost && then > CERTAIN_DERIVED)
            then = CERTAIN_DERIVED;
        kept.certainty = then < kept.certainty ? then : kept.certainty;
        kept.are_predicates_sure &= !is_lost && !sass_writes_predicate(instruction);
        if (is_lost || sass_writes_register(instruction, access->base, 1))
            kept.parts &= ~(unsigned)KEPT_LOW;
        if (is_lost || sass_writes_register(instruction, access->base + 1, 1))
            kept.parts &= ~(unsigned)KEPT_HIGH;
        if (is_lost || sass_writes_uniform(instruction))
            kept.parts &= ~(unsigned)KEPT_UNIFORM;
        if (!bytes.bytes || (was_lost && kept.certainty == CERTAIN_NOT))
            break;
        if (is_lost) /* Any path is possible: check everything up to the function's end. */
            end = location->code_start + location->code.size;
    }
    if (lane_pc >= location->joined_at && !was_lost) {
        kept.is_joined = kept.certainty == CERTAIN_EXACT;
        kept.certainty = kept.is_joined ? CERTAIN_DERIVED : kept.certainty;
        kept.are_predicates_sure = 0;
        kept.parts = 0;
    }
    if (was_lost) {
        memo->has_lost = 1;
        memo->lost = kept;
    }
    return kept;
}

/* The lanes of a grid, possibly hundreds of thousands, are at a few PCs. */
struct location_kept locate_kept(const struct location *location, uint64_t lane_pc)
{
    struct location_memo *memo = location->memo;
    if (!memo->has_last || memo->last_pc != lane_pc) {
        memo->last = find_kept(location, lane_pc);
        memo->last_pc = lane_pc;
        memo->has_last = 1;
    }
    return memo->last;
}
