/* What cufence report and cufence hunt make of the findings in tests/golden and of those in the docs, and
 * cufence explain of the dumps in tests/fixtures. */
#define TEST_OWN_MAIN
#include "support/folder.h"

#include "support/golden.h"

#include "cli/hunt.h"
#include "cli/faces.h"

#include "base/text.h"

static const char *file; /* of all findings */

/* Copies the lines of JSON of a file. */
static void copy_lines(FILE *out, const char *path)
{
    char *text = golden_read(path);
    assert_non_null(text);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (*line == '{' && !strstr(line, "\"kind\":\"use\""))
            fprintf(out, "%s\n", line);
    free(text);
}

static int make_file(void **state)
{
    if (make_folder(state))
        return -1;
    file = strdup(in_folder("end.1.json"));
    FILE *out = fopen(file, "we");
    copy_lines(out, GOLDEN "findings.expect");
    copy_lines(out, CUFENCE_FIXTURES "/../../docs/report-example.jsonl");
    return fclose(out);
}

TEST_GROUP(make_file, remove_folder)

/* Takes the version of today out. */
static void check(const char *name, char *text)
{
    for (char *at; (at = strstr(text, "\"" VERSION_TEXT "\"")) != NULL;)
        memmove(at + 1, at + 1 + strlen(VERSION_TEXT), strlen(at + strlen(VERSION_TEXT)));
    golden_check(GOLDEN "report.expect", name, text);
}

static void check_command(const char *name, const char *where, const char *arguments)
{
    char command[1024], *text = NULL;
    size_t size = 0;
    snprintf(command, sizeof command, "cd '%s' && '%s' %s", where, CUFENCE_CLI, arguments);
    FILE *out = popen(command, "re");
    assert_true(getdelim(&text, &size, '\0', out) > 0);
    pclose(out);
    check(name, text);
    free(text);
}

static void check_report(const char *name, const char *options)
{
    char arguments[128];
    snprintf(arguments, sizeof arguments, "report %s %s", options, file);
    check_command(name, "/tmp", arguments);
}

TEST(a_report)
{
    check_report("text", "");
    check_report("lines", "--json -");
    check_report("sarif", "--sarif -");
}

#define EXPLAIN "explain --all-threads --registers --memory 0x7f0000000000"

TEST(dumps_from_elsewhere)
{
    check_command("explain", CUFENCE_DUMPS, EXPLAIN " *.core.gz hang/*.core.gz");
    check_command("explain_json", CUFENCE_DUMPS, EXPLAIN " --json *.core.gz hang/*.core.gz");
    check_command("explain_short", CUFENCE_DUMPS, "explain load_128.core.gz 2>&1; echo status $?");
}

/* Without the page around it, which is page.html. */
TEST(a_page)
{
    struct collected collected = {0};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_true(collected_read(&collected, NULL, file));
    assert_true(face_html(&collected, out));
    fclose(out);
    char *start = strstr(text, "<p>"), *end = strstr(start, "</article></");
    assert_non_null(end);
    *end = '\0';
    check("page", start);
    free(text);
    collected_free(&collected);
}

TEST(a_hunt)
{
    struct collected merged = {0};
    char *words[] = {"python", "train.py", NULL}, *text = NULL;
    const struct plan plan = {.modes = 5, .is_guarded_required = 1, .options = "", .command = words, .words = 2};
    const struct run runs[MODES] = {{.is_started = 1, .status = 256, .seconds = 1.5, .is_guarded = 1},
                                    [2] = {.is_started = 1, .status = 11, .seconds = 0.25}};
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_true(collected_read(&merged, NULL, file));
    hunt_tell(out, &plan, runs, &merged);
    assert_true(hunt_put_json(out, &plan, runs, &merged, 0));
    fclose(out);
    check("hunt", text);
    free(text);
    collected_free(&merged);
}
