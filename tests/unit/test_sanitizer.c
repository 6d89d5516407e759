/* What cufence reads from compute-sanitizer's text. */
#define TEST_OWN_MAIN
#include "support/test.h"

#include "support/golden.h"

#include "cli/sanitizer.h"
#include "sanitizer_output.h"

static struct sanitizer_output read_text(const char *text)
{
    struct sanitizer_output output;
    sanitizer_read(text, strlen(text), &output);
    return output;
}

static void check(const char *name, const char *printed)
{
    struct sanitizer_output output = read_text(printed);
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    for (size_t i = 0; i < output.count; i++) {
        const struct sanitizer_error *error = &output.errors[i];
        fprintf(out, "%llu times: %s\n  in %s+0x%llx, %s:%d", (unsigned long long)error->times, error->text, error->function,
                (unsigned long long)error->offset, error->file, error->line);
        if (error->has_thread)
            fprintf(out, ", thread %u,%u,%u of block %u,%u,%u", error->thread[0], error->thread[1], error->thread[2],
                    error->block[0], error->block[1], error->block[2]);
        fputc('\n', out);
    }
    fprintf(out, "%d errors read; summary %d: %d\nother: %s\nsaid: %s\n", (int)output.read, output.has_summary,
            (int)output.summary, output.other, output.said);
    fclose(out);
    golden_check(GOLDEN "tools.expect", name, text);
    free(text);
}

TEST(what_the_tools_print_is_read)
{
    check("sanitizer_memcheck", PRINTED_MEMCHECK);
    check("sanitizer_racecheck", PRINTED_RACECHECK);
    check("sanitizer_initcheck", PRINTED_INITCHECK);
    check("sanitizer_synccheck", PRINTED_SYNCCHECK);
    check("sanitizer_nothing", PRINTED_NOTHING);
    check("sanitizer_not_about_code",
          "========= COMPUTE-SANITIZER\n"
          "========= Program hit CUDA_ERROR_INVALID_VALUE (error 1) due to \"invalid argument\" on CUDA API call to cuMemMap.\n"
          "=========     Saved host backtrace up to driver entry point at error\n"
          "========= ERROR SUMMARY: 1 error\n");
    check("sanitizer_not_there", "sh: compute-sanitizer: not found\n");
}

TEST(more_places_than_fit_are_counted)
{
    static char text[1 << 15];
    size_t used = 0;
    for (int i = 0; i < SANITIZER_ERRORS + 9; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "========= Invalid __shared__ read of size 4 bytes\n=========     at k()+0x%x0\n", i);
    struct sanitizer_output output = read_text(text);
    assert_int_equal(output.count, SANITIZER_ERRORS);
    assert_int_equal(output.read, SANITIZER_ERRORS + 9);
}
