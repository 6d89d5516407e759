#include "cubin.h"

#include <string.h>

/* In st_other of a kernel's symbol. Found in cubins of ptxas 13.0; nvdisasm prints it as STO_CUDA_ENTRY. */
#define STO_CUDA_ENTRY 0x10

/* Returns the first section of `type`, 0 if there is none. */
static uint32_t find_section(const struct image *image, uint32_t type, Elf64_Shdr *section)
{
    for (uint32_t i = 1; image_section(image, i, section); i++)
        if (section->sh_type == type)
            return i;
    return 0;
}

static int holds(const Elf64_Sym *symbol, uint64_t pc)
{
    return symbol->st_value != 0 && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && pc >= symbol->st_value &&
           pc - symbol->st_value < symbol->st_size;
}

static struct span function_code(const struct image *image, const Elf64_Sym *symbol)
{
    Elf64_Shdr text;
    if (!image_section(image, symbol->st_shndx, &text) || symbol->st_value < text.sh_addr)
        return (struct span){NULL, 0};
    return span_part(image_content(image, &text), symbol->st_value - text.sh_addr, symbol->st_size);
}

/* work: NULL: as much as it takes. */
static int spend(uint64_t *work, uint64_t amount)
{
    if (!work)
        return 1;
    int is_enough = *work >= amount;
    *work = is_enough ? *work - amount : 0;
    return is_enough;
}

/* Opens the symbol table and the names of its symbols, which may be missing. Returns 0 if the work is too much. */
static int open_symbols(const struct image *image, uint64_t *work, struct reader *symbols, struct span *names)
{
    Elf64_Shdr section;
    if (!spend(work, (uint64_t)image->section_count * sizeof(section)) || !find_section(image, SHT_SYMTAB, &section))
        return 0;
    *symbols = reader_of(image_content(image, &section), 0);
    *names = (struct span){NULL, 0};
    if (image_section(image, section.sh_link, &section) && section.sh_type == SHT_STRTAB)
        *names = image_content(image, &section);
    return spend(work, reader_left(symbols));
}

/* Finds the outermost and the innermost function symbol that contain the PC. */
static int find_symbols(const struct image *image, uint64_t pc, uint64_t *work, Elf64_Sym *outer, Elf64_Sym *inner,
                        struct span *names)
{
    struct reader symbols;
    int found = 0;
    if (!open_symbols(image, work, &symbols, names))
        return 0;
    Elf64_Sym symbol;
    while (reader_copy(&symbols, &symbol, sizeof(symbol))) {
        if (!holds(&symbol, pc))
            continue;
        if (!found || symbol.st_size > outer->st_size)
            *outer = symbol;
        if (!found || symbol.st_size < inner->st_size)
            *inner = symbol;
        found = 1;
    }
    return found;
}

int cubin_find(struct span bytes, uint64_t pc, uint64_t *work, struct cubin_function *function)
{
    struct image image;
    Elf64_Sym outer, inner;
    struct span names;
    memset(function, 0, sizeof(*function));
    if (!image_open(bytes.bytes, bytes.size, &image) || !find_symbols(&image, pc, work, &outer, &inner, &names))
        return 0;
    function->symbol = span_string(names, outer.st_name);
    if (!function->symbol || !*function->symbol)
        return 0;
    function->is_kernel = (outer.st_other & STO_CUDA_ENTRY) != 0;
    function->start = outer.st_value;
    function->kernel_code = function_code(&image, &outer);
    function->code_start = inner.st_value;
    function->code = function_code(&image, &inner);
    return 1;
}

int cubin_find_named(struct span bytes, const char *symbol, uint64_t *work, Elf64_Sym *found)
{
    struct image image;
    struct reader symbols;
    struct span names;
    size_t size = strlen(symbol) + 1;
    if (!image_open(bytes.bytes, bytes.size, &image) || !open_symbols(&image, work, &symbols, &names))
        return 0;
    while (reader_copy(&symbols, found, sizeof(*found))) {
        struct span name = span_part(names, found->st_name, size);
        if (ELF64_ST_TYPE(found->st_info) != STT_FUNC || !name.bytes || name.bytes[size - 1] != 0)
            continue;
        if (!spend(work, size))
            return 0;
        if (memcmp(name.bytes, symbol, size) == 0)
            return 1;
    }
    return 0;
}

/* Maximum steps through the relocations of one line table; sorted ones take one step each. */
#define RELOCATION_STEPS 4000000u

/* Where to look up the relocation of a line sequence. */
struct relocations {
    struct span entries;
    size_t entry_size;
    struct span symbols;
    uint64_t section_start;
    uint16_t section; /* the section of the PC */
    size_t next;      /* behind the last match: they are mostly in the order of the table */
    uint64_t steps;
};

/* Returns in *base the function that an entry's symbol belongs to; the result is that of line_query.relocation. */
static int relocation_base(const struct relocations *relocations, const Elf64_Rela *entry, uint64_t *base)
{
    Elf64_Sym symbol;
    struct reader reader = reader_of(relocations->symbols, (uint64_t)ELF64_R_SYM(entry->r_info) * sizeof(symbol));
    if (!reader_copy(&reader, &symbol, sizeof(symbol)) || symbol.st_shndx != relocations->section)
        return 0;
    *base = (uint64_t)entry->r_addend;
    if (symbol.st_value >= relocations->section_start)
        *base += symbol.st_value - relocations->section_start;
    return 1;
}

static int relocation_at(void *user, uint64_t offset, uint64_t *base)
{
    struct relocations *relocations = user;
    size_t size = relocations->entry_size, count = size ? relocations->entries.size / size : 0;
    for (size_t i = 0; i < count && relocations->steps < RELOCATION_STEPS; i++, relocations->steps++) {
        size_t number = (relocations->next + i) % count;
        Elf64_Rela entry = {0};
        struct reader reader = reader_of(relocations->entries, number * size);
        if (!reader_copy(&reader, &entry, size) || entry.r_offset != offset)
            continue;
        relocations->next = number + 1;
        return relocation_base(relocations, &entry, base);
    }
    return -1;
}

/* Finds the next relocations for section `target` behind section *at, with or without addends. Returns the bytes of one, 0 if
 * there are none. */
static size_t next_relocations(const struct image *image, uint32_t target, uint32_t *at, Elf64_Shdr *section)
{
    while (image_section(image, ++*at, section)) {
        if ((section->sh_type == SHT_RELA || section->sh_type == SHT_REL) && section->sh_info == target)
            return section->sh_type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
    }
    return 0;
}

static void find_relocations(const struct image *image, uint32_t target, struct relocations *relocations)
{
    Elf64_Shdr section;
    uint32_t at = 0;
    relocations->entry_size = next_relocations(image, target, &at, &section);
    if (!relocations->entry_size)
        return;
    relocations->entries = image_content(image, &section);
    if (image_section(image, section.sh_link, &section) && section.sh_type == SHT_SYMTAB)
        relocations->symbols = image_content(image, &section);
}

/* Finds the line of an offset in section `number`. */
static int find_line(const struct image *image, uint16_t number, uint64_t offset, struct cubin_line *line)
{
    Elf64_Shdr section, text;
    uint32_t table = image_section(image, number, &text) ? image_find(image, ".debug_line", "", &section) : 0;
    if (!table)
        return 0;
    struct relocations relocations = {.section_start = text.sh_addr, .section = number};
    struct line_query query = {.line = image_content(image, &section),
                               .start = text.sh_addr,
                               .offset = offset,
                               .relocation = relocation_at,
                               .user = &relocations};
    find_relocations(image, table, &relocations);
    if (image_find(image, ".debug_line", "_str", &section))
        query.line_str = image_content(image, &section);
    if (image_find(image, ".debug_str", "", &section))
        query.str = image_content(image, &section);
    return query.line.bytes && lines_find(&query, line);
}

int cubin_find_line(struct span bytes, uint64_t pc, struct cubin_line *line)
{
    struct image image;
    Elf64_Sym outer, inner;
    Elf64_Shdr text;
    struct span names;
    return image_open(bytes.bytes, bytes.size, &image) && find_symbols(&image, pc, NULL, &outer, &inner, &names) &&
           image_section(&image, outer.st_shndx, &text) && pc >= text.sh_addr &&
           find_line(&image, outer.st_shndx, pc - text.sh_addr, line);
}

/* ---- kernels by name ---- */

#define INSTRUCTION_BYTES 16
enum { CALL_ABSOLUTE = 0x143, CALL_RELATIVE = 0x144 }; /* bits 8:0 */

unsigned cubin_architecture(const Elf64_Ehdr *header)
{
    return header->e_ident[EI_OSABI] == 0x41 ? header->e_flags >> 8 & 0xff : header->e_flags & 0xff;
}

/* Whether a relocation of section `number` is that of a call: the linker puts in another function. */
static int calls_others(const struct image *image, uint32_t number, struct span code)
{
    Elf64_Shdr section;
    size_t size;
    for (uint32_t at_section = 0; (size = next_relocations(image, number, &at_section, &section)) != 0;) {
        struct reader entries = reader_of(image_content(image, &section), 0);
        Elf64_Rela entry = {0};
        while (reader_copy(&entries, &entry, size)) {
            uint64_t low;
            struct reader at = reader_of(code, entry.r_offset / INSTRUCTION_BYTES * INSTRUCTION_BYTES);
            unsigned opcode = reader_copy(&at, &low, sizeof(low)) ? low & 0x1ff : CALL_ABSOLUTE;
            if (opcode == CALL_ABSOLUTE || opcode == CALL_RELATIVE)
                return 1;
        }
    }
    return 0;
}

static int has_call_of_address(struct span code)
{
    struct reader at = reader_of(code, 0);
    for (uint64_t words[INSTRUCTION_BYTES / sizeof(uint64_t)]; reader_copy(&at, words, sizeof(words));)
        if ((words[0] & 0x1ff) == CALL_ABSOLUTE)
            return 1;
    return 0;
}

/* Finds the offset of the parameters among the kernel's attributes, in section ".nv.info.KERNEL". An attribute has a form, a
 * number, and 2 bytes that are its value, or with the form SIZED the number of bytes that follow. */
static uint32_t parameters_of(const struct image *image, const char *symbol)
{
    enum { SIZED = 4, PARAMETER_BANK = 0x0a };
    Elf64_Shdr section;
    if (!image_find(image, ".nv.info.", symbol, &section))
        return 0;
    struct reader reader = reader_of(image_content(image, &section), 0);
    uint8_t head[4], bank[8]; /* of the bank: index of the symbol, offset, size */
    while (reader_copy(&reader, head, sizeof(head))) {
        uint32_t size = head[0] == SIZED ? head[2] | (uint32_t)head[3] << 8 : 0;
        if (head[1] == PARAMETER_BANK && size == sizeof(bank) && reader_copy(&reader, bank, sizeof(bank)))
            return bank[4] | (uint32_t)bank[5] << 8;
        reader_skip(&reader, size);
    }
    return 0;
}

/* A kernel has a section of its own, in which it comes first. */
static int find_kernel(struct span bytes, const char *symbol, struct image *image, Elf64_Sym *found, struct span *code)
{
    Elf64_Shdr text;
    if (!image_open(bytes.bytes, bytes.size, image) || !cubin_find_named(bytes, symbol, NULL, found) ||
        !(found->st_other & STO_CUDA_ENTRY) || !image_section(image, found->st_shndx, &text) ||
        (found->st_value != 0 && found->st_value != text.sh_addr))
        return 0;
    *code = image_content(image, &text);
    return code->bytes != NULL;
}

int cubin_find_kernel(struct span bytes, const char *symbol, struct cubin_kernel *kernel)
{
    struct image image;
    Elf64_Ehdr header;
    Elf64_Sym found;
    memset(kernel, 0, sizeof(*kernel));
    if (!find_kernel(bytes, symbol, &image, &found, &kernel->code) || calls_others(&image, found.st_shndx, kernel->code))
        return 0;
    memcpy(&header, bytes.bytes, sizeof(header));
    kernel->sm = cubin_architecture(&header);
    kernel->parameters_at = parameters_of(&image, symbol);
    kernel->calls_addresses = has_call_of_address(kernel->code);
    return 1;
}

int cubin_find_kernel_line(struct span bytes, const char *symbol, uint64_t offset, struct cubin_line *line)
{
    struct image image;
    Elf64_Sym found;
    struct span code;
    return find_kernel(bytes, symbol, &image, &found, &code) && offset < code.size &&
           find_line(&image, found.st_shndx, offset, line);
}
