/* `cufence run` from outside: the environment of the program, how it ends, and the messages if it can't be run. */
#include "refusals.h"

#include "support/folder.h"

#define CUFENCE CUFENCE_RUN_TREE "/bin/cufence"
#define PRELOAD CUFENCE_RUN_TREE "/lib/libcufence_preload.so"
#define ASYNC "backend:cudaMallocAsync"

#define UNREAD ": cufence does not read this variable; "
#define UNSEEN "CUFENCE_OPTIONS=not looked at"
#define AS_IT_WAS UNSEEN, "!LD_PRELOAD=", "!PYTORCH_CUDA_ALLOC_CONF="
#define IF_ASKED "--if-asked", "--", "env"
#define RUN(...) run_with(CUFENCE, (const char *const[]){"run", __VA_ARGS__, NULL})

static int enter_folder(void **state)
{
    return make_folder(state) ?: chdir(folder);
}

TEST_GROUP(enter_folder, remove_folder)

static int has_line(const struct outcome *outcome, const char *line)
{
    size_t length = strlen(line);
    for (const char *at = outcome->out; (at = strstr(at, line)); at += length)
        if ((at == outcome->out || at[-1] == '\n') && at[length] == '\n')
            return 1;
    return 0;
}

/* clang-format off */
/* A command line, in a folder that is read as /tmp; the whole lines that the program prints, or, behind a '!', what is in none; and what cufence says,
 * which is nothing if none is named. */
static const struct {
    const char *variables[5], *arguments[14];
    int status;
    const char *lines[7], *said[7];
} runs[] = {
    /* the program sees the settings */
    {{"CUDA_COREDUMP_FILE=core", "PYTORCH_NO_CUDA_MEMORY_CACHING=1", "KEPT=yes"}, {"--", "env"}, 0, {"LD_PRELOAD=" PRELOAD,
     "PYTORCH_CUDA_ALLOC_CONF=" ASYNC, "PYTORCH_ALLOC_CONF=" ASYNC, "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async",
     "TF_GPU_ALLOCATOR=cuda_malloc_async", "KEPT=yes"}, {0}},
    {{"CUDA_COREDUMP_FILE=core", "PYTORCH_NO_CUDA_MEMORY_CACHING=1"}, {"env"}, 0, {"CUDA_COREDUMP_FILE=core",
     "!PYTORCH_NO_CUDA_MEMORY_CACHING", "!CUFENCE_OPTIONS"}, {0}},
    /* options come in their order */
    {{"CUFENCE_OPTIONS=uaf=strict,align=auto, ",
     "PYTORCH_CUDA_ALLOC_CONF=backend:cufence,cufence_align:64,max_split_size_mb:1"}, {"--set", "side=start,peers=on",
     "--error-exitcode", "3", "--set=uaf=off", "env"}, 0,
     {"CUFENCE_OPTIONS=uaf=strict,align=auto,align=64,side=start,peers=on,on_fault=/3,uaf=off",
     "PYTORCH_CUDA_ALLOC_CONF=" ASYNC ",max_split_size_mb:1"}, {0}},
    /* each option has a name of its own, and files are named whole */
    {{0}, {"--uaf", "strict", "--set", "uaf=off", "--wait-ms=7", "--on_fault", "abort", "--uaf=strict", "--stack", "off",
     "env"}, 0, {"CUFENCE_OPTIONS=uaf=strict,uaf=off,wait_ms=7,on_fault=abort,uaf=strict,stacks=off"}, {0}},
    {{0}, {"--log", "a.txt", "--keep=dumps", "env"}, 0, {"CUFENCE_OPTIONS=log=/tmp/a.txt,keep=/tmp/dumps"}, {0}},
    {{0}, {"--json", "report.%r.json", "env"}, 0, {"CUFENCE_OPTIONS=json=/tmp/report.%r.json"}, {0}},
    {{0}, {"--json=./-", "env"}, 0, {0}, {0}},
    {{0}, {"--json=/nonexistent/%p/report.json", "env"}, 0, {0}, {0}}, /* may be there when the program starts */
    {{0}, {"--json=/dev/null", "env"}, 0, {"CUFENCE_OPTIONS=json=/dev/null"}, {0}},
    /* children keep the environment */
    {{0}, {"--set", "uaf=strict", "sh", "-c", "sh -c env"}, 0, {"LD_PRELOAD=" PRELOAD, "CUFENCE_OPTIONS=uaf=strict"}, {0}},
    {{0}, {"--set", "uaf=strict", CUFENCE, "run", "--set", "align=auto", "env"}, 0, {"LD_PRELOAD=" PRELOAD,
     "CUFENCE_OPTIONS=uaf=strict,align=auto"}, {0}},
    /* arguments are the program's own */
    {{0}, {"printf", "%s|\n", "--set", "", "a b", "--", "-x"}, 0, {"--set|", "|", "a b|", "--|", "-x|"}, {0}},
    {{0}, {"--set", "uaf=off", "--", "printf", "%s|\n", "--verbose", "--help", "-h"}, 0, {"--verbose|", "--help|", "-h|"}, {0}},
    /* what was done is told on request */
    {{"LD_PRELOAD=", "PYTORCH_ALLOC_CONF=backend:native"}, {"--verbose", "--set", "uaf=strict", "true"}, 0, {0},
     {"LD_PRELOAD=" PRELOAD "\n", "PYTORCH_ALLOC_CONF=" ASYNC "\n",
     "CUFENCE_OPTIONS=uaf=strict\n", "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async", "TF_GPU_ALLOCATOR=cuda_malloc_async",
     "starts /"}},
    {{0}, {"--verbose", "on", "true"}, 0, {0}, {"starts /"}},
    {{0}, {"--verbose=on", "--if-asked=off", "true"}, 0, {0}, {"LD_PRELOAD"}},
    {{0}, {"--verbose=off", "true"}, 0, {0}, {0}},
    {{0}, {"--verbose", "off", "true"}, 0, {0}, {0}},
    /* variables that nothing reads, and those that are wrong */
    {{"CUFENCE_UAF=strict"}, {"true"}, 0, {0}, {"CUFENCE_UAF=strict" UNREAD "write CUFENCE_OPTIONS=uaf=strict\n"}},
    {{"CUFENCE_ALGIN=auto"}, {"true"}, 0, {0}, {"CUFENCE_ALGIN=auto" UNREAD "write CUFENCE_OPTIONS=align=auto\n"}},
    {{"CUFENCE_OPTION=a=b"}, {"true"}, 0, {0}, {"CUFENCE_OPTION=a=b" UNREAD "write CUFENCE_OPTIONS=a=b\n"}},
    {{"CUFENCE_ANYTHING=1"}, {"true"}, 0, {0}, {"CUFENCE_ANYTHING=1" UNREAD "unset it: options go into CUFENCE_OPTIONS"}},
    {{"CUFENCE_LIBRARY=/x", "CUFENCE_SOURCES=/x", "CUFENCE_TEST_JOBS=2", "CUFENCER=1"}, {"true"}, 0, {0}, {0}},
    {{"CUFENCE_OPTIONS=uav=strict"}, {"true"}, 2, {0}, {"cufence run: CUFENCE_OPTIONS: unknown option 'uav'"}},
    {{"PYTORCH_ALLOC_CONF=cufence_side:left"}, {"true"}, 2, {0}, {"cufence run: PYTORCH_ALLOC_CONF: side=left is not allowed"}},
    {{"PYTORCH_ALLOC_CONF=cufence_side"}, {"true"}, 2, {0},
     {"cufence run: PYTORCH_ALLOC_CONF: 'cufence_side:' is not of the form"}},
    /* what the start-up hook executes: a program that asks for nothing runs as it is */
    {{"PYTORCH_ALLOC_CONF=a:[backend:cufence]", UNSEEN}, {IF_ASKED}, 0, {"PYTORCH_ALLOC_CONF=a:[backend:cufence]", AS_IT_WAS},
     {0}},
    {{"PYTORCH_ALLOC_CONF=backend:native", UNSEEN}, {IF_ASKED}, 0, {"PYTORCH_ALLOC_CONF=backend:native", AS_IT_WAS}, {0}},
    {{"PYTORCH_ALLOC_CONF=" ASYNC, UNSEEN}, {IF_ASKED}, 0, {"PYTORCH_ALLOC_CONF=" ASYNC, AS_IT_WAS}, {0}},
    {{"PYTORCH_ALLOC_CONF=", UNSEEN}, {IF_ASKED}, 0, {"PYTORCH_ALLOC_CONF=", AS_IT_WAS}, {0}},
    {{"PYTORCH_CUDA_ALLOC_CONF=", "PYTORCH_ALLOC_CONF= backend : cufence "}, {IF_ASKED}, 0, {"LD_PRELOAD=" PRELOAD,
     "PYTORCH_CUDA_ALLOC_CONF=" ASYNC}, {0}},
    {{"PYTORCH_ALLOC_CONF=cufence_uaf:strict"}, {IF_ASKED}, 2, {0},
     {"PYTORCH_ALLOC_CONF has options of cufence (uaf=strict), but does not ask for it"}},
    /* a program that cannot be run */
    {{0}, {"--", "no-such-program"}, 127, {0}, {"cufence run: there is no program no-such-program in the folders of PATH"}},
    {{0}, {"/no/such/program"}, 127, {0}, {"there is no /no/such/program"}},
    {{0}, {"/"}, 126, {0}, {"cufence run: / is a directory\n"}},
};
/* clang-format on */

static void expect_run(size_t i)
{
    const char *arguments[16] = {"run"};
    memcpy(arguments + 1, runs[i].arguments, sizeof runs[i].arguments);
    variables = runs[i].variables;
    struct outcome outcome = run_with(CUFENCE, arguments);
    expect_exit(&outcome, runs[i].status);
    for (char *at = outcome.out; (at = strstr(at, folder)) != NULL; at += strlen("/tmp"))
        memmove(at + strlen("/tmp"), at + strlen(folder), strlen(at + strlen(folder)) + 1);
    for (size_t k = 0; k < 7 && runs[i].lines[k]; k++) {
        const char *line = runs[i].lines[k];
        if (*line == '!' ? strstr(outcome.out, line + 1) != NULL : !has_line(&outcome, line))
            fail_msg("run %zu: %s in:\n%s", i, line, outcome.out);
    }
    for (size_t k = 0; k < 7 && runs[i].said[k]; k++)
        if (!strstr(outcome.err, runs[i].said[k]))
            fail_msg("run %zu: %s in:\n%s", i, runs[i].said[k], outcome.err);
    if (!runs[i].said[0])
        assert_string_equal(outcome.err, "");
    else
        assert_string_equal(outcome.out, "");
}

TEST_WITH(each_command_line_does_what_it_says, NULL, forget)
{
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        expect_run(i);
}

/* Whatever their order, what is set beside a preset wins over it, and it over CUFENCE_OPTIONS. */
TEST_WITH(a_preset_stands_for_options, NULL, forget)
{
    variables = (const char *const[]){"CUFENCE_OPTIONS=slack=off", NULL};
    struct outcome outcome = RUN("--wait-ms", "3", "--preset", "production", "env");
    expect_exit(&outcome, 0);
    const char *options = strstr(outcome.out, "\nCUFENCE_OPTIONS=slack=off,");
    assert_non_null(options);
    const char *own = strstr(options, ",wait_ms=3\n"), *others = strstr(options, ",wait_ms=1000,");
    assert_non_null(own);
    assert_non_null(others);
    assert_true(others < own);
    assert_non_null(strstr(options, ",on_fault=error/0,"));
    static const char *const names[] = {"fast", "thorough", "production"};
    for (size_t i = 0; i < 3; i++) {
        outcome = RUN("--preset", names[i], "true"); /* its options are allowed */
        expect_exit(&outcome, 0);
        assert_string_equal(outcome.err, "");
    }
    outcome = RUN("--preset", "thorough", "--preset", "fast", "env");
    assert_true(strstr(outcome.out, "uaf=strict") < strstr(outcome.out, "uaf=adaptive"));
}

TEST_WITH(the_programs_end_is_its_own, NULL, forget)
{
    static const int statuses[] = {0, 1, 2, 86, 126, 127, 255};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        char command[32];
        snprintf(command, sizeof command, "exit %d", statuses[i]);
        struct outcome outcome = RUN("sh", "-c", command);
        expect_exit(&outcome, statuses[i]);
        assert_string_equal(outcome.err, "");
    }
    struct outcome outcome = RUN("sh", "-c", "kill -SEGV $$");
    assert_true(WIFSIGNALED(outcome.status));
    assert_int_equal(WTERMSIG(outcome.status), SIGSEGV);
}

TEST_WITH(input_and_output_are_the_programs_own, NULL, forget)
{
    char bytes[5000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7 + i / 256);
    input = tmpfile();
    assert_non_null(input);
    assert_int_equal(fwrite(bytes, 1, sizeof bytes, input), sizeof bytes);
    rewind(input);
    struct outcome outcome = RUN("--", "cat");
    expect_exit(&outcome, 0);
    assert_int_equal(outcome.size, sizeof bytes);
    assert_memory_equal(outcome.out, bytes, sizeof bytes);
    assert_string_equal(outcome.err, "");
}

/* The program is the same process: its number, and so whatever is sent to it. */
TEST_WITH(signals_reach_the_program, NULL, forget)
{
    static const int signals[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct outcome outcome = {0};
        int ends[2];
        char line[32] = "";
        assert_int_equal(pipe(ends), 0);
        FILE *out = fdopen(ends[1], "w"), *err = tmpfile();
        const char *const arguments[] = {"run", "sh", "-c",
                                         "trap 'echo got it; exit 40' INT TERM; echo $$; while :; do sleep 0.05; done", NULL};
        pid_t child = start(CUFENCE, arguments, out, err);
        fclose(out);
        FILE *in = fdopen(ends[0], "r");
        assert_non_null(fgets(line, sizeof line, in));
        assert_int_equal(atoi(line), child);
        kill(child, signals[i]);
        assert_int_equal(waitpid(child, &outcome.status, 0), child);
        read_back(err, outcome.err, sizeof outcome.err);
        expect_exit(&outcome, 40);
        assert_non_null(fgets(line, sizeof line, in));
        assert_string_equal(line, "got it\n");
        fclose(in);
    }
}

TEST_WITH(a_wrong_command_line_is_told, NULL, forget)
{
    static const char *const lines[][6] = {
        {"run"},
        {"run", "--"},
        {"run", "--set", "uaf=strict"},
        {"run", "--set"},
        {"run", "--error-exitcode"},
        {"run", "--sett", "uaf=strict", "true"},
        {"run", "--strange", "uaf=strict", "true"},
        {"run", "--requre-guarded", "true"},
        {"run", "--uav=strict", "true"},
        {"run", "--wait-sm", "1", "true"},
        {"run", "--uaf"},
        {"run", "--uaf", "maybe", "true"},
        {"run", "--uaf", "off,align=1", "true"},
        {"run", "--preset", "slow", "true"},
        {"run", "--json", "-", "true"},
        {"run", "-x", "true"},
        {"run", "-xh", "true"},
        {"run", "--verbose=1", "true"},
        {"run", "--if-asked=1", "true"},
        {"run", "--set", "uav=strict", "true"},
        {"run", "--set", "uaf=maybe", "true"},
        {"run", "--error-exitcode", "256", "true"},
        {"run", "--json", "a,b", "true"},
        {"run", "--json", "", "true"},
        {"run", "--json", "/nonexistent/x.json", "true"},
        {"run", "--keep", "/dev/null/x", "true"},
        {"run", "--save_values", "*=/dev/null", "true"},
    };
    check_refusals("refusals_of_run", CUFENCE, lines, sizeof lines / sizeof *lines);
}

TEST_WITH(a_script_in_this_folder_is_told, NULL, forget)
{
    input = fopen("cufence-run-here.py", "w"); /* not executable, and not in PATH */
    assert_non_null(input);
    struct outcome outcome = RUN("cufence-run-here.py");
    unlink("cufence-run-here.py");
    expect_exit(&outcome, 127);
    assert_non_null(strstr(outcome.err, "in this folder: cufence run -- python cufence-run-here.py\n"));
}

/* A command far from its library: what was looked for is told. */
TEST_WITH(a_missing_library_is_told, NULL, forget)
{
    char command[8192], expected[4096];
    snprintf(command, sizeof command, "mkdir %s/bin && cp %s %s/bin/cufence", folder, CUFENCE, folder);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s/bin/cufence", folder);
    struct outcome outcome = run_with(command, (const char *const[]){"run", "true", NULL});
    expect_exit(&outcome, 126);
    assert_non_null(strstr(outcome.err, "cannot find libcufence_preload.so"));
    snprintf(expected, sizeof expected, " from where %s/bin/cufence lies: the same folder, ../lib, ../lib64,", folder);
    assert_non_null(strstr(outcome.err, expected));

    snprintf(command, sizeof command, "mkdir %s/lib64 %s/_bootstrap && cp %s %s/lib64 && : > %s/_bootstrap/sitecustomize.py",
             folder, folder, PRELOAD, folder, folder);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s/bin/cufence", folder);
    outcome = run_with(command, (const char *const[]){"run", "env", NULL});
    expect_exit(&outcome, 0);
    snprintf(expected, sizeof expected, "LD_PRELOAD=%s/lib64/libcufence_preload.so", folder);
    assert_true(has_line(&outcome, expected));
    snprintf(expected, sizeof expected, "PYTHONPATH=%s/_bootstrap", folder);
    assert_true(has_line(&outcome, expected));
}
