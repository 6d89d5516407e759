/* What files of a kernel's code hold: cubins and fat binaries. */
#include "support/test.h"

#include "support/fixture.h"
#include "analysis/dump/coredump.h"
#include "analysis/lines/cubin.h"
#include "analysis/lines/fatbin.h"

static struct problem problem;

/* A copy of the relocated cubin of a fixture that has the kernel loaded, and the kernel's load address. */
static uint8_t *read_cubin(const char *fixture, const char *kernel, size_t *size, uint64_t *start)
{
    struct span bytes = fixture_read("%s.core", fixture);
    uint8_t *copy = NULL;
    *size = 0;
    struct coredump dump;
    assert_int_equal(coredump_open(bytes.bytes, bytes.size, &dump, &problem), CUFENCE_OK);
    uint32_t grids = coredump_next(&dump, COREDUMP_GRIDS, 0), section = 0;
    struct coredump_grid grid;
    assert_true(coredump_row(&dump, COREDUMP_GRIDS, (struct coredump_ref){grids, 0}, &grid));
    *start = grid.entry;
    while (!copy && (section = coredump_next(&dump, COREDUMP_RELOCATED_CUBIN, section)) != 0) {
        struct span span = coredump_content(&dump, section);
        struct cubin_function function;
        uint64_t work = UINT64_MAX;
        if (!cubin_find(span, grid.entry, &work, &function))
            continue;
        assert_string_equal(function.symbol, kernel);
        copy = malloc(span.size);
        memcpy(copy, span.bytes, span.size);
        *size = span.size;
    }
    assert_non_null(copy);
    coredump_close(&dump);
    fixture_free(bytes);
    return copy;
}

TEST(test_functions)
{
    size_t size;
    uint64_t start, work = UINT64_MAX;
    uint8_t *bytes = read_cubin("load_called", "_Z11load_calledIdEvPKT_PS0_i", &size, &start);
    struct span cubin = {bytes, size};
    struct cubin_function function;
    /* A called function lies in its kernel's section: both are told. */
    assert_true(cubin_find(cubin, start + 0x160, &work, &function));
    assert_string_equal(function.symbol, "_Z11load_calledIdEvPKT_PS0_i");
    assert_int_equal(function.code_start - start, 0x120);
    assert_int_equal(function.code.size, 352);
    assert_int_equal(function.kernel_code.size, 640);
    assert_int_equal(load_u64(function.code.bytes + 0x40), 0x0000000402027981); /* its LDG */
    assert_true(cubin_find(cubin, start + 0x10, &work, &function));
    assert_int_equal(function.code_start, start);
    /* Functions that are not loaded have address 0 and hold no PC. */
    assert_false(cubin_find(cubin, 0x10, &work, &function));
    assert_false(cubin_find(cubin, start + 640, &work, &function));
    assert_false(cubin_find(cubin, start - 1, &work, &function));
    work = 100;
    assert_false(cubin_find(cubin, start, &work, &function));
    assert_int_equal(work, 0);
    free(bytes);
}

static void check_line(struct span cubin, uint64_t pc, int line)
{
    struct cubin_line found;
    assert_true(cubin_find_line(cubin, pc, &found));
    assert_non_null(strstr(found.file, "oob.cu"));
    assert_int_equal(found.line, line);
}

TEST(test_lines)
{
    size_t size;
    uint64_t start;
    uint8_t *bytes = read_cubin("atomic_cas", "atomic_cas", &size, &start);
    struct span cubin = {bytes, size};
    check_line(cubin, start + 0x10, 47);
    check_line(cubin, start + 0xb0, 49); /* atomicCAS() is inlined from a header: its caller counts */
    check_line(cubin, start + 0x250, 50);
    free(bytes);
}

/* The folder of the header that atomicCAS() comes from is given other names. */
TEST(code_of_a_library_counts_as_its_callers)
{
    static const char *const folders[] = {"/triton/language", "/triton/tools", "/gluon/language", "/warp/native",
                                          "/numba/cuda"};
    size_t size;
    uint64_t start;
    uint8_t *bytes = read_cubin("atomic_cas", "atomic_cas", &size, &start);
    struct cubin_line found;
    char *folder;
    while ((folder = memmem(bytes, size, "/targets/", 9)))
        memset(folder, '_', 9);
    assert_true(cubin_find_line((struct span){bytes, size}, start + 0xb0, &found));
    assert_null(strstr(found.file, "oob.cu"));
    folder = memmem(bytes, size, "_________x86_64-linux/include", 30);
    assert_non_null(folder);
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        memset(folder, '_', 29);
        memcpy(folder + 29 - strlen(folders[i]), folders[i], strlen(folders[i]));
        check_line((struct span){bytes, size}, start + 0xb0, 49);
    }
    free(bytes);
}

/* Some tools write the loaded addresses into the line table itself and keep no relocations. */
TEST(test_absolute_lines)
{
    size_t size;
    uint64_t start, offset = 0;
    uint8_t *bytes = read_cubin("load_sum", "load_sum", &size, &start);
    Elf64_Ehdr header;
    memcpy(&header, bytes, sizeof(header));
    Elf64_Shdr *sections = (Elf64_Shdr *)(void *)(bytes + header.e_shoff);
    const char *names = (const char *)bytes + sections[header.e_shstrndx].sh_offset;
    Elf64_Shdr *relocations = NULL, *line = NULL;
    for (unsigned i = 1; i < header.e_shnum; i++) {
        if (strcmp(names + sections[i].sh_name, ".rela.debug_line") == 0)
            relocations = &sections[i];
        if (strcmp(names + sections[i].sh_name, ".debug_line") == 0)
            line = &sections[i];
    }
    if (!relocations || !line) {
        fail_msg("no relocations of .debug_line, or none itself");
        return;
    }
    const Elf64_Shdr *symbols = &sections[relocations->sh_link];
    for (uint64_t at = 0; at < relocations->sh_size; at += sizeof(Elf64_Rela)) {
        Elf64_Rela entry;
        Elf64_Sym symbol;
        memcpy(&entry, bytes + relocations->sh_offset + at, sizeof(entry));
        memcpy(&symbol, bytes + symbols->sh_offset + ELF64_R_SYM(entry.r_info) * sizeof(symbol), sizeof(symbol));
        offset = line->sh_offset + entry.r_offset;
        memcpy(bytes + offset, &symbol.st_value, sizeof(symbol.st_value));
    }
    check_line((struct span){bytes, size}, start + 0xc0, 13);
    relocations->sh_type = SHT_NULL;
    check_line((struct span){bytes, size}, start + 0xc0, 13);
    free(bytes);
}

/* ---- Line tables of version 5, which ptxas does not write yet ---- */

static const uint8_t version5[] = {
    65,   0,   0,   0,                                  /* unit length */
    5,    0,   8,   0,                                  /* version, address size, segment selector size */
    36,   0,   0,   0,                                  /* header length */
    1,    1,   1,   0xfb, 14,   4,   0,   1,   1,       /* minimum 1, ops 1, is_stmt, base -5, range 14, opcodes below 4 */
    1,    1,   8,                                       /* directories: path as a string */
    1,    '/', 's', 0,                                  /* one: "/s" */
    2,    1,   8,   2,    11,                           /* files: path as a string, directory as one byte */
    2,    'a', 0,   0,    'b',  '.', 'c', 'u', 0, 0,    /* two: "a", "b.cu" */
    0,    0,   0,   0,    0,                            /* padding of the header */
    0,    9,   2,   0x00, 0x10, 0,   0,   0,   0, 0, 0, /* set address 0x1000 */
    3,    10,  1,                                       /* line 11, row */
    2,    32,                                           /* 32 bytes on */
    0x0b, 1,   0,   1,    1,                            /* special; row; end of sequence */
};

TEST(test_version5)
{
    struct line_query query = {.line = {version5, sizeof(version5)}, .start = 0x1000, .offset = 0x10};
    struct cubin_line place;
    assert_true(lines_find(&query, &place));
    assert_string_equal(place.file, "b.cu");
    assert_string_equal(place.directory, "/s");
    assert_int_equal(place.line, 11);
    query.offset = 0x40;
    assert_false(lines_find(&query, &place));
}

/* ---- fat binaries of nvcc 13.0 in all of its modes of compression (tests/fixtures/cubins) ---- */

static const char *const modes[] = {"values_default", "values_size", "values_speed"};
#define MODES (sizeof modes / sizeof *modes)

TEST(a_plain_one_has_its_cubins)
{
    struct span file = fixture_read("cubins/values.fatbin");
    struct fatbin_image image;
    uint64_t at = 0;
    assert_int_equal(fatbin_size(file.bytes), file.size);
    for (int i = 0; i < 2; i++) {
        struct cubin_kernel kernel;
        assert_int_equal(fatbin_next(file, &at, &image), 1);
        assert_true(image.kind == FATBIN_CUBIN && image.packing == FATBIN_PLAIN && image.size == image.packed.size);
        assert_true(image.packed.bytes > file.bytes && image.packed.bytes < file.bytes + file.size);
        assert_true(cubin_find_kernel(image.packed, "normalise", &kernel));
        assert_int_equal(kernel.sm, i ? 90 : 80);
        assert_int_equal(image.sm, kernel.sm);
        assert_false(kernel.calls_addresses);
        static const uint8_t call[] = {0x43, 0x73, 0x00, 0x02}; /* CALL.ABS.NOINC R2 */
        memcpy(fixture_bytes(file) + (kernel.code.bytes - file.bytes) + 16, call, sizeof call);
        assert_true(cubin_find_kernel(image.packed, "normalise", &kernel) && kernel.calls_addresses);
    }
    assert_int_equal(fatbin_next(file, &at, &image), 0);
    fixture_bytes(file)[0]++;
    assert_int_equal(fatbin_size(file.bytes), 0);
    fixture_free(file);
}

TEST(compressed_ones_have_the_same_cubins)
{
    struct span plain = fixture_read("cubins/values.fatbin");
    for (size_t mode = 0; mode < MODES; mode++) {
        struct span file = fixture_read("cubins/%s.fatbin", modes[mode]);
        uint64_t at = 0, at_plain = 0;
        struct fatbin_image image, same;
        while (fatbin_next(plain, &at_plain, &same) == 1) {
            assert_int_equal(fatbin_next(file, &at, &image), 1);
            assert_int_equal(image.packing, strcmp(modes[mode], "values_speed") ? FATBIN_ZSTD : FATBIN_LZ4);
            assert_true(image.kind == FATBIN_CUBIN && image.sm == same.sm && image.size == same.size);
            uint8_t *unpacked = malloc(image.size);
            assert_true(fatbin_unpack(&image, unpacked));
            assert_memory_equal(unpacked, same.packed.bytes, same.size);
            free(unpacked);
        }
        assert_int_equal(fatbin_next(file, &at, &image), 0);
        fixture_free(file);
    }
    fixture_free(plain);
}

TEST(a_damaged_header_ends_the_file)
{
    static const struct {
        unsigned at;
        uint32_t value;
    } damages[] = {{4, 63}, {8, 0}, {8, 1 << 20}, {16, 0}, {16, 1 << 20}, {56, 0}, {60, 1}};
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        struct span file = fixture_read("cubins/values_speed.fatbin");
        struct fatbin_image image;
        uint64_t at = 0;
        memcpy(fixture_bytes(file) + 16 + damages[i].at, &damages[i].value, 4);
        if (damages[i].at == 8)
            memset(fixture_bytes(file) + 16 + 12, 0, 4);
        assert_int_equal(fatbin_next(file, &at, &image), -1);
        fixture_free(file);
    }
}

/* ---- LZ4 ---- */

static int unpacks(const void *block, size_t bytes, const char *text, size_t size)
{
    uint8_t *exact = malloc(bytes), *to = malloc(size + 1);
    memcpy(exact, block, bytes);
    int is_done = lz4_unpack((struct span){exact, bytes}, to, size);
    if (is_done)
        assert_memory_equal(to, text, size);
    free(exact);
    free(to);
    return is_done;
}

#define UNPACKS(block, text) unpacks(block, sizeof(block) - 1, text, sizeof(text) - 1)

TEST(blocks_are_unpacked)
{
    assert_true(UNPACKS("\060abc", "abc"));
    assert_true(UNPACKS("\060abc\3\0\020x", "abcabcax")); /* a match that makes what it copies */
    assert_true(UNPACKS("\020a\1\0\020x", "aaaaax"));     /* a byte that is repeated */
    assert_true(UNPACKS("\105abcd\4\0\020x", "abcdabcdabcdax"));
    assert_true(UNPACKS("\360\002abcdefghijklmnopq", "abcdefghijklmnopq")); /* 15 + 2 literals */
    assert_true(UNPACKS("\037a\1\0\0\020x", "aaaaaaaaaaaaaaaaaaaax"));      /* 15 + 0 + 4 */
    assert_true(UNPACKS("\020a\1\0\0", "aaaaa"));                           /* no literals at the end */
}

TEST(damaged_blocks_are_refused)
{
    char text[600] = {0};
    assert_false(unpacks("", 0, text, 1));
    assert_false(UNPACKS("\060ab", "abc"));                /* literals are missing */
    assert_false(UNPACKS("\060abc", "ab"));                /* too many */
    assert_false(UNPACKS("\060abc", "abcd"));              /* too few */
    assert_false(UNPACKS("\060abc\3", "abcabca"));         /* half of an offset */
    assert_false(UNPACKS("\060abc\4\0\020x", "abcabcax")); /* before the start */
    assert_false(UNPACKS("\060abc\0\0\020x", "abcabcax"));
    assert_false(UNPACKS("\060abc\3\0\020x", "abcabc")); /* a match that is too long */
    assert_false(UNPACKS("\360", "abc"));                /* a length without its end */
    memset(text, 0xff, sizeof text);
    assert_false(unpacks(text, sizeof text, "abc", 3));
}
