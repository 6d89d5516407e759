#include "image.h"

int image_open(const void *bytes, size_t size, struct image *image)
{
    static const uint8_t wanted[] = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB};
    Elf64_Ehdr header;
    Elf64_Shdr first;
    *image = (struct image){.file = {bytes, size}};
    struct reader reader = reader_of(image->file, 0);
    if (!bytes || !reader_copy(&reader, &header, sizeof header) || memcmp(header.e_ident, wanted, sizeof wanted) != 0)
        return 0;
    image->machine = header.e_machine;
    image->names = header.e_shstrndx;
    uint64_t count = header.e_shnum;
    if (header.e_shoff == 0)
        return count == 0;
    /* With 65280 sections or more, as in the dump of a busy device, e_shnum is 0 and the first header's sh_size is the count.
     */
    reader = reader_of(image->file, header.e_shoff);
    if (count == 0)
        count = reader_copy(&reader, &first, sizeof first) ? first.sh_size : UINT64_MAX;
    if (header.e_shentsize != sizeof first || count > UINT32_MAX)
        return 0;
    image->section_count = (uint32_t)count;
    image->headers = span_part(image->file, header.e_shoff, count * sizeof first);
    return !count || image->headers.bytes;
}

uint64_t image_end(const struct image *image)
{
    Elf64_Ehdr header;
    Elf64_Shdr section;
    struct reader reader = reader_of(image->file, 0);
    if (!reader_copy(&reader, &header, sizeof header))
        return 0;
    uint64_t end = header.e_shoff + image->section_count * sizeof section;
    uint64_t segments = header.e_phnum ? header.e_phoff + (uint64_t)header.e_phnum * header.e_phentsize : 0;
    end = segments > end ? segments : end;
    for (uint32_t i = 1; image_section(image, i, &section); i++)
        if (section.sh_type != SHT_NOBITS && section.sh_size <= UINT64_MAX - section.sh_offset &&
            section.sh_offset + section.sh_size > end)
            end = section.sh_offset + section.sh_size;
    return end;
}

int image_section(const struct image *image, uint32_t index, Elf64_Shdr *section)
{
    struct reader reader = reader_of(image->headers, (uint64_t)index * sizeof *section);
    return index != 0 && reader_copy(&reader, section, sizeof *section);
}

struct span image_content(const struct image *image, const Elf64_Shdr *section)
{
    if (section->sh_type == SHT_NOBITS)
        return (struct span){NULL, 0};
    return span_part(image->file, section->sh_offset, section->sh_size);
}

uint32_t image_find(const struct image *image, const char *name, const char *rest, Elf64_Shdr *section)
{
    size_t length = strlen(name);
    struct span names = image_section(image, image->names, section) ? image_content(image, section) : (struct span){NULL, 0};
    for (uint32_t i = 1; image_section(image, i, section); i++) {
        const char *found = span_string(names, section->sh_name);
        if (found && !strncmp(found, name, length) && !strcmp(found + length, rest))
            return i;
    }
    return 0;
}
