/* Reports for a terminal: coloured, and folded where it is narrower than a report. */
#include "finding/report.h"
#include "support/test.h"

#include "base/output.h"

#include <sys/ioctl.h>

static void expect(const char *text, int columns, const char *wanted)
{
    char *folded = fold_text(text, columns);
    assert_string_equal(folded, wanted);
    free(folded);
}

TEST(lines_that_fit_stay)
{
    expect("", 40, "");
    expect("a line\n\n  and    another  exact\n", 40, "a line\n\n  and    another  exact\n");
}

TEST(a_table_goes_on_in_its_last_column)
{
    expect("==42==   buffer     #1, 4000 bytes, stream 0x0 and more\n", 40,
           "==42==   buffer     #1, 4000 bytes,\n"
           "==42==              stream 0x0 and more\n");
    expect("==42==              launched at   ../a/program.c:54 in story_overrun\n", 60,
           "==42==              launched at   ../a/program.c:54\n"
           "==42==                            in story_overrun\n");
    expect("12. double free by cuMemFree: buffer #1 was freed\n", 40,
           "12. double free by cuMemFree: buffer #1\n"
           "    was freed\n");
    expect("  run         any program that uses CUDA, unmodified\n", 40,
           "  run         any program that uses\n"
           "              CUDA, unmodified\n");
}

TEST(answers_go_on_below_themselves)
{
    expect("==42== cufence: out-of-bounds WRITE of 4 bytes past the end\n", 50,
           "==42== cufence: out-of-bounds WRITE of 4 bytes\n"
           "==42==          past the end\n");
    expect("cufence: nothing here that would fit into forty columns\n", 40,
           "cufence: nothing here that would fit\n"
           "         into forty columns\n");
    expect("==42==   at kernels.cu:12 in store, block (0,0,0)\n", 40,
           "==42==   at kernels.cu:12 in store,\n"
           "==42==      block (0,0,0)\n");
}

TEST(words_stay_whole)
{
    expect("/a/path/that/is/longer/than/forty/columns/in/all and more\n", 40,
           "/a/path/that/is/longer/than/forty/columns/in/all\nand more\n");
    expect(
        "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9 is ten columns, and twenty bytes\n",
        44,
        "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9 is ten columns, and twenty bytes\n");
}

/* It begins further to the left, if that helps. */
TEST(a_long_word_gets_room)
{
    expect("==42==              launched at   ../a/longer/path/to/a/program.c:86 in store   exact\n", 60,
           "==42==              launched at\n"
           "==42==             ../a/longer/path/to/a/program.c:86  exact\n"
           "==42==                            in store\n");
    expect("==42==              launched at   ../a/much/longer/path/that/fits/nowhere/to/a/program.c:86  exact\n", 60,
           "==42==              launched at\n"
           "==42==     ../a/much/longer/path/that/fits/nowhere/to/a/program.c:86  exact\n");
}

TEST(a_number_stays_with_what_it_counts)
{
    expect("==42==   same  min 1.0 max 1000.0 mean 500.5 std 288.675, 0 NaN\n", 62,
           "==42==   same  min 1.0 max 1000.0 mean 500.5 std 288.675,\n==42==         0 NaN\n");
    expect("a buffer that was given 1,000 bytes of memory\n", 40, "a buffer that was given 1,000 bytes of\nmemory\n");
    expect("one more buffer than there were in all 1,000 bytes\n", 46, "one more buffer than there were in all\n1,000 bytes\n");
}

TEST(a_certainty_stands_at_the_edge)
{
    expect("==42==   address    0x200004200000, past the end                     exact\n", 60,
           "==42==   address    0x200004200000, past the end       exact\n");
    expect("==42==              launched at   ../a/path/to/program.c:86 in store   exact\n", 60,
           "==42==              launched at   ../a/path/to/program.c:86\n"
           "==42==                            in store             exact\n");
    expect("==42==   kernel     store<<<(1,1,1), (1,1,1)>>> is given this buffer  derived\n", 60,
           "==42==   kernel     store<<<(1,1,1), (1,1,1)>>> is   derived\n"
           "==42==              given this buffer\n");
}

/* A report breaks its hints at 100 columns: they are no paragraph of long and short lines here. */
TEST(a_hint_is_broken_anew)
{
    expect("==42==   hint       one thread went one element too far: is <= meant to be <, or a size one  candidate\n"
           "==42==              too large?\n"
           "==42== SUMMARY: cufence\n",
           70,
           "==42==   hint       one thread went one element too far: is  candidate\n"
           "==42==              <= meant to be <, or a size one too large?\n"
           "==42== SUMMARY: cufence\n");
    expect("==42==   note       a short one, but for its second line that does not belong to it, being a note\n"
           "==42==              of its own: begun where it had room\n",
           70,
           "==42==   note       a short one, but for its second line that does not\n"
           "==42==              belong to it, being a note\n"
           "==42==              of its own: begun where it had room\n");
}

/* The same text, with colours that end on their line. */
TEST(lines_are_coloured_by_what_they_say)
{
    static const struct {
        const char *line, *coloured;
    } cases[] = {
        {"first", "\033[1;31mfirst\033[0m"},
        {"==42== cufence: first", "\033[2m==42== \033[0m\033[1;31mcufence: first\033[0m"},
        {"x\n  at oob.py:9", "\033[1;31mx\033[0m\n\033[1m  at oob.py:9\033[0m"},
        {"x\n==42==   >     9 | exact", "\033[1;31mx\033[0m\n\033[2m==42== \033[0m\033[1m  >     9 | exact\033[0m"},
        {"x\n  address    0x1   exact", "\033[1;31mx\033[0m\n  address    0x1   \033[32mexact\033[0m"},
        {"x\n  owner  #1  derived", "\033[1;31mx\033[0m\n  owner  #1  \033[33mderived\033[0m"},
        {"x\n  address  0x1  re-run", "\033[1;31mx\033[0m\n  address  0x1  \033[36mre-run\033[0m"},
        {"x\n  owner  #1  candidate", "\033[1;31mx\033[0m\n  owner  #1  \033[35mcandidate\033[0m"},
        {"x\n  note  it is exact", "\033[1;31mx\033[0m\n  note  it is exact"},
        {"x\n==42== ", "\033[1;31mx\033[0m\n\033[2m==42== \033[0m"},
        {"x\n", "\033[1;31mx\033[0m"},
        {"x\n==42==SUMMARY", "\033[1;31mx\033[0m\n==42==SUMMARY"},
        {"x\n==42== SUMMARY: all", "\033[1;31mx\033[0m\n\033[2m==42== \033[0m\033[1;31mSUMMARY: all\033[0m"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = colour_text(cases[i].line), expected[256] = "";
        strcat(strcat(expected, cases[i].coloured), "\n");
        assert_string_equal(text, expected);
        free(text);
    }
    char *none = colour_text("");
    assert_string_equal(none, "");
    free(none);
}

/* Of the colours the one that is on goes on in the next line; its indentation has none. */
TEST(colours_take_no_columns)
{
    char *coloured =
        colour_text("==42== cufence: out-of-bounds WRITE of 4 bytes, 0 bytes\n==42==   kernel     a          exact\n");
    assert_non_null(coloured);
    expect(coloured, 55, coloured);
    expect(coloured, 50,
           "\033[2m==42== \033[0m\033[1;31mcufence: out-of-bounds WRITE of 4 bytes,\033[0m\n"
           "\033[2m==42== \033[0m         \033[1;31m0 bytes\033[0m\n"
           "\033[2m==42== \033[0m  kernel     a          \033[32mexact\033[0m\n");
    free(coloured);
}

TEST(commands_to_github_stay_whole)
{
    expect("::error file=a.py,line=3::a text that is longer than forty columns\n", 40,
           "::error file=a.py,line=3::a text that is longer than forty columns\n");
}

TEST(only_terminals_have_columns)
{
    int pipes[2], terminal = posix_openpt(O_RDWR | O_NOCTTY);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(fold_columns(pipes[1]), 0);
    assert_int_equal(fold_columns(-1), 0);
    close(pipes[0]);
    close(pipes[1]);
    if (terminal < 0)
        return;
    assert_int_equal(fold_columns(terminal), 0); /* its size is unknown */
    assert_int_equal(ioctl(terminal, TIOCSWINSZ, &(struct winsize){.ws_row = 24, .ws_col = 80}), 0);
    assert_int_equal(fold_columns(terminal), 80);
    assert_int_equal(ioctl(terminal, TIOCSWINSZ, &(struct winsize){.ws_row = 24, .ws_col = 20}), 0);
    assert_int_equal(fold_columns(terminal), 0);
    close(terminal);
}
