/* What `cufence doctor` says of variables, and the commands that it asks. */
#define TEST_OWN_MAIN
#include "support/test.h"

#include "support/golden.h"

#include "cli/doctor.h"

/* "NAME=value" entries up to a NULL, read by the lookup below. */
static const char *const *variables;

static const char *environment(const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; variables[i]; i++)
        if (strncmp(variables[i], name, length) == 0 && variables[i][length] == '=')
            return variables[i] + length + 1;
    return NULL;
}

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
        variables = cases[i];
        judge_environment(&findings, environment);
        fputs("no Python", out);
        for (const char *const *set = variables; *set; set++)
            fprintf(out, ", %s", *set);
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

TEST_CONCURRENTLY
