/*
 * What kernels write, according to their code: kernels of nvcc and Triton for sm_90 (tests/fixtures/cubins, with their
 * sources).
 */
#define TEST_OWN_MAIN
#include "support/test.h"

#include "support/fixture.h"
#include "support/golden.h"

#include "analysis/lines/cubin.h"
#include "analysis/sass/operand_uses.h"

/* Of each word: how many writes, on which lines. */
static void tell_uses(FILE *out, struct span cubin, const char *symbol, const struct uses *uses)
{
    fprintf(out, "%s: %s\n", symbol, uses->knows_writes ? "all writes are known" : "it may write anything");
    for (unsigned i = 0; i < USES_WORDS; i++) {
        const struct use *use = &uses->words[i];
        if (!use->write_count)
            continue;
        fprintf(out, "  word %u: %u writes", i, use->write_count);
        for (unsigned k = 0; k < use->write_count && k < USES_WRITES; k++) {
            struct cubin_line line = {0};
            int is_found = cubin_find_kernel_line(cubin, symbol, use->write_at[k], &line);
            fprintf(out, " %s:%d", is_found ? line.file : "", line.line);
        }
        fputc('\n', out);
    }
}

static unsigned written(const struct uses *uses)
{
    unsigned words = 0;
    for (unsigned i = 0; i < 32; i++)
        words |= uses->words[i].write_count ? 1u << i : 0;
    return words;
}

/* Of kernels in tests/fixtures/cubins: normalise writes past the call of the slow division, both by an atomic too, either
 * through one pointer or the other, table through one from memory, members through those of a struct; say calls printf, which
 * may write anything. The parameters of far are large. */
TEST(uses_are_those_of_the_source)
{
    static const char *const kernels[][2] = {
        {"values", "normalise"}, {"values", "both"}, {"values", "either"},  {"values", "table"},     {"values", "members"},
        {"values", "widen"},     {"values", "say"},  {"triton_add", "add"}, {"like_pytorch", "far"},
    };
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        struct span cubin = fixture_read("cubins/%s.cubin", kernels[i][0]);
        struct cubin_kernel kernel;
        struct cubin_line line;
        struct uses uses;
        assert_true(cubin_find_kernel(cubin, kernels[i][1], &kernel));
        assert_true(kernel.sm == 90 && kernel.parameters_at == slice_parameters_at(90));
        uses_find_writes(kernel.code, kernel.sm, &uses);
        tell_uses(out, cubin, kernels[i][1], &uses);
        assert_false(cubin_find_kernel_line(cubin, "nobody", 0, &line));
        assert_false(cubin_find_kernel_line(cubin, kernels[i][1], 1 << 20, &line));
        fixture_free(cubin);
    }
    fclose(out);
    golden_check(GOLDEN "code.expect", "uses", text);
    free(text);
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
    }
    free(bytes);
    fixture_free(file);
}
