/* `cufence run` with a program that knows nothing of cufence (run_story.c), on the simulated device. */
#include "support/shell.h"

#define RUN "LD_LIBRARY_PATH=" CUFENCE_RUN_DRIVER " " CUFENCE_CLI " run " /* libcuda.so.1 is the simulated device there */

/* As torchrun does: one parent, a child a rank, told by RANK. */
TEST(each_rank_has_its_file)
{
    SUCCEEDS(RUN "--set log=$PWD/rank%%r.txt -- sh -c 'RANK=0 %s & first=$!; RANK=1 %s & second=$!; "
                 "wait $first; one=$?; wait $second; two=$?; [ $one = 86 ] && [ $two = 86 ]'",
             CUFENCE_RUN_STORY, CUFENCE_RUN_STORY);
    for (int rank = 0; rank < 2; rank++) {
        SUCCEEDS("cat rank%d.txt", rank);
        assert_int_equal(count_in(text, "out-of-bounds WRITE of 4 bytes"), 1);
        assert_int_equal(count_in(text, "buffer     #"), 1);
        SAYS("128 bytes");
    }
}

/* The frames behind `from`, which must be overrun() and main(), and no other. */
static void assert_called_by_main(const char *from)
{
    char frames[4096];
    const char *start = from ? strstr(from, "\"frames\":[") : NULL, *end = start ? strchr(start, ']') : NULL;
    assert_non_null(end);
    snprintf(frames, sizeof frames, "%.*s", (int)(end - start), start);
    assert_int_equal(count_in(frames, "\"function\":"), 2);
    const char *inner = strstr(frames, "\"function\":\"overrun\""), *outer = strstr(frames, "\"function\":\"main\"");
    assert_true(inner && outer && inner < outer);
}

/* Found in its unwind tables and its symbol table: it keeps no frame pointers, and its functions are not exported. */
TEST(the_report_says_who_launched_and_who_allocated)
{
    assert_int_equal(run_shell(RUN "--set json=$PWD/who.json -- " CUFENCE_RUN_STORY), 86);
    SUCCEEDS("cat who.json");
    assert_called_by_main(strstr(text, "\"launch\":{"));
    assert_called_by_main(strstr(strstr(text, "\"buffer\":{"), "\"allocated\":{"));
}

TEST(without_stacks_nobody_knows_who_allocated)
{
    assert_int_equal(run_shell(RUN "--set json=$PWD/python.json,stacks=python -- " CUFENCE_RUN_STORY), 86);
    SUCCEEDS("cat python.json");
    assert_int_equal(count_in(text, "\"frames\":["), 1); /* the launch's */
    assert_called_by_main(strstr(text, "\"launch\":{"));
}

TEST(a_process_without_cuda_loads_the_small_library_only)
{
    SUCCEEDS(RUN "-- sh -c 'grep -q libcufence_preload.so /proc/self/maps && ! grep -q libcufence.so /proc/self/maps'");
}

TEST_GROUP(make_folder, remove_folder)

TEST_CONCURRENTLY
