/* The commands that a user tries first, as programs: `cufence demo` and `cufence doctor` on the simulated device. */
#include "support/test.h"

#include <jansson.h>

struct run {
    int status;
    char output[64 * 1024]; /* stdout and stderr, in the order in which they were written */
};

/* Runs `cufence` with the arguments up to NULL, under one changed environment variable if `variable` is given. */
static void run_cufence(struct run *run, const char *variable, const char *value, const char *const *arguments)
{
    char *argv[16] = {(char *)(uintptr_t)CUFENCE_CLI};
    FILE *file = tmpfile();
    assert_non_null(file);
    for (size_t i = 0; arguments[i]; i++) {
        assert_true(i + 2 < sizeof argv / sizeof *argv);
        argv[i + 1] = (char *)(uintptr_t)arguments[i];
    }
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(fileno(file), STDOUT_FILENO);
        dup2(fileno(file), STDERR_FILENO);
        if (variable)
            setenv(variable, value, 1);
        execv(argv[0], argv);
        _exit(127);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    run->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    rewind(file);
    run->output[fread(run->output, 1, sizeof run->output - 1, file)] = '\0';
    fclose(file);
}

static void expect_text(const struct run *run, const char *text)
{
    if (!strstr(run->output, text))
        fail_msg("\"%s\" is missing in:\n%s", text, run->output);
}

/* Joins the lines that the doctor has broken between words. */
static void join_lines(struct run *run)
{
    char *to = run->output;
    for (const char *at = run->output; *at; at++) {
        int is_broken = at[0] == '\n' && !strncmp(at + 1, "                        ", 24) && at[25] != '-';
        *to++ = is_broken ? ' ' : *at;
        at += is_broken ? 24 : 0;
    }
    *to = '\0';
}

static void expect_status(const struct run *run, int status)
{
    if (run->status != status)
        fail_msg("status %d instead of %d:\n%s", run->status, status, run->output);
}

#define ARGUMENTS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* "demo.cu:LINE" of the planted line that holds `text`. */
static void planted_line(const char *text, char *out, size_t size)
{
    char line[512];
    FILE *file = fopen(CUFENCE_FIXTURES "/../../allocator/cli/demo.cu", "r");
    assert_non_null(file);
    out[0] = '\0';
    for (int number = 1; fgets(line, sizeof line, file); number++)
        if (strstr(line, text) && strstr(line, "// planted"))
            snprintf(out, size, "demo.cu:%d", number);
    fclose(file);
    assert_true(out[0]);
}

/* What every report of the demo has, of whatever bug: the stack of the launch or the call, in the planted program. */
static void run_demo(struct run *run, const char *bug, const char *kernel, const char *buffer)
{
    int tries = strcmp(bug, "slack-write") == 0 ? 5 : 1; /* a pattern that has not arrived after 4 ms is not waited for */
    do
        run_cufence(run, NULL, NULL, ARGUMENTS("demo", bug));
    while (--tries && strstr(run->output, "was not reported"));
    expect_status(run, 0);
    expect_text(run, "simulated device");
    expect_text(run, kernel);
    expect_text(run, buffer);
    expect_text(run, "planted.c:");
    expect_text(run, " in main\n");
    expect_text(run, "Found");
    expect_text(run, "What to type next:\n");
    expect_text(run, "the program's own was 0");
    const char *summary = strstr(run->output, "SUMMARY: ");
    if (!summary || strstr(summary + 1, "SUMMARY: "))
        fail_msg("not one summary:\n%s", run->output);
}

/* Of a fault besides: the planted line, and what the second launch has seen. */
static void expect_fault(const struct run *run, const char *source)
{
    char line[64];
    planted_line(source, line, sizeof line);
    expect_text(run, line);
    expect_text(run, source); /* of demo.cu itself */
    expect_text(run, "launched at ");
    expect_text(run, "[1000]  ");
    if (strstr(run->output, "could not be launched again"))
        fail_msg("no second launch:\n%s", run->output);
}

/* The bugs. `source`: of the line that faults. */
static const struct {
    const char *name, *kernel, *buffer, *source, *said[3];
} bugs[] = {
    {"overrun", "demo_overrun<<<", "row offsets", "offsets[row + 1]", {"0 bytes past the end", "4 bytes past the end: 3997"}},
    {"underrun", "demo_underrun", "samples", "samples[i - 1]", {"4 bytes before the start"}},
    {"use-after-free",
     "demo_use_after_free",
     "look-up table",
     "table[keys[i]]",
     {"which has been freed", " in plant_use_after_free\n"}},
    {"graph",
     "demo_use_after_free",
     "look-up table",
     "table[keys[i]]",
     {"which has been freed", " in plant_graph ", "a graph was launched after the free"}},
    {"slack-write", "given to   demo_slack_write", "\"copy\"", NULL, {"1 byte changed, 0 bytes past the end"}},
    {"stream-race", "which demo_stream_race on stream", "\"samples\"", NULL, {"stream race by cuMemFreeAsync"}},
    {"first-nan", "first NaN: demo_first_nan writes 1 NaN", "\"signs\"", NULL, {"first to element 417"}},
};

static void play_bug(size_t number)
{
    struct run run;
    run_demo(&run, bugs[number].name, bugs[number].kernel, bugs[number].buffer);
    if (bugs[number].source)
        expect_fault(&run, bugs[number].source);
    for (size_t i = 0; i < 3 && bugs[number].said[i]; i++)
        expect_text(&run, bugs[number].said[i]);
}

TEST(test_faults)
{
    for (size_t i = 0; i < 4; i++)
        play_bug(i);
}

TEST(test_what_does_not_fault)
{
    for (size_t i = 4; i < sizeof bugs / sizeof *bugs; i++)
        play_bug(i);
}

TEST(test_other_options_find_it_in_another_way)
{
    struct run run;
    run_cufence(&run, NULL, NULL, ARGUMENTS("demo", "slack-write", "--align", "auto"));
    expect_status(&run, 0);
    expect_text(&run, "out-of-bounds WRITE of 1 byte");
    expect_text(&run, "these options allow");
}

TEST(test_overrun_is_the_default)
{
    struct run run;
    (void)state;
    run_cufence(&run, NULL, NULL, ARGUMENTS("demo"));
    expect_status(&run, 0);
    expect_text(&run, "demo_overrun");
}

/* align=512 leaves 96 bytes of slack after the buffer, where a write does not fault; without slack=on nothing sees it. */
TEST(test_bug_that_is_not_caught)
{
    struct run run;
    (void)state;
    run_cufence(&run, NULL, NULL, ARGUMENTS("demo", "overrun", "--set", "align=512,slack=off"));
    expect_status(&run, 1);
    expect_text(&run, "was not reported");
    run_cufence(&run, NULL, NULL, ARGUMENTS("demo", "overrun", "--set", "align=512"));
    expect_status(&run, 0);
    expect_text(&run, "slack WRITE");
}

TEST(test_wrong_command_lines)
{
    const struct {
        const char *const *arguments;
        const char *text;
    } cases[] = {
        {ARGUMENTS("demo", "overflow"), "unknown bug 'overflow'; `cufence demo --list` lists them\n"},
        {ARGUMENTS("demo", "underun"), "unknown bug 'underun', did you mean 'underrun'? `cufence demo --list` lists them\n"},
        {ARGUMENTS("demo", "overrun", "underrun"), "unexpected argument 'underrun'"},
        {ARGUMENTS("demo", "--list", "underrun"), "unexpected argument 'underrun'"},
        {ARGUMENTS("demo", "--json", "-"), "give a name"},
        {ARGUMENTS("demo", "--log", "/nowhere/log"), "/nowhere"},
        {ARGUMENTS("demo", "--sett", "a=b"), "\"--sett\""},
        {ARGUMENTS("demo", "--set"), "--set needs a value: --set key=value"},
        {ARGUMENTS("demo", "--set", "no_such_key=1"), "no_such_key"},
        {ARGUMENTS("demo", "--set", "align=3"), "align"},
        {ARGUMENTS("doctor", "now"), "now"},
        {ARGUMENTS("doctor", "--json", "now"), "now"},
    };
    struct run run;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_cufence(&run, NULL, NULL, cases[i].arguments);
        expect_status(&run, 2);
        expect_text(&run, cases[i].text);
    }
}

TEST(test_driver_that_is_not_there)
{
    struct run run;
    (void)state;
    run_cufence(&run, "CUFENCE_DRIVER", "/nonexistent/libcuda.so", ARGUMENTS("demo"));
    expect_status(&run, 1);
    expect_text(&run, "CUFENCE_DRIVER=/nonexistent/libcuda.so");
    run_cufence(&run, "CUFENCE_DRIVER", "/nonexistent/libcuda.so", ARGUMENTS("doctor"));
    join_lines(&run);
    expect_status(&run, 1);
    expect_text(&run, "/nonexistent/libcuda.so");
    expect_text(&run, "NO ");
    expect_text(&run, "->");
}

TEST(test_doctor)
{
    struct run run;
    (void)state;
    run_cufence(&run, NULL, NULL, ARGUMENTS("doctor"));
    join_lines(&run);
    expect_status(&run, 0);
    expect_text(&run, "the simulated device");
    expect_text(&run, "granularity 2048 KiB");
    expect_text(&run, "the driver can write them on request");
    expect_text(&run, "cufence can work here");
}

/* What `cufence doctor --json` has found of a check; NULL if it does not name it. */
static const char *found_in(json_t *document, const char *what)
{
    json_t *checks = json_object_get(document, "checks");
    for (size_t i = 0; i < json_array_size(checks); i++) {
        json_t *check = json_array_get(checks, i);
        if (strcmp(json_string_value(json_object_get(check, "check")), what) == 0)
            return json_string_value(json_object_get(check, "found"));
    }
    return NULL;
}

/* A program under the preload gets cufence's memory, by whatever way it finds its symbols. */
TEST(test_doctor_tries_the_hooks)
{
    struct run run;
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* a sanitizer wants to be the first library of a process */
#endif
    run_cufence(&run, NULL, NULL, ARGUMENTS("doctor", "--json"));
    json_t *document = json_loads(run.output, 0, NULL);
    static const char *const checks[] = {"preload library", "loading", "library", "hooks (dlsym)", "hooks (address)"};
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        const char *found = found_in(document, checks[i]);
        if (!found || strcmp(found, "yes") != 0)
            fail_msg("%s: %s\n%s", checks[i], found ? found : "not looked at", run.output);
    }
    json_decref(document);
}

TEST(test_doctor_as_json)
{
    struct run run;
    (void)state;
    run_cufence(&run, "CUDA_COREDUMP_FILE", "elsewhere", ARGUMENTS("doctor", "--json"));
    expect_status(&run, 0);
    json_t *document = json_loads(run.output, 0, NULL), *check;
    size_t i;
    int warns = 0, has_device = 0;
    assert_non_null(document);
    assert_int_equal(json_integer_value(json_object_get(document, "schema")), 1);
    assert_true(json_is_true(json_object_get(document, "can_work")));
    json_array_foreach(json_object_get(document, "checks"), i, check)
    {
        const char *name = json_string_value(json_object_get(check, "check"));
        const char *found = json_string_value(json_object_get(check, "found"));
        assert_true(name && found && json_object_get(check, "section") && json_object_get(check, "detail"));
        has_device |= strcmp(name, "device 0") == 0 && strcmp(found, "yes") == 0;
        warns |= strcmp(name, "environment") == 0 && strcmp(found, "no") == 0 && json_object_get(check, "remedy");
    }
    assert_true(has_device && warns);
    json_decref(document);
    run_cufence(&run, "CUFENCE_DRIVER", "/nonexistent/libcuda.so", ARGUMENTS("doctor", "--json"));
    expect_status(&run, 1);
    expect_text(&run, "\"can_work\": false");
}

TEST_CONCURRENTLY
