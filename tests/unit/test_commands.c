/* Findings of several runs: which are the same, and what report and hunt say of them; what explain says of dumps. */
#define TEST_OWN_MAIN
#include "support/folder.h"

#include "cli/hunt.h"
#include "support/golden.h"
#include "base/text.h"

static struct collected merged;

static int forget(void **state)
{
    char command[64];
    collected_free(&merged);
    snprintf(command, sizeof command, "rm -f %s/*.json", folder);
    return system(command);
}

static unsigned mode_of(const char *name)
{
    unsigned mode = 0;
    while (strcmp(modes[mode].name, name) != 0)
        mode++;
    return mode;
}

static void read_file(const char *name, unsigned mode)
{
    merged.tag = mode;
    collected_read(&merged, NULL, in_folder(name));
}

#define KERNEL(symbol, place) "\"kernel\":{\"symbol\":\"" symbol "\"," place "}"
#define LINE "\"file\":\"a.cu\",\"line\":7"
#define SIZED "\"buffer\":{\"size\":64}"
#define STACK(line)                                                                                                            \
    "\"buffer\":{\"size\":64,\"allocated\":{\"frames\":[{\"file\":\"m.py\",\"line\":" line ",\"function\":\"f\"}]}}"
#define REPORT(rest) "{\"schema\":1,\"kind\":\"overrun\"," rest "}\n"

TEST_WITH(what_differs_is_another_finding, NULL, forget)
{
    static const struct {
        const char *first, *second;
        size_t findings;
    } cases[] = {
        {REPORT(KERNEL("k", LINE) "," SIZED), REPORT(SIZED "," KERNEL("k", LINE)), 1},
        /* the code behind a line may differ between modes */
        {REPORT(KERNEL("k", LINE ",\"offset\":64") "," SIZED), REPORT(KERNEL("k", LINE ",\"offset\":96") "," SIZED), 1},
        {REPORT(KERNEL("k", "\"offset\":64") "," SIZED), REPORT(KERNEL("k", "\"offset\":96") "," SIZED), 2},
        {REPORT(KERNEL("k", LINE) "," SIZED), REPORT(KERNEL("m", LINE) "," SIZED), 2},
        {REPORT(KERNEL("k", LINE) "," SIZED), "{\"schema\":1,\"kind\":\"underrun\"," KERNEL("k", LINE) "," SIZED "}\n", 2},
        {REPORT(KERNEL("k", LINE) "," SIZED), REPORT(KERNEL("k", LINE) ",\"buffer\":{\"size\":65}"), 2},
        {REPORT(KERNEL("k", LINE) "," SIZED), REPORT(KERNEL("k", LINE) ",\"buffer\":{\"size\":64,\"label\":\"y\"}"), 2},
        /* where a buffer was allocated says more than its size */
        {REPORT(KERNEL("k", LINE) "," STACK("1")), REPORT(KERNEL("k", LINE) "," STACK("2")), 2},
        {REPORT(KERNEL("k", LINE) "," STACK("1")),
         REPORT(KERNEL("k", LINE) ",\"buffer\":{\"size\":99,\"allocated\":{\"frames\":[{\"file\":\"m.py\",\"line\":1,"
                                  "\"function\":\"f\"}]}}"),
         1},
        {"{\"schema\":1,\"kind\":\"double free\",\"call\":\"cuMemFree\"," SIZED "}\n",
         "{\"schema\":1,\"kind\":\"double free\",\"call\":\"cuMemFreeAsync\"," SIZED "}\n", 2},
        {"{\"schema\":1,\"kind\":\"double "
         "free\",\"call\":\"cuMemFree\",\"called\":{\"frames\":[{\"function\":\"f\",\"offset\":1}]}}\n",
         "{\"schema\":1,\"kind\":\"double "
         "free\",\"call\":\"cuMemFree\",\"called\":{\"frames\":[{\"function\":\"f\",\"offset\":2}]}}\n",
         2},
        /* where it was found does not count */
        {REPORT(KERNEL("k", LINE) "," SIZED), REPORT(KERNEL("k", LINE) "," SIZED ",\"device\":{\"ordinal\":1}"), 1},
        {REPORT(KERNEL("k", LINE)), REPORT(KERNEL("k", "\"file\":\"a.cu\",\"line\":8")), 2},
        {"{\"schema\":1,\"kind\":\"exception\",\"exception\":{\"number\":1}}\n",
         "{\"schema\":1,\"kind\":\"exception\",\"exception\":{\"number\":2}}\n", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_text("end.1.json", cases[i].first);
        put_text("strict.2.json", cases[i].second);
        read_file("end.1.json", mode_of("end"));
        read_file("strict.2.json", mode_of("strict"));
        if (merged.count != cases[i].findings)
            fail_msg("%zu findings of\n%s%s", merged.count, cases[i].first, cases[i].second);
        assert_int_equal(merged.findings[0].count, 3 - merged.count);
        assert_int_equal(merged_by(&merged, mode_of("strict")), 1);
        assert_int_equal(merged_by(&merged, mode_of("align")), 0);
        forget(NULL);
    }
}

TEST_WITH(lines_that_are_no_report_are_counted, NULL, forget)
{
    put_text("end.1.json", "{\"kind\":\"overr\n\n[]\n{\"kind\":3}\n" REPORT(SIZED) "{\"kind\":\"under");
    put_text("end.2.json", "");
    read_file("end.1.json", 0);
    read_file("end.2.json", 0);
    read_file("not there", 0);
    assert_int_equal(merged.count, 1);
    assert_int_equal(merged.findings[0].count, 1);
    assert_int_equal(merged.unreadable, 4);
}

/* ---- the findings in tests/golden and those in the docs, and the dumps in tests/fixtures ---- */

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
    assert_int_equal(mkdir(in_folder("all"), 0700), 0); /* forget() removes no folder */
    file = strdup(in_folder("all/end.1.json"));
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

#define EXPLAIN "explain --all-threads"

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
    struct collected found = {0};
    char *words[] = {"python", "train.py", NULL}, *text = NULL;
    const struct plan plan = {.modes = 5, .is_guarded_required = 1, .options = "", .command = words, .words = 2};
    const struct run runs[MODES] = {{.is_started = 1, .status = 256, .seconds = 1.5, .tally.counts[TALLY_GUARDED] = 1},
                                    [2] = {.is_started = 1, .status = 11, .seconds = 0.25}};
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_true(collected_read(&found, NULL, file));
    hunt_tell(out, &plan, runs, &found);
    assert_true(hunt_put_json(out, &plan, runs, &found, 0));
    fclose(out);
    check("hunt", text);
    free(text);
    collected_free(&found);
}
