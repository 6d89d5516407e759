/* base/source.h: where a source file is looked for, and which of its lines are read. */
#include "support/folder.h"

#include "base/files.h"

static int make_files(void **state)
{
    if (make_folder(state) || chdir(folder) != 0 || mkdir("elsewhere", 0700) != 0)
        return -1;
    put_text("here.cu", "one\n\ttwo\r\nthree\n");
    put_text("elsewhere/here.cu", "another\nanother\nanother\n");
    put_text("elsewhere/there.cu", "uno\ndue\n");
    return 0;
}

static void expect_line(const char *path, int line, const char *text)
{
    struct source_line lines[SOURCE_LINES];
    size_t count = source_read(path, line, lines);
    for (size_t i = 0; i < count; i++)
        if (lines[i].number == line) {
            assert_string_equal(lines[i].text, text);
            return;
        }
    assert_null(text);
}

TEST(test_lines)
{
    struct source_line lines[SOURCE_LINES];
    unsetenv("CUFENCE_SOURCES");
    assert_int_equal(source_read("here.cu", 1, lines), 2);
    assert_int_equal(source_read("here.cu", 2, lines), 3);
    expect_line("here.cu", 2, " two");
    expect_line("here.cu", 4, NULL);
    expect_line("here.cu", 0, NULL);
    expect_line(NULL, 1, NULL);
    expect_line("elsewhere", 1, NULL);
}

TEST(test_the_folder_of_sources)
{
    unsetenv("CUFENCE_SOURCES");
    expect_line("there.cu", 1, NULL);
    setenv("CUFENCE_SOURCES", in_folder("elsewhere"), 1);
    expect_line("there.cu", 1, "uno");
    expect_line("here.cu", 1, "one"); /* the current folder comes first */
    expect_line("/there.cu", 1, NULL);
    expect_line("nowhere.cu", 1, NULL);
    setenv("CUFENCE_SOURCES", "", 1);
    expect_line("there.cu", 1, NULL);
}

/* A letter that does not fit is left out. */
TEST(test_what_lines_may_hold)
{
    struct source_line lines[SOURCE_LINES];
    char text[400];
    snprintf(text, sizeof text, "\tsecond\r\n%0158d\xc3\xa9\n%0156d\xc3\xa9\n", 1, 2);
    put_text("odd.cu", text);
    expect_line("odd.cu", 1, " second");
    assert_int_equal(source_read("odd.cu", 2, lines), 3);
    assert_int_equal(strspn(lines[1].text, "01"), 158);
    assert_int_equal(strlen(lines[1].text), 158);
    assert_int_equal(strlen(lines[2].text), 158);
}

TEST(test_what_is_no_file_is_not_read)
{
    struct source_line lines[SOURCE_LINES];
    assert_int_equal(mkfifo("fifo", 0600), 0);
    static const char *const files[] = {"fifo", "/tmp", "/dev/zero", "/nonexistent/file.py"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        assert_int_equal(source_read(files[i], 1, lines), 0);
    static const int none[] = {5, 1000000000, 0, -1};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_int_equal(source_read("here.cu", none[i], lines), 0);
}

TEST_GROUP(make_files, remove_folder)
