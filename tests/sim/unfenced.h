/*
 * Modules with machine code, for tests of its emulation: into some of it no barriers fit. Include it once, behind
 * second_launch.h.
 */
#pragma once

#include "support/fixture.h"
#include "unit/coredump_builder.h"

struct machine_code {
    const char *kernel;
    size_t count; /* instructions */
    uint64_t code[20][2];
};

enum { MULTIPLY = 10, NONE = 20 }; /* numbers of instructions of store_first */

/* From kernels.sass. */
static inline struct machine_code machine_code(const char *kernel)
{
    struct span code = fixture_code(kernel);
    struct machine_code machine = {.kernel = kernel, .count = code.size / sizeof *machine.code};
    assert_true(code.size <= sizeof machine.code);
    memcpy(machine.code, code.bytes, code.size);
    fixture_free(code);
    return machine;
}

/* Loads a module with the first `count` instructions, of which one may be replaced by a NOP. */
static inline void load_machine(const struct machine_code *machine, size_t count, size_t without)
{
    static const uint64_t nop[2] = {0x0000000000007918, 0x000fc00000000000};
    char names[32] = "";
    size_t size, length = 2 + (size_t)snprintf(names + 1, sizeof names - 1, "%s", machine->kernel);
    struct dump_builder builder;
    builder_start(&builder);
    uint32_t strings = builder_add(&builder, SHT_STRTAB, 0, length, 0, 0);
    builder_put(&builder, strings, 0, names, length);
    uint32_t section = builder_add(&builder, SHT_PROGBITS, 0, count * 16, 0, 0);
    builder.sections[section].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
    for (size_t i = 0; i < count; i++)
        builder_put(&builder, section, i * 16, i == without ? nop : machine->code[i], 16);
    uint32_t symbols = builder_add(&builder, SHT_SYMTAB, sizeof(Elf64_Sym), 2 * sizeof(Elf64_Sym), strings, 0);
    const Elf64_Sym symbol = {1, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0x10, (uint16_t)section, 0, count * 16};
    builder_put(&builder, symbols, sizeof symbol, &symbol, sizeof symbol);
    CHECK_CU(cuModuleLoadData(&module, builder_finish(&builder, 0xBE, &size)));
    builder_end(&builder);
}

/* ... of a kernel of kernels.sass but the last `less` */
static inline void load(const char *kernel, size_t less, size_t without)
{
    const struct machine_code machine = machine_code(kernel);
    load_machine(&machine, machine.count - less, without);
}
