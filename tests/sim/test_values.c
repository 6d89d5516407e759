/* `cufence run --values` and `--nan` with a program that knows nothing of them (values_story.c), on the simulated device. */
#include "values_world.h"

TEST(shows_before_and_after)
{
    assert_int_equal(run("--values scale", "scale"), 0);
    SAYS("values of launch #1: scale<<<(8,1,1), (128,1,1)>>>, GPU 0, stream 0x0");
    SAYS("0  buffer #1 +0, float32[1000]\n");
    SAYS("same    min 1.0 max 1000.0 mean 500.5 std 288.675, 0 NaN");
    SAYS("[1.0 2.0 3.0 .. 998.0 999.0 1000.0]");
    SAYS("before  all are 0, 0 NaN");
    SAYS("after   min 2.0 max 2000.0 mean 1001.0 std 577.35, 0 NaN");
    SAYS("2  float32 2.0");
    SAYS("3  int32 1000");
    SAYS("values_story.c");
}

TEST(shows_what_the_filter_chooses)
{
    assert_int_equal(run("--values scale", "half many"), 0);
    assert_int_equal(count_in("values of launch"), 20);
    DOES_NOT_SAY("halve");
    SAYS("values of launch #2:"); /* the number counts all launches */
    assert_int_equal(run("--values '#3-5|halve'", "half many"), 0);
    assert_int_equal(count_in("values of launch"), 4);
    assert_int_equal(run("--values '*&@values_story.c'", "half many"), 0);
    assert_int_equal(count_in("values of launch"), 21);
    assert_int_equal(run("--values '*&@other.c'", "half many"), 0);
    assert_int_equal(count_in("values of launch"), 0);
}

TEST(shows_launches_in_order)
{
    char head[64];
    assert_int_equal(run("--values scale", "many"), 0);
    const char *at = text;
    for (int i = 1; i <= 20; i++) {
        snprintf(head, sizeof head, "values of launch #%d:", i);
        at = strstr(at, head);
        assert_non_null(at);
    }
}

TEST(pointers_into_buffers)
{
    assert_int_equal(run("--values scale", "offset"), 0);
    SAYS("0  buffer #1 +400, float32[900]");
    SAYS("same    min 101.0 max 1000.0 mean 550.5 std 259.807");
    SAYS("1  buffer #3 +4, float32[999]");
    SAYS("99 zeros");
}

TEST(types_are_guessed_and_marked)
{
    assert_int_equal(run("--values '*'", "struct"), 0);
    assert_int_equal(count_in("float32[1000] (guess)"), 4);
    SAYS("0  at byte 8: buffer #2 +0");
    assert_int_equal(run("--values '*'", "count"), 0);
    SAYS("int64[1000] (guess)");
    SAYS("min -1 max 998 mean 498.5");
    assert_int_equal(run("--values '*' --values_type 'copy*:i32'", "struct"), 0);
    assert_int_equal(count_in("int32[1000]\n"), 4);
    DOES_NOT_SAY("guess");
    assert_int_equal(run("--values '*'", "half"), 0);
    SAYS("float16[2000]\n");
    SAYS("after   min 0.0 max 0.5 mean 0.25 std 0.25, 1000 zeros");
}

TEST(graphs_are_shown_as_a_whole)
{
    assert_int_equal(run("--values scale", "graph"), 0);
    assert_int_equal(count_in("a CUDA graph"), 2);
    SAYS("kernels    scale");
    SAYS("before and after the whole graph");
    SAYS("after   min 3.0 max 3000.0 mean 1501.5");
    assert_int_equal(run("--values other", "graph"), 0);
    DOES_NOT_SAY("a CUDA graph");
}

/* Nothing runs again what a program has captured. */
TEST(graphs_off_says_what_it_cannot)
{
    assert_int_equal(run("--values scale --graphs off", "graph scale graph"), 0);
    assert_int_equal(count_in("graphs=off: what the program captures by itself stays a CUDA graph"), 1);
    assert_int_equal(run("--values scale --graphs off", "scale"), 0);
    DOES_NOT_SAY("graphs=off");
}

TEST(lines_of_json)
{
    assert_int_equal(run("--values '*=values.json'", "scale graph"), 0);
    DOES_NOT_SAY("values of launch");
    read_file("values.json");
    assert_int_equal(count_in("\n"), 3);
    assert_int_equal(count_in("{\"schema\":1,\"launch\":"), 3);
    SAYS("\"kernel\":\"scale(float const*, float*, float, int)\"");
    SAYS("\"type\":\"float32\",\"type_from\":\"signature\",\"changed\":true");
    SAYS("\"first\":[2.0,4.0,6.0,8.0,10.0,12.0,14.0,16.0],\"last\":[1986.0,");
    SAYS("\"kernels\":\"scale, mask\"");
    SAYS("\"-Infinity\"");
}

TEST(what_is_wrong_is_refused)
{
    assert_int_equal(run("--values '#x'", "scale"), 2);
    SAYS("values=#x is not allowed; use LAUNCHES or");
    assert_int_equal(run("--values '*' --values_type gemm:f15", "scale"), 2);
    SAYS("values_type=gemm:f15");
    assert_int_equal(run("--values '*=nowhere/values.json'", "scale"), 2);
    assert_int_equal(run("--set graphs=maybe", "scale"), 2);
    SAYS("graphs=maybe is not allowed; use on | off");
    assert_int_equal(run("--nan yes", "scale"), 2);
    assert_int_equal(run("--trace earlier", "scale"), 0);
    assert_int_equal(run("--trace earlier --values '*' --values_type gemm:f15", "scale"), 2);
    read_file("earlier"); /* it is still there */
    SAYS("\"event\":\"launch\"");
}

TEST(values_before_a_fault_are_shown)
{
    assert_int_equal(run("--values '*'", "scale fault"), 3);
    SAYS("values of launch #1");
    SAYS("after   min 2.0");
    SAYS("values of launch #2"); /* known or lost: this device may go on after a fault */
}

/* ---- NaN ---- */

TEST(the_first_nan_is_found)
{
    assert_int_equal(run("--nan report", "nan"), 86);
    assert_int_equal(count_in("cufence: first NaN: "), 1);
    SAYS("first NaN: normalise writes 1 NaN to buffer #2, first to element 417 of float32[1000]");
    SAYS("kernel     normalise<<<(8,1,1), (128,1,1)>>>");
    SAYS("#2, by thread");
    SAYS("values_story.c");
    SAYS("1 zero, 0 NaN, 0 Inf");
    SAYS("0 / 0 is NaN");
    SAYS("3 launches seen");
    SAYS("SUMMARY: cufence: first NaN launched at");
}

TEST(a_free_row_that_is_read_is_found)
{
    assert_int_equal(run("--nan report", "free_row"), 86);
    assert_int_equal(count_in("cufence: first NaN: "), 1);
    SAYS("first NaN: scale writes 1000 NaN to buffer #");
    SAYS("4000 bytes in rows that");
    SAYS("row        0 of results, live; byte 0 of 1000 (4 rows)");
    SAYS("an input has rows that are free, or were");
    assert_int_equal(run("--nan report", "unwritten_row"), 86);
    SAYS("an input has rows that are free, or were");
    assert_int_equal(run("--nan report", "live_row"), 0);
    SAYS("no faults");
    DOES_NOT_SAY("does not do it");
}

TEST(a_nan_is_awaited)
{
    assert_int_equal(run("--nan report", "nan_awaited"), 86);
    SAYS("told\nwaited\n");
}

TEST(a_nan_of_the_programs_own_is_none)
{
    assert_int_equal(run("--nan report", "nan_copied"), 0);
    SAYS("no faults");
}

TEST(memory_that_nobody_wrote_is_no_input)
{
    assert_int_equal(run("--nan report", "nan_stale"), 86);
    SAYS("first to element 3 of float32[1000]");
    SAYS("never written");
}

TEST(masks_are_no_nan)
{
    assert_int_equal(run("--nan report", "mask"), 0);
    assert_int_equal(run("--nan report+inf", "mask"), 86);
    SAYS("first Inf: mask writes 1000 Inf to buffer #2");
}

/* A type that is a guess, of memory whose size it does not divide: a library's workspace may look so. */
TEST(mixed_memory_is_not_blamed)
{
    assert_int_equal(run("--nan report", "nan_guessed"), 86);
    SAYS("first NaN: divide writes 1 NaN");
    assert_int_equal(run("--nan report", "nan_mixed"), 0);
    assert_int_equal(run("--nan report", "nan_in_halves"), 0); /* its name knows of no float16 */
}

TEST(a_fill_is_no_nan)
{
    assert_int_equal(run("--nan report", "nan_fill"), 0);
}

TEST(indices_are_no_nan)
{
    assert_int_equal(run("--nan report", "indices"), 0);
}

TEST(only_the_maker_is_blamed)
{
    assert_int_equal(run("--nan report", "nan_struct"), 86);
    assert_int_equal(count_in("cufence: first NaN: "), 1);
    SAYS("first NaN: normalise writes");
}

TEST(a_graph_may_make_it)
{
    assert_int_equal(run("--nan report", "nan_graph"), 86);
    SAYS("first NaN: a CUDA graph writes 1 NaN");
    SAYS("one of a CUDA graph: normalise");
}

TEST(stop_ends_the_program_there)
{
    assert_int_equal(run("--nan stop", "nan"), 3);
    SAYS("cuLaunchKernel: error 710");
    SAYS("2 launches seen");
}

TEST(every_other_launch)
{
    assert_int_equal(run("--nan report --every 1000", "many"), 0);
    assert_int_equal(run("--nan report --every 2", "nan"), 86); /* the first of each kernel is looked at */
    assert_int_equal(count_in("cufence: first NaN: "), 1);
}

TEST(the_finding_is_in_json)
{
    assert_int_equal(run("--nan report --json found.json", "nan"), 86);
    read_file("found.json");
    SAYS("\"kind\":\"first NaN\"");
    SAYS("\"nan\":{\"kernel\":\"normalise(float const*, float*, int)\",\"symbol\":\"_Z9normalisePKfPfi\"");
    SAYS("\"index\":417,\"made\":1,\"count\":1000,\"type\":\"float32\"");
    SAYS("\"inputs\":[{\"argument\":0,\"at\":0,\"buffer\":3");
}

TEST_GROUP(make_folder, remove_folder)

TEST_CONCURRENTLY
