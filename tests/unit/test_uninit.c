/* The report of a use of what nobody has written, and how two states of its result are compared. */
#include "support/test.h"

#include "finding/finding.h"
#include "finding/json.h"
#include "finding/report.h"

static const cufence_buffer buffer = {.id = 7, .address = 0x7e0001000000, .size = 4000, .label = "y"};

static struct uninit_fact plain(void)
{
    return (struct uninit_fact){.kernel = "scale(float*, int)",
                                .symbol = "_Z5scalePfi",
                                .number = 41,
                                .fresh = &buffer,
                                .from = 1,
                                .unwritten = 96,
                                .first_unwritten = 3904,
                                .argument = 0,
                                .type = VALUE_FLOAT32,
                                .elements = 1000,
                                .different = 24,
                                .first = 7,
                                .values = {"0", "13323083"},
                                .place = "train.py:41 in step"};
}

static void expect(struct uninit_fact fact, char *(*tell)(const struct finding *finding), const char *wanted)
{
    struct finding finding;
    const struct finding_origin origin = {.pid = 42, .rank = -1, .device = 0};
    finding_of_uninit(&finding, &fact, &origin);
    char *text = tell(&finding);
    finding_free(&finding);
    assert_non_null(text);
    int is_in = strstr(text, wanted) != NULL;
    if (!is_in)
        print_error("not \"%s\" in:\n%s", wanted, text);
    free(text);
    assert_true(is_in);
}

TEST(the_reason_has_what_is_known)
{
    struct uninit_fact fact = plain();
    expect(fact, finding_text, "cufence: uninitialised read by scale of buffer #7\n");
    expect(
        fact, finding_text,
        "it computes with bytes that nobody has written: of buffer #7, \"y\", 4000 bytes, 96 were never written, the first at "
        "byte 3904; element 7 of argument 0, float32[1000], becomes 0 where they are 0x00 and 13323083 where they are 0x4b; "
        "launched at train.py:41 in step\n");
    fact.more = 2;
    fact.may_be_result = 1;
    fact.different = 0;
    fact.place = NULL;
    expect(fact, finding_text,
           "byte 3904; or of 2 more buffers that it reads; or of its own result, which had such bytes, too\n");
    fact = (struct uninit_fact){.what = "the program on the host", .place = "a.py:1", .from = -1, .argument = -1};
    expect(fact, finding_text, "the program on the host computes with bytes that nobody has written; copied at a.py:1\n");
}

TEST(the_json_has_it_in_parts)
{
    struct uninit_fact fact = plain();
    expect(fact, finding_json, "\"kind\":\"uninitialised read\"");
    expect(fact, finding_json,
           "\"uninitialised\":{\"launch\":41,\"unwritten_bytes\":96,\"first_byte\":3904,\"more_buffers\":0,\"result\":{"
           "\"argument\":0,\"type\":\"float32\",\"count\":1000,\"different\":24,\"index\":7,\"with_00\":\"0\","
           "\"with_4b\":\"13323083\"}}");
}
