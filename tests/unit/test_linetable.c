/* Line numbers of bytecode: tables of real interpreters, and invalid tables. */
#include "support/test.h"

#include "stacks/python_layout.h"

#define FIRST_LINE 2

/* Reads the table of an interpreter, or its lines, from linetables.txt. Returns how many numbers. */
static size_t read_numbers(const char *what, const char *version, int *numbers, size_t most)
{
    FILE *file = fopen(CUFENCE_FIXTURES "/linetables.txt", "re");
    char line[256], title[64];
    size_t length = (size_t)snprintf(title, sizeof title, "%s of Python %s.", what, version), count = 0;
    assert_non_null(file);
    do
        assert_non_null(fgets(line, sizeof line, file));
    while (strncmp(line, title, length) != 0);
    while (count < most && fscanf(file, "%d", &numbers[count]) == 1)
        count++;
    fclose(file);
    assert_true(count > 50 && count < most);
    return count;
}

static size_t read_table(const char *version, unsigned char *table)
{
    int numbers[1000];
    size_t size = read_numbers("table", version, numbers, 1000);
    for (size_t i = 0; i < size; i++)
        table[i] = (unsigned char)numbers[i];
    return size;
}

TEST(tables_of_interpreters)
{
    static const struct {
        const char *version;
        enum linetable_format format;
    } cases[] = {{"3.10", LINETABLE_RANGES},
                 {"3.11", LINETABLE_LOCATIONS},
                 {"3.12", LINETABLE_LOCATIONS},
                 {"3.13", LINETABLE_LOCATIONS}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char table[1000];
        int lines[1000];
        size_t size = read_table(cases[i].version, table), count = read_numbers("lines", cases[i].version, lines, 1000);
        for (size_t k = 0; k < count; k++)
            assert_int_equal(linetable_line(cases[i].format, table, size, FIRST_LINE, (int)(2 * k)), lines[k]);
        assert_int_equal(linetable_line(cases[i].format, table, size, 7, -2), 7);
        assert_int_equal(linetable_line(cases[i].format, table, size, 1, 1 << 20), 0);
    }
    assert_int_equal(linetable_line(LINETABLE_LOCATIONS, NULL, 0, 1, 0), 0);
}

TEST(no_line_is_beyond_an_int)
{
    static const unsigned char forward[] = {2, 1}, back[] = {2, 0x81};
    assert_int_equal(linetable_line(LINETABLE_RANGES, forward, sizeof forward, INT32_MAX, 0), 0);
    assert_int_equal(linetable_line(LINETABLE_RANGES, back, sizeof back, 1, 0), 0);
}
