#include "kernel_module.h"

#include "analysis/lines/cubin.h"
#include "analysis/sass/sass.h"
#include "base/list.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Constant banks: of __constant__ variables, and of the addresses of others, which relocations name (ptxas 13.0, sm_80 to
 * sm_120). */
enum { BANK_CONSTANTS = 3, BANK_ADDRESSES = 4 };

#define SYMBOL_LIMIT 65536u
#define CODE_LIMIT ((size_t)16 << 20)
#define USES_LIMIT 4096u
#define SETTLED 4096u /* variables of a section */
#define LDCU 0x7acu

struct module {
    struct image image;
    struct span names; /* of the sections */
    struct span symbols, strings;
    uint64_t symbols_at;
    struct span relocations; /* of the bank of addresses */
    uint64_t relocation_bytes;
};

static const char *name_of(const struct module *module, const Elf64_Shdr *section)
{
    const char *name = span_string(module->names, section->sh_name);
    return name ? name : "";
}

static int open_module(struct span cubin, struct module *module)
{
    Elf64_Shdr section, strings;
    *module = (struct module){0};
    if (!image_open(cubin.bytes, cubin.size, &module->image) || !image_section(&module->image, module->image.names, &section))
        return 0;
    module->names = image_content(&module->image, &section);
    for (uint32_t i = 1; image_section(&module->image, i, &section); i++) {
        if (section.sh_type == SHT_SYMTAB && image_section(&module->image, section.sh_link, &strings)) {
            module->symbols = image_content(&module->image, &section);
            module->symbols_at = section.sh_offset;
            module->strings = image_content(&module->image, &strings);
        }
    }
    if (image_find(&module->image, ".rela.nv.constant4", "", &section) ||
        image_find(&module->image, ".rel.nv.constant4", "", &section)) {
        module->relocations = image_content(&module->image, &section);
        module->relocation_bytes = section.sh_type == SHT_REL ? sizeof(Elf64_Rel) : sizeof(Elf64_Rela);
    }
    return module->symbols.bytes != NULL;
}

static int symbol_at(const struct module *module, uint64_t index, Elf64_Sym *symbol)
{
    struct reader reader = reader_of(module->symbols, index * sizeof *symbol);
    return index < SYMBOL_LIMIT && reader_copy(&reader, symbol, sizeof *symbol);
}

static int is_constant(const struct module *module, const Elf64_Shdr *section)
{
    return !strcmp(name_of(module, section), ".nv.constant3");
}

static int is_variable(const struct module *module, const Elf64_Sym *symbol, Elf64_Shdr *section)
{
    if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || !symbol->st_size ||
        !image_section(&module->image, symbol->st_shndx, section))
        return 0;
    return !strncmp(name_of(module, section), ".nv.global", sizeof ".nv.global" - 1) || is_constant(module, section);
}

/* Returns the symbol whose address, or half of it, the bank has at an offset; 0 if none. */
static uint64_t symbol_of_address(const struct module *module, uint64_t offset)
{
    Elf64_Rel entry; /* Elf64_Rela begins like it */
    for (uint64_t at = 0;; at += module->relocation_bytes) {
        struct reader reader = reader_of(module->relocations, at);
        if (!reader_copy(&reader, &entry, sizeof entry))
            return 0;
        if (entry.r_offset / 8 == offset / 8)
            return ELF64_R_SYM(entry.r_info);
    }
}

/* Returns the symbol of the variable at an offset of the bank of constants, 0 if none. */
static uint64_t symbol_of_constant(const struct module *module, uint64_t offset)
{
    Elf64_Sym symbol;
    Elf64_Shdr section;
    for (uint64_t i = 1; symbol_at(module, i, &symbol); i++)
        if (is_variable(module, &symbol, &section) && is_constant(module, &section) &&
            offset - symbol.st_value < symbol.st_size)
            return i;
    return 0;
}

/* Returns the symbol that an instruction takes from a constant bank, 0 if none. */
static uint64_t symbol_used(const struct module *module, struct sass_instruction instruction)
{
    unsigned form = (unsigned)(instruction.low >> 9 & 7), bank = (unsigned)(instruction.low >> 54 & 31);
    int is_uniform_load = (instruction.low & 0xfff) == LDCU;
    uint64_t offset = is_uniform_load ? instruction.low >> 37 & 0x1ffff : (instruction.low >> 40 & 0x3fff) * 4;
    if (form != 3 && form != 5)
        return 0;
    if (bank == BANK_ADDRESSES)
        return symbol_of_address(module, offset);
    return bank == BANK_CONSTANTS ? symbol_of_constant(module, offset) : 0;
}

/* Marks in `used`, a bit for each symbol, what the kernel's section names: its own code and that of functions in it. */
static void find_used(const struct module *module, const char *symbol, uint8_t used[SYMBOL_LIMIT / 8])
{
    Elf64_Sym entry;
    Elf64_Shdr section;
    if (!cubin_find_named(module->image.file, symbol, NULL, &entry) || !image_section(&module->image, entry.st_shndx, &section))
        return;
    struct span code = image_content(&module->image, &section);
    size_t size = code.size < CODE_LIMIT ? code.size : CODE_LIMIT;
    unsigned uses = 0;
    for (size_t at = 0; at + SASS_INSTRUCTION_BYTES <= size && uses < USES_LIMIT; at += SASS_INSTRUCTION_BYTES) {
        uint64_t index = symbol_used(module, sass_load(code.bytes + at));
        if (!index || index >= SYMBOL_LIMIT)
            continue;
        used[index / 8] |= (uint8_t)(1u << index % 8);
        uses++;
    }
}

/* Strings of assert() and printf(), which nothing changes. */
static int is_literal(const char *name)
{
    return name[0] == '$' || !strncmp(name, "__unnamed_", sizeof "__unnamed_" - 1);
}

size_t variables_of(struct span cubin, const char *symbol, struct variable out[VARIABLES_MOST])
{
    uint8_t used[SYMBOL_LIMIT / 8] = {0};
    struct module module;
    size_t count = 0;
    if (!open_module(cubin, &module))
        return 0;
    find_used(&module, symbol, used);
    for (int is_used = 1; is_used >= 0; is_used--) {
        Elf64_Sym entry;
        Elf64_Shdr section;
        for (uint64_t i = 1; count < VARIABLES_MOST && symbol_at(&module, i, &entry); i++) {
            const char *name = span_string(module.strings, entry.st_name);
            if (name && *name && !is_literal(name) && (used[i / 8] >> i % 8 & 1) == is_used &&
                is_variable(&module, &entry, &section))
                out[count++] = (struct variable){.name = name, .size = entry.st_size, .is_used = is_used};
        }
    }
    return count;
}

size_t variables_locate(struct span relocated, struct variable *variables, size_t count)
{
    struct module module;
    Elf64_Sym symbol;
    Elf64_Shdr section;
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        variables[i].address = 0;
    if (!open_module(relocated, &module))
        return 0;
    for (uint64_t i = 1; found < count && symbol_at(&module, i, &symbol); i++) {
        const char *name = is_variable(&module, &symbol, &section) ? span_string(module.strings, symbol.st_name) : NULL;
        for (size_t k = 0; name && k < count; k++)
            if (!variables[k].address && variables[k].size == symbol.st_size && !strcmp(variables[k].name, name)) {
                variables[k].address = symbol.st_value;
                found += symbol.st_value != 0;
                break;
            }
    }
    return found;
}

static int is_inside(const struct module *module, uint64_t address)
{
    Elf64_Sym symbol;
    for (uint64_t i = 1; symbol_at(module, i, &symbol); i++)
        if (symbol.st_value && address - symbol.st_value < symbol.st_size)
            return 1;
    return 0;
}

int variables_lead_inside(struct span relocated, const uint8_t *value, size_t size)
{
    struct module module;
    Elf64_Sym symbol;
    uint64_t start = UINT64_MAX, end = 0;
    unsigned left = USES_LIMIT;
    if (!open_module(relocated, &module))
        return 0;
    for (uint64_t i = 1; symbol_at(&module, i, &symbol); i++) {
        start = symbol.st_value && symbol.st_value < start ? symbol.st_value : start;
        end = symbol.st_value && symbol.st_value + symbol.st_size > end ? symbol.st_value + symbol.st_size : end;
    }
    for (size_t at = 0; at + 8 <= size; at += 8) {
        uint64_t word = load_u64(value + at);
        if (word >= start && word < end && (!left-- || is_inside(&module, word)))
            return 1;
    }
    return 0;
}

/* ---- from addresses to offsets ---- */

struct placed {
    uint64_t value, size, alignment;
    uint64_t at; /* of the symbol in the file */
};

static int by_value(const void *left, const void *right)
{
    const struct placed *a = left, *b = right;
    return LIST_ORDER(a->value, b->value);
}

/* As ptxas puts them (13.0, sm_80 to sm_120). */
static int by_alignment(const void *left, const void *right)
{
    const struct placed *a = left, *b = right;
    return LIST_ORDER(b->alignment, a->alignment) ?: LIST_ORDER(a->size, b->size);
}

/* Constants keep their distances. Each of the others has got a place of its own from the driver. */
static uint64_t offset_of(const struct placed *symbol, const struct placed *first, uint64_t end, int is_constant,
                          int is_aligned)
{
    uint64_t alignment = is_aligned ? symbol->alignment : 1;
    return is_constant ? symbol->value - first->value : (end + alignment - 1) / alignment * alignment;
}

/* Gives the variables offsets in their section. Returns 0 if these do not fit, and then changes nothing. */
static int settle(const Elf64_Shdr *section, uint8_t *copy, const struct placed *symbols, size_t count, int is_constant,
                  int is_aligned)
{
    for (int is_writing = 0; is_writing < 2; is_writing++) {
        uint64_t end = 0;
        for (size_t i = 0; i < count; i++) {
            uint64_t offset = offset_of(&symbols[i], symbols, end, is_constant, is_aligned);
            if (offset > section->sh_size || symbols[i].size > section->sh_size - offset)
                return 0;
            end = offset + symbols[i].size;
            if (is_writing)
                memcpy(copy + symbols[i].at + offsetof(Elf64_Sym, st_value), &offset, sizeof offset);
        }
    }
    return 1;
}

static struct placed placed_of(const Elf64_Sym *symbol, const Elf64_Shdr *section, uint64_t at)
{
    uint64_t alignment = symbol->st_size & -symbol->st_size, most = section->sh_addralign ? section->sh_addralign : 1;
    return (struct placed){symbol->st_value, symbol->st_size, alignment < most ? alignment : most, at};
}

void variables_settle(uint8_t *copy, size_t size)
{
    struct module module;
    Elf64_Shdr section, own;
    Elf64_Sym symbol;
    struct placed *symbols = malloc(SETTLED * sizeof *symbols);
    int is_open = symbols && open_module((struct span){copy, size}, &module);
    for (uint32_t i = 1; is_open && image_section(&module.image, i, &section); i++) {
        size_t count = 0;
        for (uint64_t k = 1; count < SETTLED && symbol_at(&module, k, &symbol); k++)
            if (symbol.st_shndx == i && is_variable(&module, &symbol, &own) && symbol.st_value >= own.sh_size)
                symbols[count++] = placed_of(&symbol, &own, module.symbols_at + k * sizeof symbol);
        if (!count || count == SETTLED)
            continue;
        int is_bank = is_constant(&module, &section);
        qsort(symbols, count, sizeof *symbols, is_bank ? by_value : by_alignment);
        if (!settle(&section, copy, symbols, count, is_bank, 1))
            settle(&section, copy, symbols, count, 0, 0);
    }
    free(symbols);
}
