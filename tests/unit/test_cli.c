/* The cufence command from outside: its output on stdout and stderr, and its exit status; what `cufence doctor` says of
 * variables and commands; and text that is broken into lines. */
#include "refusals.h"

#include "base/options.h"
#include "cli/doctor.h"
#include "cli/command_line.h"

#include <cufence.h>

#define USAGE 2
#define RUN(...) run_with(CUFENCE_CLI, (const char *const[]){__VA_ARGS__, NULL})

TEST(what_it_does_not_understand_is_named)
{
    static const char *const lines[][6] = {
        {"dmo"},
        {"rnu", "./a.out"},
        {"nothing-like-it"},
        {"--verbose"},
        {""},
        {"help", "dmo"},
        {"sh", "-c", "exit 3"},
        {"/bin/sh", "x.sh"},
        {"help", "demo", "now"},
        {"--help", "now"},
        {"-V", "now"},
        {"--version", "now"},
        {"options", "uax"},
        {"options", "nothing-like-it"},
        {"options", "--chek", "uaf=off"},
        {"options", "--json", "--check", "uaf=off"},
        {"options", "-x"},
        {"options", "--check"},
        {"options", "--", "--check"},
        {"options", "--check", "json=-"},
        {"explain"},
        {"explain", "--all"},
        {"explain", "--jsn", "x"},
        {"hunt", "--keep=/dev/null", "true"},
        {"doctor", "--jso=1"},
        {"options", "--check", "uaf=off", "now"},
        {"options", "--check", "guard=1M"},
    };
    check_refusals("refusals", CUFENCE_CLI, lines, sizeof lines / sizeof *lines);
}

TEST(help_is_given_on_standard_output)
{
    static const struct {
        const char *arguments[4], *start;
    } cases[] = {
        {{NULL}, "cufence "},
        {{"--help"}, "cufence "},
        {{"-h"}, "cufence "},
        {{"help"}, "cufence "},
        {{"help", "options"}, "usage: cufence options "},
        {{"options", "--help"}, "usage: cufence options "},
        {{"help", "demo"}, "usage: cufence demo "},
        {{"demo", "--help"}, "usage: cufence demo "},
        {{"help", "doctor"}, "usage: cufence doctor"},
        {{"doctor", "--help"}, "usage: cufence doctor"},
        {{"run", "--help"}, "usage: cufence run "},
        {{"run", "-h", "true"}, "usage: cufence run "},
        {{"help", "explain"}, "usage: cufence explain "},
        {{"explain", "--help"}, "usage: cufence explain "},
        {{"help", "hunt"}, "usage: cufence hunt "},
        {{"options", "--help", "now"}, "usage: cufence options "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct outcome outcome = run_with(CUFENCE_CLI, cases[i].arguments);
        assert_string_equal(outcome.err, "");
        expect_exit(&outcome, 0);
        assert_int_equal(strncmp(outcome.out, cases[i].start, strlen(cases[i].start)), 0);
        assert_non_null(strstr(outcome.out, "\nExample: "));
    }
    struct outcome outcome = RUN("--help");
    static const char *const listed[] = {"\n  hunt ", "\n  run ", "\n  demo ", "\n  options ", "\n  doctor "};
    for (size_t i = 0; i < sizeof listed / sizeof *listed; i++)
        assert_non_null(strstr(outcome.out, listed[i]));
}

TEST(the_version_is_the_headers)
{
    char expected[64];
    snprintf(expected, sizeof expected, "cufence %d.%d.%d\n", CUFENCE_VERSION_MAJOR, CUFENCE_VERSION_MINOR,
             CUFENCE_VERSION_PATCH);
    for (int is_short = 0; is_short < 2; is_short++) {
        struct outcome outcome = RUN(is_short ? "-V" : "--version");
        assert_string_equal(outcome.out, expected);
        expect_exit(&outcome, 0);
    }
}

TEST(options_are_listed_and_checked)
{
    struct outcome outcome = RUN("options");
    expect_exit(&outcome, 0);
    size_t rows = 0, count;
    options_table(&count);
    for (const char *line = outcome.out; line && *line; line = strchr(line, '\n') + 1)
        rows += *line != ' ';
    assert_int_equal(rows, count);
    assert_non_null(strstr(outcome.out, "\nguard: "));
    outcome = RUN("options", "--all");
    expect_exit(&outcome, 2);
    static const char *const allowed[] = {"", "uaf=strict,align=auto", "guard=128M,"};
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
        outcome = RUN("options", "--check", allowed[i]);
        assert_string_equal(outcome.out, "");
        assert_string_equal(outcome.err, "");
        expect_exit(&outcome, 0);
    }
    outcome = RUN("options", "--check=uaf=strict");
    expect_exit(&outcome, 0);
    assert_string_equal(outcome.out, "");
}

/* `cufence x.py`, without `run -- python`. */
TEST(a_script_is_suggested_with_its_runner)
{
    char name[] = "/tmp/cufence-cli-XXXXXX.py", expected[256];
    int file = mkstemps(name, 3);
    assert_true(file >= 0);
    close(file);
    struct outcome outcome = RUN(name, "--lr", "1");
    snprintf(expected, sizeof expected, "cufence: unknown command '%s'; to run that program: cufence run -- python %s --lr 1\n",
             name, name);
    unlink(name);
    assert_string_equal(outcome.err, expected);
    expect_exit(&outcome, USAGE);
}

TEST_WITH(output_that_cannot_be_written_is_an_error, NULL, forget)
{
    output = "";
    struct outcome outcome = RUN("options");
    assert_string_equal(outcome.err, "cufence: cannot write to standard output: Bad file descriptor\n");
    expect_exit(&outcome, 1);
    outcome = RUN("options", "--check", "uaf=off");
    assert_string_equal(outcome.err, "");
    expect_exit(&outcome, 0);
    outcome = RUN("doctor"); /* opens files before it prints: none of them becomes standard output */
    assert_non_null(strstr(outcome.err, "cufence: cannot write to standard output: Bad file descriptor\n"));
    expect_exit(&outcome, 1);
    if (access("/dev/full", W_OK))
        return;
    output = "/dev/full";
    outcome = RUN("--help");
    assert_string_equal(outcome.err, "cufence: cannot write to standard output: No space left on device\n");
    expect_exit(&outcome, 1);
}

/* ---- `cufence doctor` ---- */

static void tell_findings(FILE *out, const struct findings *findings)
{
    static const char *const members[] = {"check", "found", "detail", "remedy"};
    json_t *check;
    size_t i;
    json_array_foreach(findings->all, i, check)
    {
        for (size_t k = 0; k < 4; k++) {
            const char *said = json_string_value(json_object_get(check, members[k]));
            fprintf(out, "%s%s", k ? "; " : "\n  ", said ? said : "-");
        }
    }
    fputs("\n", out);
    json_decref(findings->all);
}

TEST(variables_are_judged)
{
    static const char *const cases[][3] = {
        {NULL},
        {"CUDA_COREDUMP_FILE=x"}, /* the program's own */
        {"CUFENCE_OPTIONS=uaf=strict"},
        {"CUFENCE_OPTIONS=uaf=lenient"},
        {"LD_PRELOAD="},
        {"LD_PRELOAD=/usr/lib/libasan.so.8"},
        {"LD_PRELOAD=libjemalloc.so.2"},
        {"CUDA_LAUNCH_BLOCKING=0", "CUDA_INJECTION64_PATH="},
        {"CUDA_LAUNCH_BLOCKING=1", "CUDA_INJECTION64_PATH=/x/libsanitizer.so"},
    };
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct findings findings = {.is_json = 1, .section = "test"};
        fputs("no Python", out);
        for (const char *const *set = cases[i]; *set; set++) {
            putenv((char *)(uintptr_t)*set);
            fprintf(out, ", %s", *set);
        }
        judge_environment(&findings);
        for (const char *const *set = cases[i]; *set; set++) {
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)strcspn(*set, "="), *set);
            unsetenv(name);
        }
        tell_findings(out, &findings);
    }
    fclose(out);
    golden_check(GOLDEN "tools.expect", "doctor", text);
    free(text);
}

TEST(what_a_command_says_is_taken)
{
    static const struct {
        const char *command, *found;
    } cases[] = {
        {"echo '[{\"check\":\"a\",\"found\":\"none\",\"detail\":\"b\"}]' more", "\n  a; none; b; -\n"},
        {"echo '[{\"check\":\"a\",\"found\":\"missing\",\"detail\":\"b\",\"remedy\":\"c\"}]'", "\n  a; missing; b; c\n"},
        {"echo noise; echo '[{\"check\":\"a\",\"found\":\"yes\",\"detail\":\"b\"}]'",
         "\n  what; no; it has said (status 0x0): noise; -\n  a; yes; b; -\n"},
        {"echo broken; exit 3", "\n  what; no; it does not answer (status 0x300): broken; -\n"},
        {"exec 2>&1; timeout 0.1 sleep 60", "\n  what; no; it does not answer (status 0x7c00): ; -\n"},
        {"exec 2>&1; echo '[{' && head -c 100000 /dev/zero | tr '\\0' x", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct findings findings = {.is_json = 1, .section = "test"};
        char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);
        ask(&findings, "what", "%s", cases[i].command);
        assert_int_equal(findings.count[FOUND_MISSING], i == 1);
        tell_findings(out, &findings);
        fclose(out);
        if (cases[i].found)
            assert_string_equal(text, cases[i].found);
        free(text);
    }
}

/* ---- lines ---- */

static void expect_printed(const char *text, size_t indent, const char *expected)
{
    char *printed = NULL;
    size_t size;
    FILE *out = open_memstream(&printed, &size);
    assert_non_null(out);
    words_print(out, text, indent);
    fclose(out);
    assert_string_equal(printed, expected);
    free(printed);
}

#define TEN "123456789 "
#define FIFTY TEN TEN TEN TEN TEN

TEST(lines_have_at_most_100_columns)
{
    expect_printed("", 0, "\n");
    expect_printed("one  two", 4, "one two\n");
    expect_printed(FIFTY FIFTY "1", 0, TEN TEN TEN TEN TEN TEN TEN TEN TEN "123456789\n1\n");       /* 99 and 2 more */
    expect_printed(FIFTY TEN TEN TEN TEN "123456 123", 0, FIFTY TEN TEN TEN TEN "123456 123\n");    /* 100 */
    expect_printed(FIFTY TEN TEN TEN TEN "123456 1234", 0, FIFTY TEN TEN TEN TEN "123456\n1234\n"); /* 101 */
    expect_printed(FIFTY "x", 50, TEN TEN TEN TEN "123456789\n                                                  x\n");
    expect_printed("\xc3\xa9 " FIFTY TEN TEN TEN TEN "123456 1", 0, "\xc3\xa9 " FIFTY TEN TEN TEN TEN "123456 1\n");
}

TEST(a_long_word_is_never_cut)
{
    char word[121] = "", expected[200];
    memset(word, 'w', 120);
    snprintf(expected, sizeof expected, "%s\n", word);
    expect_printed(word, 10, expected);
}

TEST_CONCURRENTLY
