/* What `--nan` takes from the machine code of kernels, and `--values` from what Triton's signatures say. The cubins are real
 * ones for sm_90 (tests/fixtures/cubins), their kernels are those of values_story.c. */
#include "values_world.h"

static int make_cubins(void **state)
{
    char command[1024];
    int failed = make_folder(state);
    snprintf(command, sizeof command, "tar -xzf %s/cubins/cubins.tar.gz -C %s", CUFENCE_FIXTURES, folder);
    return failed ? failed : system(command);
}

TEST(a_nan_has_the_line_that_writes_it)
{
    expect("--nan report --json report.json", "code_nan", 86,
           "first NaN: normalise writes 1 NaN to buffer #2, first to element 417 of word32[1000]",
           "written at    /src/values.cu:10 ", "derived");
    read_file("report.json");
    HAS("\"written_at\":{\"file\":\"/src/values.cu\",\"line\":10}");
}

TEST(an_input_that_is_the_output_is_looked_at)
{
    expect("--nan report", "code_in_place", 86, "first NaN: normalise writes 1 NaN to buffer #1, first to element 417",
           "written at    /src/values.cu:10 ");
}

/* code: the file that the program loads. */
static void expect_an_input_that_nobody_wrote(const char *code)
{
    setenv("VALUES_CODE", code, 1);
    expect("--nan report", "code_only_read", 86, "");
    unsetenv("VALUES_CODE");
    HAS("first NaN: normalise writes 1 NaN to buffer #3", "written at    /src/values.cu:10 ", "never written",
        "an input that nobody has written holds NaN");
}

TEST(what_a_kernel_only_reads_is_not_written)
{
    expect_an_input_that_nobody_wrote("values.cubin");
}

/* Compressed or not. */
TEST(fat_binaries_are_read)
{
    static const char *const names[] = {"values.fatbin", "values_default.fatbin", "values_size.fatbin", "values_speed.fatbin"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        expect_an_input_that_nobody_wrote(names[i]);
}

/* As text, and compressed in a fat binary beside a cubin for another device. The simulated linker's result is a real cubin. */
TEST(ptx_is_compiled)
{
    char path[256];
    snprintf(path, sizeof path, "%s/values.ptx", folder);
    FILE *file = fopen(path, "w");
    assert_true(file && fputs(".version 9.0\n.file 1 \"values.cubin\"\n", file) >= 0);
    fclose(file);
    expect_an_input_that_nobody_wrote("values.ptx");
    expect_an_input_that_nobody_wrote("values_ptx.fatbin");
    setenv("VALUES_CODE", "values_ptx.fatbin", 1);
    setenv("CUFENCE_SIM", "fail=cuLinkComplete:1:218", 1);
    expect("--nan report", "code_only_read", 0, ""); /* the first launch may have written it */
    unsetenv("CUFENCE_SIM");
    unsetenv("VALUES_CODE");
}

TEST(a_signature_that_was_told_is_used)
{
    expect("--values '#1'", "told", 0, "!cufence is not there");
    assert_int_equal(count_in(text, "float16[1000]\n"), 3);
    HAS("!word32");
    expect("--values '#2'", "told", 0, "!float64", "word32[500]");
}

TEST_GROUP(make_cubins, remove_folder)

TEST_CONCURRENTLY
