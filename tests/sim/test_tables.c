/* Tables of row numbers (cufence_index()) in a program that knows them (tables_story.c), on the simulated device. */
#include "support/unfold.h"
#include "values_world.h"

static int tell(const char *stories)
{
    int status = run_program(CUFENCE_TABLES_STORY, "", stories);
    unfold(text);
    DOES_NOT_SAY("cufence_index"); /* nothing was refused */
    return status;
}

static void is_silent(const char *story)
{
    int status = tell(story);
    DOES_NOT_SAY("wrong row");
    assert_int_equal(status, 0);
}

/* One finding, whose headline has the words. */
static void finds_one(const char *story, const char *words)
{
    int status = tell(story);
    SAYS(words);
    assert_int_equal(count_in("wrong row: "), 1);
    assert_int_equal(status, 86);
}

TEST(a_right_table_is_silent)
{
    is_silent("right");
    is_silent("freed_table");
    is_silent("freed_rows");
    is_silent("gone_rows");
    is_silent("one_of_both");
    is_silent("removed");
}

TEST(an_element_outside)
{
    finds_one("off_by_one", "wrong row: attend is given a table whose element 5 is 8, and kv has rows 0 to 7\n");
    SAYS("element 5 of int32[16] at 0x");
    SAYS("one past the last row: is the table off by one?");
    SAYS("attend<<<(1,1,1), (32,1,1)>>>");
    SAYS("tables_story.c");
    finds_one("negative", "element 3 is -2, and kv has rows 0 to 7\n");
    finds_one("wide", "idle is given a table whose element 5 is 21474836480, and kv has rows 0 to 7\n");
    SAYS("element 5 of int64[16] at 0x");
}

TEST(an_element_outside_of_the_buffer_is_said_although_the_launch_faults)
{
    int status = tell("far");
    assert_int_equal(status, 3); /* the program's own, as it sees the error */
    SAYS("wrong row: attend is given a table whose element 3 is 1073741824, and kv has rows 0 to 7\n");
}

TEST(a_free_row)
{
    int status = tell("stale");
    assert_int_equal(status, 86);
    assert_int_equal(count_in("wrong row: "), 2); /* its table names the row twice */
    SAYS("wrong row: idle is given a table whose element 2 is row 2 of kv, which is free, released by request 4\n");
    SAYS("wrong row: idle is given a table whose element 10 is row 2 of kv");
    SAYS("2 of kv, free; byte 0 of 256 (8 rows)");
    SAYS("request 4\n");
    SAYS("; 2 elements are wrong");
    SAYS("released at");
    tell("taken_since");
    SAYS("element 2 is row 2 of kv, which was free then\n");
    SAYS("request 9");
    SAYS("taken at");
    SAYS("the row has a new owner by now");
}

/* Of many elements, some are reported, and all counted. */
TEST(many_wrong_elements)
{
    assert_int_equal(tell("all_free"), 86);
    assert_int_equal(count_in("wrong row: "), 4);
    for (int i = 0; i < 4; i++) {
        char words[64];
        snprintf(words, sizeof words, "whose element %d is row %d of kv", i, i);
        SAYS(words);
    }
    SAYS("; 12 elements are wrong");
    finds_one("again", "element 5 is 8");
}

TEST(a_row_of_another_owner)
{
    finds_one("owner", "element 2 is row 2 of kv, which belongs to request 9, not to request 7\n");
    SAYS("2 of kv, live; byte 0 of 256 (8 rows)");
    SAYS("taken at");
}

TEST(rows_behind_the_first)
{
    finds_one("owner_behind", "which belongs to request 9, not to request 8\n");
    SAYS("6 of kv, live; byte 0 of 256 (8 rows)");
}

TEST(parts_of_a_buffer)
{
    assert_int_equal(tell("runs"), 86);
    assert_int_equal(count_in("wrong row: "), 1);
    SAYS("element 5 is 99, and kv has rows 0 to 7");
}

TEST(a_graph_is_looked_at_before_each_launch)
{
    finds_one("graph", "wrong row: a CUDA graph is given a table whose element 5 is 8, and kv has rows 0 to 7\n");
    SAYS("one of a CUDA graph: attend, idle");
    assert_true(strstr(text, "first launch") < strstr(text, "wrong row"));
}

TEST(each_stream_has_its_turn)
{
    assert_int_equal(tell("streams"), 86);
    assert_int_equal(count_in("wrong row: "), 2);
    SAYS("element 0 is 77");
    SAYS("element 1 is 77");
}

TEST(a_launch_is_held_back)
{
    tell("stop");
    assert_int_equal(count_in("wrong row: "), 1);
    SAYS("attend would be given a table whose element 5 is 8");
    SAYS("held back");
    SAYS("launch: error 710\n");
    SAYS("synchronise: error 710, out is 5\n");
    is_silent("stop_right");
    SAYS("launch: error 0\n");
    SAYS("synchronise: error 0, out is 0\n");
}

TEST(what_is_no_table_is_refused)
{
    run_program(CUFENCE_TABLES_STORY, "", "refused");
    SAYS("cufence_index: no row begins at 0x");
    SAYS("divide its buffer with cufence_region() first");
    SAYS("cufence_index: elements of 2 bytes: they must have 4 or 8");
    SAYS("elements of 4 bytes must lie at multiples of that");
    SAYS("the table's 68 bytes at 0x");
    SAYS("5 values in allow: at most 4");
    SAYS("the owner's name has 53 bytes: at most 47");
    SAYS("in no live buffer that cufence guards");
    assert_int_equal(count_in("too many"), 2);
    assert_int_equal(count_in("no row begins at 0x"), 2);
}

TEST_GROUP(make_folder, remove_folder)
