/*
 * The decoder, compared with nvdisasm 13.5 without its cache and scope modifiers: encodings from code of ptxas 13.0, also with
 * single bits flipped; and what instructions between a fault and a lane's PC may change.
 */
#include "support/test.h"

#include "support/fixture.h"
#include "analysis/lines/cubin.h"
#include "analysis/sass/slice.h"
#include "analysis/sass/ways.h"

TEST(test_decode)
{
    static const enum access_kind kinds[] = {['R'] = ACCESS_READ, ['W'] = ACCESS_WRITE, ['A'] = ACCESS_ATOMIC};
    char line[256], kind;
    FILE *file = fopen(CUFENCE_FIXTURES "/accesses.sass", "re");
    int cases = 0, text;
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        struct sass_instruction instruction;
        struct sass_access access;
        unsigned sm, bytes, base;
        int is_wide, uniform;
        int64_t immediate;
        if (*line == '#')
            continue;
        line[strcspn(line, "\n")] = '\0';
        assert_int_equal(sscanf(line, "%u %lx %lx %c %u %u %d %d %ld  %n", &sm, &instruction.low, &instruction.high, &kind,
                                &bytes, &base, &is_wide, &uniform, &immediate, &text),
                         9);
        if (!sass_decode(instruction, sm, &access))
            fail_msg("sm_%u does not know %s", sm, line + text);
        assert_string_equal(access.text, line + text);
        assert_int_equal(access.kind, kinds[(unsigned char)kind]);
        assert_int_equal(access.bytes, bytes);
        assert_int_equal(access.base, base);
        assert_int_equal(access.is_base_wide, is_wide);
        assert_int_equal(access.uniform, uniform);
        assert_true(access.immediate == immediate);
        cases++;
    }
    fclose(file);
    assert_int_equal(cases, 390);
}

TEST(test_not_an_access)
{
    /* NOP, EXIT, IMAD.WIDE, LDS, STS, LDC, BRA, and nothing at all. */
    static const struct sass_instruction others[] = {
        {0x0000000000007918, 0x000fc00000000000}, {0x000000000000794d, 0x000fea0003800000},
        {0x0000000407027825, 0x001fcc00078e0202}, {0x0000000002027984, 0x000e220000000800},
        {0x0000000007007388, 0x0001e20000000800}, {0x00008400ff027b82, 0x000e220000000a00},
        {0xfffffffc00fc7947, 0x000fc0000383ffff}, {0, 0},
    };
    static const unsigned architectures[] = {70, 75, 80, 90, 100, 120};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        for (size_t k = 0; k < sizeof(architectures) / sizeof(architectures[0]); k++) {
            struct sass_access access;
            enum access_kind kind;
            assert_false(sass_decode(others[i], architectures[k], &access));
            const char *name = sass_class(others[i], &kind);
            assert_true(!name || (kind == ACCESS_UNKNOWN && (!strcmp(name, "LDS") || !strcmp(name, "STS"))));
        }
    }
}

/* tests/fixtures/cubins/textures.cu */
TEST(test_what_reads_through_a_texture)
{
    static const struct {
        const char *kernel;
        int fetches;
    } kernels[] = {{"_Z7look_upyPj", 1}, {"_Z4callyP6float4", 1}, {"_Z8gradientyPf", 1}, {"_Z8filteredyPf", 1},
                   {"_Z2atyy", 0},       {"_Z5widthyPi", 0},      {"_Z7surfaceyPi", 0},  {"_Z5countyPj", 0}};
    struct span file = fixture_read("cubins/textures.cubin");
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        struct cubin_kernel kernel;
        assert_true(cubin_find_kernel(file, kernels[i].kernel, &kernel));
        assert_int_equal(slice_fetches(kernel.code, kernel.sm, 0), kernels[i].fetches);
        assert_int_equal(slice_fetches(kernel.code, kernel.sm, 8), strstr(kernels[i].kernel, "atyy") != NULL);
    }
    assert_false(slice_fetches((struct span){file.bytes, 15}, 90, 0));
    fixture_free(file);
}

/* gridDim, blockDim, and in constant bank 3; behind an index register may be any. */
TEST(test_what_reads_the_grid)
{
    static const struct {
        unsigned sm;
        int reads;
        uint64_t code[2];
    } cases[] = {{80, 1, {0x00000300ff0d7624, 0x000fe200078e00ff}},  {80, 1, {0x0000050000117a02, 0x000fe20000000f00}},
                 {80, 0, {0x0000020000007a24, 0x004fe200078e0205}},  {90, 1, {0x0000030000057ab9, 0x000fe20000000800}},
                 {90, 1, {0x00000500ff117b82, 0x000f620000000800}},  {90, 0, {0x00000200ff007b82, 0x000e620000000800}},
                 {120, 1, {0x00006e00ff0477ac, 0x000e620008000800}}, {120, 1, {0x0000de00ff117b82, 0x000f620000000800}},
                 {120, 0, {0x0000da00ff007b82, 0x000e620000000800}}, {120, 0, {0x0000df00ff017b82, 0x000fe20000000800}},
                 {90, 0, {0x00c00300ff0d7b82, 0x000e620000000800}},  {90, 1, {0x00000100020d7b82, 0x000e620000000800}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(code_reads_grid((struct span){(const uint8_t *)cases[i].code, 16}, cases[i].sm), cases[i].reads);
}

TEST(test_class)
{
    static const struct {
        uint64_t low;
        const char *name;
        enum access_kind kind;
    } classes[] = {{0x00000008040075b4, "UTMALDG", ACCESS_READ},    {0x0000000c040073b5, "UTMASTG", ACCESS_WRITE},
                   {0x0000000c040073b6, "UTMAREDG", ACCESS_ATOMIC}, {0x00000008060073ba, "UBLKCP", ACCESS_UNKNOWN},
                   {0x200004ff10107f63, "TLD4", ACCESS_READ},       {0x2000040c140c7f6c, "TXD", ACCESS_READ},
                   {0x70000a001a007f9f, "SURED", ACCESS_ATOMIC},    {0x2000040004047f60, "TEX", ACCESS_READ},
                   {0x000004ff06077f66, "TLD", ACCESS_READ},        {0x7000060002097f99, "SULD", ACCESS_READ},
                   {0x700006090a007f9d, "SUST", ACCESS_WRITE},      {0x000060040304738d, "ATOMS", ACCESS_UNKNOWN},
                   {0x000014070300738c, "ATOMS", ACCESS_UNKNOWN},   {0x000400050084783b, "LDSM", ACCESS_UNKNOWN},
                   {0x0000000402007388, "STS", ACCESS_UNKNOWN}};
    enum access_kind kind;
    assert_null(sass_class((struct sass_instruction){0x0000000402027981, 0x000ea2000c1e1900}, &kind)); /* LDG */
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        assert_string_equal(sass_class((struct sass_instruction){classes[i].low, 0}, &kind), classes[i].name);
        assert_int_equal(kind, classes[i].kind);
    }
}

TEST(test_bulk)
{
    static const struct {
        uint64_t high, low;
        struct sass_bulk bulk;
    } bulks[] = {
        {0x0003d80008008000, 0x00000008040075b4, {ACCESS_READ, 2, 4, 10, 0, "UTMALDG.2D [UR8], [UR4]"}},
        {0x0001d80008000000, 0x00000004080075b4, {ACCESS_READ, 1, 8, 6, 0, "UTMALDG.1D [UR4], [UR8]"}},
        {0x0057ee0008020000, 0x00000008100075b4, {ACCESS_READ, 5, 16, 10, 0, "UTMALDG.5D [UR8], [UR16]"}},
        {0x0001d80008058004, 0x00000008060073b4, {ACCESS_READ, 4, 6, 10, 0, "UTMALDG.4D.IM2COL [UR8], [UR6]"}},
        {0x0001d8000800880a, 0x00000004080073b4, {ACCESS_READ, 2, 8, 6, 0, "UTMALDG.2D [UR4], [UR8]"}},
        {0x0005e20008008000, 0x000000080c0073b5, {ACCESS_WRITE, 2, 12, 9, 0, "UTMASTG.2D [UR8], [UR12]"}},
        {0x0021e40008010000, 0x000000040a0073b5, {ACCESS_WRITE, 3, 10, 5, 0, "UTMASTG.3D [UR4], [UR10]"}},
        {0x0005d80008008000, 0x000000080c0073b6, {ACCESS_ATOMIC, 2, 12, 9, 0, "UTMAREDG.2D [UR8], [UR12]"}},
        {0x0003d80008000206, 0x00000008040073ba, {ACCESS_READ, 0, 4, 0, 6, "UBLKCP.S.G [UR8], [UR4], UR6"}},
        {0x0021e40008000405, 0x00000006040073ba, {ACCESS_WRITE, 0, 6, 0, 5, "UBLKCP.G.S [UR6], [UR4], UR5"}},
        {0x0001d80008108000, 0x00000008060075b4, {ACCESS_READ, 2, 6, 10, 0, "UTMALDG.2D.GATHER4 [UR8], [UR6]"}},
        {0x0041e40008088000, 0x00000008060073b5, {ACCESS_WRITE, 2, 6, 9, 0, "UTMASTG.2D.SCATTER4 [UR8], [UR6]"}},
        {0x0001d800080d0004, 0x00000008060073b4, {ACCESS_READ, 3, 6, 10, 0, "UTMALDG.3D.W [UR8], [UR6]"}},
        {0x0001d800080a0405, 0x00000006040073bb, {ACCESS_ATOMIC, 0, 6, 0, 5, "UBLKRED.G.S [UR6], [UR4], UR5"}},
    };
    struct sass_bulk bulk;
    for (size_t i = 0; i < sizeof bulks / sizeof bulks[0]; i++) {
        const struct sass_bulk *wanted = &bulks[i].bulk;
        assert_true(sass_bulk((struct sass_instruction){bulks[i].low, bulks[i].high}, &bulk));
        assert_string_equal(bulk.text, wanted->text);
        assert_int_equal(bulk.kind, wanted->kind);
        assert_true(bulk.dimensions == wanted->dimensions && bulk.at == wanted->at && bulk.coordinates == wanted->coordinates &&
                    bulk.size == wanted->size);
    }
    assert_false(sass_bulk((struct sass_instruction){0x00000004090073ba, 0x0001d80008000606}, &bulk)); /* UBLKCP.S.S */
    assert_false(sass_bulk((struct sass_instruction){0x00000004090073bb, 0x0001d80008000606}, &bulk)); /* UBLKRED.S.S */
    assert_false(sass_bulk((struct sass_instruction){0x00000006040075b8, 0x0001e40008008000}, &bulk)); /* UTMAPF: prefetches */
    assert_false(sass_bulk((struct sass_instruction){0x000000000000794d, 0x000fea0003800000}, &bulk));
}

TEST(test_address)
{
    static const uint32_t registers[8] = {1, 2, 0xffffff00, 0x7f, 5, 6, 7, 8};
    static const uint32_t uniforms[8] = {0, 0, 0, 0, 0x200, 0x1, 0, 0};
    uint64_t address = 0;
    struct sass_access access = {.base = 2, .is_base_wide = 1, .uniform = -1, .immediate = 0x100};
    assert_true(sass_address(&access, registers, 8, uniforms, 8, &address));
    assert_int_equal(address, 0x8000000000);
    access.uniform = 4;
    assert_true(sass_address(&access, registers, 8, uniforms, 8, &address));
    assert_int_equal(address, 0x8100000200);
    access = (struct sass_access){.base = 0, .uniform = 4, .immediate = -1};
    assert_true(sass_address(&access, registers, 8, uniforms, 8, &address));
    assert_int_equal(address, 0x100000200);
    access = (struct sass_access){.base = SASS_RZ, .is_base_wide = 1, .uniform = -1, .immediate = 0x40};
    assert_true(sass_address(&access, NULL, 0, NULL, 0, &address));
    assert_int_equal(address, 0x40);
    access = (struct sass_access){.base = 7, .is_base_wide = 1, .uniform = -1};
    assert_false(sass_address(&access, registers, 8, uniforms, 8, &address));
    access = (struct sass_access){.base = 2, .is_base_wide = 1, .uniform = 7};
    assert_false(sass_address(&access, registers, 8, uniforms, 8, &address));
}

/* As nvdisasm's life ranges show them: the first register, how many, of which file; a predicate, -1 if none. */
TEST(test_what_is_written)
{
    static const struct {
        struct sass_instruction instruction;
        unsigned first, count;
        int is_uniform, predicate;
        const char *name;
    } written[] = {
        {{0x000000000e080381, 0x000ea200001e6f00}, 8, 4, 0, -1, "LDG.E.U.128 R8"},
        {{0x0000008684047236, 0x0c8fe20000005204}, 4, 2, 0, -1, "HMMA.884.F32.F32.STEP0 R4"},
        {{0x000000000000781c, 0x000fe40000703c20}, 0, 0, 0, 0, "PLOP3.LUT P0"},
        {{0x00000000ff2b7435, 0x000fe200000001ff}, 43, 1, 0, -1, "HFMA2.MMA R43, -RZ, RZ, 0, 0"},
        {{0x0000000c12107235, 0x000fe400078e0200}, 16, 2, 0, -1, "IADD.64 R16"},
        {{0x0000001100007235, 0x000fc80007800000}, 0, 1, 0, 0, "IADD R0, P0"},
        {{0x000000ff06127607, 0x008fce0004800000}, 18, 2, 0, -1, "SEL.64 R18"},
        {{0x000000ff06127207, 0x008fce0004800000}, 18, 1, 0, -1, "SEL R18"},
        {{0x000000ff04107c87, 0x000fcc000c800000}, 16, 2, 1, -1, "USEL.64 UR16"},
        {{0x400000000c0c7817, 0x000fe40003ffe400}, 12, 2, 0, -1, "IMNMX.U64 R12"},
        {{0x0000000000047805, 0x000fca0000005000}, 4, 1, 0, -1, "CS2R.32 R4"},
        {{0x000000000b0402ca, 0x002fd00000020000}, 4, 1, 1, 1, "R2UR P1, UR4"},
        {{0x000010540b0a7896, 0x000fe2000800000a}, 10, 1, 1, -1, "UPRMT UR10"},
        {{0x0000003f0400728c, 0x000fc8000bf25270}, 0, 0, 1, -1, "UISETP UP1"},
        {{0x00000001110b784a, 0x000fc8000ffe0100}, 11, 1, 1, -1, "UVIMNMX.S32 UR11"},
        {{0x000000140a0a7c4a, 0x000fc60009000000}, 10, 2, 0, -1, "FMUL2 R10"},
        {{0x0000000a0a0079a8, 0x00476400081ee1e4}, 0, 1, 0, -1, "ATOMG.E.ADD PT, R0"},
        {{0x000000190a0079a3, 0x0010a200081ef3c8}, 0, 1, 0, -1, "ATOMG.E.ADD.F32 PT, R0"},
        {{0x000400050020783b, 0x000fe20008000100}, 32, 2, 0, -1, "LDSM.16.M88.2 R32"},
        {{0x04401f001b007f89, 0x000e2200000e0000}, 0, 1, 0, -1, "SHFL.DOWN PT, R0"},
    };
    for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++) {
        struct sass_instruction instruction = written[i].instruction;
        for (unsigned k = 0; k < 63; k++) {
            int is_one = k >= written[i].first && k < written[i].first + written[i].count;
            if (sass_writes_uniform_register(instruction, k, 63) != (is_one && written[i].is_uniform) ||
                sass_writes_register(instruction, k, 1) != (is_one && !written[i].is_uniform))
                fail_msg("%s: register %u", written[i].name, k);
        }
        for (int k = 0; k < 7; k++)
            if (sass_may_write_predicate(instruction, (unsigned)k) != (k == written[i].predicate))
                fail_msg("%s: predicate %d", written[i].name, k);
    }
}

TEST(test_guards)
{
    assert_false(sass_has_uniform_guard((struct sass_instruction){0x00000000080482ca, 0x002fe400000e0000})); /* @!P0 R2UR */
    assert_true(sass_has_uniform_guard((struct sass_instruction){0x0000003f0400828c, 0x000fc8000bf25270}));  /* @!UP0 UISETP */
    assert_true(sass_has_uniform_guard((struct sass_instruction){0x00000001110b084a, 0x000fc8000ffe0100}));  /* @UP0 UVIMNMX */
    assert_false(sass_has_uniform_guard((struct sass_instruction){0x000000140a0a0c4a, 0x000fc60009000000})); /* @P0 FMUL2 */
}

TEST(test_effects)
{
    static const struct {
        struct sass_instruction instruction;
        unsigned first, count;
        int writes, writes_predicate, branches;
    } effects[] = {
        {{0x0000000407027825, 0x001fcc00078e0202}, 3, 1, 1, 1, 0}, /* IMAD.WIDE R2, R7, 0x4, R2 */
        {{0x0000000407027825, 0x001fcc00078e0202}, 4, 2, 0, 1, 0},
        {{0x0000000402027981, 0x000ea2000c1e1900}, 2, 2, 1, 0, 0}, /* LDG.E R2, [R2.64] */
        {{0x0000000406047981, 0x000ea2000c1e1d00}, 7, 1, 1, 0, 0}, /* LDG.E.128 R4, [R6.64] */
        {{0x0000000406047981, 0x000ea2000c1e1d00}, 8, 1, 0, 0, 0},
        {{0x0000000702007986, 0x000fe2000c101904}, 0, 255, 0, 0, 0}, /* STG.E [R2.64], R7 */
        {{0x000000000700720c, 0x000fda0003f04270}, 0, 255, 0, 1, 0}, /* ISETP.GT.AND P0, PT, R7, R0, PT */
        {{0x000000000000794d, 0x000fea0003800000}, 0, 255, 0, 0, 1}, /* EXIT */
        {{0x0000000000007918, 0x000fc00000000000}, 0, 255, 0, 0, 0}, /* NOP */
        {{0x0000000000007b1d, 0x000fec0000010000}, 0, 255, 0, 0, 0}, /* BAR.SYNC.DEFER_BLOCKING 0x0 */
        {{0x00008800ff00ffff, 0x000e220000000a00}, 200, 1, 1, 1, 1}, /* unknown */
    };
    for (size_t i = 0; i < sizeof(effects) / sizeof(effects[0]); i++) {
        struct sass_instruction instruction = effects[i].instruction;
        assert_int_equal(sass_writes_register(instruction, effects[i].first, effects[i].count), effects[i].writes);
        assert_int_equal(sass_writes_predicate(instruction), effects[i].writes_predicate);
        assert_int_equal(sass_branches(instruction), effects[i].branches);
    }
    assert_true(sass_writes_uniform((struct sass_instruction){0x0000880000047ab9, 0x000fe20000000800})); /* ULDC UR4 */
    assert_false(sass_writes_uniform((struct sass_instruction){0x0000000407027825, 0x001fcc00078e0202}));
}
