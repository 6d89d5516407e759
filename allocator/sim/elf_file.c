#include "elf_file.h"

#include <stdlib.h>
#include <string.h>

size_t buffer_append(struct buffer *buffer, const void *data, size_t size)
{
    size_t start = buffer->size;
    if (buffer->is_failed)
        return start;
    if (buffer->capacity - start < size) {
        size_t capacity = (start + size) * 2;
        unsigned char *larger = realloc(buffer->bytes, capacity);
        if (larger == NULL) {
            buffer->is_failed = 1;
            return start;
        }
        buffer->bytes = larger;
        buffer->capacity = capacity;
    }
    if (size != 0)
        memcpy(buffer->bytes + start, data, size);
    buffer->size += size;
    return start;
}

void buffer_free(struct buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct buffer){0};
}

/* 128 at most */
static void buffer_align(struct buffer *buffer, size_t alignment)
{
    static const unsigned char zeros[128];
    size_t over = alignment > 1 ? buffer->size % alignment : 0;
    if (over != 0)
        buffer_append(buffer, zeros, alignment - over);
}

void elf_begin(struct elf_writer *writer)
{
    memset(writer, 0, sizeof *writer);
    writer->count = 1; /* section 0 is the null section */
    buffer_append(&writer->strings, "", 1);
    static const Elf64_Ehdr place_of_header;
    buffer_append(&writer->contents, &place_of_header, sizeof place_of_header);
}

uint32_t elf_string(struct elf_writer *writer, const char *text)
{
    return (uint32_t)buffer_append(&writer->strings, text, strlen(text) + 1);
}

unsigned elf_add(struct elf_writer *writer, const char *name, Elf64_Shdr header, const void *data, size_t size)
{
    if (writer->count == ELF_MAX_SECTIONS) {
        writer->is_failed = 1;
        return 0;
    }
    if (header.sh_addralign == 0)
        header.sh_addralign = 8;
    buffer_align(&writer->contents, header.sh_addralign);
    header.sh_name = elf_string(writer, name);
    header.sh_offset = buffer_append(&writer->contents, data, size);
    header.sh_size = size;
    writer->headers[writer->count] = header;
    return writer->count++;
}

void elf_link_strings(struct elf_writer *writer, unsigned section)
{
    writer->headers[section].sh_link = UINT32_MAX; /* until the table's index is known */
}

unsigned char *elf_finish(struct elf_writer *writer, uint16_t type, unsigned char os_abi, uint32_t flags, size_t *size)
{
    uint32_t name = elf_string(writer, ".strtab");
    struct buffer strings = writer->strings;
    writer->strings = (struct buffer){0};
    unsigned table = elf_add(writer, "", (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_addralign = 1}, strings.bytes, strings.size);
    writer->headers[table].sh_name = name;
    for (unsigned i = 0; i < writer->count; i++) {
        if (writer->headers[i].sh_link == UINT32_MAX)
            writer->headers[i].sh_link = table;
    }
    buffer_align(&writer->contents, 8);
    Elf64_Ehdr header = {.e_type = type, .e_machine = ELF_MACHINE_CUDA, .e_version = EV_CURRENT, .e_flags = flags};
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_ident[EI_OSABI] = os_abi;
    header.e_ehsize = sizeof header;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = (uint16_t)writer->count;
    header.e_shstrndx = (uint16_t)table;
    header.e_shoff = writer->contents.size;

    struct buffer file = writer->contents;
    buffer_append(&file, writer->headers, writer->count * sizeof writer->headers[0]);
    int is_failed = writer->is_failed || strings.is_failed || writer->strings.is_failed || file.is_failed;
    free(strings.bytes);
    free(writer->strings.bytes);
    if (is_failed) {
        free(file.bytes);
        return NULL;
    }
    memcpy(file.bytes, &header, sizeof header);
    *size = file.size;
    return file.bytes;
}
