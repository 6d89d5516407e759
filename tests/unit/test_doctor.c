/* How `cufence doctor` presents its results, and the programs that it starts. */
#define TEST_OWN_MAIN
#include "support/test.h"

#include "support/golden.h"

#include <cufence.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/doctor.h"

/* "NAME=value" entries up to a NULL, read by the lookup below. */
static const char *const *variables;

static const char *environment(const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; variables && variables[i]; i++)
        if (strncmp(variables[i], name, length) == 0 && variables[i][length] == '=')
            return variables[i] + length + 1;
    return NULL;
}

static json_t *finding_of(const struct findings *findings, const char *what)
{
    json_t *check, *last = NULL;
    size_t i;
    json_array_foreach(findings->all, i, check)
    {
        if (!strcmp(json_string_value(json_object_get(check, "check")), what))
            last = check;
    }
    return last;
}

static void expect_finding(const struct findings *findings, const char *what, enum verdict_mark mark, const char *detail,
                           const char *remedy)
{
    static const char *const marks[] = {"yes", "no", "missing", "none"};
    json_t *check = finding_of(findings, what);
    if (!check) {
        fail_msg("nothing was found of \"%s\"", what);
        return;
    }
    const char *found = json_string_value(json_object_get(check, "found"));
    const char *told = json_string_value(json_object_get(check, "detail"));
    const char *to_do = json_string_value(json_object_get(check, "remedy"));
    if (strcmp(found, marks[mark]) != 0 || !strstr(told, detail))
        fail_msg("\"%s\" is %s, \"%s\" instead of %s, \"%s\"", what, found, told, marks[mark], detail);
    if (remedy ? !to_do || !strstr(to_do, remedy) : to_do != NULL)
        fail_msg("the remedy for \"%s\" is \"%s\"", what, to_do ? to_do : "");
}

static void tell_findings(FILE *out, const char *facts, const char *const *set, const struct findings *findings)
{
    static const char *const members[] = {"check", "found", "detail", "remedy"};
    json_t *check;
    size_t i;
    fprintf(out, "%s", facts ? facts : "no Python");
    for (; *set; set++)
        fprintf(out, ", %s", *set);
    json_array_foreach(findings->all, i, check)
    {
        for (size_t k = 0; k < 4; k++) {
            const char *said = json_string_value(json_object_get(check, members[k]));
            fprintf(out, "%s%s", k ? "; " : "\n  ", said ? said : "-");
        }
    }
    fputs("\n", out);
}

/* ---- the environment, Python, and what hides overruns ---- */

#define PYTHON "\"version\":\"3.12.1\",\"executable\":\"/usr/bin/python3\""
#define TORCH(version, cuda) "{" PYTHON ",\"packages\":{\"torch\":\"" version "\"},\"torch_cuda\":\"" cuda "\"}"
#define PACKAGE(name, version) "{" PYTHON ",\"packages\":{\"" name "\":\"" version "\"}}"

static void judge_and_tell(FILE *out, const char *facts, const char *const *set)
{
    struct findings findings = {.is_json = 1, .section = "test"};
    struct python_trial trial = {.facts = facts ? json_loads(facts, 0, NULL) : NULL};
    assert_true(!facts == !trial.facts);
    variables = set;
    if (trial.facts)
        judge_python(&findings, &trial, environment);
    else
        judge_environment(&findings, environment);
    judge_hidden(&findings, trial.facts, environment);
    tell_findings(out, facts, set, &findings);
    json_decref(trial.facts);
    findings_free(&findings);
}

/* Variables, and the facts of a Python: what is judged by each is in the golden file. */
TEST(variables_and_packages_are_judged)
{
    static const struct {
        const char *facts, *variables[3];
    } cases[] = {
        {NULL, {NULL}},
        {NULL, {"CUDA_COREDUMP_FILE=x"}}, /* the program's own */
        {NULL, {"CUFENCE_OPTIONS=uaf=strict"}},
        {NULL, {"CUFENCE_OPTIONS=uaf=lenient"}},
        {NULL, {"LD_PRELOAD="}},
        {NULL, {"LD_PRELOAD=/x/libcufence_preload.so:/y.so"}},
        {NULL, {"LD_PRELOAD=/usr/lib/libasan.so.8"}},
        {NULL, {"LD_PRELOAD=libjemalloc.so.2"}},
        {NULL, {"CUDA_LAUNCH_BLOCKING=0", "CUDA_INJECTION64_PATH="}},
        {NULL, {"PYTORCH_NO_CUDA_MEMORY_CACHING=1"}},
        {NULL, {"CUDA_LAUNCH_BLOCKING=1", "CUDA_INJECTION64_PATH=/x/libsanitizer.so"}},
        {TORCH("2.11.0+cu130", "13.0"), {NULL}},
        {TORCH("2.12.0", "13.0"), {NULL}},
        {TORCH("2.1.0", "12.1"), {NULL}},
        {TORCH("2.110.0", "13.0"), {NULL}},
        {TORCH("1.13.1", "11.7"), {NULL}},
        {TORCH("2.0.0", "11.3"), {NULL}},
        {TORCH("2.11.0+cpu", ""), {NULL}},
        {TORCH("2.11.0", "13.0"), {"PYTORCH_CUDA_ALLOC_CONF=backend:cufence"}},
        {TORCH("2.11.0", "13.0"), {"PYTORCH_ALLOC_CONF=backend:cufence"}},
        {TORCH("2.11.0", "13.0"), {"PYTORCH_ALLOC_CONF=backend : cufence"}},
        {TORCH("2.11.0", "13.0"), {"PYTORCH_ALLOC_CONF=a:[backend:cufence]"}},
        {TORCH("2.11.0", "13.0"), {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"}},
        {TORCH("2.11.0", "13.0"), {"PYTORCH_CUDA_ALLOC_CONF=backend:native", "PYTORCH_ALLOC_CONF=backend:cufence"}},
        {"{" PYTHON ",\"packages\":{},\"no_cufence\":\"ModuleNotFoundError: x\"}", {NULL}},
        {"{" PYTHON ",\"cufence\":{\"version\":\"9.9\",\"path\":\"/p\"},\"hook\":true}", {NULL}},
        {PACKAGE("jax", "0.5"), {NULL}},
        {PACKAGE("jax", "0.5"), {"XLA_PYTHON_CLIENT_ALLOCATOR=platform"}},
        {PACKAGE("jax", "0.5"), {"XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async"}},
        {PACKAGE("jax", "0.5"), {"XLA_PYTHON_CLIENT_ALLOCATOR=bfc"}},
        {PACKAGE("jax", "0.5"), {"XLA_PYTHON_CLIENT_PREALLOCATE=true"}},
        {PACKAGE("cupy-cuda13x", "14.0"), {NULL}},
        {PACKAGE("tensorflow", "2.20"), {"TF_GPU_ALLOCATOR=bfc"}},
        {PACKAGE("tensorflow", "2.20"), {NULL}},
        {TORCH("2.11.0", "13.0"), {"TORCHINDUCTOR_MEMORY_PLANNING=1"}},
        {TORCH("2.11.0", "13.0"), {"TORCHINDUCTOR_COMPREHENSIVE_PADDING=0", "TORCHINDUCTOR_SHAPE_PADDING=true"}},
        {PACKAGE("rmm-cu13", "26.4"), {NULL}},
    };
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        judge_and_tell(out, cases[i].facts, cases[i].variables);
    fclose(out);
    golden_check(GOLDEN "tools.expect", "doctor", text);
    free(text);
}

TEST(no_python_is_no_fault)
{
    struct findings findings = {.is_json = 1, .section = "test"};
    const struct python_trial trial = {.problem = "python3: No such file or directory"};
    judge_python(&findings, &trial, environment);
    expect_finding(&findings, "python3", FOUND_NEITHER, "No such file", NULL);
    assert_int_equal(json_array_size(findings.all), 1);
    findings_free(&findings);
}

/* What it answers where it is there is in tests/python/test_doctor.py. */
TEST(no_python_in_the_path_is_said)
{
    struct python_trial trial;
    char path[4096];
    snprintf(path, sizeof path, "%s", getenv("PATH"));
    setenv("PATH", "/nonexistent", 1);
    ask_python(&trial);
    setenv("PATH", path, 1);
    assert_null(trial.facts);
    assert_string_equal(trial.problem, "python3: No such file or directory");
}

/* ---- the preload ---- */

#define SAID(text)                                                                                                             \
    {                                                                                                                          \
        .is_started = 1, .out = (text)                                                                                         \
    }

TEST(what_a_program_under_the_preload_said_is_judged)
{
    static const struct {
        const char *file;
        struct child child;
        const char *what;
        enum verdict_mark mark;
        const char *detail, *remedy;
    } cases[] = {
        {"", {0}, "preload library", FOUND_NO, "is in none of these places", "C API"},
        {"/l/p.so", {0}, "preload library", FOUND_YES, "/l/p.so", NULL},
        {"/my l/p.so", {0}, "preload library", FOUND_NO, "the space or colon", "another folder"},
        {"/l/p.so", {.error = "no processes left"}, "loading", FOUND_NO, "no processes left", "--probe"},
        {"/l/p.so", {.is_started = 1, .is_timed_out = 1}, "loading", FOUND_NO, "did not end within", "nvidia-smi"},
        {"/l/p.so",
         {.is_started = 1,
          .out = "{}\n",
          .error = "ERROR: ld.so: object '/l/libcufence_preload.so' from LD_PRELOAD cannot be preloaded (wrong ELF class: "
                   "ELFCLASS64): ignored.\nmore"},
         "loading",
         FOUND_NO,
         "wrong ELF class: ELFCLASS64): ignored.",
         "reinstall cufence"},
        {"/l/p.so", SAID("{}\n"), "loading", FOUND_NO, "LD_PRELOAD was ignored", "set-uid"},
        {"/l/p.so", SAID("{\"preload\":\"/l/p.so\",\"problem\":\"no GPU\"}"), "loading", FOUND_YES, "LD_PRELOAD works", NULL},
        {"/l/p.so", SAID("{\"preload\":\"/l/p.so\",\"problem\":\"no GPU\"}"), "hooks", FOUND_NEITHER, "not tried: no GPU",
         NULL},
        {"/l/p.so", SAID("{\"preload\":\"p\",\"version\":\"" VERSION_TEXT "\",\"dlsym\":\"ours\"}"), "library", FOUND_YES,
         VERSION_TEXT, NULL},
        {"/l/p.so", SAID("{\"preload\":\"p\",\"version\":\"0.0.9\",\"dlsym\":\"ours\"}"), "library", FOUND_NO,
         "version 0.0.9, this program " VERSION_TEXT, "reinstall"},
        {"/l/p.so",
         {.is_started = 1, .out = "{\"preload\":\"p\",\"dlsym\":\"the driver's\"}", .error = "cannot open it"},
         "library",
         FOUND_MISSING,
         "cannot open it",
         "reinstall"},
        {"/l/p.so", SAID("{\"preload\":\"p\",\"dlsym\":\"ours\"}"), "hooks (dlsym)", FOUND_YES, "gets its memory from cufence",
         NULL},
        {"/l/p.so", SAID("{\"preload\":\"p\",\"dlsym\":\"ours\"}"), "hooks (address)", FOUND_NEITHER, "not tried", NULL},
        {"/l/p.so", SAID("{\"preload\":\"p\",\"cuGetProcAddress\":\"the driver's\"}"), "hooks (address)", FOUND_MISSING,
         "the driver's", "one build"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct findings findings = {.is_json = 1, .section = "test"};
        struct preload_trial trial = {.child = cases[i].child};
        snprintf(trial.file, sizeof trial.file, "%s", cases[i].file);
        judge_preload(&findings, &trial);
        expect_finding(&findings, cases[i].what, cases[i].mark, cases[i].detail, cases[i].remedy);
        findings_free(&findings);
    }
}

/* ---- programs ---- */

static void shell(const char *command, const char *const changes[], unsigned seconds, struct child *child)
{
    child_run((const char *const[]){"sh", "-c", command, NULL}, changes, seconds, child);
}

TEST(what_a_program_says_is_taken)
{
    static struct child child;
    const char *const none[] = {NULL};
    shell("echo out; echo error >&2; exit 3", none, 100, &child);
    assert_true(child.is_started && !child.is_timed_out && WIFEXITED(child.status));
    assert_int_equal(WEXITSTATUS(child.status), 3);
    assert_string_equal(child.out, "out\n");
    assert_string_equal(child.error, "error\n");

    setenv("CUFENCE_TEST_KEPT", "kept", 1);
    setenv("CUFENCE_TEST_GONE", "there", 1);
    shell("echo $CUFENCE_TEST_KEPT ${CUFENCE_TEST_GONE-gone} $CUFENCE_TEST_NEW; cat",
          (const char *const[]){"CUFENCE_TEST_GONE", "CUFENCE_TEST_NEW=new", NULL}, 100, &child);
    assert_string_equal(child.out, "kept gone new\n");
    assert_string_equal(getenv("CUFENCE_TEST_GONE"), "there");

    shell("yes | head -c 100000", none, 100, &child);
    assert_int_equal(strlen(child.out), sizeof child.out - 1);
    assert_int_equal(child.status, 0);
}

TEST(a_program_that_does_not_end_is_killed_with_its_children)
{
    static struct child child;
    const char *const none[] = {NULL};
    uint64_t before = monotonic_ms();
    shell("echo begun; sleep 600 & sleep 600", none, 3, &child);
    assert_true(child.is_timed_out && WIFSIGNALED(child.status));
    assert_string_equal(child.out, "begun\n");
    assert_true(monotonic_ms() - before < 100000);
    shell("exec >&- 2>&-; sleep 600", none, 1, &child);
    assert_true(child.is_timed_out && WIFSIGNALED(child.status));
}

TEST(a_program_that_is_not_there_says_so)
{
    static struct child child;
    child_run((const char *const[]){"/nonexistent/program", NULL}, (const char *const[]){NULL}, 100, &child);
    assert_int_equal(WEXITSTATUS(child.status), 127);
    assert_string_equal(child.error, "No such file or directory");
}

TEST_CONCURRENTLY
