/* The cufence command from outside: its output on stdout and stderr, and its exit status. */
#include "support/program.h"

#include <cufence.h>

#define USAGE 2
#ifdef CUFENCE_HAS_LENS
#define DIFF "diff, "
#else
#define DIFF ""
#endif
#define COMMANDS                                                                                                               \
    "the commands are run, hunt, demo, explain, replay, " DIFF                                                                 \
    "report, options, doctor, docs, completion, help, --help and --version\n"

#define RUN(...) run_with(CUFENCE_CLI, (const char *const[]){__VA_ARGS__, NULL})

TEST(what_it_does_not_understand_is_named)
{
    static const struct {
        const char *arguments[4], *message;
    } cases[] = {
        {{"dmo"}, "cufence: unknown command 'dmo', did you mean 'demo'? `cufence help` lists all\n"},
        {{"rnu", "./a.out"}, "cufence: unknown command 'rnu', did you mean 'run'? `cufence help` lists all\n"},
        {{"nothing-like-it"}, "cufence: unknown command 'nothing-like-it'; " COMMANDS},
        {{"--verbose"}, "cufence: unknown option '--verbose'; use --help (-h) or --version (-V)\n"},
        {{""}, "cufence: unknown command ''; " COMMANDS},
        {{"help", "dmo"}, "cufence: unknown command 'dmo', did you mean 'demo'? `cufence help` lists all\n"},
        {{"sh", "-c", "exit 3"}, "cufence: unknown command 'sh'; to run that program: cufence run -- sh -c 'exit 3'\n"},
        {{"/bin/sh", "x.sh"}, "cufence: unknown command '/bin/sh'; to run that program: cufence run -- /bin/sh x.sh\n"},
        {{"completion"}, "cufence completion: no shell given; use bash, zsh or fish\n"},
        {{"completion", "csh"}, "cufence completion: unknown shell 'csh'; use bash, zsh or fish\n"},
        {{"help", "demo", "now"}, "cufence help: unexpected argument 'now'; see `cufence help`\n"},
        {{"--help", "now"}, "cufence --help: unexpected argument 'now'; see `cufence help`\n"},
        {{"-V", "now"}, "cufence -V: unexpected argument 'now'; see `cufence help`\n"},
        {{"--version", "now"}, "cufence --version: unexpected argument 'now'; see `cufence help`\n"},
        {{"options", "uax"}, "cufence options: unknown option 'uax', did you mean 'uaf'? `cufence options --all` lists all\n"},
        {{"options", "nothing-like-it"},
         "cufence options: unknown option 'nothing-like-it'; `cufence options --all` lists all\n"},
        {{"options", "--chek", "uaf=off"},
         "cufence options: unknown option \"--chek\", did you mean --check? `cufence options --help` lists all\n"},
        {{"options", "--json", "--check", "uaf=off"}, "cufence options: --check prints nothing: leave --json out\n"},
        {{"options", "-x"}, "cufence options: unknown option \"-x\"; the options are --all, --check, --json, --help\n"},
        {{"options", "--check"}, "cufence options: --check needs a value: --check key=value,...\n"},
        {{"options", "--", "--check"}, "cufence options: unknown option '--check'; `cufence options --all` lists all\n"},
        {{"options", "--check", "json=-"},
         "cufence options: --check: json=-: standard output is the program's; give a name (./- is a file of that name)\n"},
        {{"explain"}, "cufence explain: no file given; `cufence explain --help` says how to get one\n"},
        {{"explain", "--all"}, /* a prefix that only one option has */
         "cufence explain: no file given; `cufence explain --help` says how to get one\n"},
        {{"explain", "--jsn", "x"},
         "cufence explain: unknown option \"--jsn\", did you mean --json? `cufence explain --help` lists all\n"},
        {{"explain", "--memory"}, "cufence explain: --memory needs a value: --memory ADDRESS\n"},
        {{"explain", "--memory", "12z", "x"}, "cufence explain: --memory '12z' is not an address, such as 0x7f0000001000\n"},
        {{"explain", "--memory", "-1", "x"}, "cufence explain: --memory '-1' is not an address, such as 0x7f0000001000\n"},
        {{"replay", "--exact", "--times=2", "x"},
         "cufence replay: --exact launches nothing; leave out --uninit, --under, --times and --no-guards\n"},
        {{"replay", "--under=gdb", "--times=2", "x"}, "cufence replay: --under makes one launch; leave out --times\n"},
        {{"hunt", "--seconds=5", "true"}, "cufence hunt: --seconds has no effect without --deep\n"},
        {{"hunt", "--keep=/dev/null", "true"}, "cufence hunt: --keep /dev/null: Not a directory\n"},
        {{"doctor", "--jso=1"}, "cufence doctor: --json takes no value but on or off, and got \"1\"\n"},
        {{"options", "--check", "uaf=off", "now"},
         "cufence options: unexpected argument 'now'; see `cufence options --help`\n"},
        {{"options", "--check", "guard=1M"},
         "cufence options: --check: guard=1M is not allowed; use MIN or MIN..MAX, each 2M..64G\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *arguments[5] = {cases[i].arguments[0], cases[i].arguments[1], cases[i].arguments[2], cases[i].arguments[3]};
        struct outcome outcome = run_with(CUFENCE_CLI, arguments);
        assert_string_equal(outcome.err, cases[i].message);
        assert_string_equal(outcome.out, "");
        expect_exit(&outcome, USAGE);
    }
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
        {{"help", "completion"}, "usage: cufence completion "},
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
    assert_non_null(strstr(outcome.out, "\nuaf "));
    assert_non_null(strstr(outcome.out, "\nlog "));
    assert_null(strstr(outcome.out, "\nguard "));
    outcome = RUN("options", "--all");
    assert_non_null(strstr(outcome.out, "\nguard "));
    assert_null(strstr(outcome.out, "\narena "));
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
