/* The commands that a user tries first, as programs: `cufence demo` and `cufence doctor` on the simulated device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "concurrently.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

static void expect_bug(const char *bug, const char *kernel, const char *source, const char *buffer, const char *where)
{
    struct run run;
    char line[64];
    planted_line(source, line, sizeof line);
    run_cufence(&run, NULL, NULL, ARGUMENTS("demo", bug));
    expect_status(&run, 0);
    expect_text(&run, "simulated device");
    expect_text(&run, kernel);
    expect_text(&run, line);
    expect_text(&run, buffer);
    expect_text(&run, where);
    expect_text(&run, "Found.");
}

static void test_overrun(void **state)
{
    (void)state;
    expect_bug("overrun", "demo_overrun", "offsets[row + 1]", "row offsets", "0 bytes past the end");
}

static void test_underrun(void **state)
{
    (void)state;
    expect_bug("underrun", "demo_underrun", "samples[i - 1]", "samples", "4 bytes before the start");
}

static void test_use_after_free(void **state)
{
    (void)state;
    expect_bug("use-after-free", "demo_use_after_free", "table[keys[i]]", "look-up table", "freed");
}

static void test_overrun_is_the_default(void **state)
{
    struct run run;
    (void)state;
    run_cufence(&run, NULL, NULL, ARGUMENTS("demo"));
    expect_status(&run, 0);
    expect_text(&run, "demo_overrun");
}

/* align=512 leaves 96 bytes of slack behind the buffer, so the hardware sees nothing and the demo has to admit it. */
static void test_bug_that_is_not_caught(void **state)
{
    struct run run;
    (void)state;
    run_cufence(&run, NULL, NULL, ARGUMENTS("demo", "overrun", "--set", "align=512"));
    expect_status(&run, 1);
    expect_text(&run, "was not reported");
}

static void test_wrong_command_lines(void **state)
{
    const struct {
        const char *const *arguments;
        const char *text;
    } cases[] = {
        {ARGUMENTS("demo", "overflow"), "unknown bug 'overflow'; allowed are overrun, underrun and use-after-free\n"},
        {ARGUMENTS("demo", "overrun", "underrun"), "surplus argument 'underrun'"},
        {ARGUMENTS("demo", "--sett", "a=b"), "\"--sett\""},
        {ARGUMENTS("demo", "--set"), "--set needs a value, such as --set uaf=strict"},
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

static void test_driver_that_is_not_there(void **state)
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

static void test_doctor(void **state)
{
    struct run run;
    (void)state;
    run_cufence(&run, NULL, NULL, ARGUMENTS("doctor"));
    join_lines(&run);
    expect_status(&run, 0);
    expect_text(&run, "the simulated device");
    expect_text(&run, "granularity 2048 KiB");
    expect_text(&run, "Hopper: everything works");
    expect_text(&run, "layout of kernels' arguments (since CUDA 12.4)");
    expect_text(&run, "core dumps lack them before CUDA 13.3");
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
static void test_doctor_tries_the_hooks(void **state)
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

static void test_doctor_as_json(void **state)
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

static void test_doctor_names_a_variable_that_wins(void **state)
{
    struct run run;
    (void)state;
    run_cufence(&run, "CUDA_COREDUMP_FILE", "elsewhere", ARGUMENTS("doctor"));
    join_lines(&run);
    expect_status(&run, 0);
    expect_text(&run, "CUDA_COREDUMP_FILE=elsewhere");
    expect_text(&run, "unset it");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overrun),
        cmocka_unit_test(test_underrun),
        cmocka_unit_test(test_use_after_free),
        cmocka_unit_test(test_overrun_is_the_default),
        cmocka_unit_test(test_bug_that_is_not_caught),
        cmocka_unit_test(test_wrong_command_lines),
        cmocka_unit_test(test_driver_that_is_not_there),
        cmocka_unit_test(test_doctor),
        cmocka_unit_test(test_doctor_as_json),
        cmocka_unit_test(test_doctor_tries_the_hooks),
        cmocka_unit_test(test_doctor_names_a_variable_that_wins),
    };
    return run_concurrently(argc, argv, tests, sizeof tests / sizeof *tests);
}
