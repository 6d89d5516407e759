/* Which launches a filter chooses, and which findings a user knows by name. */
#include "support/test.h"

#include "base/error.h"
#include "base/filter.h"
#include "base/known_findings.h"
#include "finding/finding.h"

#include <malloc.h>

static const char *const gemm[] = {"_Z4gemmPKfPf", "gemm(float const*, float*)", "gemm"};
static const char *const softmax[] = {"triton_softmax_0", "triton_softmax_0", "triton_softmax_0"};
static const struct filter_place places[] = {
    {"/usr/lib/python3/torch/nn/functional.py", 1999}, {"/home/me/train.py", 41}, {"", 0}};

static struct filter parsed(const char *text)
{
    struct filter filter;
    assert_true(filter_parse(&filter, text));
    return filter;
}

static int chooses(const char *text, const char *const *names, uint64_t number, const char *label)
{
    static struct filter filter; /* its terms point into it */
    filter_parse(&filter, text);
    return filter_chooses(&filter, &(const struct filter_launch){names, 3, number, label, places, 3});
}

TEST(by_name)
{
    assert_true(chooses("gemm", gemm, 1, NULL) && chooses("_Z4gemm*", gemm, 1, NULL) && chooses("gemm(float*", gemm, 1, NULL));
    assert_true(chooses("*", gemm, 1, NULL) && chooses("g?mm", gemm, 1, NULL) && chooses("[fg]emm", gemm, 1, NULL));
    assert_false(chooses("gem", gemm, 1, NULL) || chooses("gemm", softmax, 1, NULL) || chooses("*GEMM*", gemm, 1, NULL));
}

TEST(by_number)
{
    assert_true(chooses("#120", gemm, 120, NULL) && !chooses("#120", gemm, 12, NULL) && !chooses("#120", gemm, 121, NULL));
    assert_true(chooses("#10-20", gemm, 10, NULL) && chooses("#10-20", gemm, 20, NULL));
    assert_false(chooses("#10-20", gemm, 9, NULL) || chooses("#10-20", gemm, 21, NULL));
    assert_true(chooses("#9-", gemm, UINT64_MAX, NULL) && !chooses("#9-", gemm, 8, NULL));
}

TEST(by_shape)
{
    assert_true(chooses("#new", gemm, 7, NULL) && chooses("gemm&#new", gemm, 7, NULL) &&
                !chooses("gemm&#new", softmax, 7, NULL));
    struct filter with = parsed("gemm&#new"), without = parsed("gemm|#9-");
    assert_true(filter_wants_new(&with) && !filter_wants_new(&without) && !filter_needs_places(&with));
}

TEST(by_place)
{
    assert_true(chooses("@train.py:41", gemm, 1, NULL) && chooses("@train.py", gemm, 1, NULL) &&
                chooses("@*.py:41", gemm, 1, NULL));
    assert_true(chooses("@nn/functional.py:1999", gemm, 1, NULL) && chooses("@/home/me/train.py", gemm, 1, NULL));
    assert_false(chooses("@train.py:4", gemm, 1, NULL) || chooses("@rain.py", gemm, 1, NULL) ||
                 chooses("@functional.py:41", gemm, 1, NULL));
    struct filter with = parsed("gemm|@train.py"), without = parsed("gemm&#3");
    assert_true(filter_needs_places(&with) && !filter_needs_places(&without));
}

TEST(by_label)
{
    assert_true(chooses("label:layer*", gemm, 1, "layer 3") && chooses("label:layer 3", gemm, 1, "layer 3"));
    assert_false(chooses("label:layer*", gemm, 1, "head") || chooses("label:layer*", gemm, 1, NULL));
}

TEST(both_and_either)
{
    assert_true(chooses("gemm & #5", gemm, 5, NULL) && !chooses("gemm&#5", gemm, 6, NULL) &&
                !chooses("gemm&#5", softmax, 5, NULL));
    assert_true(chooses("gemm|#5", gemm, 6, NULL) && chooses("gemm|#5", softmax, 5, NULL) &&
                !chooses("gemm|#5", softmax, 6, NULL));
    assert_true(chooses("gemm&#1|*softmax*&#5", softmax, 5, NULL) && !chooses("gemm&#1|*softmax*&#5", softmax, 1, NULL));
    assert_true(chooses("#5|gemm&#1", softmax, 5, NULL) && !chooses("#6|gemm&#1", softmax, 1, NULL));
}

/* Asked about the kernel alone, everything else may hold. */
TEST(may_choose)
{
    static const struct {
        const char *text;
        int gemm, softmax;
    } cases[] = {
        {"gemm&#5", 1, 0}, {"#5", 1, 1}, {"gemm|@train.py", 1, 1}, {"gemm&*soft*", 0, 0}, {"*soft*&label:x|gemm", 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct filter filter;
        assert_true(filter_parse(&filter, cases[i].text));
        assert_int_equal(filter_may_choose(&filter, gemm, 3), cases[i].gemm);
        assert_int_equal(filter_may_choose(&filter, softmax, 3), cases[i].softmax);
    }
}

TEST(chooses_nothing_if_empty)
{
    struct filter filter = parsed("");
    assert_int_equal(filter.count, 0);
    assert_false(filter_may_choose(&filter, gemm, 3) || chooses("", gemm, 1, NULL));
}

TEST(what_is_wrong_is_refused)
{
    static const char *const wrong[] = {"#",       "#0",      "#x",     "#5-4", "#5-x", "#5x",  "@", "@:4", "@a.py:",
                                        "@a.py:0", "@a.py:x", "label:", "a&",   "&a",   "a||b", "|", " "};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct filter filter;
        if (filter_parse(&filter, wrong[i]))
            fail_msg("'%s' is taken", wrong[i]);
    }
    struct filter filter;
    char text[400];
    memset(text, 'a', sizeof text);
    text[399] = '\0';
    assert_false(filter_parse(&filter, text));
    assert_false(filter_parse(&filter, "a|a|a|a|a|a|a|a|a|a|a|a|a|a|a|a|a"));
}

/* ---- findings ---- */

static struct known_names names;

static cufence_status read_text(const char *text)
{
    char path[] = "/tmp/cufence-known-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
    cufence_status status = known_read(&names, path);
    unlink(path);
    return status;
}

static int forget(void **state)
{
    known_free(&names);
    return 0;
}

TEST_WITH(a_line_is_a_name_or_a_glob, NULL, forget)
{
    assert_int_equal(
        read_text("# overrun in commented\n\n  overrun at a.py in k \r\npattern:\tslack write * in fill<[48]>\nin x[0]\n*\n"),
        CUFENCE_OK);
    assert_int_equal(names.count, 4);
    static const struct {
        const char *name;
        enum known as;
    } cases[] = {
        {"overrun at a.py in k", KNOWN_SUPPRESSED},
        {"overrun at a.py in k2", KNOWN_NOT},
        {"underrun at a.py in k", KNOWN_NOT},
        {"slack write next to a buffer from m.py in fill<4>", KNOWN_SUPPRESSED},
        {"slack write next to a buffer from m.py in fill<2>", KNOWN_NOT},
        {"in x[0]", KNOWN_SUPPRESSED},
        {"in x0", KNOWN_NOT}, /* no glob without the word */
        {"slack write in k", KNOWN_NOT},
        {"", KNOWN_NOT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (known_as(&names, cases[i].name) != cases[i].as)
            fail_msg("%s", cases[i].name);
    assert_int_equal(known_as(&names, NULL), KNOWN_NOT);
}

/* Two bugs of one long name are two. */
TEST(a_long_name_has_its_hash)
{
    struct stack_frame frame = {.line = 7};
    struct finding finding = {.kind = "double free", .called = {.call = "cuMemFree", .frames = &frame, .count = 1}};
    char first[100], second[100];
    memset(frame.function, 'f', sizeof frame.function - 1);
    finding_name(&finding, first, sizeof first);
    frame.line = 8;
    finding_name(&finding, second, sizeof second);
    assert_int_equal(strlen(first), sizeof first - 1);
    assert_string_not_equal(first, second);
}

TEST_WITH(a_baseline_has_the_names_of_its_findings, NULL, forget)
{
    assert_int_equal(
        read_text(
            "{\"cufence\":\"1\",\"kind\":\"run\"}\n"
            "{\"cufence\":\"1\",\"headline\":\"\\\"finding_name\\\":\\\"no\\\"\",\"finding_name\":\"leak of \\\"y\\\"\"}\n"),
        CUFENCE_OK);
    assert_int_equal(read_text("{\n \"cufence\": \"1\",\n \"findings\": [{\"report\": {\n\"finding_name\" : \"a\\\\b *\"}}]}"),
                     CUFENCE_OK);
    assert_int_equal(read_text("{\"cufence\":\"1\",\"finding_name\":\"\\u00e9.\\u4e2d\\ud83d\\ude00\"}"),
                     CUFENCE_OK); /* another's */
    assert_int_equal(names.count, 3);
    assert_int_equal(known_as(&names, "é.中😀"), KNOWN_BASELINE);
    assert_int_equal(known_as(&names, "leak of \"y\""), KNOWN_BASELINE);
    assert_int_equal(known_as(&names, "a\\b *"), KNOWN_BASELINE);
    assert_int_equal(known_as(&names, "a\\b more"), KNOWN_NOT); /* no glob */
}

/* Each name had a copy of all that follows it: 2,000 findings took 6 GB. Quotes and escapes may end early. */
TEST_WITH(a_name_takes_no_more_than_its_text, NULL, forget)
{
    static const char one[] = "{\"cufence\":\"1\",\"finding_name\":\"k\"}\n";
    char text[200 * (sizeof one - 1) + 1];
    for (size_t i = 0; i < 200; i++)
        memcpy(text + i * (sizeof one - 1), one, sizeof one);
    assert_int_equal(read_text(text), CUFENCE_OK);
    assert_int_equal(names.count, 200);
    assert_true(malloc_usable_size(names.all[0].text) < 100);
    assert_int_equal(read_text("{\"cufence\":1,\"finding_name\":\"a\\u\",\"finding_name\":\"b\\\"c\",\"finding_name\":\"d\\"),
                     CUFENCE_OK);
    assert_string_equal(names.all[200].text, "a");
    assert_string_equal(names.all[201].text, "b\"c");
}

TEST_WITH(names_and_an_earlier_run_are_in_one_file, NULL, forget)
{
    assert_int_equal(read_text("pattern:overrun * in k\n"), CUFENCE_OK);
    assert_false(names.has_run);
    assert_int_equal(read_text("leak of x\n\n  {\"cufence\":\"1\"}\n{\"cufence\":\"1\",\"finding_name\":\"leak of z\"}\n"),
                     CUFENCE_OK);
    assert_true(names.has_run);
    assert_int_equal(known_as(&names, "overrun at a.py in k"), KNOWN_SUPPRESSED);
    assert_int_equal(known_as(&names, "leak of x"), KNOWN_SUPPRESSED);
    assert_int_equal(known_as(&names, "leak of z"), KNOWN_BASELINE);
    assert_int_equal(known_as(&names, "{"), KNOWN_NOT);
}

TEST_WITH(what_is_no_such_file_is_told, NULL, forget)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"{}", "it has no line of JSON that cufence wrote"},
        {"overrun at a.py in k\n{\"other\":1}\n", "it has no line of JSON that cufence wrote"},
        {"{\"cufence\":\"1\",\"headline\":\"x\"}", "its findings have no names"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(read_text(cases[i].text), CUFENCE_ERROR_OPTION);
        assert_non_null(strstr(error_detail(), cases[i].why));
    }
    known_free(&names);
    assert_int_equal(read_text("\xef\xbb\xbf# a list\noverrun at b.py in k\n"), CUFENCE_OK); /* a byte order mark */
    assert_int_equal(known_as(&names, "overrun at b.py in k"), KNOWN_SUPPRESSED);
    assert_int_equal(names.count, 1);
    FILE *file = fopen("known-zero", "w");
    assert_true(file && fwrite("a\n\0\nb\n", 1, 6, file) == 6 && !fclose(file));
    assert_int_equal(known_read(&names, "known-zero"), CUFENCE_ERROR_OPTION);
    remove("known-zero");
    assert_string_equal(error_detail(), "known-zero: a zero byte is in line 2; it must be a text file");
    assert_int_equal(known_read(&names, "/nowhere"), CUFENCE_ERROR_OPTION);
    assert_string_equal(error_detail(), "/nowhere: No such file or directory");
}
