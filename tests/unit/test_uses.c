/*
 * What kernels read and write, according to their code: kernels of nvcc and Triton for sm_90 (tests/fixtures/cubins, with their
 * sources).
 */
#include "support/test.h"

#include "support/fixture.h"

#include "analysis/lines/cubin.h"
#include "analysis/sass/uses.h"

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
    for (unsigned i = 0; i < 32; i++)
        words |= uses->words[i].write_count ? 1u << i : 0;
    return words;
}

TEST(writes_are_those_of_the_source)
{
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
    struct span cubin = fixture_read("cubins/values.cubin");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct uses uses = uses_of(cubin, cases[i].kernel);
        if (uses.knows_writes != cases[i].is_known || written(&uses) != cases[i].words)
            fail_msg("%s: %d, 0x%x", cases[i].kernel, uses.knows_writes, written(&uses));
    }
    fixture_free(cubin);
}

TEST(accesses_tell_widths_and_kinds)
{
    struct span cubin = fixture_read("cubins/values.cubin"), triton = fixture_read("cubins/triton_add.cubin");
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
    fixture_free(cubin);
    fixture_free(triton);
}

/* Behind an assertion that has failed nothing is executed. Where functions of others are called, as printf's, nobody knows. */
TEST(assertions_write_nothing)
{
    struct span asserts = fixture_read("cubins/like_pytorch.cubin"), values = fixture_read("cubins/values.cubin");
    struct cubin_kernel kernel;
    struct uses uses;
    assert_true(cubin_find_kernel(asserts, "checked", &kernel) && kernel.only_asserts);
    uses_find_writes(kernel.code, 90, &uses);
    assert_false(uses.knows_writes);
    uint8_t *copy = uses_end_at_calls(kernel.code);
    uses_find_writes((struct span){copy, kernel.code.size}, 90, &uses);
    assert_true(uses.knows_writes && written(&uses) == 2);
    free(copy);
    assert_true(cubin_find_kernel(values, "say", &kernel) && !kernel.only_asserts);
    fixture_free(asserts);
    fixture_free(values);
}

TEST(parameters_may_be_large)
{
    struct span cubin = fixture_read("cubins/like_pytorch.cubin");
    struct uses uses = uses_of(cubin, "far");
    assert_true(uses.knows_writes);
    for (unsigned i = 0; i < USES_WORDS; i++) {
        assert_int_equal(uses.words[i].write_count, i == 100);
        assert_int_equal(uses.words[i].narrowest, i >= 100 && i <= 102 ? 4 : 0);
    }
    fixture_free(cubin);
}

static int line_of(struct span cubin, const char *symbol, const struct use *use, unsigned i)
{
    struct cubin_line line;
    assert_true(cubin_find_kernel_line(cubin, symbol, use->write_at[i], &line));
    assert_non_null(strstr(line.file, "values.cu"));
    return line.line;
}

TEST(stores_have_lines)
{
    struct span cubin = fixture_read("cubins/values.cubin");
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
    fixture_free(cubin);
}

/* Every byte: nothing is read behind the file, and the work is bounded. */
TEST(damage_is_survived)
{
    struct span file = fixture_read("cubins/triton_add.cubin");
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
    fixture_free(file);
}
