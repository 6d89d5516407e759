/* Tables of row numbers (cufence_index()) in a program that knows them (tables_story.c), on the simulated device. */
#include "values_world.h"

static int tell(const char *stories)
{
    int status = run_program(CUFENCE_TABLES_STORY, "", stories);
    unfold(text);
    HAS("!cufence_index"); /* nothing was refused */
    return status;
}

#define expect_told(stories, status, ...) expect_words(tell(stories), status, PATTERNS(__VA_ARGS__))
#define is_silent(story, ...) expect_told(story, 0, "!wrong row", __VA_ARGS__)
/* One finding, whose headline has the words. */
#define finds_one(story, ...)                                                                                                  \
    do {                                                                                                                       \
        expect_told(story, 86, __VA_ARGS__);                                                                                   \
        assert_int_equal(count_in(text, "wrong row: "), 1);                                                                    \
    } while (0)

TEST(a_right_table_is_silent)
{
    static const char *const stories[] = {"right", "freed_table", "freed_rows", "gone_rows", "one_of_both", "removed"};
    for (size_t i = 0; i < sizeof stories / sizeof *stories; i++)
        is_silent(stories[i], "");
}

TEST(an_element_outside)
{
    finds_one("off_by_one", "wrong row: attend is given a table whose element 5 is 8, and kv has rows 0 to 7\n",
              "element 5 of int32[16] at 0x", "one past the last row: is the table off by one?",
              "attend<<<(1,1,1), (32,1,1)>>>", "tables_story.c");
    finds_one("negative", "element 3 is -2, and kv has rows 0 to 7\n");
    finds_one("wide", "idle is given a table whose element 5 is 21474836480, and kv has rows 0 to 7\n",
              "element 5 of int64[16] at 0x");
}

TEST(an_element_outside_of_the_buffer_is_said_although_the_launch_faults)
{
    int status = tell("far");
    assert_int_equal(status, 3); /* the program's own, as it sees the error */
    HAS("wrong row: attend is given a table whose element 3 is 1073741824, and kv has rows 0 to 7\n");
}

TEST(a_free_row)
{
    int status = tell("stale");
    assert_int_equal(status, 86);
    assert_int_equal(count_in(text, "wrong row: "), 2); /* its table names the row twice */
    HAS("wrong row: idle is given a table whose element 2 is row 2 of kv, which is free, released by request 4\n",
        "wrong row: idle is given a table whose element 10 is row 2 of kv", "2 of kv, free; byte 0 of 256 (8 rows)",
        "request 4\n", "; 2 elements are wrong", "released at");
    tell("taken_since");
    HAS("element 2 is row 2 of kv, which was free then\n", "request 9", "taken at", "the row has a new owner by now");
}

/* Of many elements, some are reported, and all counted. */
TEST(many_wrong_elements)
{
    expect_told("all_free", 86, "");
    assert_int_equal(count_in(text, "wrong row: "), 4);
    for (int i = 0; i < 4; i++) {
        char words[64];
        snprintf(words, sizeof words, "whose element %d is row %d of kv", i, i);
        HAS(words);
    }
    HAS("; 12 elements are wrong");
    finds_one("again", "element 5 is 8");
}

TEST(a_row_of_another_owner)
{
    finds_one("owner", "element 2 is row 2 of kv, which belongs to request 9, not to request 7\n",
              "2 of kv, live; byte 0 of 256 (8 rows)", "taken at");
    finds_one("owner_behind", "which belongs to request 9, not to request 8\n", "6 of kv, live; byte 0 of 256 (8 rows)");
}

TEST(parts_of_a_buffer)
{
    finds_one("runs", "element 5 is 99, and kv has rows 0 to 7");
}

TEST(a_graph_is_looked_at_before_each_launch)
{
    finds_one("graph", "wrong row: a CUDA graph is given a table whose element 5 is 8, and kv has rows 0 to 7\n",
              "one of a CUDA graph: attend, idle");
    assert_true(strstr(text, "first launch") < strstr(text, "wrong row"));
}

TEST(each_stream_has_its_turn)
{
    expect_told("streams", 86, "element 0 is 77", "element 1 is 77");
    assert_int_equal(count_in(text, "wrong row: "), 2);
}

TEST(a_launch_is_held_back)
{
    tell("stop");
    assert_int_equal(count_in(text, "wrong row: "), 1);
    HAS("attend would be given a table whose element 5 is 8", "held back", "told, and refused\n", "launch: error 710\n",
        "synchronise: error 710, out is 5\n");
    is_silent("stop_right", "launch: error 0\n", "synchronise: error 0, out is 0\n");
}

TEST(what_is_no_table_is_refused)
{
    run_program(CUFENCE_TABLES_STORY, "", "refused");
    HAS("cufence_index: no row begins at 0x", "divide its buffer with cufence_region() first",
        "cufence_index: elements of 2 bytes: they must have 4 or 8", "elements of 4 bytes must lie at multiples of that",
        "the table's 68 bytes at 0x", "5 values in allow: at most 4", "the owner's name has 53 bytes: at most 47",
        "in no live buffer that cufence guards", "table is NULL");
    assert_int_equal(count_in(text, "too many"), 2);
    assert_int_equal(count_in(text, "no row begins at 0x"), 2);
}

TEST_GROUP(make_folder, remove_folder)
