#include "module.h"

#include "base/image.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* bytes is NULL if the file can't be read. */
static struct span map_file(const char *path)
{
    struct stat status;
    struct span file = {NULL, 0};
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return file;
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (bytes != MAP_FAILED)
            file = (struct span){bytes, (size_t)status.st_size};
    }
    close(descriptor);
    return file;
}

static int is_same(struct span file, uint64_t offset, const void *loaded, size_t size)
{
    struct span part = span_part(file, offset, size);
    return part.bytes && loaded && memcmp(part.bytes, loaded, size) == 0;
}

/* A library that was rebuilt since has different segments or another build id (in a note). */
static int was_loaded_from(const struct dl_phdr_info *info, uint64_t address, void *argument)
{
    const struct span *file = argument;
    Elf64_Ehdr header;
    (void)address;
    struct reader start = reader_of(*file, 0);
    if (!reader_copy(&start, &header, sizeof header) || header.e_phnum != info->dlpi_phnum ||
        !is_same(*file, header.e_phoff, info->dlpi_phdr, info->dlpi_phnum * sizeof *info->dlpi_phdr))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_NOTE && segment->p_filesz > 0 &&
            !is_same(*file, segment->p_offset, module_bytes(info, segment->p_vaddr, segment->p_filesz), segment->p_filesz))
            return 0;
    }
    return 1;
}

/* Returns the function with the highest start at or below `address` that extends beyond it. */
static const char *find(const struct image *image, const Elf64_Shdr *table, uint64_t address)
{
    Elf64_Shdr strings;
    struct reader symbols = reader_of(image_content(image, table), 0);
    Elf64_Sym best = {.st_size = 0}, symbol;
    while (reader_copy(&symbols, &symbol, sizeof symbol)) {
        if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF || symbol.st_value > address ||
            address - symbol.st_value >= symbol.st_size || (best.st_size && symbol.st_value <= best.st_value))
            continue;
        best = symbol;
    }
    if (!best.st_size || !image_section(image, table->sh_link, &strings))
        return NULL;
    return span_string(image_content(image, &strings), best.st_name);
}

static const char *find_in_file(struct span file, uint64_t address)
{
    struct image image;
    Elf64_Shdr section;
    if (!image_open(file.bytes, file.size, &image))
        return NULL;
    for (uint32_t i = 1; image_section(&image, i, &section); i++) {
        if (section.sh_type == SHT_SYMTAB && section.sh_entsize == sizeof(Elf64_Sym))
            return find(&image, &section, address);
    }
    return NULL;
}

void symbols_name(const struct module *module, uint64_t address, char *name, size_t size)
{
    struct span file = map_file(module->is_program ? "/proc/self/exe" : module->path);
    if (!file.bytes)
        return;
    const char *found = module_visit(address, was_loaded_from, &file) ? find_in_file(file, address - module->base) : NULL;
    if (found)
        snprintf(name, size, "%s", found);
    munmap((void *)(uintptr_t)file.bytes, file.size);
}
