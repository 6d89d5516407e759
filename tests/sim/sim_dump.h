/*
 * What tests of the simulated device read in its core dumps, by the offsets of the format: not with the code under test, nor
 * with the product's reader. For processes of their own: CHECK ends the process.
 */
#pragma once

#include "child.h"

#include <elf.h>

#define OK(call) CHECK((call) == CUDA_SUCCESS)

struct dump {
    unsigned char *bytes;
    size_t size;
};

/* Memory that is the process's to its end. */
static inline unsigned char *keep(size_t size)
{
    static unsigned char space[64 << 20] __attribute__((aligned(16)));
    static size_t used;
    CHECK(size <= sizeof space - used);
    used += (size + 15) & ~(size_t)15;
    return &space[used - ((size + 15) & ~(size_t)15)];
}

static inline struct dump read_all(int file)
{
    const size_t most = (size_t)4 << 20;
    struct dump dump = {keep(most), 0};
    CHECK(file >= 0);
    for (ssize_t got; (got = read(file, dump.bytes + dump.size, most - dump.size)) > 0;)
        dump.size += (size_t)got;
    close(file);
    return dump;
}

static inline Elf64_Shdr section_at(struct dump dump, unsigned index)
{
    Elf64_Ehdr header;
    Elf64_Shdr section;
    memcpy(&header, dump.bytes, sizeof header);
    CHECK(index < header.e_shnum);
    memcpy(&section, dump.bytes + header.e_shoff + index * sizeof section, sizeof section);
    CHECK(section.sh_type == SHT_NOBITS || section.sh_offset + section.sh_size <= dump.size);
    return section;
}

/* The nth section of a type; sh_type is 0 where there is none. */
static inline Elf64_Shdr find(struct dump dump, uint32_t type, unsigned nth, unsigned *index)
{
    Elf64_Ehdr header;
    if (index != NULL)
        *index = 0;
    memcpy(&header, dump.bytes, sizeof header);
    for (unsigned i = 1; i < header.e_shnum; i++) {
        Elf64_Shdr section = section_at(dump, i);
        if (section.sh_type == type && nth-- == 0) {
            if (index != NULL)
                *index = i;
            return section;
        }
    }
    return (Elf64_Shdr){0};
}

static inline uint32_t u32(struct dump dump, Elf64_Shdr section, uint64_t at)
{
    uint32_t value;
    CHECK(at + 4 <= section.sh_size);
    memcpy(&value, dump.bytes + section.sh_offset + at, sizeof value);
    return value;
}

static inline uint64_t u64(struct dump dump, Elf64_Shdr section, uint64_t at)
{
    return u32(dump, section, at) | (uint64_t)u32(dump, section, at + 4) << 32;
}

#define TYPE(n) (0x80000000u + (n))

static inline uint32_t sm_of_fault(struct dump dump)
{
    Elf64_Shdr sms = find(dump, TYPE(11), 0, NULL);
    CHECK(sms.sh_entsize == 48);
    for (uint32_t i = 0; i < sms.sh_size / 48; i++) {
        if (u32(dump, sms, i * 48 + 8) == 14) {
            CHECK(u32(dump, sms, i * 48 + 12) == 1);
            return i;
        }
    }
    return UINT32_MAX;
}

/* Finds the instruction at the SM's error PC in the dump's code, and hands out the cubin. */
static inline void faulting_instruction(struct dump dump, struct dump *cubin, uint64_t instruction[2])
{
    Elf64_Shdr image = find(dump, TYPE(7), 0, NULL);
    Elf64_Shdr sms = find(dump, TYPE(11), 0, NULL);
    uint64_t pc = u64(dump, sms, sm_of_fault(dump) * 48 + 16);
    *cubin = (struct dump){dump.bytes + image.sh_offset, image.sh_size};
    Elf64_Shdr symbols = find(*cubin, SHT_SYMTAB, 0, NULL);
    for (uint64_t at = 0; at < symbols.sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, cubin->bytes + symbols.sh_offset + at, sizeof symbol);
        if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || pc < symbol.st_value || pc >= symbol.st_value + symbol.st_size)
            continue;
        Elf64_Shdr text = section_at(*cubin, symbol.st_shndx);
        memcpy(instruction, cubin->bytes + text.sh_offset + (pc - symbol.st_value), 16);
        return;
    }
    CHECK(0 && "the error PC lies in a function");
}
