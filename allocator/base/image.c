#include "image.h"

#include <string.h>

uint32_t load_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

uint64_t load_u64(const uint8_t *bytes)
{
    return (uint64_t)load_u32(bytes) | (uint64_t)load_u32(bytes + 4) << 32;
}

struct span span_part(struct span span, uint64_t offset, uint64_t size)
{
    if (size == 0 || offset > span.size || size > span.size - offset)
        return (struct span){NULL, 0};
    return (struct span){span.bytes + offset, (size_t)size};
}

const char *span_string(struct span span, uint64_t offset)
{
    if (offset >= span.size || !memchr(span.bytes + offset, 0, span.size - (size_t)offset))
        return NULL;
    return (const char *)(span.bytes + offset);
}

int image_open(const void *bytes, size_t size, struct image *image)
{
    static const uint8_t wanted[] = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB};
    Elf64_Ehdr header;
    memset(image, 0, sizeof(*image));
    if (!bytes || size < sizeof(header) || memcmp(bytes, wanted, sizeof(wanted)) != 0)
        return 0;
    memcpy(&header, bytes, sizeof(header));
    image->file = (struct span){bytes, size};
    image->machine = header.e_machine;
    image->flags = header.e_flags;
    image->sections_at = header.e_shoff;
    uint64_t count = header.e_shnum;
    if (header.e_shoff == 0)
        return count == 0;
    if (header.e_shentsize != sizeof(Elf64_Shdr))
        return 0;
    /* With 65280 sections or more, as in the dump of a busy device, e_shnum is 0 and the first header's sh_size is the count.
     */
    if (count == 0) {
        Elf64_Shdr first;
        struct span part = span_part(image->file, header.e_shoff, sizeof(first));
        if (!part.bytes)
            return 0;
        memcpy(&first, part.bytes, sizeof(first));
        count = first.sh_size;
    }
    if (header.e_shoff > size || count > (size - header.e_shoff) / sizeof(Elf64_Shdr) || count > UINT32_MAX)
        return 0;
    image->section_count = (uint32_t)count;
    return 1;
}

int image_section(const struct image *image, uint32_t index, Elf64_Shdr *section)
{
    if (index == 0 || index >= image->section_count)
        return 0;
    memcpy(section, image->file.bytes + image->sections_at + (uint64_t)index * sizeof(*section), sizeof(*section));
    return 1;
}

struct span image_content(const struct image *image, const Elf64_Shdr *section)
{
    if (section->sh_type == SHT_NOBITS)
        return (struct span){NULL, 0};
    return span_part(image->file, section->sh_offset, section->sh_size);
}
