#include "kernel_module.h"

#include "analysis/lines/cubin.h"

#include <stdlib.h>
#include <string.h>

static cufence_status corrupt(struct problem *problem, const char *what)
{
    return problem_set(problem, CUFENCE_ERROR_CORRUPT, "the kernel's module in the dump is damaged: %s", what);
}

static cufence_status out_of_memory(struct problem *problem, size_t size)
{
    return problem_set(problem, CUFENCE_ERROR_OUT_OF_MEMORY, "out of host memory for a module of %zu bytes", size);
}

/* Finds the section of the relocated image that has the kernel loaded. */
static cufence_status find_module(const struct coredump *dump, const char *symbol, uint64_t pc, uint32_t *found,
                                  struct problem *problem)
{
    uint64_t work = 2 * (uint64_t)dump->image.file.size; /* bounds the work if sections overlap */
    uint32_t section = 0;
    unsigned count = 0;
    Elf64_Sym entry;
    struct cubin_function function;
    while (work > 0 && (section = coredump_next(dump, COREDUMP_RELOCATED_CUBIN, section)) != 0) {
        struct span cubin = coredump_content(dump, section);
        if (!cubin_find_named(cubin, symbol, &work, &entry) || entry.st_value == 0)
            continue;
        *found = section;
        if (pc != 0 && cubin_find(cubin, pc, &work, &function))
            return CUFENCE_OK;
        count++;
    }
    if (count == 0)
        return problem_set(problem, CUFENCE_ERROR_NOT_FOUND, "the dump has no image of a loaded module with the kernel %.100s",
                           symbol);
    if (count > 1)
        return problem_set(problem, CUFENCE_ERROR_NOT_FOUND,
                           "%u loaded modules have a kernel %.100s, and no address says which one it was", count, symbol);
    return CUFENCE_OK;
}

/* Returns whether the contents of all segments are within the file. */
static int has_segments(const struct image *image)
{
    Elf64_Ehdr header;
    struct reader reader = reader_of(image->file, 0);
    if (!reader_copy(&reader, &header, sizeof(header)) || (header.e_phnum && header.e_phentsize != sizeof(Elf64_Phdr)))
        return 0;
    reader = reader_of(image->file, header.e_phoff);
    for (unsigned i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment;
        if (!reader_copy(&reader, &segment, sizeof(segment)) ||
            (segment.p_filesz && !span_part(image->file, segment.p_offset, segment.p_filesz).bytes))
            return 0;
    }
    return 1;
}

/* Returns whether the section's relocations have been applied and would give another result a second time: those without
 * addends add to what is in the place. */
static int adds_twice(const struct image *image, const Elf64_Shdr *section)
{
    Elf64_Shdr target;
    return section->sh_type == SHT_REL && section->sh_size && image_section(image, section->sh_info, &target) &&
           target.sh_addr != 0;
}

/* Opens a cubin, checks that all of it is there, and finds its symbol table. */
static cufence_status open_cubin(struct span cubin, struct image *image, Elf64_Shdr *symbols, struct problem *problem)
{
    Elf64_Shdr section;
    unsigned tables = 0;
    if (!image_open(cubin.bytes, cubin.size, image) || image->machine != COREDUMP_MACHINE || !has_segments(image))
        return corrupt(problem, "its headers are not valid");
    for (uint32_t i = 1; image_section(image, i, &section); i++) {
        if (section.sh_size && section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL &&
            !image_content(image, &section).bytes)
            return corrupt(problem, "a section lies outside the file");
        if (adds_twice(image, &section))
            return problem_set(problem, CUFENCE_ERROR_UNSUPPORTED,
                               "the kernel's module has relocations without addends, which cannot be applied a second time");
        if (section.sh_type != SHT_SYMTAB)
            continue;
        *symbols = section;
        tables++;
    }
    return tables == 1 ? CUFENCE_OK : corrupt(problem, "it must have one symbol table");
}

/* Takes the addresses of their sections off the symbols in `copy`. A value outside its section was not relocated. */
static void clean_symbols(const struct image *image, const Elf64_Shdr *symbols, uint8_t *copy)
{
    struct reader reader = reader_of(image_content(image, symbols), 0);
    Elf64_Sym symbol = {0};
    Elf64_Shdr section;
    for (uint64_t at = symbols->sh_offset; reader_copy(&reader, &symbol, sizeof(symbol)); at += sizeof(symbol)) {
        if (!image_section(image, symbol.st_shndx, &section) || symbol.st_value < section.sh_addr ||
            symbol.st_value - section.sh_addr > section.sh_size)
            continue;
        symbol.st_value -= section.sh_addr;
        memcpy(copy + at, &symbol, sizeof(symbol));
    }
}

static void clean_sections(const struct image *image, uint8_t *copy)
{
    Elf64_Shdr section;
    for (uint32_t i = 1; image_section(image, i, &section); i++) {
        uint64_t at = (uint64_t)(image->headers.bytes - image->file.bytes) + (uint64_t)i * sizeof(section);
        section.sh_addr = 0;
        memcpy(copy + at, &section, sizeof(section));
    }
}

/* Returns whether the cubin can be launched: the kernel's code lies in its section. */
static int has_kernel(const uint8_t *bytes, size_t size, const char *symbol)
{
    struct image image;
    Elf64_Sym entry;
    Elf64_Shdr section;
    return cubin_find_named((struct span){bytes, size}, symbol, NULL, &entry) && image_open(bytes, size, &image) &&
           image_section(&image, entry.st_shndx, &section) && section.sh_addr == 0 &&
           span_part(image_content(&image, &section), entry.st_value, entry.st_size).bytes;
}

static uint8_t *copy_of(struct span span)
{
    uint8_t *copy = malloc(span.size);
    if (copy)
        memcpy(copy, span.bytes, span.size);
    return copy;
}

static cufence_status unrelocate(struct span cubin, const char *symbol, uint8_t **copy, struct problem *problem)
{
    struct image image;
    Elf64_Shdr symbols;
    cufence_status status = open_cubin(cubin, &image, &symbols, problem);
    if (status != CUFENCE_OK)
        return status;
    *copy = copy_of(cubin);
    if (!*copy)
        return out_of_memory(problem, cubin.size);
    clean_symbols(&image, &symbols, *copy);
    clean_sections(&image, *copy);
    variables_settle(*copy, cubin.size);
    return has_kernel(*copy, cubin.size, symbol) ? CUFENCE_OK : corrupt(problem, "the kernel's code is not in it");
}

cufence_status image_of_kernel(const struct coredump *dump, const char *symbol, uint64_t pc, uint8_t **image, size_t *size,
                               struct problem *problem)
{
    uint32_t section = 0;
    cufence_status status = find_module(dump, symbol, pc, &section, problem);
    if (status != CUFENCE_OK)
        return status;
    struct coredump_ref module = coredump_parent(dump, section, COREDUMP_MODULES);
    uint32_t loaded = module.section ? coredump_child(dump, module, COREDUMP_CUBIN) : 0;
    struct span relocated = coredump_content(dump, section), plain = coredump_content(dump, loaded);
    struct image opened;
    Elf64_Shdr symbols;
    int is_plain = has_kernel(plain.bytes, plain.size, symbol) && open_cubin(plain, &opened, &symbols, problem) == CUFENCE_OK;
    uint8_t *copy = NULL;
    if (!is_plain)
        status = unrelocate(relocated, symbol, &copy, problem);
    else if (!(copy = copy_of(plain)))
        status = out_of_memory(problem, plain.size);
    if (status != CUFENCE_OK) {
        free(copy);
        return status;
    }
    *image = copy;
    *size = is_plain ? plain.size : relocated.size;
    return CUFENCE_OK;
}

struct span image_relocated(const struct coredump *dump, const char *symbol, uint64_t pc)
{
    struct problem ignored;
    uint32_t section = 0;
    int is_found = find_module(dump, symbol, pc, &section, &ignored) == CUFENCE_OK;
    return is_found ? coredump_content(dump, section) : (struct span){NULL, 0};
}
