/* What runs with two fills did: its lines, the comparison of two events, who wrote a buffer, and two files side by side. */
#include "support/folder.h"

#include "cli/uninit_runs.h"

TEST_GROUP(make_folder, remove_folder)

/* A launch with two scalars, one of them large, and two buffers: an input and an output. */
struct launch {
    struct seen_event event;
    struct seen_scalar scalars[2];
    struct seen_buffer buffers[2];
};

static struct launch *plain(struct launch *launch)
{
    *launch = (struct launch){
        .event = {.kind = SEEN_LAUNCH,
                  .number = 3,
                  .stream = 2,
                  .name = "k",
                  .symbol = "_Z1kv",
                  .place = "t.py:1 in f",
                  .grid = {4, 1, 1},
                  .block = {128, 1, 1},
                  .buffer_count = 2,
                  .scalar_count = 2},
        .scalars = {{2, 4, "0x3e8"}, {3, 16, "00112233445566778899aabbccddeeff"}},
        .buffers = {{.name = "in #1",
                     .argument = 0,
                     .size = 64,
                     .bytes = 64,
                     .has_before = 1,
                     .has_after = 1,
                     .before = 7,
                     .after = 7},
                    {.name = "out #1",
                     .argument = 1,
                     .size = 64,
                     .bytes = 64,
                     .has_before = 1,
                     .has_after = 1,
                     .before = 1,
                     .after = 9}},
    };
    launch->event.scalars = launch->scalars;
    launch->event.buffers = launch->buffers;
    return launch;
}

/* Two equal launches, and who wrote what before them. */
static struct launch a, b;
static struct seen_writers *of_a, *of_b;

static int set_up(void **state)
{
    plain(&a);
    plain(&b);
    of_a = seen_writers_make();
    of_b = seen_writers_make();
    return of_a && of_b ? 0 : -1;
}

static int tear_down(void **state)
{
    seen_writers_free(of_a);
    seen_writers_free(of_b);
    return 0;
}

static struct seen_difference compared(unsigned how)
{
    return seen_compare(&a.event, of_a, 100, &b.event, of_b, 200, how);
}

#define EXPECT(wanted, how) assert_int_equal(compared(how).kind, wanted)

TEST_WITH(each_difference_is_told, set_up, tear_down)
{
    EXPECT(SEEN_EQUAL, 0);
    b.event.symbol = "_Z1kf";
    EXPECT(SEEN_OTHER_KERNEL, 0);
    plain(&b)->event.block[0] = 256;
    EXPECT(SEEN_OTHER_GRID, 0);
    plain(&b)->event.place = "t.py:2 in f";
    EXPECT(SEEN_OTHER_PLACE, 0);
    plain(&b)->scalars[0].value = "0x3e9";
    EXPECT(SEEN_EQUAL, 0); /* the outputs are the same: it was not used */
    b.buffers[1].after++;
    EXPECT(SEEN_OTHER_SCALAR, 0);
    assert_int_equal(compared(0).index, 0);
    plain(&b)->buffers[1].name = "out #2";
    EXPECT(SEEN_OTHER_POINTER, 0);
    assert_int_equal(compared(0).index, 1);
    plain(&b)->buffers[1].offset = 4;
    EXPECT(SEEN_OTHER_POINTER, 0);
    plain(&b)->event.buffer_count = 1;
    EXPECT(SEEN_OTHER_POINTER, 0);
    assert_true(compared(0).index == SIZE_MAX);
    plain(&b)->buffers[1].after = 10;
    EXPECT(SEEN_OTHER_OUTPUT, 0);
    assert_int_equal(compared(0).index, 1);
}

TEST_WITH(a_large_argument_counts_if_outputs_differ, set_up, tear_down)
{
    plain(&b)->scalars[1].value = "00112233445566778899aabbccddee00";
    EXPECT(SEEN_EQUAL, 0);
    b.buffers[1].after = 10;
    EXPECT(SEEN_OTHER_STRUCT, 0);
    assert_int_equal(compared(0).index, 1);
}

/* PyTorch leaves pointers of earlier launches in such structs. */
TEST_WITH(a_pointer_in_a_large_argument_counts_if_others_differ, set_up, tear_down)
{
    plain(&a)->buffers[1].argument = 3;
    plain(&b)->buffers[1].argument = 3;
    a.buffers[1].at = b.buffers[1].at = 8;
    b.buffers[1].name = "out #2";
    EXPECT(SEEN_OTHER_POINTER, 0); /* a small one has no such members */
    a.scalars[1].bytes = b.scalars[1].bytes = 65;
    EXPECT(SEEN_EQUAL, 0);
    b.buffers[1].at = 16;
    EXPECT(SEEN_EQUAL, 0);
    b.event.buffer_count = 1;
    EXPECT(SEEN_EQUAL, 0);
    assert_int_equal(seen_compare(&b.event, of_b, 200, &a.event, of_a, 100, 0).kind, SEEN_EQUAL);
    b.buffers[0].after++;
    EXPECT(SEEN_OTHER_POINTER, 0);
    plain(&b)->buffers[0].name = "in #2";
    EXPECT(SEEN_OTHER_POINTER, 0); /* an argument of its own */
    plain(&b)->event.buffer_count = 0;
    EXPECT(SEEN_OTHER_POINTER, 0);
    a.event.buffers++; /* nothing else is known to be equal */
    a.event.buffer_count = 1;
    EXPECT(SEEN_OTHER_POINTER, 0);
}

TEST_WITH(hashes_that_are_missing_are_equal, set_up, tear_down)
{
    plain(&a)->buffers[1].has_after = 0;
    plain(&b)->buffers[1].after = 10;
    b.buffers[0].before = 8;
    a.buffers[0].has_before = 0;
    EXPECT(SEEN_EQUAL, 0);
}

/* A buffer that nobody has written holds anything: it is an input if it is used. */
TEST_WITH(old_bytes_are_inputs_only_if_they_matter, set_up, tear_down)
{
    struct launch writer;
    plain(&b)->buffers[1].before = 2;
    EXPECT(SEEN_EQUAL, 0);
    b.buffers[1].after = 10;
    EXPECT(SEEN_OTHER_INPUT, 0);
    assert_false(compared(0).is_written);
    plain(&b)->buffers[1].before = 2;
    seen_writers_note(of_b, &plain(&writer)->event, 150);
    EXPECT(SEEN_OTHER_INPUT, 0);
    assert_true(compared(0).is_written);
    assert_int_equal(compared(0).index, 1);
}

/* As that of a matrix product which sums its parts in another launch. */
TEST_WITH(a_buffer_that_is_left_as_it_was_is_no_output, set_up, tear_down)
{
    a.buffers[0].before = a.buffers[0].after = 70;
    EXPECT(SEEN_EQUAL, 0);
    b.buffers[0].after++;
    EXPECT(SEEN_OTHER_INPUT, 0);
}

/* Runs whose fresh memory was filled with other bytes: equal hashes are those of what was written, and of copies of the rest.
 */
static struct launch *filled(struct launch *launch, uint64_t fill)
{
    plain(launch);
    for (int i = 0; i < 2; i++) {
        struct seen_buffer *buffer = &launch->buffers[i];
        buffer->has_folded_before = buffer->has_folded_after = 1;
        buffer->folded_before = buffer->before;
        buffer->folded_after = buffer->after;
    }
    launch->buffers[1].before += fill;
    launch->buffers[1].after += fill;
    return launch;
}

TEST_WITH(what_was_computed_with_unwritten_bytes_differs, set_up, tear_down)
{
    size_t index = 0;
    filled(&a, 0);
    filled(&b, 50);
    EXPECT(SEEN_EQUAL, SEEN_TWO_FILLS); /* the rest of what it wrote to, or a copy */
    EXPECT(SEEN_OTHER_INPUT, 0);
    assert_true(seen_next_fresh(&a.event, &b.event, &index));
    assert_int_equal(index, 1);
    index++;
    assert_false(seen_next_fresh(&a.event, &b.event, &index));
    b.buffers[1].folded_after++;
    EXPECT(SEEN_OTHER_OUTPUT, SEEN_TWO_FILLS);
    assert_int_equal(compared(SEEN_TWO_FILLS).index, 1);
    b.scalars[1].value = "00112233445566778899aabbccddee00";
    EXPECT(SEEN_OTHER_STRUCT, SEEN_TWO_FILLS);
    filled(&b, 50)->scalars[0].value = "0x3e9";
    EXPECT(SEEN_EQUAL, SEEN_TWO_FILLS);
    filled(&b, 50)->buffers[0].folded_before++; /* something before has computed with them */
    b.buffers[1].folded_after++;
    EXPECT(SEEN_OTHER_INPUT, SEEN_TWO_FILLS);
    filled(&b, 0);
    index = 0;
    assert_false(seen_next_fresh(&a.event, &b.event, &index));
}

TEST(only_two_different_fills_are_compared)
{
    struct seen_header zero = {.fill = "0x00"}, other = {.fill = "0x4b"}, none = {.fill = ""};
    assert_true(seen_has_two_fills(&zero, &other) && seen_has_two_fills(&other, &zero));
    assert_false(seen_has_two_fills(&zero, &zero) || seen_has_two_fills(&zero, &none) || seen_has_two_fills(&none, &none));
}

TEST_WITH(an_input_that_was_written_comes_first, set_up, tear_down)
{
    struct launch writer;
    b.buffers[0].before = 70; /* written by nobody */
    b.buffers[1].before = 2;
    seen_writers_note(of_a, &plain(&writer)->event, 50);
    EXPECT(SEEN_OTHER_INPUT, 0);
    assert_int_equal(compared(0).index, 1);
}

TEST_WITH(other_data_of_the_host_is_told, set_up, tear_down)
{
    for (int is_set = 0; is_set < 2; is_set++) {
        plain(&a);
        a.event.kind = is_set ? SEEN_SET : SEEN_COPY;
        a.event.buffer_count = 1;
        a.buffers[0].has_before = 0;
        b = a;
        b.event.buffers = b.buffers;
        EXPECT(SEEN_EQUAL, 0);
        b.buffers[0].after = 8;
        EXPECT(SEEN_OTHER_COPY, 0);
    }
    a.event.kind = b.event.kind = SEEN_COPY;
    a.buffers[0].has_before = b.buffers[0].has_before = 1;
    EXPECT(SEEN_OTHER_OUTPUT, 0);
}

TEST_WITH(a_writer_before_a_line_is_found, set_up, tear_down)
{
    struct launch writer;
    for (uint64_t line = 10; line <= 50; line += 10)
        seen_writers_note(of_a, &plain(&writer)->event, line);
    assert_int_equal(seen_writers_find(of_a, "out #1", 51), 1);
    assert_int_equal(seen_writers_find(of_a, "out #1", 11), 1);
    assert_int_equal(seen_writers_find(of_a, "out #1", 10), 0);
    assert_int_equal(seen_writers_find(of_a, "in #1", 51), 0);
    assert_int_equal(seen_writers_find(of_a, "out #2", 51), 0);
}

/* Without its hashes, a launch may have written all that it has pointers to. */
TEST_WITH(a_launch_without_hashes_may_have_written, set_up, tear_down)
{
    struct launch writer;
    plain(&writer);
    for (int i = 0; i < 2; i++)
        writer.buffers[i].has_before = writer.buffers[i].has_after = 0;
    seen_writers_note(of_a, &writer.event, 10);
    assert_int_equal(seen_writers_find(of_a, "in #1", 11), 1);
}

/* A run of any length takes the same memory: what was not written for long is forgotten, and that is said. */
TEST_WITH(what_was_written_long_ago_is_forgotten, set_up, tear_down)
{
    char name[32];
    struct launch writer;
    plain(&writer)->event.buffer_count = 1;
    writer.buffers[0].name = name;
    writer.buffers[0].after = 8;
    for (uint64_t line = 1; line <= 200000; line++) {
        if (line % 10000 == 0)
            snprintf(name, sizeof name, "kept");
        else
            snprintf(name, sizeof name, "b #%u", (unsigned)line);
        seen_writers_note(of_a, &writer.event, line);
    }
    assert_int_equal(seen_writers_find(of_a, "b #199999", 300000), 1);
    assert_int_equal(seen_writers_find(of_a, "kept", 300000), 1);
    assert_int_equal(seen_writers_find(of_a, "b #1", 300000), -1);
}

TEST_WITH(what_is_written_is_read, set_up, tear_down)
{
    char *text = NULL;
    size_t size = 0;
    struct seen_event read;
    struct problem problem;
    FILE *out = open_memstream(&text, &size);
    a.event.name = "k<\"a\\b\">\x01\xff";
    a.buffers[1].at = 16;
    a.buffers[1].has_after = 0;
    a.buffers[0].has_folded_after = 1;
    a.buffers[0].folded_after = 70;
    a.event.launch = 12;
    seen_event_write(out, &a.event);
    fclose(out);
    assert_int_equal(seen_event_read(text, size, &read, &problem), CUFENCE_OK);
    assert_string_equal(read.name, "k<\"a\\b\">\x01\xef\xbf\xbd");
    assert_true(read.number == 3 && read.stream == 2 && read.grid[0] == 4 && read.buffer_count == 2 && read.scalar_count == 2);
    assert_true(read.buffers[0].before == 7 && read.buffers[1].at == 16 && !read.buffers[1].has_after);
    assert_true(read.launch == 12 && read.buffers[0].has_folded_after && read.buffers[0].folded_after == 70);
    assert_false(read.buffers[0].has_folded_before || read.buffers[1].has_folded_after);
    assert_string_equal(read.scalars[1].value, a.scalars[1].value);
    seen_event_free(&read);
    free(text);
}

/* ---- two files ---- */

#define HEADER "{\"seen\":1}\n"

/* Makes a file of `count` launches on each of two streams: in turn, or one stream after the other, the second one first. The
 * kernel is "k", and "j" in number `other` of stream 1. */
static void put_run(const char *name, int count, int is_in_turn, int other)
{
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    fputs(HEADER, file);
    for (int i = 0; i < 2 * count; i++) {
        int number = is_in_turn ? i / 2 + 1 : i % count + 1, stream = is_in_turn ? i % 2 + 1 : 2 - i / count;
        fprintf(file, "{\"event\":\"launch\",\"number\":%d,\"stream\":%d,\"name\":\"%s\"}\n", number, stream,
                stream == 1 && number == other ? "j" : "k");
    }
    assert_int_equal(fclose(file), 0);
}

static void expect_found(size_t most, uint64_t total, enum seen_difference_kind kind, uint64_t number)
{
    struct diff diff = {.most = most};
    struct problem problem;
    assert_int_equal(diff_open(&diff, in_folder("a"), in_folder("b"), &problem), CUFENCE_OK);
    assert_int_equal(diff_compare(&diff, &problem), CUFENCE_OK);
    assert_int_equal(diff.total, total);
    if (total) {
        const struct diff_found *found = &diff.found[0];
        assert_int_equal(found->what.kind, kind);
        assert_int_equal(found->at[!found->at[DIFF_A].line].number, number);
    }
    diff_close(&diff);
}

/* The events of one stream come long after those of the other, and memory holds only their places. */
TEST(streams_may_come_in_another_order)
{
    put_run("a", 3000, 1, 0);
    put_run("b", 3000, 0, 0);
    expect_found(5, 0, SEEN_EQUAL, 0);
    put_run("b", 3000, 0, 2999);
    expect_found(5, 1, SEEN_OTHER_KERNEL, 2999);
    put_run("b", 2000, 0, 0);
    expect_found(5, 2, SEEN_LONGER, 2001);
    put_run("a", 3000, 0, 7);
    put_run("b", 3000, 0, 0);
    expect_found(1, 1, SEEN_OTHER_KERNEL, 7);
}

/* A killed program ends its file in the middle of a line. */
TEST(what_cannot_be_read_is_told_but_a_cut_end_is_none)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "/b:1: the line is not a JSON object"},
        {"{}\n", "/b:1: another cufence wrote the file"},
        {"{\"seen\":2}\n", "/b:1: another cufence wrote the file"},
        {HEADER "{\n", "/b:2: the line is not a JSON object"},
        {HEADER "{\"event\":\"party\",\"number\":1,\"stream\":1}\n", "/b:2: \"event\" has a value"},
        {HEADER "{\"event\":\"launch\",\"number\":0,\"stream\":1}\n", "/b:2: the event has no number"},
        {HEADER "{\"event\":\"set\",\"number\":1,\"stream\":1,\"buffers\":[{\"buffer\":\"x\",\"after\":\"12\"}]}\n",
         "/b:2: \"after\" has a value"},
    };
    put_text("a", HEADER "{\"event\":\"launch\",\"number\":1,\"stream\":1,\"name\":\"k\"}\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct diff diff = {.most = 1};
        struct problem problem = {.text = ""};
        put_text("b", cases[i].text);
        assert_int_not_equal(diff_open(&diff, in_folder("a"), in_folder("b"), &problem) ?: diff_compare(&diff, &problem),
                             CUFENCE_OK);
        assert_non_null(strstr(problem.text, cases[i].says));
        diff_close(&diff);
    }
    put_text("b", HEADER "{\"event\":\"laun");
    expect_found(1, 1, SEEN_LONGER, 1);
}
