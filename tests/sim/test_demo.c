/* The commands that a user tries first, as programs: `cufence demo` and `cufence doctor` on the simulated device. */
#include "support/shell.h"

#include <jansson.h>

static int set_up(void **state)
{
    int failed = make_folder(state);
    setenv("CUFENCE", CUFENCE_CLI, 1);
    setenv("FOLDER", folder, 1);
    return failed;
}

#define EXPECT(status, command, ...) expect_words(run_shell("%s", command), status, PATTERNS(__VA_ARGS__))
#define ELSEWHERE "CUFENCE_DRIVER=/nonexistent/libcuda.so $CUFENCE "

/* Joins the lines that the doctor has broken between words. */
static void join_lines(void)
{
    char *to = text;
    for (const char *at = text; *at; at++) {
        int is_broken = at[0] == '\n' && !strncmp(at + 1, "                        ", 24) && at[25] != '-';
        *to++ = is_broken ? ' ' : *at;
        at += is_broken ? 24 : 0;
    }
    *to = '\0';
}

/* tests/gpu/demo.py has what is said of each bug; tests/python/test_demo.py plays it here. */

TEST(test_other_options_find_it_in_another_way)
{
    EXPECT(0, "$CUFENCE demo slack-write --align auto", "out-of-bounds WRITE of 1 byte", "these options allow");
}

/* Each command can be tried on it, where there is no GPU, as nothing names the simulated device. */
TEST(test_program_for_other_commands)
{
    EXPECT(0, "cd $FOLDER && $CUFENCE demo --program", "Runs on ", "!cufence: ");
    EXPECT(86,
           "cd $FOLDER && env -u CUFENCE_DRIVER $CUFENCE run --keep kept --json found.json -- $CUFENCE demo --program overrun",
           "past the end of buffer #2 \"row offsets\"", " offsets[row + 1] = end;", "!simulated device is for");
    EXPECT(86, "cd $FOLDER && $CUFENCE replay kept", "demo_overrun");
    EXPECT(0, "cd $FOLDER && $CUFENCE explain kept", "demo_overrun");
    EXPECT(86, "cd $FOLDER && $CUFENCE report --exit-code --html found.html found.json && test -s found.html",
           "1 finding in 1 report");
    EXPECT(86, "cd $FOLDER && $CUFENCE hunt --modes end,start -- $CUFENCE demo --program underrun",
           "\n     found by      start\n");
    EXPECT(86, "cd $FOLDER && $CUFENCE run --uaf strict -- $CUFENCE demo --program use-after-free",
           "use-after-free at demo.cu");
}

/* align=512 leaves 96 bytes of slack after the buffer, where a write does not fault; without slack=on nothing sees it. */
TEST(test_bug_that_is_not_caught)
{
    EXPECT(1, "$CUFENCE demo overrun --set align=512,slack=off", "was not reported");
    EXPECT(0, "$CUFENCE demo overrun --set align=512", "slack WRITE");
}

TEST(test_wrong_command_lines)
{
    static const struct {
        const char *arguments, *words;
    } cases[] = {
        {"demo overflow", "unknown bug 'overflow'; `cufence demo --list` lists them\n"},
        {"demo underun", "unknown bug 'underun', did you mean 'underrun'? `cufence demo --list` lists them\n"},
        {"demo overrun underrun", "unexpected argument 'underrun'"},
        {"demo --list underrun", "unexpected argument 'underrun'"},
        {"demo --program --uaf strict", "as in cufence run --uaf strict -- cufence demo --program overrun\n"},
        {"demo --json -", "give a name"},
        {"demo --log /nowhere/log", "/nowhere"},
        {"demo --sett a=b", "\"--sett\""},
        {"demo --set", "--set needs a value: --set key=value"},
        {"demo --set no_such_key=1", "no_such_key"},
        {"demo --set align=3", "align"},
        {"doctor now", "now"},
        {"doctor --json now", "now"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_words(run_shell("$CUFENCE %s", cases[i].arguments), 2, PATTERNS(cases[i].words));
}

TEST(test_driver_that_is_not_there)
{
    EXPECT(1, ELSEWHERE "demo", "CUFENCE_DRIVER=/nonexistent/libcuda.so");
    int status = run_shell(ELSEWHERE "doctor");
    join_lines();
    expect_words(status, 1, PATTERNS("/nonexistent/libcuda.so", "NO ", "->"));
}

TEST(test_doctor)
{
    int status = run_shell("$CUFENCE doctor");
    join_lines();
    expect_words(status, 0,
                 PATTERNS("the simulated device", "granularity 2048 KiB", "the driver can write them on request",
                          "cufence can work here"));
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
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* a sanitizer wants to be the first library of a process */
#endif
    run_shell("$CUFENCE doctor --json");
    json_t *document = json_loads(text, 0, NULL);
    static const char *const checks[] = {"preload library", "loading", "hooks (dlsym)", "hooks (address)"};
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        const char *found = found_in(document, checks[i]);
        if (!found || strcmp(found, "yes") != 0)
            fail_msg("%s: %s\n%s", checks[i], found ? found : "not looked at", text);
    }
    json_decref(document);
}

TEST(test_doctor_as_json)
{
    EXPECT(0, "CUDA_LAUNCH_BLOCKING=1 $CUFENCE doctor --json", "");
    json_t *document = json_loads(text, 0, NULL), *check;
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
        warns |= strcmp(name, "launches") == 0 && strcmp(found, "no") == 0 && json_object_get(check, "remedy");
    }
    assert_true(has_device && warns);
    json_decref(document);
    EXPECT(1, ELSEWHERE "doctor --json", "\"can_work\": false");
}

TEST_GROUP(set_up, remove_folder)

TEST_CONCURRENTLY
