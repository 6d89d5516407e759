/* Text broken into lines (cli/words.h), and what is a slip of what (base/text.h). */
#include "support/test.h"

#include "base/text.h"
#include "cli/words.h"

static void expect_lines(const char *text, size_t indent, const char *expected)
{
    char *printed = NULL;
    size_t size;
    FILE *out = open_memstream(&printed, &size);
    assert_non_null(out);
    words_print(out, text, indent);
    fclose(out);
    assert_string_equal(printed, expected);
    free(printed);
}

#define TEN "123456789 "
#define FIFTY TEN TEN TEN TEN TEN

TEST(lines_have_at_most_100_columns)
{
    expect_lines("", 0, "\n");
    expect_lines("one  two", 4, "one two\n");
    expect_lines(FIFTY FIFTY "1", 0, TEN TEN TEN TEN TEN TEN TEN TEN TEN "123456789\n1\n");       /* 99 and 2 more */
    expect_lines(FIFTY TEN TEN TEN TEN "123456 123", 0, FIFTY TEN TEN TEN TEN "123456 123\n");    /* 100 */
    expect_lines(FIFTY TEN TEN TEN TEN "123456 1234", 0, FIFTY TEN TEN TEN TEN "123456\n1234\n"); /* 101 */
    expect_lines(FIFTY "x", 50, TEN TEN TEN TEN "123456789\n                                                  x\n");
    expect_lines("\xc3\xa9 " FIFTY TEN TEN TEN TEN "123456 1", 0, "\xc3\xa9 " FIFTY TEN TEN TEN TEN "123456 1\n");
}

TEST(a_long_word_is_never_cut)
{
    char word[121] = "", expected[200];
    memset(word, 'w', 120);
    snprintf(expected, sizeof expected, "%s\n", word);
    expect_lines(word, 10, expected);
}

TEST(slips_are_two_letters_at_most)
{
    static const struct {
        const char *word, *name;
        size_t edits;
    } cases[] = {
        {"uaf", "uaf", 0},        {"UAF", "uaf", 0},
        {"uav", "uaf", 1},        {"ua", "uaf", 1},
        {"algin", "align", 1},    {"rnu", "run", 1},
        {"lgn", "align", 2},      {"lgnn", "align", SIZE_MAX},
        {"vax", "uaf", SIZE_MAX}, {"anything", "json", SIZE_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(text_slip(cases[i].word, strlen(cases[i].word), cases[i].name), cases[i].edits);
}
