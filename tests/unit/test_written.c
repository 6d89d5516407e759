/* How bytes that were written out of bounds read. */
#include "finding/report_common.h"
#include "support/test.h"

/* The line without its key and its certainty. */
static char *line_of(const struct rerun_result *rerun, enum access_kind kind, uint64_t width)
{
    static const char key[] = "  written    ";
    const struct finding finding = {.rerun = rerun, .access = {.is_known = 1, .kind = kind, .bytes = width}};
    struct report report;
    assert_true(report_open(&report, 0));
    written_lines(&report, &finding);
    char *text = report_close(&report);
    assert_non_null(text);
    assert_int_equal(strncmp(text, key, strlen(key)), 0);
    assert_true(strcspn(text, "\n") <= 100);
    memmove(text, text + strlen(key), strlen(text + strlen(key)) + 1);
    char *mark = strstr(text, "  re-run\n");
    assert_non_null(mark);
    while (mark > text && mark[-1] == ' ')
        mark--;
    *mark = '\0';
    return text;
}

#define VALUES(type, ...)                                                                                                      \
    sizeof((const type[]){__VA_ARGS__}), (const type[])                                                                        \
    {                                                                                                                          \
        __VA_ARGS__                                                                                                            \
    }
#define FLOATS(...) VALUES(float, __VA_ARGS__)
#define DOUBLES(...) VALUES(double, __VA_ARGS__)
#define INTS(...) VALUES(int32_t, __VA_ARGS__)
#define LONGS(...) VALUES(int64_t, __VA_ARGS__)
#define HALVES(...) VALUES(uint16_t, __VA_ARGS__)

TEST(values_have_the_width_of_the_access)
{
    const struct {
        uint64_t width;
        size_t size;
        const void *values;
        const char *text;
    } cases[] = {
        {4, FLOATS(2, -0.5F, 0), "12 bytes at 0x1000: 2.0 -0.5 0.0"},
        {4, FLOATS(3.14159274F, 1e6F, 1e-6F), "12 bytes at 0x1000: 3.14159 1000000.0 0.000001"},
        {4, FLOATS(123456.7F, 9.999999F, 0.00123456F), "12 bytes at 0x1000: 123456.7 10.0 0.00123456"},
        {4, FLOATS(2, 1e7F), "8 bytes at 0x1000: 1073741824 1259902592"},
        {4, FLOATS(2, 1e-7F), "8 bytes at 0x1000: 1073741824 869711765"},
        {4, FLOATS(2, __builtin_nanf("")), "8 bytes at 0x1000: 1073741824 2143289344"},
        {4, FLOATS(2, __builtin_inff()), "8 bytes at 0x1000: 1073741824 2139095040"},
        {4, INTS(0, 0), "8 bytes at 0x1000: 0 0"},
        {4, INTS(7, -7), "8 bytes at 0x1000: 7 -7"},
        {8, DOUBLES(2, -0.1), "16 bytes at 0x1000: 2.0 -0.1"},
        {8, LONGS(5, -6), "16 bytes at 0x1000: 5 -6"},
        {8, LONGS(0x7e0004200000, 1), "16 bytes at 0x1000: 0x00007e0004200000 1"},
        {8, FLOATS(1.5F, 3, 1.5F, 3), "16 bytes at 0x1000: 0x404000003fc00000 0x404000003fc00000"}, /* or doubles */
        {2, HALVES(0x3c00, 0x8001), "4 bytes at 0x1000: 0x3c00 0x8001"},
        {1, HALVES(0x3c00), "2 bytes at 0x1000: 00 3c"},
        {16, INTS(1, 2), "8 bytes at 0x1000: 01 00 00 00 02 00 00 00"},
        {0, INTS(1), "4 bytes at 0x1000: 01 00 00 00"},
        {4, HALVES(1, 2, 3), "6 bytes at 0x1000: 01 00 02 00 03 00"}, /* no whole number of elements */
        {4, INTS(1, 2, 3, 4, 5, 6, 7, 8, 9), "36 bytes at 0x1000: 1 2 3 4 5 6 7 8 ..."},
        {4, INTS(100000001, 100000002, 100000003, 100000004, 100000005, 100000006),
         "24 bytes at 0x1000: 100000001 100000002 100000003 100000004 100000005 ..."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rerun_result rerun = {.write_count = 1, .written_bytes = cases[i].size};
        rerun.writes[0] = (struct rerun_write){.address = 0x1000, .bytes = cases[i].size, .value_bytes = cases[i].size};
        memcpy(rerun.writes[0].values, cases[i].values, cases[i].size);
        char *text = line_of(&rerun, ACCESS_WRITE, cases[i].width);
        assert_string_equal(text, cases[i].text);
        free(text);
    }
}

/* Values of an atomic depend on what the guard held; a faulting read is another instruction than what wrote. */
TEST(values_are_no_more_than_is_known)
{
    struct rerun_result rerun = {.write_count = 1, .written_bytes = 1000};
    rerun.writes[0] = (struct rerun_write){.address = 0x1000, .bytes = 4, .value_bytes = 4, .values = {1}};
    char *text = line_of(&rerun, ACCESS_ATOMIC, 4);
    assert_string_equal(text, "4 bytes at 0x1000");
    free(text);
    text = line_of(&rerun, ACCESS_READ, 4);
    assert_string_equal(text, "4 bytes at 0x1000: 01 00 00 00");
    free(text);
    rerun.writes[0].address = 0x1002;
    text = line_of(&rerun, ACCESS_WRITE, 4);
    assert_string_equal(text, "4 bytes at 0x1002: 01 00 00 00");
    assert_non_null(strstr(text + strlen(text) + 1, "re-run\n             and more, 1000 bytes in all\n"));
    free(text);
}
