/* Reports of changed slack: certainties and notes, and which are the same. test_golden.c has whole ones. */
#include "support/test.h"

#include "finding/finding.h"
#include "finding/json.h"
#include "finding/report.h"

enum { START = 0x7e0001000000, SIZE = 1000 };

static const cufence_buffer buffer = {.id = 7,
                                      .address = (uint64_t)START,
                                      .size = SIZE,
                                      .mapping_start = (uint64_t)START - 4096,
                                      .mapping_end = (uint64_t)START + 1008,
                                      .allocated_ns = 1000,
                                      .label = "y"};

/* A write of the number 2.5 eight bytes in front of the buffer. */
static struct slack_write before(void)
{
    return (struct slack_write){.buffer = &buffer,
                                .is_before = 1,
                                .address = (uint64_t)START - 8,
                                .span = 4,
                                .changed = 4,
                                .bytes = {0x00, 0x00, 0x20, 0x40},
                                .byte_count = 4,
                                .buffers = 1,
                                .first_id = 7,
                                .now_ns = 90000000};
}

static char *told(char *(*tell)(const struct finding *finding), struct slack_write *write)
{
    struct finding finding;
    const struct finding_origin origin = {.pid = 42, .rank = -1, .device = 0};
    finding_of_slack(&finding, write, &origin);
    char *text = tell(&finding);
    finding_free(&finding);
    assert_non_null(text);
    return text;
}

static void expect(struct slack_write *write, const char *wanted, int is_in)
{
    char *text = told(finding_text, write);
    int is_right = (strstr(text, wanted) != NULL) == is_in;
    if (!is_right)
        print_error("%s \"%s\" in:\n%s", is_in ? "not" : "unwanted", wanted, text);
    free(text);
    assert_true(is_right);
}

TEST(one_launch_is_derived_and_several_are_candidates)
{
    static struct launch_function function = {.name = "_Z5storePfi"};
    const struct launch_entry entry = {.function = &function, .grid = {8, 1, 1}, .block = {128, 1, 1}, .time_ns = 2000};
    struct slack_write write = before();
    write.launches[0] = write.launches[1] = (struct fault_launch){.entry = &entry};
    write.launch_count = write.launch_total = 1;
    expect(&write, "given to   store<<<(8,1,1), (128,1,1)>>>", 1);
    assert_int_equal(write.certainty, CERTAIN_DERIVED);
    write.graphs = 1;
    expect(&write, "1 graph came in between", 1);
    assert_int_equal(write.certainty, CERTAIN_CANDIDATE);
    write.graphs = 0;
    write.is_incomplete = 1;
    expect(&write, "older launches are no longer on record", 1);
    assert_int_equal(write.certainty, CERTAIN_CANDIDATE);
    write.is_incomplete = 0;
    expect(&write, "edge at a guard", 0);
    strcpy(write.untold, "no thread wrote there");
    expect(&write, "no thread wrote there", 1);
    write.launch_count = 2;
    write.launch_total = 12;
    expect(&write, "and 10 more launches", 1);
    assert_int_equal(write.certainty, CERTAIN_CANDIDATE);
}

/* The same launch at the same place of allocation is reported once; the other side is another finding. */
TEST(sides_and_launches_tell_findings_apart)
{
    static struct launch_function first = {.name = "first"}, second = {.name = "second"};
    const struct launch_entry entries[] = {{.function = &first}, {.function = &second}};
    const struct finding_origin origin = {.pid = 42};
    uint64_t identities[4];
    for (int i = 0; i < 4; i++) {
        struct finding finding;
        struct slack_write write = before();
        write.is_before = i & 1;
        write.address = write.is_before ? (uint64_t)START - 8 : (uint64_t)START + SIZE;
        write.launches[0].entry = &entries[i >> 1];
        write.launch_count = write.launch_total = 1;
        finding_of_slack(&finding, &write, &origin);
        identities[i] = finding.identity;
        finding_free(&finding);
        for (int j = 0; j < i; j++)
            assert_true(identities[i] != identities[j]);
    }
}
