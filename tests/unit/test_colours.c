/* Reports for a terminal are coloured. */
#include "finding/report.h"
#include "support/test.h"

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
