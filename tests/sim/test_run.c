/* `cufence run` with a program that knows nothing of cufence (run_story.c), on the simulated device. */
#include "support/shell.h"
#include "child.h"

#include "base/tally.h"

#include <sys/resource.h>

#define RUN "LD_LIBRARY_PATH=" CUFENCE_RUN_DRIVER " " CUFENCE_CLI " run " /* libcuda.so.1 is the simulated device there */

/* As torchrun does: one parent, a child a rank, told by RANK. */
TEST(each_rank_has_its_file)
{
    assert_int_equal(run_shell(RUN "--set log=$PWD/rank%%r.txt -- sh -c 'RANK=0 %s & first=$!; RANK=1 %s & second=$!; "
                                   "wait $first; one=$?; wait $second; two=$?; [ $one = 86 ] && [ $two = 86 ]'",
                               CUFENCE_RUN_STORY, CUFENCE_RUN_STORY),
                     86);
    for (int rank = 0; rank < 2; rank++) {
        SUCCEEDS("cat rank%d.txt", rank);
        assert_int_equal(count_in(text, "out-of-bounds WRITE of 4 bytes"), 1);
        assert_int_equal(count_in(text, "buffer     #"), 1);
        SAYS("128 bytes");
    }
}

/* The frames behind `from`, which must be overrun() and main(), and no other. */
static void assert_called_by_main(const char *from)
{
    char frames[4096];
    const char *start = from ? strstr(from, "\"frames\":[") : NULL, *end = start ? strchr(start, ']') : NULL;
    assert_non_null(end);
    snprintf(frames, sizeof frames, "%.*s", (int)(end - start), start);
    assert_int_equal(count_in(frames, "\"function\":"), 2);
    const char *inner = strstr(frames, "\"function\":\"overrun\""), *outer = strstr(frames, "\"function\":\"main\"");
    assert_true(inner && outer && inner < outer);
}

/* Found in its unwind tables and its symbol table: it keeps no frame pointers, and its functions are not exported. */
TEST(the_report_says_who_launched_and_who_allocated)
{
    assert_int_equal(run_shell(RUN "--set json=$PWD/who.json -- " CUFENCE_RUN_STORY), 86);
    SUCCEEDS("cat who.json");
    assert_called_by_main(strstr(text, "\"launch\":{"));
    assert_called_by_main(strstr(strstr(text, "\"buffer\":{"), "\"allocated\":{"));
}

TEST(without_stacks_nobody_knows_who_allocated)
{
    assert_int_equal(run_shell(RUN "--set json=$PWD/python.json,stacks=python -- " CUFENCE_RUN_STORY), 86);
    SUCCEEDS("cat python.json");
    assert_int_equal(count_in(text, "\"frames\":["), 1); /* the launch's */
    assert_called_by_main(strstr(text, "\"launch\":{"));
}

/* ---- what is said at the end where nothing was guarded ---- */

static int set_up(void **state)
{
    setenv("CUFENCE", CUFENCE_CLI, 1);
    setenv("STORY", CUFENCE_RUN_STORY, 1);
    setenv("LD_LIBRARY_PATH", CUFENCE_RUN_DRIVER, 1); /* libcuda.so.1 is the simulated device there */
    unsetenv("CUFENCE_OPTIONS");
    unsetenv("CUFENCE_TALLY");
    return make_folder(state);
}

struct ending {
    const char *command;  /* behind `cufence run` */
    int status, required; /* exit status, and with --require-guarded */
    const char *sentence; /* the only line that cufence prints; NULL: another line says it */
};

#define NO_CUDA "NOTHING WAS GUARDED: no process used CUDA; `cufence doctor`"
static const struct ending endings[] = {
    {"-- true", 0, 87, NO_CUDA},
    {"-- sh -c 'true; sh -c true; (exit 3)'", 3, 3, NO_CUDA},
    {"-- sh -c 'exec sh -c \"exit 0\"'", 0, 87, NO_CUDA},
    {"--say quiet -- true", 0, 87, NO_CUDA},
    {"-- env -u LD_LIBRARY_PATH true", 0, 87, NULL}, /* whether there is a driver is the machine's business */
    {"-- \"$STORY\" init", 0, 87, "NOTHING WAS GUARDED: CUDA was initialised, but no process created a context"},
    {"-- sh -c '\"$STORY\" init; true'", 0, 87, "NOTHING WAS GUARDED: CUDA was initialised, but no process created a context"},
    {"-- \"$STORY\" managed", 0, 87, NULL},
    {"--skip smaller:1M -- \"$STORY\" clean", 0, 87, NULL},
    {"--skip smaller:1M --say quiet -- \"$STORY\" clean", 0, 87, NULL},
    {"-- \"$STORY\" clean", 0, 0, "no faults; 1 allocation guarded"},
    {"-- sh -c '\"$STORY\" clean; true'", 0, 0, "no faults; 1 allocation guarded"},
    {"-- \"$STORY\"", 86, 86, NULL},
    {"-- \"$STORY\" leave", 0, 0, "1 process used CUDA without saying at the end what was guarded"},
    {"-- sh -c '\"$STORY\" clean; \"$STORY\" killed; true'", 0, 87, NULL},
    {"-- sh -c '\"$STORY\" stay; \"$STORY\" killed; true'", 0, 87, NULL},
    {"-- \"$STORY\" close", 0, 87, NULL},
    {"-- sh -c '\"$STORY\" clean; CUFENCE_DRIVER=/nowhere \"$STORY\" clean; true'", 0, 87, NULL},
    {"-- \"$STORY\" timer", 0, 0, "no faults; 1 allocation guarded"},
    {"-- \"$STORY\" quick", 3, 3, "1 process used CUDA without saying at the end what was guarded"},
    {"-- sh -c '\"$STORY\" leave; true'", 0, 0, "1 process used CUDA without saying at the end what was guarded"},
};

static void expect(const struct ending *ending, const char *option, int status)
{
    char command[1024];
    snprintf(command, sizeof command, "\"$CUFENCE\" run %s%s", option, ending->command);
    int ended = run_shell("%s", command);
    int is_one = !ending->sentence || (count_in(text, " cufence: ") == 1 && strstr(text, ending->sentence));
    if (ended != status || !is_one || !strstr(text, "cufence: "))
        print_error("%s\nended with %d instead of %d, expected once: %s\n%s", command, ended, status,
                    ending->sentence ? ending->sentence : "any", text);
    assert_int_equal(ended, status);
    assert_true(is_one);
    assert_non_null(strstr(text, "cufence: "));
}

TEST(each_run_says_what_was_guarded)
{
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        expect(&endings[i], "", endings[i].status);
        int is_changed = endings[i].required != endings[i].status;
        expect(&endings[i], "--require-guarded ", endings[i].required);
        assert_int_equal(count_in(text, " (--require-guarded); exit status 87\n"), is_changed);
    }
}

TEST(the_reasons_are_named)
{
    run_shell("\"$CUFENCE\" run --skip smaller:1M --say quiet -- \"$STORY\" clean");
    assert_int_equal(count_in(text, "NOTHING WAS GUARDED: every allocation was left to the driver, for the reasons below"), 1);
    assert_int_equal(count_in(text, "not guarded: 1 buffer smaller than skip=smaller"), 1);
    run_shell("\"$CUFENCE\" run -- \"$STORY\" managed");
    assert_int_equal(count_in(text, "NOTHING WAS GUARDED: every allocation was left to the driver, for the reasons below"), 1);
    assert_int_equal(count_in(text, "not guarded: 1 allocation of managed memory"), 1);
}

TEST(a_driver_that_cannot_be_opened_is_told)
{
    assert_int_equal(run_shell("\"$CUFENCE\" run -- env CUFENCE_DRIVER=/nowhere \"$STORY\" clean"), 0);
    assert_int_equal(count_in(text, "this process runs unguarded: cannot open the CUDA driver library /nowhere: "), 1);
    assert_int_equal(count_in(text, "NOTHING WAS GUARDED: cufence could not start, as said above"), 1);
}

TEST(quiet_omits_only_the_line_about_what_was_guarded)
{
    assert_int_equal(run_shell("\"$CUFENCE\" run --say quiet -- \"$STORY\" clean"), 0);
    assert_string_equal(text, "");
}

/* The tally is the program's: what a run inside another one guards counts for both. */
TEST(a_run_inside_another_counts)
{
    assert_int_equal(run_shell("\"$CUFENCE\" run --require-guarded -- sh -c '\"$CUFENCE\" run -- \"$STORY\" clean; true'"), 0);
    assert_int_equal(count_in(text, "NOTHING WAS GUARDED"), 0);
    assert_int_equal(run_shell("\"$CUFENCE\" run --require-guarded -- sh -c '\"$CUFENCE\" run -- true; true'"), 87);
}

/* A program that has thrown the variable away has kept it from its children, too: nobody knows what they did. */
TEST(without_the_variable_nothing_is_claimed)
{
    assert_int_equal(run_shell("\"$CUFENCE\" run -- \"$STORY\" forget"), 0);
    assert_int_equal(count_in(text, "NOTHING WAS GUARDED"), 0);
    assert_int_equal(count_in(text, "1 allocation guarded"), 1);
    assert_int_equal(run_shell("\"$CUFENCE\" run --require-guarded -- \"$STORY\" forget"), 87);
}

/* Of two runs by one process the inner one adds to the other's count. */
TEST(a_run_that_becomes_a_run_is_required_too)
{
    assert_int_equal(run_shell("\"$CUFENCE\" run -- \"$CUFENCE\" run --require-guarded -- true"), 87);
    assert_int_equal(run_shell("\"$CUFENCE\" run --require-guarded -- \"$CUFENCE\" run -- \"$STORY\" clean"), 0);
    assert_int_equal(run_shell("\"$CUFENCE\" run --if-asked --require-guarded -- true"), 87);
}

/* Who may not look into the first process's descriptors has inherited this one. */
TEST(a_process_of_another_user_counts)
{
#ifdef __SANITIZE_THREAD__
    skip(); /* it crashes there in this library each time, before main(); why is not known */
#endif
    const char *nobody = "setpriv --reuid 65534 --clear-groups";
    char command[512];
    snprintf(command, sizeof command, "%s test -x \"$STORY\" && %s ls /proc/1/fd 2>&1 | grep -q denied", nobody, nobody);
    if (getuid() != 0 || system(command) != 0)
        skip();
    snprintf(command, sizeof command, "\"$CUFENCE\" run --require-guarded -- sh -c '%s \"$STORY\" clean; true'", nobody);
    assert_int_equal(run_shell("%s", command), 0);
    assert_int_equal(count_in(text, "NOTHING WAS GUARDED"), 0);
}

/* ---- what other processes of the program have found, and have yet to ---- */

/* Its finding is found all the same, by way of who has started it. */
#define CLEARED "env -i LD_LIBRARY_PATH=\"$LD_LIBRARY_PATH\" ASAN_OPTIONS=\"$ASAN_OPTIONS\" \"$CUFENCE\" run -- \"$STORY\""

TEST(a_finding_of_any_process_is_one_of_the_run)
{
    assert_int_equal(run_shell("\"$CUFENCE\" run -- sh -c '" CLEARED "; true'"), 86);
    assert_int_equal(run_shell("\"$CUFENCE\" hunt --modes end -- sh -c '" CLEARED "; true'"), 86);
    HAS("cufence hunt: 1 finding in 1 run\n");
    assert_int_equal(run_shell("\"$CUFENCE\" run -- sh -c '\"$STORY\"; true'"), 86);
    assert_int_equal(count_in(text, "cufence run: something was found (--error-exitcode 0 keeps the program's status); exit "
                                    "status 86\n"),
                     1);
    assert_int_equal(run_shell("\"$CUFENCE\" run --error-exitcode 7 -- sh -c '\"$STORY\"; true'"), 7);
    assert_int_equal(run_shell("\"$CUFENCE\" run --error-exitcode 0 -- sh -c '\"$STORY\"; true'"), 0);
    assert_int_equal(run_shell("\"$CUFENCE\" run -- sh -c '\"$STORY\"; exit 3'"), 3);
    assert_int_equal(run_shell("CUFENCE_DRIVER=sim \"$CUFENCE\" run -- \"$CUFENCE\" demo"), 86);
    assert_int_equal(
        count_in(text, "cufence run: CUFENCE_DRIVER=sim: the simulated device is for `cufence demo` and tests only"), 1);
    assert_int_equal(run_shell("CUFENCE_DRIVER=sim \"$CUFENCE\" demo"), 0);
    HAS("!simulated device is for", "!exit status 86");
}

/* The first process, which ends at once, is waited for by another one. */
#define BACKGROUND(what) "--require-guarded -- sh -c '\"$STORY\" clean; (sleep 1; exec " what ") >/dev/null 2>&1 &'"

TEST(what_is_required_waits_for_all_processes)
{
    assert_int_equal(run_shell("\"$CUFENCE\" run " BACKGROUND("\"$STORY\"")), 86);
    assert_int_equal(run_shell("\"$CUFENCE\" run " BACKGROUND("\"$STORY\" clean")), 0);
    HAS("1 allocation guarded", "!no verdict");
    assert_int_equal(run_shell("\"$CUFENCE\" run " BACKGROUND("sleep 50")), 87);
    HAS("cufence run: no verdict: 1 process that the program started still runs (--require-guarded); exit status 87\n");
}

/* Nothing is claimed of a process that has not told all, nor is it waited for who is told to stop. */
TEST(a_hunt_gives_no_verdict_on_what_was_not_looked_at)
{
    static const struct {
        const char *command, *why;
        int status;
    } cases[] = {
        {"\"$STORY\" killed", "processes that used CUDA have not said at their end what was guarded in end", 87},
        {"\"$STORY\" leave", "processes that used CUDA have not said at their end what was guarded in end", 87},
        {"exec " CLEARED, "something was found in end, but no report of it ", 87},
        {"rm \"$CUFENCE_COLLECT\"; mkdir \"$CUFENCE_COLLECT\"; \"$STORY\" clean; rmdir \"$CUFENCE_COLLECT\"",
         "not everything could be seen or written in end, ", 87},
        {"CUFENCE_DRIVER=/nowhere \"$STORY\"", "nothing was guarded in end, or not in all processes", 87},
        {"setsid sleep 50 >/dev/null 2>&1 &", "not every run was made to its end", 128 + SIGINT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *stop = cases[i].status == 87 ? "" : "timeout --foreground --preserve-status -s INT 6 ";
        time_t began = time(NULL);
        int status = run_shell("%s\"$CUFENCE\" hunt --modes end --json list -- sh -c '\"$STORY\" clean; %s\ntrue'", stop,
                               cases[i].command);
        expect_words(status, cases[i].status, PATTERNS("nothing found in 1 run\nInconclusive: ", cases[i].why));
        assert_int_equal(run_shell("grep -q '\"complete\": false' list"), i == 4);
        assert_true(time(NULL) - began < 25);
    }
}

/* Of a fault in a nested run without dumps no more is known. */
TEST(a_hunt_lists_what_is_not_explained)
{
    int status = run_shell("\"$CUFENCE\" hunt --modes end -- sh -c '\"$CUFENCE\" run --explain off -- \"$STORY\"; true'");
    expect_words(status, 86,
                 PATTERNS("1  unexplained", "CUDA_ERROR_ILLEGAL_ADDRESS; without a core dump, nothing more is known"));
}

TEST(what_the_program_has_printed_is_not_lost)
{
    assert_int_equal(run_shell("\"$CUFENCE\" run --require-guarded -- \"$STORY\" print"), 0);
    HAS("printed");
}

TEST(a_signal_stays_a_signal)
{
    assert_int_equal(run_shell("sh -c '\"$CUFENCE\" run --require-guarded -- sh -c \"kill -9 \\$\\$\"; exit $?'"), 128 + 9);
}

/* What is said is for standard error, and not for a file that has its number by then. */
TEST(another_file_gets_no_word)
{
    assert_int_equal(run_shell("\"$CUFENCE\" run -- sh -c 'exec 2>other'; cat other >&2"), 0);
    assert_string_equal(text, "");
}

static void starts_with_a_folder_that_cannot_be(void)
{
    CHECK_OK(cufence_init("keep=/dev/null/saves,log=/dev/null"));
}

/* Not at the fault, when it is too late. */
TEST(an_output_that_cannot_be_written_is_told_at_the_start)
{
    setenv("CUFENCE_DRIVER", "sim", 1);
    struct outcome outcome = run_child(starts_with_a_folder_that_cannot_be);
    unsetenv("CUFENCE_DRIVER");
    const char *start =
        strstr(outcome.err, " cufence: keep=/dev/null/saves: nothing can be written there: /dev/null/saves: Not a "
                            "directory; name a folder that can be written\n");
    assert_non_null(start);
    assert_null(strstr(outcome.err, "log="));
    assert_true(start < strstr(outcome.err, "NOTHING WAS GUARDED"));
    free(outcome.err);
}

/* With the variable exported, every Python runs under --if-asked: only those that have loaded PyTorch say that they used no
 * CUDA. */
TEST(asked_by_pytorchs_variable_only_pytorch_speaks)
{
    setenv("PYTORCH_CUDA_ALLOC_CONF", "backend:cufence", 1);
    assert_int_equal(run_shell("\"$CUFENCE\" run --if-asked -- true"), 0);
    assert_string_equal(text, "");
    assert_int_equal(run_shell("cp \"$(ldd \"$CUFENCE\" | awk '/libz.so.1/ { print $3 }')\" libtorch_fake.so\n"
                               "LD_PRELOAD=./libtorch_fake.so \"$CUFENCE\" run --if-asked -- true"),
                     0);
    assert_int_equal(count_in(text, NO_CUDA), 1);
    unsetenv("PYTORCH_CUDA_ALLOC_CONF");
}

/* A limit for files that the program sets is none for what it tells. */
static void starts_cufence(void)
{
    CHECK_OK(cufence_init(NULL));
    setrlimit(RLIMIT_FSIZE, &(const struct rlimit){0, 0});
    tally_note(TALLY_GUARDED);
}

/* Who starts cufence by a call of its own is told too, unless whoever keeps the tally does it. */
TEST(a_process_without_a_context_is_told)
{
    setenv("CUFENCE_DRIVER", "sim", 1);
    struct outcome outcome = run_child(starts_cufence);
    assert_non_null(strstr(outcome.err, " cufence: NOTHING WAS GUARDED: this process created no CUDA context\n"));
    free(outcome.err);
    char name[TALLY_NAME];
    struct tally tally;
    int fd = tally_make(name);
    assert_true(fd >= 0 && tally_set(name));
    outcome = run_child(starts_cufence);
    assert_string_equal(outcome.err, "");
    assert_true(outcome.status == 0 && tally_read(fd, &tally) && tally.counts[TALLY_GUARDED] == 1);
    free(outcome.err);
    close(fd);
    unsetenv(TALLY_VARIABLE);
    unsetenv("CUFENCE_DRIVER");
}

TEST_GROUP(set_up, remove_folder)

TEST_CONCURRENTLY
