/*
 * A small GPU core dump, one at a time; tests may change every field. Include it after cmocka.h.
 */
#pragma once

#include "base/reader.h"
#include "coredump_builder.h"

enum { DEVICES, CONTEXTS, MODULES, CUBIN, GRIDS, PARAMETERS, SMS, CTAS, WARPS, LANES, REGISTERS, META, PARTS };

static struct {
    struct dump_builder builder;
    uint32_t part[PARTS];
} synthetic;

static inline void put32(int part, uint64_t at, uint32_t value)
{
    builder_put32(&synthetic.builder, synthetic.part[part], at, value);
}

static inline void put64(int part, uint64_t at, uint64_t value)
{
    builder_put64(&synthetic.builder, synthetic.part[part], at, value);
}

/* The bytes of a section. */
static inline uint8_t *bytes_of_section(uint32_t section)
{
    return synthetic.builder.bytes + synthetic.builder.sections[section].sh_offset;
}

/* The file, on the heap and to the byte, so that a sanitizer sees a read behind its end. */
static inline struct span dump_file(uint16_t machine)
{
    size_t size;
    const uint8_t *bytes = builder_finish(&synthetic.builder, machine, &size);
    uint8_t *exact = malloc(size);
    assert_non_null(exact);
    return (struct span){memcpy(exact, bytes, size), size};
}

/* Row sizes. */
struct sizes {
    uint64_t device, grid, sm, cta, warp, lane;
};

static const struct sizes oldest = {72, 104, 24, 24, 32, 48};
static const struct sizes newest = {96, 144, 64, 64, 96, 80};

#define KERNEL_START 0x7f0000001000u
#define NAMES "\0.text\0.strtab\0.symtab\0_Z3oobPi\0"

/* A cubin with one function, `_Z3oobPi`: STG.E.64 [R2+0x10], R4 at +0x10, NOP elsewhere. */
static inline size_t make_cubin(uint8_t *room)
{
    struct dump_builder builder;
    builder_start(&builder);
    uint32_t strings = builder_add(&builder, SHT_STRTAB, 0, sizeof(NAMES), 0, 0);
    builder_put(&builder, strings, 0, NAMES, sizeof(NAMES));
    uint32_t text = builder_add(&builder, SHT_PROGBITS, 0, 0x80, 0, 0);
    builder.sections[text].sh_addr = KERNEL_START;
    for (unsigned at = 0; at < 0x80; at += 16)
        builder_put64(&builder, text, at, 0x0000000000007918);
    builder_put64(&builder, text, 0x10, 0x0000100402007386);
    builder_put64(&builder, text, 0x18, 0x000fe2000010eb00);
    uint32_t symbols = builder_add(&builder, SHT_SYMTAB, sizeof(Elf64_Sym), 2 * sizeof(Elf64_Sym), strings, 0);
    Elf64_Sym symbol = {.st_name = 23,
                        .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                        .st_shndx = (uint16_t)text,
                        .st_value = KERNEL_START,
                        .st_size = 0x80};
    builder_put(&builder, symbols, sizeof(symbol), &symbol, sizeof(symbol));
    size_t size;
    memcpy(room, builder_finish(&builder, 0xBE, &size), 4096);
    builder_end(&builder);
    assert_true(size <= 4096);
    return size;
}

/* One device sm_70, with one SM, one block, and one warp of 2 lanes. Lane 1 has the exception. */
static inline void make_synthetic(const struct sizes *sizes)
{
    struct dump_builder *builder = &synthetic.builder;
    uint32_t *part = synthetic.part;
    uint8_t cubin[4096];
    size_t cubin_size = make_cubin(cubin);
    builder_end(builder); /* the one before */
    builder_start(builder);
    part[DEVICES] = builder_add(builder, 0x80000009, sizes->device, sizes->device, 0, 0);
    part[CONTEXTS] = builder_add(builder, 0x8000000a, 40, 40, part[DEVICES], 0);
    part[MODULES] = builder_add(builder, 0x80000010, 8, 8, part[CONTEXTS], 0);
    part[CUBIN] = builder_add(builder, 0x80000007, 0, cubin_size, part[MODULES], 0);
    part[GRIDS] = builder_add(builder, 0x8000000c, sizes->grid, sizes->grid, part[DEVICES], 0);
    part[PARAMETERS] = builder_add(builder, 0x80000012, 0, 8, part[GRIDS], 0);
    part[SMS] = builder_add(builder, 0x8000000b, sizes->sm, 2 * sizes->sm, part[DEVICES], 0);
    part[CTAS] = builder_add(builder, 0x8000000d, sizes->cta, sizes->cta, part[SMS], 1);
    part[WARPS] = builder_add(builder, 0x8000000e, sizes->warp, sizes->warp, part[CTAS], 0);
    part[LANES] = builder_add(builder, 0x8000000f, sizes->lane, 2 * sizes->lane, part[WARPS], 0);
    part[REGISTERS] = builder_add(builder, 0x80000005, 4, 32, part[LANES], 1);
    part[META] = builder_add(builder, 0x80000016, 0, 32, 0, 0);
    put32(DEVICES, 24, 3);
    put32(DEVICES, 28, 0x41);
    put32(DEVICES, 56, 7);
    put64(CONTEXTS, 0, 0xc0);
    put64(MODULES, 0, 0x30);
    builder_put(builder, part[CUBIN], 0, cubin, cubin_size);
    put64(GRIDS, 0, 77);
    put64(GRIDS, 8, 0xc0);
    put64(GRIDS, 24, KERNEL_START);
    put64(GRIDS, 32, 0x30);
    for (uint32_t i = 0; i < 3; i++) {
        put32(GRIDS, 72 + 4 * i, i ? 1 : 5);
        put32(GRIDS, 84 + 4 * i, i ? 1 : 64);
    }
    put32(GRIDS, 100, 4242);
    put64(PARAMETERS, 0, 0x1122334455667788);
    put32(SMS, sizes->sm, 9);
    put32(SMS, sizes->sm + 8, 14);
    put64(CTAS, 0, 77);
    put32(CTAS, 8, 4);
    put64(WARPS, 0, KERNEL_START + 0x10);
    put32(WARPS, 8, 6);
    put32(WARPS, 12, 3);
    put32(WARPS, 16, 3);
    put32(WARPS, 24, 1);
    for (uint32_t i = 0; i < 2; i++) {
        put64(LANES, i * sizes->lane, KERNEL_START + 0x40);
        put32(LANES, i * sizes->lane + 16, i);
        put32(LANES, i * sizes->lane + 20, 32 + i);
    }
    put32(LANES, sizes->lane + 32, 14);
    put32(REGISTERS, 8, 0xdeadbe00);
    put32(REGISTERS, 12, 0x7f);
    put32(META, 8, 470);
}
