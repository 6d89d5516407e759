/* Names of findings that a user knows: what files of them may hold, and what they name. */
#include "support/test.h"

#include "base/error.h"
#include "base/known_findings.h"

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
    assert_int_equal(read_text("# overrun in commented\n\n  overrun at a.py in k \r\nslack write * in fill<[48]>\nin x[0]"),
                     CUFENCE_OK);
    assert_int_equal(names.count, 3);
    static const struct {
        const char *name;
        enum known as;
    } cases[] = {
        {"overrun at a.py in k", KNOWN_SUPPRESSED},
        {"overrun at a.py in k2", KNOWN_NOT},
        {"underrun at a.py in k", KNOWN_NOT},
        {"slack write next to a buffer from m.py in fill<4>", KNOWN_SUPPRESSED},
        {"slack write next to a buffer from m.py in fill<2>", KNOWN_NOT},
        {"in x[0]", KNOWN_SUPPRESSED}, /* as it stands, although it is a glob for another name */
        {"in x0", KNOWN_SUPPRESSED},
        {"", KNOWN_NOT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (known_as(&names, cases[i].name) != cases[i].as)
            fail_msg("%s", cases[i].name);
    assert_int_equal(known_as(&names, NULL), KNOWN_NOT);
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
    assert_int_equal(names.count, 2);
    assert_int_equal(known_as(&names, "leak of \"y\""), KNOWN_BASELINE);
    assert_int_equal(known_as(&names, "a\\b *"), KNOWN_BASELINE);
    assert_int_equal(known_as(&names, "a\\b more"), KNOWN_NOT); /* no glob */
}

TEST_WITH(names_and_an_earlier_run_are_in_one_file, NULL, forget)
{
    assert_int_equal(read_text("overrun * in k\n"), CUFENCE_OK);
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
    assert_int_equal(known_read(&names, "/nowhere"), CUFENCE_ERROR_OPTION);
    assert_string_equal(error_detail(), "/nowhere: No such file or directory");
}
