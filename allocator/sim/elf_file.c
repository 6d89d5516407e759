#include "elf_file.h"

#include <stdlib.h>
#include <string.h>

void elf_begin(struct elf_writer *writer)
{
    static const Elf64_Ehdr place_of_header;
    memset(writer, 0, sizeof *writer);
    writer->count = 1; /* section 0 is the null section */
    writer->contents = open_memstream(&writer->bytes, &writer->size);
    writer->strings = open_memstream(&writer->names, &writer->names_size);
    writer->is_failed = writer->contents == NULL || writer->strings == NULL;
    elf_string(writer, "");
    if (!writer->is_failed)
        fwrite(&place_of_header, sizeof place_of_header, 1, writer->contents);
}

uint32_t elf_string(struct elf_writer *writer, const char *text)
{
    if (writer->is_failed)
        return 0;
    uint32_t at = (uint32_t)ftell(writer->strings);
    fwrite(text, strlen(text) + 1, 1, writer->strings);
    return at;
}

/* Returns where the file goes on. */
static uint64_t align(struct elf_writer *writer, size_t alignment)
{
    while ((size_t)ftell(writer->contents) % alignment != 0 && !ferror(writer->contents))
        fputc(0, writer->contents);
    return (uint64_t)ftell(writer->contents);
}

unsigned elf_add(struct elf_writer *writer, const char *name, Elf64_Shdr header, const void *data, size_t size)
{
    writer->is_failed |= writer->count == ELF_MAX_SECTIONS;
    if (writer->is_failed)
        return 0;
    if (header.sh_addralign == 0)
        header.sh_addralign = 8;
    header.sh_name = elf_string(writer, name);
    header.sh_offset = align(writer, header.sh_addralign);
    header.sh_size = size;
    if (size != 0)
        fwrite(data, size, 1, writer->contents);
    writer->headers[writer->count] = header;
    return writer->count++;
}

void elf_link_strings(struct elf_writer *writer, unsigned section)
{
    writer->headers[section].sh_link = UINT32_MAX; /* until the table's index is known */
}

static void end(struct elf_writer *writer, FILE *file)
{
    if (file != NULL)
        writer->is_failed |= (ferror(file) != 0) | (fclose(file) != 0);
}

unsigned char *elf_finish(struct elf_writer *writer, uint16_t type, unsigned char os_abi, uint32_t flags, size_t *size)
{
    fflush(writer->strings);
    unsigned table = elf_add(writer, "", (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_addralign = 1}, writer->names,
                             writer->is_failed ? 0 : writer->names_size);
    for (unsigned i = 0; i < writer->count; i++) {
        if (writer->headers[i].sh_link == UINT32_MAX)
            writer->headers[i].sh_link = table;
    }
    Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT, os_abi},
                         .e_type = type,
                         .e_machine = ELF_MACHINE_CUDA,
                         .e_version = EV_CURRENT,
                         .e_flags = flags,
                         .e_ehsize = sizeof header,
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shnum = (uint16_t)writer->count,
                         .e_shstrndx = (uint16_t)table};
    if (!writer->is_failed) {
        header.e_shoff = align(writer, 8);
        fwrite(writer->headers, sizeof writer->headers[0], writer->count, writer->contents);
    }
    end(writer, writer->contents);
    end(writer, writer->strings);
    free(writer->names);
    if (writer->is_failed) {
        free(writer->bytes);
        return NULL;
    }
    memcpy(writer->bytes, &header, sizeof header);
    *size = writer->size;
    return (unsigned char *)writer->bytes;
}
