/* Line numbers of bytecode: tables of real interpreters, and invalid tables. */
#include "support/test.h"

#include "stacks/python_layout.h"

#include "linetable_cases.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define FIRST_LINE 2

static void check(enum linetable_format format, const unsigned char *table, size_t size, const int *lines, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(linetable_line(format, table, size, FIRST_LINE, (int)(2 * i)), lines[i]);
}

TEST(python_3_9)
{
    check(LINETABLE_LNOTAB, table_3_9, sizeof table_3_9, lines_3_9, COUNT(lines_3_9));
}

TEST(python_3_10)
{
    check(LINETABLE_RANGES, table_3_10, sizeof table_3_10, lines_3_10, COUNT(lines_3_10));
}

TEST(python_3_11)
{
    check(LINETABLE_LOCATIONS, table_3_11, sizeof table_3_11, lines_3_11, COUNT(lines_3_11));
}

TEST(python_3_12)
{
    check(LINETABLE_LOCATIONS, table_3_12, sizeof table_3_12, lines_3_12, COUNT(lines_3_12));
}

TEST(python_3_13)
{
    check(LINETABLE_LOCATIONS, table_3_13, sizeof table_3_13, lines_3_13, COUNT(lines_3_13));
}

TEST(before_the_first_instruction_is_the_first_line)
{
    assert_int_equal(linetable_line(LINETABLE_RANGES, table_3_10, sizeof table_3_10, 7, -2), 7);
    assert_int_equal(linetable_line(LINETABLE_LOCATIONS, table_3_11, sizeof table_3_11, 7, -2), 7);
    assert_int_equal(linetable_line(LINETABLE_LNOTAB, table_3_9, sizeof table_3_9, 7, -1), 7);
}

TEST(beyond_the_table_is_no_line)
{
    assert_int_equal(linetable_line(LINETABLE_RANGES, table_3_10, sizeof table_3_10, 1, 1 << 20), 0);
    assert_int_equal(linetable_line(LINETABLE_LOCATIONS, table_3_13, sizeof table_3_13, 1, 1 << 20), 0);
    assert_int_equal(linetable_line(LINETABLE_LOCATIONS, NULL, 0, 1, 0), 0);
}

TEST(no_line_is_beyond_an_int)
{
    static const unsigned char forward[] = {2, 1}, back[] = {2, 0x81};
    for (enum linetable_format format = LINETABLE_LNOTAB; format <= LINETABLE_RANGES; format++) {
        assert_int_equal(linetable_line(format, forward, sizeof forward, INT32_MAX, 2 * (format == LINETABLE_LNOTAB)), 0);
        assert_int_equal(linetable_line(format, back, sizeof back, 1, 2 * (format == LINETABLE_LNOTAB)), 0);
    }
}

/* Of exact size on the heap, so that a sanitizer sees a read outside. */
TEST(tables_of_noise_are_survived)
{
    srand(1);
    for (int round = 0; round < 3000; round++) {
        size_t size = (unsigned)rand() % 40;
        unsigned char *table = malloc(size + !size);
        assert_non_null(table);
        for (size_t i = 0; i < size; i++)
            table[i] = (unsigned char)rand();
        for (enum linetable_format format = LINETABLE_LNOTAB; format <= LINETABLE_LOCATIONS; format++)
            linetable_line(format, table, size, rand() % 1000, rand() % 200);
        free(table);
    }
}
