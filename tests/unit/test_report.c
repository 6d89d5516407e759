/* What reports say: hints, headlines, names and numbers. test_golden.c has whole ones. */
#include "finding/report_common.h"
#include "support/test.h"

#include "finding/report.h"
#include "finding/writer.h"
#include "support/told.h"
#include "rerun_stories.h"

static char *text_of(const struct story *story, struct finding_source origin)
{
    struct diagnosis diagnosis;
    fault_diagnose_rerun(&story->evidence, &story->rerun, &story->memory, &diagnosis);
    char *text = told_rerun(finding_text, &diagnosis, &story->rerun, &origin);
    assert_non_null(text);
    return text;
}

/* Checks that every line has the prefix, and takes it off, in place. */
static void strip_prefixes(char *text)
{
    static const char prefix[] = "==4242== ";
    char *out = text;
    for (const char *line = text; *line;) {
        assert_int_equal(strncmp(line, prefix, strlen(prefix)), 0);
        line += strlen(prefix);
        size_t length = strcspn(line, "\n") + 1;
        memmove(out, line, length);
        out += length;
        line += length;
    }
    *out = '\0';
}

TEST(the_device_is_named_as_well_as_it_can_be)
{
    static const struct {
        int device;
        const char *given, *dumped, *place;
    } cases[] = {
        {3, "Tesla T4", "ignored", " on GPU 3 (Tesla T4)\n==4242== \n"},
        {0, NULL, "", " on GPU 0\n==4242== \n"},
        {-1, NULL, "H\n100", " on a GPU (H?100)\n==4242== \n"},
        {-1, "", "ignored", " on a GPU\n==4242== \n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct story story;
        overrun(&story);
        strcpy(story.evidence.device_name, cases[i].dumped);
        char *text = text_of(&story, (struct finding_source){4242, -1, cases[i].device, cases[i].given, NULL});
        assert_non_null(strstr(text, cases[i].place));
        free(text);
    }
}

TEST(headlines_name_the_access)
{
    static const struct {
        enum access_kind access;
        uint32_t bytes;
        const char *known, *unknown;
    } cases[] = {
        {ACCESS_UNKNOWN, 0, "out-of-bounds access, 0 bytes past", "illegal memory access (address unknown)\n"},
        {ACCESS_UNKNOWN, 4, "out-of-bounds access of 4 bytes, 0 bytes past", "illegal memory access (address unknown)\n"},
        {ACCESS_READ, 1, "out-of-bounds READ of 1 byte, 0 bytes past", "illegal memory access by a READ (address unknown)\n"},
        {ACCESS_WRITE, 16, "out-of-bounds WRITE of 16 bytes, 0 bytes past",
         "illegal memory access by a WRITE (address unknown)\n"},
        {ACCESS_ATOMIC, 0, "out-of-bounds ATOMIC, 0 bytes past", "illegal memory access by an ATOMIC (address unknown)\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int is_known = 0; is_known < 2; is_known++) {
            struct story story;
            overrun(&story);
            story.stops[0].access = cases[i].access;
            story.stops[0].access_bytes = cases[i].bytes;
            story.lanes[0].certainty = story.lanes[1].certainty = is_known ? CERTAIN_EXACT : CERTAIN_NOT;
            char *text = text_of(&story, (struct finding_source){1, -1, 0, NULL, NULL});
            const char *expected = is_known ? cases[i].known : cases[i].unknown;
            assert_int_equal(strncmp(text + strlen("==1== cufence: "), expected, strlen(expected)), 0);
            free(text);
        }
    }
}

static char *hint(const struct finding *finding)
{
    return strdup(finding->hint);
}

/* What becomes of a story before its hint is asked for; 0: it stays as it is. test_golden.c has the hints of the others. */
struct change {
    void (*make)(struct story *story);
    size_t lanes;                  /* of the first stop */
    int64_t first, second;         /* added to the lanes' addresses */
    uint32_t bytes, smaller, grid; /* of the access; of the first buffer; of the launch */
};

/* The hint of a story that has changed. */
static void expect_hint(void (*make)(struct story *story), struct change change, const char *expected)
{
    struct story story;
    struct diagnosis diagnosis;
    make(&story);
    if (change.make)
        change.make(&story);
    story.stops[0].lane_count = change.lanes ? change.lanes : story.stops[0].lane_count;
    story.lanes[0].address += (uint64_t)change.first;
    story.lanes[1].address += (uint64_t)change.second;
    story.stops[0].access_bytes = change.bytes ? change.bytes : story.stops[0].access_bytes;
    story.near[0].size -= change.smaller;
    story.stops[0].grid[0] = change.grid ? change.grid : story.stops[0].grid[0];
    fault_diagnose(&story.evidence, &story.memory, &diagnosis);
    char *text = told_fault(hint, &diagnosis, &(struct finding_source){4242, -1, 0, NULL, NULL});
    if (!*expected)
        assert_string_equal(text, "");
    else if (!strstr(text, expected))
        fail_msg("\"%s\" has no \"%s\"", text, expected);
    free(text);
}

static void on_its_own_stream(struct story *story)
{
    for (size_t i = 0; i < story->memory.near_count; i++)
        story->near[i].free_stream = story->entries[0].stream;
}

/* All of them, and the access goes to A. */
static void free_buffers(struct story *story, uint64_t time_ns, uint64_t stream)
{
    for (size_t i = 0; i < story->memory.near_count; i++) {
        story->near[i].freed_ns = time_ns;
        story->near[i].free_stream = stream;
        story->near[i].is_mapped = 0;
    }
    story->lanes[0].address = story->lanes[1].address = A_START + 40;
}

static void of_a_freed_buffer(struct story *story)
{
    free_buffers(story, 50000000, 0x1234);
}

/* One element a thread, so many that the mask is what is missing, though a row's length is an argument. */
static void in_one_dimension(struct story *story)
{
    story->parameters[0] = 100;
    story->parameters[2] = 125;
    memcpy(story->entries[0].bytes, story->parameters, 20);
    story->stops[0].block_index[0] = 8;
}

/* The free came before the last launch, or before the one before that as well. */
static void freed_before_the_last(struct story *story)
{
    free_buffers(story, 55000000, story->entries[0].stream);
    story->entries[1].time_ns = 50000000;
    story->entries[0].time_ns = 65000000;
    story->memory.launch_count = 2;
    story->parameters[0] = 0;
    story->launches[1].place = story->launches[0].place;
    story->entries[1].bytes[16] ^= 1; /* other arguments: it is clear which launch faulted */
}

static void freed_two_steps_ago(struct story *story)
{
    freed_before_the_last(story);
    story->entries[1].time_ns = 60000000;
}

static void freed_before_one_from_elsewhere(struct story *story)
{
    freed_two_steps_ago(story);
    story->launches[1].place++;
}

static void freed_before_a_graph(struct story *story)
{
    freed_before_the_last(story);
    story->entries[0].time_ns = 50000000;
    story->entries[0].stream = 0x77; /* of the capture */
    story->entries[1] =
        (struct launch_entry){.sequence = 9, .graph = 0x1000, .time_ns = 65000000, .tid = story->entries[0].tid};
}

#define CHANGE(...) ((struct change){__VA_ARGS__})

TEST(hints_are_for_what_they_know)
{
    expect_hint(overrun, CHANGE(.lanes = 1), "one thread went one element too far");
    expect_hint(overrun, CHANGE(.first = 4000, .second = 4000), "");
    expect_hint(overrun, CHANGE(.bytes = 16, .smaller = 4), "");
    expect_hint(overrun, CHANGE(.grid = 7), "");
    expect_hint(underrun, CHANGE(.first = 28), "one element before the start"); /* it is 32 bytes before */
    expect_hint(underrun, CHANGE(.first = -4), "");
    expect_hint(launched, CHANGE(.make = of_a_freed_buffer),
                "the buffer was freed on stream 0x1234: does an event (or record_stream)");
    expect_hint(use_after_free, CHANGE(.make = on_its_own_stream), "");
    expect_hint(launched_from_two_places, CHANGE(.make = freed_before_a_graph),
                "a graph was launched after the free: is the kernel in it");
    expect_hint(launched, CHANGE(.make = in_one_dimension), "1024 threads run");
    expect_hint(launched_from_two_places, CHANGE(.make = freed_before_the_last), "the kernel was launched after the free");
    expect_hint(launched_from_two_places, CHANGE(.make = freed_two_steps_ago),
                "launched from the same place 1 time before this: does it use a pointer of 2 steps ago?");
    expect_hint(launched_from_two_places, CHANGE(.make = freed_before_one_from_elsewhere),
                "the kernel was launched after the free");
}

/* test_frames.c has what becomes of names. */
TEST(a_kernel_is_named_as_people_say_it)
{
    char name[64], little[8];
    finding_kernel(&(struct evidence_stop){.kernel = "void (anonymous namespace)::fill<int>(int*)"}, name, sizeof name);
    assert_string_equal(name, "fill<int>");
    finding_kernel(&(struct evidence_stop){.symbol = "much_longer_than_that"}, little, sizeof little);
    assert_string_equal(little, "much_lo");
    finding_kernel(&(struct evidence_stop){0}, name, sizeof name);
    assert_string_equal(name, "");
}

TEST(long_and_hostile_names_stay_on_their_line)
{
    enum { LENGTH = 100000 };
    char *name = malloc(LENGTH + 1);
    assert_non_null(name);
    memset(name, 'k', LENGTH);
    memcpy(name, "\n==4242== forged \033[2J", strlen("\n==4242== forged \033[2J"));
    name[LENGTH] = '\0';
    struct story story;
    overrun(&story);
    story.stops[0].kernel = story.stops[0].symbol = story.stops[0].file = story.stops[0].instruction = name;
    char *text = text_of(&story, (struct finding_source){4242, -1, 0, NULL, NULL});
    assert_true(strlen(text) > 3 * LENGTH);
    assert_non_null(strstr(text, "kernel     ?[2J"));
    assert_non_null(strstr(text, "(?==4242== forged ?[2J"));
    assert_non_null(
        strstr(text, "<<<(8,1,1), (128,1,1)>>>  exact\n==4242==              argument word 1 points to this buffer\n"));
    assert_null(strchr(text, '\033'));
    strip_prefixes(text);
    free(text);
    free(name);
}

TEST(amounts_are_exact_until_they_are_large)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0"},
                 {4000, "4000"},
                 {2093152, "2093152"},
                 {MIB, "1 MiB"},
                 {MIB + 1, "1048577"},
                 {2 * MIB, "2 MiB"},
                 {10 * MIB - 1, "10485759"},
                 {10 * MIB + MIB / 2, "10.5 MiB"},
                 {64 * MIB, "64 MiB"},
                 {GIB - 1, "1023.9 MiB"},
                 {GIB, "1 GiB"},
                 {GIB + GIB / 4, "1.2 GiB"},
                 {UINT64_MAX, "17179869183.9 GiB"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(amount_of(cases[i].bytes).text, cases[i].text);
}

TEST(ages_take_the_largest_unit_and_are_no_finer_than_their_clock)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } cases[] = {{0, "less than 10 ms"},  {9999999, "less than 10 ms"}, {10000000, "10 ms"},    {12345678, "12.3 ms"},
                 {59900000000, "59.9 s"}, {90000000000, "1.5 min"},     {3600000000000, "1 h"}, {UINT64_MAX, "5124095.5 h"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(age_of(cases[i].ns).text, cases[i].text);
}

/* ---- colours ---- */

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

/* ---- how bytes that were written out of bounds read ---- */

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
