/*
 * Modules with machine code, for tests of its emulation: into some of it no barriers fit. Include it once, behind
 * second_launch.h.
 */
#ifndef CUFENCE_TESTS_UNFENCED_H
#define CUFENCE_TESTS_UNFENCED_H

#include "unit/coredump_builder.h"

struct machine_code {
    const char *kernel;
    size_t count; /* instructions */
    uint64_t code[20][2];
};

/* As ptxas would compile it for sm_90: `if (i <= n) out[i] = x`. An instruction behind its end is none of a kernel's, so that
 * it is not known where the code ends. */
static const struct machine_code store_first = {
    "store_first",
    15,
    {
        {0x00000a00ff017b82, 0x000fe20000000800}, /* LDC R1, c[0x0][0x28] */
        {0x0000000000007919, 0x000e2e0000002100}, /* S2R R0, SR_TID.X */
        {0x00000000000479c3, 0x000e300000002500}, /* S2UR UR4, SR_CTAID.X */
        {0x00000000ff077b82, 0x000e240000000800}, /* LDC R7, c[0x0][RZ] */
        {0x0000000407077c24, 0x001fe2000f8e0200}, /* IMAD R7, R7, UR4, R0 */
        {0x0000880000047ab9, 0x000fc80000000800}, /* ULDC UR4, c[0x0][0x220] */
        {0x0000000407007c0c, 0x000fda000bf04270}, /* ISETP.GT.AND P0, PT, R7, UR4, PT */
        {0x000000000000094d, 0x000fea0003800000}, /* @P0 EXIT */
        {0x00008400ff027b82, 0x000e220000000a00}, /* LDC.64 R2, c[0x0][0x210] */
        {0x0000820000047ab9, 0x000fce0000000a00}, /* ULDC.64 UR4, c[0x0][0x208] */
        {0x0000000407027825, 0x001fcc00078e0202}, /* IMAD.WIDE R2, R7, 0x4, R2 */
        {0x0000000502007986, 0x000fe2000c101904}, /* STG.E desc[UR4][R2.64], R5 */
        {0x000000000000794d, 0x000fea0003800000}, /* EXIT */
        {0xfffffffc00fc7947, 0x000fc0000383ffff}, /* BRA to itself */
        {0x0000000400057802, 0x000fca0000000f00}, /* MOV R5, 0x4 */
    }};

/* `if (i <= *last) out[i] = x` */
static const struct machine_code store_until = {
    "store_until",
    16,
    {
        {0x00000a00ff017b82, 0x000fe20000000800}, /* LDC R1, c[0x0][0x28] */
        {0x0000000000007919, 0x000e2e0000002100}, /* S2R R0, SR_TID.X */
        {0x00000000000479c3, 0x000e300000002500}, /* S2UR UR4, SR_CTAID.X */
        {0x00000000ff077b82, 0x000e240000000800}, /* LDC R7, c[0x0][RZ] */
        {0x0000000407077c24, 0x001fe2000f8e0200}, /* IMAD R7, R7, UR4, R0 */
        {0x0000820000047ab9, 0x000fce0000000a00}, /* ULDC.64 UR4, c[0x0][0x208] */
        {0x00008600ff027b82, 0x000e220000000a00}, /* LDC.64 R2, c[0x0][0x218] */
        {0x0000000402047981, 0x000ea2000c1e1900}, /* LDG.E R4, desc[UR4][R2.64] */
        {0x000000040700720c, 0x004fda0003f04270}, /* ISETP.GT.AND P0, PT, R7, R4, PT */
        {0x000000000000094d, 0x000fea0003800000}, /* @P0 EXIT */
        {0x00008400ff027b82, 0x000e220000000a00}, /* LDC.64 R2, c[0x0][0x210] */
        {0x0000000407027825, 0x001fcc00078e0202}, /* IMAD.WIDE R2, R7, 0x4, R2 */
        {0x0000000502007986, 0x000fe2000c101904}, /* STG.E desc[UR4][R2.64], R5 */
        {0x000000000000794d, 0x000fea0003800000}, /* EXIT */
        {0xfffffffc00fc7947, 0x000fc0000383ffff}, /* BRA to itself */
        {0x0000000400057802, 0x000fca0000000f00}, /* MOV R5, 0x4 */
    }};

/* `out[*where] = x` */
static const struct machine_code store_there = {"store_there",
                                                11,
                                                {
                                                    {0x00000a00ff017b82, 0x000fe20000000800}, /* LDC R1, c[0x0][0x28] */
                                                    {0x0000820000047ab9, 0x000fcc0000000a00}, /* ULDC.64 UR4, c[0x0][0x208] */
                                                    {0x00008600ff027b82, 0x000e220000000a00}, /* LDC.64 R2, c[0x0][0x218] */
                                                    {0x0000000402047981, 0x000ea2000c1e1900}, /* LDG.E R4, desc[UR4][R2.64] */
                                                    {0x00008400ff027b82, 0x000e220000000a00}, /* LDC.64 R2, c[0x0][0x210] */
                                                    {0x0000000404027825, 0x004fcc00078e0202}, /* IMAD.WIDE R2, R4, 0x4, R2 */
                                                    {0x0000000502007986, 0x000fe2000c101904}, /* STG.E desc[UR4][R2.64], R5 */
                                                    {0x000000000000794d, 0x000fea0003800000}, /* EXIT */
                                                    {0xfffffffc00fc7947, 0x000fc0000383ffff}, /* BRA to itself */
                                                    {0x0000000000007918, 0x000fc00000000000}, /* NOP */
                                                    {0x0000000000007918, 0x000fc00000000000}, /* NOP */
                                                }};

enum { MULTIPLY = 10, NONE = 20 }; /* numbers of instructions of store_first */

/* Loads a module with the first `count` instructions, of which one may be replaced by a NOP. */
static inline void load(const struct machine_code *machine, size_t count, size_t without)
{
    static const uint64_t nop[2] = {0x0000000000007918, 0x000fc00000000000};
    char names[32] = "";
    size_t size, length = 2 + (size_t)snprintf(names + 1, sizeof names - 1, "%s", machine->kernel);
    struct dump_builder builder;
    builder_start(&builder);
    uint32_t strings = builder_add(&builder, SHT_STRTAB, 0, length, 0, 0);
    builder_put(&builder, strings, 0, names, length);
    uint32_t text = builder_add(&builder, SHT_PROGBITS, 0, count * 16, 0, 0);
    builder.sections[text].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
    for (size_t i = 0; i < count; i++)
        builder_put(&builder, text, i * 16, i == without ? nop : machine->code[i], 16);
    uint32_t symbols = builder_add(&builder, SHT_SYMTAB, sizeof(Elf64_Sym), 2 * sizeof(Elf64_Sym), strings, 0);
    const Elf64_Sym symbol = {1, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0x10, (uint16_t)text, 0, count * 16};
    builder_put(&builder, symbols, sizeof symbol, &symbol, sizeof symbol);
    CHECK_CU(cuModuleLoadData(&module, builder_finish(&builder, 0xBE, &size)));
    builder_end(&builder);
}

#endif
