/* Tables of fields: as JSON and back, and what is damaged; a report on a host without memory. */
#include "support/test.h"

#include "json/json_table.h"
#include "base/options.h"
#include "support/told.h"
#include "rerun_stories.h"

#include <jansson.h>

struct point {
    uint32_t x;
    const char *name;
};

NAMED(point, struct point, FIELD(NUMBER, struct point, x, "x", .flags = REQUIRED, .most = 1000),
      FIELD(TEXT, struct point, name, "name"));
TABLE(text_record, struct point, FIELD(TEXT, struct point, name, NULL, .flags = EVEN_EMPTY));
static const struct field of_pair[] = {{.name = "name", .type = FIELD_TEXT, .at = 0, .size = sizeof(char *)},
                                       {.name = "value", .type = FIELD_TEXT, .at = sizeof(char *), .size = sizeof(char *)}};
static const struct json_table pair = {.fields = of_pair, .count = 2, .bytes = 2 * sizeof(char *)};

struct all {
    uint64_t number, hex;
    int whole, none, is_it, is_true, has_own;
    const char *text;
    char chars[8];
    uint32_t triple[3];
    enum { NO_WORD, RED, GREEN } word;
    double real;
    struct scalar scalar;
    uint8_t bytes[4], *far_bytes;
    size_t byte_count, far_count, point_count, text_count, pair_count;
    struct point own, *behind, points[2], *texts;
    struct {
        const char *name, *value;
    } pairs[2];
};

static const char *const colours[] = {"", "red", "green", NULL};
TABLE(inner, struct all, FIELD(HEX, struct all, hex, "hex"));
static const struct field of_all[] = {
    FIELD(NUMBER, struct all, number, "number", .flags = NOT_ZERO),
    GROUP(struct all, inner, "hexes"),
    FIELD(INT, struct all, whole, "whole"),
    FIELD(INT, struct all, none, "none", .flags = OR_NONE),
    FIELD(BOOL, struct all, is_it, "is_it"),
    FIELD(TRUE, struct all, is_true, "is_true"),
    FIELD(TEXT, struct all, text, "text"),
    FIELD(CHARS, struct all, chars, "chars"),
    FIELD(TRIPLE, struct all, triple, "triple", .flags = NOT_ZERO),
    FIELD(WORD, struct all, word, "word", .words = colours),
    FIELD(REAL, struct all, real, "real"),
    FIELD(SCALAR, struct all, scalar, "scalar"),
    FIELD(BYTES, struct all, bytes, "bytes", .flags = NOT_ZERO, COUNT(struct all, byte_count)),
    FIELD(BYTES, struct all, far_bytes, "far", .flags = NOT_ZERO | BEHIND, COUNT(struct all, far_count)),
    FIELD(PART, struct all, own, "own", .table = &point, WHEN(struct all, has_own)),
    FIELD(PART, struct all, behind, "behind", .flags = BEHIND, .table = &point),
    FIELD(LIST, struct all, points, "points", .flags = NOT_ZERO, .table = &point, COUNT(struct all, point_count)),
    FIELD(LIST, struct all, texts, "texts", .flags = NOT_ZERO | BEHIND, .table = &text_record, COUNT(struct all, text_count)),
    FIELD(PAIRS, struct all, pairs, "pairs", .flags = NOT_ZERO, .table = &pair, COUNT(struct all, pair_count)),
};
static const struct json_table all = TABLE_OF(struct all, of_all);

static const char least[] = "{\"hexes\":{\"hex\":\"0x0\"},\"whole\":0,\"is_it\":false,\"real\":0.0,"
                            "\"scalar\":0.0}";
static const char full[] = "{\"number\":7,\"hexes\":{\"hex\":\"0xfedcba9876543210\"},\"whole\":-3,"
                           "\"none\":0,\"is_it\":true,\"is_true\":true,\"text\":\"a\\\"b\",\"chars\":\"seven77\","
                           "\"triple\":[1,2,3],\"word\":\"green\",\"real\":\"-Infinity\",\"scalar\":12,\"bytes\":\"00ff\","
                           "\"far\":\"0123456789\",\"own\":{\"x\":1},\"behind\":{\"x\":2,\"name\":\"two\"},"
                           "\"points\":[{\"x\":3},{\"x\":4,\"name\":\"four\"}],\"texts\":[\"\",\"t\"],"
                           "\"pairs\":{\"RANK\":\"3\",\"JOB\":\"17\"}}";

static struct problem problem;

static void expect_json(const struct json_table *record, const void *from, const char *expected)
{
    json_t *json = json_table_write(record, from);
    char *text = json_dumps(json, JSON_COMPACT);
    assert_string_equal(text, expected);
    free(text);
    json_decref(json);
}

TEST(json_is_read_as_it_was_written)
{
    static const char *const cases[] = {least, full};
    for (size_t i = 0; i < 2; i++) {
        struct json_memory memory = {NULL};
        struct all read;
        json_t *json = json_loads(cases[i], 0, NULL);
        assert_int_equal(json_table_read(&all, json, &read, &memory, &problem), CUFENCE_OK);
        assert_int_equal(read.none, i ? 0 : -1);
        assert_int_equal(read.has_own, i);
        expect_json(&all, &read, cases[i]);
        json_memory_free(&memory);
        json_decref(json);
    }
}

TEST(what_is_wrong_is_named)
{
    static const struct {
        const char *json, *name;
    } cases[] = {
        {"{\"number\":-1}", "number"},
        {"{\"number\":\"1\"}", "number"},
        {"{\"whole\":2147483648}", "whole"},
        {"{\"hexes\":[]}", "hexes"},
        {"{\"hexes\":{\"hex\":\"12\"}}", "hex"},
        {"{\"hexes\":{\"hex\":\"0x\"}}", "hex"},
        {"{\"hexes\":{\"hex\":\"0x11112222333344445\"}}", "hex"},
        {"{\"is_it\":1}", "is_it"},
        {"{\"text\":null}", "text"},
        {"{\"triple\":[1,2]}", "triple"},
        {"{\"triple\":[1,2,3,4]}", "triple"},
        {"{\"triple\":[1,2,4294967296]}", "triple"},
        {"{\"word\":\"blue\"}", "word"},
        {"{\"word\":\"\"}", "word"},
        {"{\"real\":\"x\"}", "real"},
        {"{\"bytes\":\"0\"}", "bytes"},
        {"{\"bytes\":\"0g\"}", "bytes"},
        {"{\"bytes\":\"0011223344\"}", "bytes"},
        {"{\"own\":{}}", "x"},
        {"{\"own\":{\"x\":1001}}", "x"},
        {"{\"behind\":3}", "behind"},
        {"{\"points\":[{\"x\":1},{\"x\":1},{\"x\":1}]}", "points"},
        {"{\"points\":[1]}", "points"},
        {"{\"texts\":[1]}", "texts"},
        {"{\"pairs\":{\"a\":1}}", "pairs"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json_memory memory = {NULL};
        struct all read;
        char expected[64];
        json_t *json = json_loads(cases[i].json, 0, NULL);
        assert_non_null(json);
        assert_int_equal(json_table_read(&all, json, &read, &memory, &problem), CUFENCE_ERROR_CORRUPT);
        snprintf(expected, sizeof expected, "\"%s\" has a value that is not allowed", cases[i].name);
        assert_string_equal(problem.text, expected);
        json_memory_free(&memory);
        json_decref(json);
    }
}

TEST(a_long_text_is_cut_and_one_that_is_no_utf8_repaired)
{
    struct json_memory memory = {NULL};
    struct all read;
    json_t *json = json_loads("{\"chars\":\"123456789\",\"unknown\":1}", 0, NULL);
    assert_int_equal(json_table_read(&all, json, &read, &memory, &problem), CUFENCE_OK);
    assert_string_equal(read.chars, "1234567");
    json_decref(json);
    expect_json(&point, &(struct point){1, "a\xff"}, "{\"x\":1,\"name\":\"a\xef\xbf\xbd\"}");
}

TEST(a_number_that_readers_lack_is_absent)
{
    struct all from = {.number = (uint64_t)INT64_MAX + 1, .none = -1};
    expect_json(&all, &from, least);
}

/* ---- a report; test_golden.c has what it says ---- */

static const struct finding_source origin = {.pid = 4242, .rank = 3, .device = 0};

TEST(the_rank_is_the_environments)
{
    static const struct {
        const char *rank, *local_rank;
        int expected;
    } cases[] = {{NULL, NULL, -1}, {"7", "1", 7}, {NULL, "1", 1}, {"", "1", 1},
                 {"x", NULL, -1},  {"x", "2", 2}, {"-1", "0", 0}, {"99999999999", NULL, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsetenv("RANK");
        unsetenv("LOCAL_RANK");
        if (cases[i].rank)
            setenv("RANK", cases[i].rank, 1);
        if (cases[i].local_rank)
            setenv("LOCAL_RANK", cases[i].local_rank, 1);
        assert_int_equal(options_rank(), cases[i].expected);
    }
}

/* ---- a host without memory ---- */

static long allowance, blocks;

static void *scarce_malloc(size_t size)
{
    if (allowance-- <= 0)
        return NULL;
    blocks++;
    return malloc(size);
}

static void counted_free(void *block)
{
    blocks -= block != NULL;
    free(block);
}

TEST(every_failure_to_allocate_gives_no_report)
{
    struct story story;
    struct diagnosis diagnosis;
    rerun_all_over(&story);
    fault_diagnose_rerun(&story.evidence, &story.rerun, &story.memory, &diagnosis);
    json_set_alloc_funcs(scarce_malloc, counted_free);
    long limit = 0;
    for (char *line = NULL; !line; limit++) {
        assert_true(limit < 10000);
        allowance = limit;
        blocks = 0;
        line = told_rerun(finding_json, &diagnosis, &story.rerun, &origin);
        assert_int_equal(blocks, line != NULL);
        if (line) {
            json_set_alloc_funcs(malloc, free);
            free(line);
            break;
        }
    }
    assert_true(limit > 100);
}
