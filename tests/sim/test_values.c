/* `cufence run --values` and `--nan` with a program that knows nothing of them (values_story.c), on the simulated device. */
#include "support/shell.h"

static void read_file(const char *name)
{
    run_shell("cat %s", name);
}

/* Runs stories of a program under `cufence run ARGUMENTS`; `text` gets what it prints. Returns the exit status. */
static int run_program(const char *program, const char *arguments, const char *stories)
{
    return run_shell("LD_LIBRARY_PATH=%s %s run %s -- %s %s", CUFENCE_RUN_DRIVER, CUFENCE_CLI, arguments, program, stories);
}

/* Of values_story.c. */
#define expect(arguments, stories, status, ...)                                                                                \
    expect_words(run_program(CUFENCE_VALUES_STORY, arguments, stories), status, PATTERNS(__VA_ARGS__))

TEST(shows_before_and_after)
{
    expect("--values scale", "scale", 0, "values of launch #1: scale<<<(8,1,1), (128,1,1)>>>, GPU 0, stream 0x0",
           "0  buffer #1 +0, float32[1000]\n", "same    min 1.0 max 1000.0 mean 500.5 std 288.675, 0 NaN",
           "[1.0 2.0 3.0 .. 998.0 999.0 1000.0]", "before  all are 0, 0 NaN",
           "after   min 2.0 max 2000.0 mean 1001.0 std 577.35, 0 NaN", "2  float32 2.0", "3  int32 1000", "values_story.c");
}

TEST(a_nan_is_not_0)
{
    expect("--values scale", "one_nan", 0, "same    all finite are 0, 1 NaN (first at 7)");
}

TEST(shows_what_the_filter_chooses)
{
    expect("--values scale", "half many", 0, "");
    assert_int_equal(count_in(text, "values of launch"), 20);
    HAS("!halve", "values of launch #2:"); /* the number counts all launches */
    expect("--values '#3-5|halve'", "half many", 0, "");
    assert_int_equal(count_in(text, "values of launch"), 4);
    expect("--values '*&@values_story.c'", "half many", 0, "");
    assert_int_equal(count_in(text, "values of launch"), 21);
    expect("--values '*&@other.c'", "half many", 0, "");
    assert_int_equal(count_in(text, "values of launch"), 0);
}

TEST(pointers_into_buffers)
{
    expect("--values scale", "offset", 0, "0  buffer #1 +400, float32[900]",
           "same    min 101.0 max 1000.0 mean 550.5 std 259.807", "1  buffer #3 +4, float32[999]", "99 zeros");
}

TEST(what_has_no_type_is_words)
{
    expect("--values '*'", "struct", 0, "0  at byte 8: buffer #2 +0",
           "same    min 1.0 max 1000.0 mean 500.5 std 288.675, 0 NaN",
           "[0x3f800000 (1.0) 0x40000000 (2.0) .. 0x4479c000 (999.0) 0x447a0000 (1000.0)]");
    assert_int_equal(count_in(text, "word32[1000]\n"), 4);
    expect("--values '*'", "count", 0, "word32[2000]\n", "[0xffffffff (NaN) 0xffffffff (NaN) ..");
    expect("--values '*move*'", "nan_named", 0, "float32[1000] (by the kernel's name)");
    expect("--values '*'", "half", 0, "float16[2000]\n", "after   min 0.0 max 0.5 mean 0.25 std 0.25, 1000 zeros");
}

TEST(graphs_are_shown_as_a_whole)
{
    expect("--values scale", "graph", 0, "kernels    scale", "before and after the whole graph",
           "after   min 3.0 max 3000.0 mean 1501.5");
    assert_int_equal(count_in(text, "a CUDA graph"), 2);
    expect("--values other", "graph", 0, "!a CUDA graph");
}

TEST(lines_of_json)
{
    expect("--values '*=values.json'", "scale graph", 0, "!values of launch");
    read_file("values.json");
    assert_int_equal(count_in(text, "\n"), 3);
    assert_int_equal(count_in(text, "{\"schema\":1,\"launch\":"), 3);
    HAS("\"kernel\":\"scale(float const*, float*, float, int)\"",
        "\"type\":\"float32\",\"type_from\":\"signature\",\"changed\":true",
        "\"first\":[2.0,4.0,6.0,8.0,10.0,12.0,14.0,16.0],\"last\":[1986.0,", "\"kernels\":\"scale, mask\"", "\"-Infinity\"");
}

TEST(what_is_wrong_is_refused)
{
    expect("--values '#x'", "scale", 2, "values=#x is not allowed; use LAUNCHES or");
}

TEST(values_before_a_fault_are_shown)
{
    expect("--values '*'", "scale fault", 3, "values of launch #1", "after   min 2.0");
    HAS("values of launch #2"); /* known or lost: this device may go on after a fault */
}

/* ---- NaN ---- */

TEST(the_first_nan_is_found)
{
    expect("--nan report", "nan", 86, "first NaN: normalise writes 1 NaN to buffer #2, first to element 417 of float32[1000]",
           "kernel     normalise<<<(8,1,1), (128,1,1)>>>", "#2, by thread", "values_story.c", "1 zero, 0 NaN, 0 Inf",
           "0 / 0 is NaN", "3 launches seen", "SUMMARY: cufence: first NaN launched at");
    assert_int_equal(count_in(text, "cufence: first NaN: "), 1);
}

TEST(what_a_kernel_has_not_made_is_no_finding)
{
    static const struct {
        const char *option, *story;
        int status;
        const char *words, *more; /* more: or NULL */
    } rows[] = {
        {"report", "nan_awaited", 86, "told\nwaited\n", NULL},
        {"report", "nan_copied", 0, "no faults", NULL},                                      /* the program's own */
        {"report", "nan_stale", 86, "first to element 3 of float32[1000]", "never written"}, /* that is no input */
        {"report", "nan_stale_struct", 86, "never written", "an uninitialised input holds NaN"},
        {"report", "mask", 0, "", NULL},
        {"report+inf", "mask", 86, "first Inf: mask writes 1000 Inf to buffer #2", NULL},
        {"report", "nan_of_words", 86, "first NaN: divide writes 1 NaN", "first to element 417 of word32[1000]"},
        {"report", "nan_of_none", 0, "", NULL},
        {"report", "nan_named", 86, "first NaN: move<float> writes 999 NaN", "of float32[1000]"},
        {"report", "nan_mixed", 0, "", NULL}, /* its size is not that of such elements */
        {"report", "nan_in_halves", 0, "", NULL},
        {"report", "nan_fill", 0, "", NULL},
        {"report", "count", 0, "", NULL},
        {"report", "nan_graph", 86, "first NaN: a CUDA graph writes 1 NaN", "one of a CUDA graph: normalise"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char arguments[32];
        snprintf(arguments, sizeof arguments, "--nan %s", rows[i].option);
        expect(arguments, rows[i].story, rows[i].status, rows[i].words, rows[i].more);
    }
}

TEST(only_the_maker_is_blamed)
{
    expect("--nan report", "nan_struct", 86, "first NaN: normalise writes");
    assert_int_equal(count_in(text, "cufence: first NaN: "), 1);
}

TEST(what_ran_at_the_same_time_is_named)
{
    static const char *const copies[][3] = {
        {"copy", "slow_scale, or cuMemcpyDtoDAsync", NULL},    {"value", "slow_scale, or cuStreamWriteValue32", NULL},
        {"values", "slow_scale, or cuStreamBatchMemOp", NULL}, {"graph copy", "slow_scale, or cuGraphLaunch", NULL},
        {"graph set", "slow_scale, or cuGraphLaunch", NULL},   {"copy", "a CUDA graph, or cuMemcpyDtoDAsync", "1"},
        {"graph copy", "a CUDA graph, or cuGraphLaunch", "1"}};
    char words[128];
    expect("--nan report", "nan_beside", 86, "on another stream, writes 1 NaN to buffer #4", "or         ", "candidate");
    HAS("slow_scale<<<(8,1,1), (128,1,1)>>>", "normalise<<<(8,1,1), (128,1,1)>>>");
    assert_int_equal(count_in(text, "cufence: first NaN: "), 1); /* not of each */
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
        setenv("COPIES", copies[i][0], 1);
        if (copies[i][2])
            setenv("IN_GRAPH", copies[i][2], 1);
        snprintf(words, sizeof words, "first NaN: %s on another stream, writes 1 NaN", copies[i][1]);
        expect("--nan report", "nan_beside", 86, words);
        snprintf(words, sizeof words, "beside  %s on stream 0x", strstr(copies[i][1], ", or ") + 5);
        expect("--values '*'", "nan_beside", 0, words);
    }
    unsetenv("COPIES");
    unsetenv("IN_GRAPH");
    setenv("WAITS", "1", 1);
    expect("--nan report", "nan_beside", 86, "first NaN: normalise writes 1 NaN to buffer #4");
    assert_int_equal(count_in(text, "another stream"), 0);
    assert_int_equal(count_in(text, "cufence: first NaN: "), 1);
    unsetenv("WAITS");
}

#ifndef __SANITIZE_THREAD__ /* our copy of the buffer is in a race with the other stream: so the report says */
/* So are values and saved bytes: they may be another stream's. */
TEST(values_say_what_may_have_written_meanwhile)
{
    expect("--values '*'", "nan_beside", 0, "beside  normalise on stream 0x", "beside  slow_scale on stream 0x");
    assert_int_equal(count_in(text, "beside  "), 2); /* not of what nobody has changed */
    SUCCEEDS("rm -rf beside");
    expect("--save-values '*=beside'", "nan_beside", 0, "");
    read_file("beside/*slow_scale/README.txt");
    HAS("1.before.npy and .after.npy (candidate: normalise on stream 0x", "0.before.npy (the same after the launch)");
    SUCCEEDS("grep -l '\"beside\":\"normalise on stream 0x' beside/*slow_scale/values.json");
    setenv("WAITS", "1", 1);
    expect("--values '*'", "nan_beside", 0, "!beside  ");
    unsetenv("WAITS");
}
#endif

/* What a launch that faulted left behind is no output. */
TEST(a_fault_has_no_outputs)
{
    SUCCEEDS("rm -rf faulted");
    expect("--save-values '*=faulted'", "fault", 3, "");
    read_file("faulted/000001-scale/README.txt");
    HAS("0.before.npy (no .after.npy: a kernel has faulted)", "1.before.npy (no .after.npy", "!the same after");
    SUCCEEDS(
        "cd faulted/000001-scale; grep -q '\"end\":\"lost\"' values.json && ! grep -q outputs launch.json && ! ls *after*");
}

TEST(stop_ends_the_program_there)
{
    expect("--nan stop", "nan", 3, "cuLaunchKernel: error 710", "2 launches seen");
    expect("--nan stop", "nan_told", 3, "told, and refused\n", "cuCtxSynchronize: error 710");
    expect("--nan report", "nan_told", 86, "told, and given memory\n");
}

TEST(every_other_launch)
{
    expect("--nan report/1000", "many", 0, "");
    expect("--nan report/2", "nan", 86, ""); /* the first of each kernel is looked at */
    assert_int_equal(count_in(text, "cufence: first NaN: "), 1);
}

/* ---- Triton's signatures: a real cubin for sm_90 (tests/fixtures/cubins) ---- */

static int make_cubins(void **state)
{
    char command[1024];
    int failed = make_folder(state);
    snprintf(command, sizeof command, "tar -xzf %s/cubins/cubins.tar.gz -C %s", CUFENCE_FIXTURES, folder);
    return failed ? failed : system(command);
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
