/*
 * Modules with machine code, for tests of what it is followed for: into some of it no barriers fit. Include it once, behind
 * second_launch.h.
 */
#pragma once

#include "support/fixture.h"
#include "unit/coredump_builder.h"

/* Loads a module with the code of a kernel of kernels.sass but the last `less` instructions. */
static inline void load(const char *kernel, size_t less)
{
    struct span code = fixture_code(kernel);
    char names[32] = "";
    size_t bytes = code.size - less * 16, size, length = 2 + (size_t)snprintf(names + 1, sizeof names - 1, "%s", kernel);
    struct dump_builder builder;
    builder_start(&builder);
    uint32_t strings = builder_add(&builder, SHT_STRTAB, 0, length, 0, 0);
    builder_put(&builder, strings, 0, names, length);
    uint32_t section = builder_add(&builder, SHT_PROGBITS, 0, bytes, 0, 0);
    builder.sections[section].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
    builder_put(&builder, section, 0, code.bytes, bytes);
    uint32_t symbols = builder_add(&builder, SHT_SYMTAB, sizeof(Elf64_Sym), 2 * sizeof(Elf64_Sym), strings, 0);
    const Elf64_Sym symbol = {1, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0x10, (uint16_t)section, 0, bytes};
    builder_put(&builder, symbols, sizeof symbol, &symbol, sizeof symbol);
    CHECK_CU(cuModuleLoadData(&module, builder_finish(&builder, 0xBE, &size)));
    builder_end(&builder);
    fixture_free(code);
}
