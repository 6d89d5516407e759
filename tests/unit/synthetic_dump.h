/*
 * A small GPU core dump; tests may change every field. Include it after cmocka.h.
 */
#pragma once

#include "coredump_builder.h"

enum { DEVICES, CONTEXTS, MODULES, CUBIN, GRIDS, PARAMETERS, SMS, CTAS, WARPS, LANES, REGISTERS, META, PARTS };

struct synthetic {
    struct dump_builder builder;
    uint32_t part[PARTS];
};

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
static inline void make_synthetic(struct synthetic *synthetic, const struct sizes *sizes)
{
    struct dump_builder *builder = &synthetic->builder;
    uint32_t *part = synthetic->part;
    uint8_t cubin[4096];
    size_t cubin_size = make_cubin(cubin);
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
    builder_put32(builder, part[DEVICES], 24, 3);
    builder_put32(builder, part[DEVICES], 28, 0x41);
    builder_put32(builder, part[DEVICES], 56, 7);
    builder_put64(builder, part[CONTEXTS], 0, 0xc0);
    builder_put64(builder, part[MODULES], 0, 0x30);
    builder_put(builder, part[CUBIN], 0, cubin, cubin_size);
    builder_put64(builder, part[GRIDS], 0, 77);
    builder_put64(builder, part[GRIDS], 8, 0xc0);
    builder_put64(builder, part[GRIDS], 24, KERNEL_START);
    builder_put64(builder, part[GRIDS], 32, 0x30);
    builder_put32(builder, part[GRIDS], 72, 5);
    builder_put32(builder, part[GRIDS], 84, 64);
    builder_put32(builder, part[GRIDS], 100, 4242);
    builder_put64(builder, part[PARAMETERS], 0, 0x1122334455667788);
    builder_put32(builder, part[SMS], sizes->sm, 9);
    builder_put32(builder, part[SMS], sizes->sm + 8, 14);
    builder_put64(builder, part[CTAS], 0, 77);
    builder_put32(builder, part[CTAS], 8, 4);
    builder_put64(builder, part[WARPS], 0, KERNEL_START + 0x10);
    builder_put32(builder, part[WARPS], 8, 6);
    builder_put32(builder, part[WARPS], 12, 3);
    builder_put32(builder, part[WARPS], 16, 3);
    builder_put32(builder, part[WARPS], 24, 1);
    for (uint32_t i = 0; i < 2; i++) {
        builder_put64(builder, part[LANES], i * sizes->lane, KERNEL_START + 0x40);
        builder_put32(builder, part[LANES], i * sizes->lane + 16, i);
        builder_put32(builder, part[LANES], i * sizes->lane + 20, 32 + i);
    }
    builder_put32(builder, part[LANES], sizes->lane + 32, 14);
    builder_put32(builder, part[REGISTERS], 8, 0xdeadbe00);
    builder_put32(builder, part[REGISTERS], 12, 0x7f);
    builder_put32(builder, part[META], 8, 470);
}
