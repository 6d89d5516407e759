/*
 * Builds small GPU core dumps for tests. Sections are added one by one and numbered from 1 in that order; rows are written
 * field by field.
 */
#pragma once

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BUILDER_SECTIONS 64

struct dump_builder {
    uint8_t *bytes;
    size_t size;
    Elf64_Shdr sections[BUILDER_SECTIONS];
    uint32_t count;
};

static inline void builder_start(struct dump_builder *builder)
{
    memset(builder, 0, sizeof(*builder));
    builder->bytes = calloc(1, 1 << 20);
    builder->size = sizeof(Elf64_Ehdr);
    builder->count = 1;
}

/* Adds a section of `size` zero bytes and returns its number. */
static inline uint32_t builder_add(struct dump_builder *builder, uint32_t type, uint64_t entry_size, uint64_t size,
                                   uint32_t link, uint32_t info)
{
    Elf64_Shdr *section = &builder->sections[builder->count];
    builder->size = (builder->size + 7) / 8 * 8;
    *section = (Elf64_Shdr){.sh_type = type,
                            .sh_offset = builder->size,
                            .sh_size = size,
                            .sh_entsize = entry_size,
                            .sh_link = link,
                            .sh_info = info};
    builder->size += size;
    return builder->count++;
}

static inline void builder_put32(struct dump_builder *builder, uint32_t section, uint64_t at, uint32_t value)
{
    memcpy(builder->bytes + builder->sections[section].sh_offset + at, &value, sizeof(value));
}

static inline void builder_put64(struct dump_builder *builder, uint32_t section, uint64_t at, uint64_t value)
{
    memcpy(builder->bytes + builder->sections[section].sh_offset + at, &value, sizeof(value));
}

static inline void builder_put(struct dump_builder *builder, uint32_t section, uint64_t at, const void *bytes, size_t size)
{
    memcpy(builder->bytes + builder->sections[section].sh_offset + at, bytes, size);
}

/* Writes the headers and returns the file, which builder_end() frees. May be called again after changes. */
static inline const uint8_t *builder_finish(struct dump_builder *builder, uint16_t machine, size_t *size)
{
    size_t table = (builder->size + 7) / 8 * 8;
    Elf64_Ehdr header = {.e_type = ET_CORE,
                         .e_machine = machine,
                         .e_version = 1,
                         .e_shoff = table,
                         .e_ehsize = sizeof(Elf64_Ehdr),
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shnum = (uint16_t)builder->count};
    memcpy(header.e_ident, "\177ELF\2\1\1\63", 8);
    memcpy(builder->bytes, &header, sizeof(header));
    memcpy(builder->bytes + table, builder->sections, builder->count * sizeof(Elf64_Shdr));
    *size = table + builder->count * sizeof(Elf64_Shdr);
    return builder->bytes;
}

static inline void builder_end(struct dump_builder *builder)
{
    free(builder->bytes);
}
