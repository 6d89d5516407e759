#include "elf_file.h"
#include "call.h"

void elf_begin(struct elf_writer *writer)
{
    static const Elf64_Ehdr place_of_header;
    memset(writer, 0, sizeof *writer);
    writer->count = 1; /* section 0 is the null section */
    writer->contents = memory_file(&writer->bytes, &writer->size);
    writer->strings = memory_file(&writer->names, &writer->names_size);
    elf_string(writer, "");
    fwrite(&place_of_header, sizeof place_of_header, 1, writer->contents);
}

uint32_t elf_string(struct elf_writer *writer, const char *text)
{
    uint32_t at = (uint32_t)ftell(writer->strings);
    fwrite(text, strlen(text) + 1, 1, writer->strings);
    return at;
}

/* Returns where the file goes on. */
static uint64_t align(struct elf_writer *writer, size_t alignment)
{
    while ((size_t)ftell(writer->contents) % alignment != 0)
        fputc(0, writer->contents);
    return (uint64_t)ftell(writer->contents);
}

static unsigned add(struct elf_writer *writer, uint32_t name, Elf64_Shdr header, const void *data, size_t size)
{
    if (header.sh_addralign == 0)
        header.sh_addralign = 8;
    header.sh_name = name;
    header.sh_offset = align(writer, header.sh_addralign);
    header.sh_size = size;
    if (size != 0)
        fwrite(data, size, 1, writer->contents);
    writer->headers[writer->count] = header;
    return writer->count++;
}

unsigned elf_add(struct elf_writer *writer, const char *name, Elf64_Shdr header, const void *data, size_t size)
{
    return add(writer, elf_string(writer, name), header, data, size);
}

unsigned char *elf_finish(struct elf_writer *writer, uint16_t type, unsigned char os_abi, uint32_t flags, size_t *size)
{
    uint32_t name = elf_string(writer, ".strtab");
    fclose(writer->strings);
    const Elf64_Shdr strings = {.sh_type = SHT_STRTAB, .sh_addralign = 1};
    unsigned table = add(writer, name, strings, writer->names, writer->names_size);
    free(writer->names);
    for (unsigned i = 0; i < writer->count; i++) {
        if (writer->headers[i].sh_link == ELF_STRINGS)
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
    header.e_shoff = align(writer, 8);
    fwrite(writer->headers, sizeof writer->headers[0], writer->count, writer->contents);
    fclose(writer->contents);
    memcpy(writer->bytes, &header, sizeof header);
    *size = writer->size;
    return (unsigned char *)writer->bytes;
}
