/*
 * What kernels read and write, according to their code: kernels of nvcc and Triton for sm_90 (tests/fixtures/cubins, with their
 * sources), and the cubins of a fat binary.
 */
#include "analysis/lines/cubin.h"
#include "analysis/lines/fatbin.h"
#include "analysis/sass/uses.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* On the heap and to the byte, so that a sanitizer sees a read behind its end. */
static struct span read_file(const char *name)
{
    char path[512];
    size_t room = (size_t)1 << 20;
    uint8_t *bytes = malloc(room);
    snprintf(path, sizeof path, "%s/cubins/%s.gz", CUFENCE_FIXTURES, name);
    gzFile file = gzopen(path, "rb");
    assert_non_null(file);
    int size = gzread(file, bytes, (unsigned)room);
    gzclose(file);
    assert_true(size > 0);
    return (struct span){realloc(bytes, (size_t)size), (size_t)size};
}

static void free_file(struct span file)
{
    free((uint8_t *)(uintptr_t)file.bytes);
}

static struct uses uses_of(struct span cubin, const char *symbol)
{
    struct cubin_kernel kernel;
    struct uses uses;
    if (!cubin_find_kernel(cubin, symbol, &kernel))
        fail_msg("no %s", symbol);
    assert_true(kernel.sm == 90 && kernel.parameters_at == slice_parameters_at(90));
    uses_find_writes(kernel.code, kernel.sm, &uses);
    uses_find_reads(kernel.code, kernel.sm, &uses);
    return uses;
}

static unsigned written(const struct uses *uses)
{
    unsigned words = 0;
    for (unsigned i = 0; i < SLICE_WORDS; i++)
        words |= uses->words[i].write_count ? 1u << i : 0;
    return words;
}

static void writes_are_those_of_the_source(void **state)
{
    (void)state;
    static const struct {
        const char *kernel;
        int is_known;
        unsigned words;
    } cases[] = {
        {"normalise", 1, 2},                   /* past the call of the slow division */
        {"both", 1, 2 | 4},                    /* y, and sum by an atomic */
        {"either", 0, 0},                      /* one or the other */
        {"table", 0, 0},                       /* a pointer from memory */
        {"members", 1, 1 << 1},                /* of a struct: the first word is n */
        {"widen", 1, 2},        {"say", 0, 0}, /* printf may write anything */
    };
    struct span cubin = read_file("values.cubin");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct uses uses = uses_of(cubin, cases[i].kernel);
        if (uses.knows_writes != cases[i].is_known || written(&uses) != cases[i].words)
            fail_msg("%s: %d, 0x%x", cases[i].kernel, uses.knows_writes, written(&uses));
    }
    free_file(cubin);
}

static void accesses_tell_widths_and_kinds(void **state)
{
    (void)state;
    struct span cubin = read_file("values.cubin"), triton = read_file("triton_add.cubin");
    struct uses uses = uses_of(cubin, "members");
    for (unsigned i = 1; i < 4; i++)
        assert_true(uses.words[i].narrowest == 2 && uses.words[i].kinds == USES_FLOAT16);
    uses = uses_of(cubin, "widen");
    assert_true(uses.words[0].narrowest == 2 && uses.words[0].kinds == USES_BFLOAT16);
    assert_true(uses.words[1].narrowest == 8 && uses.words[1].kinds == USES_FLOAT64);
    uses = uses_of(cubin, "normalise");
    assert_true(uses.words[0].narrowest == 4 && uses.words[0].kinds & USES_FLOAT32);
    assert_false(uses.words[0].kinds & (USES_FLOAT16 | USES_BFLOAT16 | USES_FLOAT64));
    uses = uses_of(triton, "add"); /* eight numbers at a time */
    assert_true(uses.knows_writes && written(&uses) == 4);
    for (unsigned i = 0; i < 3; i++)
        assert_true(uses.words[i].narrowest == 16 && uses.words[i].kinds == USES_FLOAT16);
    free_file(cubin);
    free_file(triton);
}

static int line_of(struct span cubin, const char *symbol, const struct use *use, unsigned i)
{
    struct cubin_line line;
    assert_true(cubin_find_kernel_line(cubin, symbol, use->write_at[i], &line));
    assert_non_null(strstr(line.file, "values.cu"));
    return line.line;
}

static void stores_have_lines(void **state)
{
    (void)state;
    struct span cubin = read_file("values.cubin");
    struct uses uses = uses_of(cubin, "normalise");
    struct cubin_line line;
    assert_int_equal(uses.words[1].write_count, 1);
    assert_int_equal(line_of(cubin, "normalise", &uses.words[1], 0), 10);
    uses = uses_of(cubin, "both");
    assert_int_equal(uses.words[1].write_count, 2);
    assert_int_equal(line_of(cubin, "both", &uses.words[1], 0) + line_of(cubin, "both", &uses.words[1], 1), 18 + 20);
    assert_int_equal(line_of(cubin, "both", &uses.words[2], 0), 19);
    assert_false(cubin_find_kernel_line(cubin, "nobody", 0, &line));
    assert_false(cubin_find_kernel_line(cubin, "both", 1 << 20, &line));
    free_file(cubin);
}

/* Two architectures, each with all kernels. */
static void a_fat_binary_has_several(void **state)
{
    (void)state;
    struct span file = read_file("values.fatbin"), cubin;
    uint64_t at = 0;
    int has_others = 0, count = 0;
    assert_int_equal(fatbin_size(file.bytes), file.size);
    while ((cubin = fatbin_next(file, &at, &has_others)).bytes) {
        struct cubin_kernel kernel;
        struct uses uses;
        assert_true(cubin_find_kernel(cubin, "normalise", &kernel));
        assert_int_equal(kernel.sm, count++ ? 90 : 80);
        assert_int_equal(kernel.parameters_at, slice_parameters_at(kernel.sm));
        uses_find_writes(kernel.code, kernel.sm, &uses);
        assert_true(uses.knows_writes && written(&uses) == 2);
    }
    assert_true(count == 2 && !has_others);
    free_file(file);
}

static void what_is_compressed_is_said(void **state)
{
    (void)state;
    struct span file = read_file("values.fatbin");
    uint8_t *bytes = (uint8_t *)(uintptr_t)file.bytes;
    uint64_t at = 0;
    int has_others = 0;
    bytes[16 + 41] |= 0x80; /* of the first cubin */
    assert_non_null(fatbin_next(file, &at, &has_others).bytes);
    assert_true(has_others);
    bytes[0]++;
    assert_int_equal(fatbin_size(bytes), 0);
    free_file(file);
}

/* Every byte, and every end: nothing is read behind the file, and the work is bounded. */
static void damage_is_survived(void **state)
{
    (void)state;
    struct span file = read_file("triton_add.cubin"), fat = read_file("values.fatbin");
    uint8_t *bytes = malloc(file.size);
    for (size_t i = 0; i < file.size; i++) {
        struct cubin_kernel kernel;
        struct cubin_line line;
        struct uses uses;
        memcpy(bytes, file.bytes, file.size);
        bytes[i] ^= (uint8_t)(1 + i % 255);
        struct span damaged = {bytes, file.size};
        cubin_find_kernel_line(damaged, "add", 0x100, &line);
        if (!cubin_find_kernel(damaged, "add", &kernel))
            continue;
        uses_find_writes(kernel.code, kernel.sm, &uses);
        uses_find_reads(kernel.code, kernel.sm, &uses);
    }
    free(bytes);
    for (size_t size = 16; size < fat.size; size += 1 + size / 7) {
        uint8_t *cut = malloc(size);
        uint64_t at = 0;
        int has_others = 0;
        memcpy(cut, fat.bytes, size);
        while (fatbin_next((struct span){cut, size}, &at, &has_others).bytes)
            continue;
        free(cut);
    }
    free_file(file);
    free_file(fat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_are_those_of_the_source),
        cmocka_unit_test(accesses_tell_widths_and_kinds),
        cmocka_unit_test(stores_have_lines),
        cmocka_unit_test(a_fat_binary_has_several),
        cmocka_unit_test(what_is_compressed_is_said),
        cmocka_unit_test(damage_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
