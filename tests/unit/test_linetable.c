/* Line numbers of bytecode: tables of real interpreters, and invalid tables. */
#include "stacks/linetable.h"

#include "linetable_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define FIRST_LINE 2

static void check(enum linetable_format format, const unsigned char *table, size_t size, const int *lines, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(linetable_line(format, table, size, FIRST_LINE, (int)(2 * i)), lines[i]);
}

static void python_3_9(void **state)
{
    (void)state;
    check(LINETABLE_LNOTAB, table_3_9, sizeof table_3_9, lines_3_9, COUNT(lines_3_9));
}

static void python_3_10(void **state)
{
    (void)state;
    check(LINETABLE_RANGES, table_3_10, sizeof table_3_10, lines_3_10, COUNT(lines_3_10));
}

static void python_3_11(void **state)
{
    (void)state;
    check(LINETABLE_LOCATIONS, table_3_11, sizeof table_3_11, lines_3_11, COUNT(lines_3_11));
}

static void python_3_12(void **state)
{
    (void)state;
    check(LINETABLE_LOCATIONS, table_3_12, sizeof table_3_12, lines_3_12, COUNT(lines_3_12));
}

static void python_3_13(void **state)
{
    (void)state;
    check(LINETABLE_LOCATIONS, table_3_13, sizeof table_3_13, lines_3_13, COUNT(lines_3_13));
}

static void before_the_first_instruction_is_the_first_line(void **state)
{
    (void)state;
    assert_int_equal(linetable_line(LINETABLE_RANGES, table_3_10, sizeof table_3_10, 7, -2), 7);
    assert_int_equal(linetable_line(LINETABLE_LOCATIONS, table_3_11, sizeof table_3_11, 7, -2), 7);
    assert_int_equal(linetable_line(LINETABLE_LNOTAB, table_3_9, sizeof table_3_9, 7, -1), 7);
}

static void beyond_the_table_is_no_line(void **state)
{
    (void)state;
    assert_int_equal(linetable_line(LINETABLE_RANGES, table_3_10, sizeof table_3_10, 1, 1 << 20), 0);
    assert_int_equal(linetable_line(LINETABLE_LOCATIONS, table_3_13, sizeof table_3_13, 1, 1 << 20), 0);
    assert_int_equal(linetable_line(LINETABLE_LOCATIONS, NULL, 0, 1, 0), 0);
}

static void no_line_is_beyond_an_int(void **state)
{
    (void)state;
    static const unsigned char forward[] = {2, 1}, back[] = {2, 0x81};
    for (enum linetable_format format = LINETABLE_LNOTAB; format <= LINETABLE_RANGES; format++) {
        assert_int_equal(linetable_line(format, forward, sizeof forward, INT32_MAX, 2 * (format == LINETABLE_LNOTAB)), 0);
        assert_int_equal(linetable_line(format, back, sizeof back, 1, 2 * (format == LINETABLE_LNOTAB)), 0);
    }
}

/* Of exact size on the heap, so that a sanitizer sees a read outside. */
static void tables_of_noise_are_survived(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(python_3_9),
        cmocka_unit_test(python_3_10),
        cmocka_unit_test(python_3_11),
        cmocka_unit_test(python_3_12),
        cmocka_unit_test(python_3_13),
        cmocka_unit_test(before_the_first_instruction_is_the_first_line),
        cmocka_unit_test(beyond_the_table_is_no_line),
        cmocka_unit_test(no_line_is_beyond_an_int),
        cmocka_unit_test(tables_of_noise_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
