/* `cufence hunt` with programs that know nothing of cufence (programs/), on the simulated device. */
#include "support/shell.h"

#include <jansson.h>
#include <time.h>

/* `text` is what a hunt has printed on stderr. */
static struct {
    int status; /* exit status, or 128 + signal */
    char out[65536];
    json_t *list; /* what --json has written, or NULL */
} last;

static int set_up(void **state)
{
    int failed = make_folder(state);
    setenv("CUFENCE", CUFENCE_CLI, 1);
    setenv("PROGRAM", PROGRAMS_FOLDER "/program_dlsym", 1);
    setenv("FOLDER", folder, 1);
    setenv("TMPDIR", folder, 1); /* so that what a hunt leaves there is seen */
    setenv("LD_LIBRARY_PATH", LIBCUDA_FOLDER, 1);
    unsetenv("CUFENCE_DRIVER");
    unsetenv("CUFENCE_OPTIONS");
    return failed;
}

static void read_file(const char *name, char *to, size_t size)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    to[file ? fread(to, 1, size - 1, file) : 0] = '\0';
    if (file)
        fclose(file);
}

static void take_outcome(int status)
{
    char list[256];
    last.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    read_file("out", last.out, sizeof last.out);
    read_file("err", text, sizeof text);
    snprintf(list, sizeof list, "%s/list.json", folder);
    json_decref(last.list);
    last.list = json_load_file(list, 0, NULL);
}

static pid_t start(const char *arguments)
{
    char command[2048];
    snprintf(command, sizeof command, "exec \"$CUFENCE\" hunt %s >\"$FOLDER/out\" 2>\"$FOLDER/err\"", arguments);
    assert_int_equal(system("rm -rf \"$FOLDER\"/*"), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(300);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(99);
    }
    return pid;
}

/* Runs `cufence hunt` with arguments as one writes them in a shell. */
static void hunt(const char *arguments)
{
    int status = -1;
    pid_t pid = start(arguments);
    waitpid(pid, &status, 0);
    take_outcome(status);
}

#define HUNT "--json \"$FOLDER/list.json\" "

#define expect(ending, ...) expect_words(last.status, ending, PATTERNS(__VA_ARGS__))

/* The finding of that kind about a buffer of that size: its modes, as "end,align"; its reports. */
static void expect_finding(const char *kind, long long size, const char *modes, long long reports)
{
    size_t i, j;
    json_t *finding, *mode;
    char seen[64] = "";
    long long count = 0;
    json_array_foreach(json_object_get(last.list, "findings"), i, finding)
    {
        json_t *report = json_object_get(finding, "report");
        if (strcmp(json_string_value(json_object_get(report, "kind")), kind) != 0 ||
            json_integer_value(json_object_get(json_object_get(report, "buffer"), "size")) != size)
            continue;
        json_array_foreach(json_object_get(finding, "modes"), j, mode)
            snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s%s", *seen ? "," : "", json_string_value(mode));
        count += json_integer_value(json_object_get(finding, "reports"));
    }
    assert_string_equal(seen, modes);
    assert_int_equal(count, reports);
}

static size_t found(void)
{
    return json_array_size(json_object_get(last.list, "findings"));
}

static int is_left(const char *pattern)
{
    char command[256];
    snprintf(command, sizeof command, "ls -d \"$FOLDER\"/%s >/dev/null 2>&1", pattern);
    return system(command) == 0;
}

/* ---- the list ---- */

TEST(each_mode_finds_another_bug)
{
    hunt(HUNT "--uaf off -- \"$PROGRAM\" several_bugs"); /* but for the mode strict */
    expect(86, "cufence hunt: 4 findings in 4 runs\n");
    assert_int_equal(found(), 4);
    expect_finding("overrun", 16384, "end", 1);
    expect_finding("underrun", 4096, "start", 1);
    expect_finding("overrun", 8188, "align", 1);
    expect_finding("use-after-free", 12288, "strict", 1);
    assert_true(json_is_true(json_object_get(last.list, "complete")));
    assert_int_equal(json_array_size(json_object_get(last.list, "runs")), 4);
    expect(
        86, "cufence hunt: run 1 of 4: end (side=end), ", "cufence hunt: start: exit status 1 after ",
        "\n  2  underrun at kernels.cu:12 in store\n     out-of-bounds WRITE of 4 bytes, 4 bytes before the start of buffer #1 "
        "(derived); the buffer has\n     4096 bytes\n",
        "program.c:103 in store, called from ", "     found by      strict\n", "No mode sees: ");
    assert_false(is_left("cufence-hunt-*"));
}

TEST(the_same_finding_is_listed_once)
{
    /* Two children of one program, in three modes. */
    hunt(HUNT "--modes end,align,strict sh -c '\"$PROGRAM\" overrun & \"$PROGRAM\" overrun; wait'");
    expect(86, "cufence hunt: 1 finding in 3 runs\n");
    assert_int_equal(found(), 1);
    expect_finding("overrun", 4096, "end,align,strict", 6);
    expect(86, "     found by      end, align, strict (6 reports)\n", "!accesses before the start");
}

/* In one mode it faults, in another its bytes are found beside the buffer, before that or after. */
TEST(what_an_access_leaves_in_other_modes_is_no_second_finding)
{
    for (size_t i = 0; i < 2; i++) {
        hunt(i ? HUNT "-- \"$PROGRAM\" beside async 1000 3" : HUNT "-- \"$PROGRAM\" overrun");
        expect(86, "cufence hunt: 1 finding in 4 runs\n");
        assert_int_equal(found(), 1);
        expect_finding("overrun", i ? 1000 : 4096, "end,start,align,strict", 4);
    }
}

TEST(options_reach_every_run)
{
    hunt("--modes start,end --guard 1G --set stacks=off --preset production -- sh -c 'echo $CUFENCE_OPTIONS'");
    expect(87, "cufence hunt: nothing found in 2 runs\nInconclusive: nothing was guarded in end, start, ");
    assert_non_null(strstr(last.out, "say=quiet,guard=1G,stacks=off,side=end,on_fault=/0\n"));
    assert_non_null(strstr(last.out, "say=quiet,guard=1G,stacks=off,side=start,on_fault=/0\n"));
    assert_true(strstr(last.out, "side=end") < strstr(last.out, "side=start"));
}

TEST(reports_are_kept_where_asked)
{
    hunt("--modes end --error-exitcode 9 --keep \"$FOLDER/a%kept\" -- \"$PROGRAM\" overrun");
    expect(9, "the reports of each run are in ");
    assert_true(is_left("a%kept/end.json"));
}

TEST(the_list_goes_to_standard_output_too)
{
    hunt("--modes end --json - -- true");
    expect(87, "nothing found in 1 run\n");
    json_t *list = json_loads(last.out, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(list, "schema")), 1);
    assert_string_equal(json_string_value(json_array_get(json_object_get(list, "command"), 0)), "true");
    json_decref(list);
}

TEST(the_list_is_there_from_the_start)
{
    hunt(HUNT "--modes end --keep \"$FOLDER/kept\" -- "
              "sh -c 'cd $FOLDER && grep -q \"complete.*false\" list.json && exec $PROGRAM overrun'");
    expect(86, "1 finding in 1 run\n");
    assert_int_equal(found(), 1);
    char path[256];
    snprintf(path, sizeof path, "%s/p.sarif", folder); /* other documents are made of what is kept */
    assert_int_equal(system("cd \"$FOLDER\" && \"$CUFENCE\" report --sarif p.sarif kept/*.json >/dev/null"), 0);
    json_t *sarif = json_load_file(path, 0, NULL);
    json_t *run = json_array_get(json_object_get(sarif, "runs"), 0);
    assert_int_equal(json_array_size(json_object_get(run, "results")), 1);
    json_decref(sarif);
}

/* The files of the last hunt are replaced by another hunt, and not by a mistake. */
TEST(a_hunt_that_cannot_begin_leaves_the_last_one)
{
    char was[4096], is[4096];
    hunt(HUNT "--modes end --keep \"$FOLDER/kept\" -- \"$PROGRAM\" overrun");
    read_file("list.json", was, sizeof was);
    expect_words(run_shell("\"$CUFENCE\" hunt --json list.json --keep none -- no-such-program"), 127,
                 PATTERNS("no-such-program"));
    expect_words(run_shell("\"$CUFENCE\" hunt --json list.json --keep kept -- true"), 2,
                 PATTERNS("reports of an earlier hunt are there (end.json); name another folder"));
    expect_words(run_shell("\"$CUFENCE\" hunt --keep 'a\nb' -- true"), 126, PATTERNS("a line end is in the name of "));
    read_file("list.json", is, sizeof is);
    assert_string_equal(was, is);
    assert_false(is_left("none"));
    assert_false(is_left("*.tmp"));
}

/* Also if the inode is that of ours. */
TEST(two_hunts_into_one_file_are_two_lists)
{
    hunt(HUNT "--modes end -- sh -c 'echo other >\"$FOLDER/list.json\"'");
    expect(87, "list.json: somebody else has replaced it meanwhile; the list is in ");
    read_file("list.json", text, sizeof text);
    assert_string_equal(text, "other\n");
    assert_true(is_left("list.json.*"));
}

TEST(findings_of_an_earlier_hunt_can_be_left_out)
{
    hunt(HUNT "--modes end -- \"$PROGRAM\" overrun");
    expect(86, "1 finding in 1 run\n");
    assert_int_equal(system("cp \"$FOLDER/list.json\" \"$FOLDER-before.json\""), 0);
    hunt(HUNT "--modes end --known \"$FOLDER-before.json\" -- \"$PROGRAM\" overrun");
    assert_int_equal(found(), 0);
    assert_int_equal(json_integer_value(json_object_get(last.list, "known")), 1);
    expect(0, "cufence hunt: 1 known finding is (known=) left out\n");
    assert_int_equal(system("rm \"$FOLDER-before.json\""), 0);
}

/* ---- how runs end ---- */

TEST(a_program_that_fails_by_itself_is_told)
{
    hunt(HUNT "--modes end,start -- sh -c 'exit 3'");
    expect(87, "cufence hunt: end: exit status 3 after ", "no finding: the program failed by itself; nothing was guarded\n",
           "The program failed without a finding in end, start: ");
    json_t *run = json_array_get(json_object_get(last.list, "runs"), 0);
    assert_int_equal(json_integer_value(json_object_get(run, "exit_status")), 3);
    hunt(HUNT "--modes end -- sh -c 'kill -KILL $$'");
    expect(87, "cufence hunt: end: killed by signal 9 (Killed) after ");
    run = json_array_get(json_object_get(last.list, "runs"), 0);
    assert_int_equal(json_integer_value(json_object_get(run, "signal")), 9);
}

/* 0 means that every run was made, that its memory was guarded, and that nothing was found. */
TEST(the_status_is_the_verdict)
{
    static const struct {
        const char *arguments, *said;
        int status, is_guarded;
    } cases[] = {
        {"-- \"$PROGRAM\" small_ones", "\nEach process that was seen to use CUDA has said at its end ", 0, 1},
        {"-- \"$PROGRAM\" overrun", "", 86, 1},
        {"-- true", "Inconclusive: nothing was guarded in end, ", 87, 0},
        {"--require-guarded -- true", "Inconclusive: nothing was guarded in end, ", 87, 0},
        {"--no-require-guarded -- true", "end     accesses past the end of a buffer                nothing was guarded\n", 0,
         0},
        {"--no-require-guarded -- false", "Inconclusive: the program failed by itself.\n", 87, 0},
        {"--skip smaller:1G -- \"$PROGRAM\" small_ones", "Inconclusive: nothing was guarded in end, ", 87, 0},
        {"-- sh -c '\"$PROGRAM\" small_ones; exit 3'", "Inconclusive: the program failed by itself.\n", 87, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char arguments[512];
        snprintf(arguments, sizeof arguments, HUNT "--modes end %s", cases[i].arguments);
        hunt(arguments);
        expect(cases[i].status, cases[i].said);
        const json_t *run = json_array_get(json_object_get(last.list, "runs"), 0);
        assert_int_equal(json_is_true(json_object_get(run, "guarded")), cases[i].is_guarded);
    }
}

TEST(a_program_that_cannot_be_run_is_told_once)
{
    hunt("-- no-such-program");
    expect(127, "cufence run: there is no program no-such-program", "!run 2 of 4", "!nothing found");
    hunt("-- /");
    expect(126, "cufence run: / is a directory");
    static const char *const files[] = {"", "echo no interpreter", "\\177ELF\\2"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        assert_int_equal(run_shell("printf '%s' >\"$FOLDER-plain\" && chmod +x \"$FOLDER-plain\"", files[i]), 0);
        hunt("-- \"$FOLDER-plain\"");
        expect(126, "cannot be run: Exec format error; name the program", "!run 1");
        assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    }
    assert_int_equal(system("rm \"$FOLDER-plain\""), 0);
    hunt("-- sh -c 'exit 127'"); /* its own status is no reason to stop */
    expect(87, "run 4 of 4");
    assert_false(is_left("cufence-hunt-*"));
}

/* ---- processes that the first one leaves behind ---- */

TEST(a_process_in_the_background_is_waited_for)
{
    hunt(HUNT "--modes end -- sh -c '\"$PROGRAM\" small_ones; (sleep 1; exec \"$PROGRAM\" overrun) &'");
    expect(86, "cufence hunt: 1 finding in 1 run\n");
    expect_finding("overrun", 4096, "end", 1);
    assert_false(is_left("cufence-hunt-*"));
}

/* Nothing in its environment says where it comes from, and its parent has ended. */
TEST(a_daemon_with_a_cleared_environment_is_waited_for)
{
    hunt(HUNT "--modes end -- sh -c '\"$PROGRAM\" small_ones; setsid env -i LD_PRELOAD=\"$LD_PRELOAD\" "
              "CUFENCE_COLLECT=\"$CUFENCE_COLLECT\" LD_LIBRARY_PATH=\"$LD_LIBRARY_PATH\" ASAN_OPTIONS=\"$ASAN_OPTIONS\" "
              "sh -c \"sleep 1; exec \\\"\\$0\\\" overrun\" \"$PROGRAM\" >/dev/null 2>&1 &'");
    expect(86, "cufence hunt: 1 finding in 1 run\n");
    expect_finding("overrun", 4096, "end", 1);
}

/* A daemon is no reason to wait for ever, nor for a verdict; the next run is another one's. */
TEST(a_process_that_still_runs_is_no_verdict)
{
    hunt(HUNT
         "--modes end,start -- sh -c '\"$PROGRAM\" small_ones; mkdir \"$FOLDER/mark\" && exec sleep 50 >/dev/null 2>&1 &'");
    expect(87, "the program's first process has ended; waiting up to 30 s for 1 other, such as sleep (process ",
           "1 process that it started still runs, no finding\n",
           "Inconclusive: processes that the program started still run in end; let the program wait for them");
    assert_false(json_is_true(json_object_get(last.list, "complete")));
}

/* Its findings are those of whoever runs it. */
TEST(a_finding_of_a_command_inside_is_found)
{
    hunt(HUNT "--modes end -- env CUFENCE_DRIVER=sim \"$CUFENCE\" demo");
    expect(86, "cufence hunt: 1 finding in 1 run\n");
    hunt(HUNT "--modes end -- \"$CUFENCE\" hunt --modes start --keep \"$FOLDER/inner\" -- \"$PROGRAM\" overrun");
    expect(86, "cufence hunt: 1 finding in 1 run\n");
    assert_int_equal(found(), 1);
    assert_true(is_left("inner/start.json"));
}

/* ---- signals ---- */

static void wait_for(const char *word)
{
    const struct timespec pause = {0, 20000000};
    for (int i = 0; i < 2000; i++) {
        read_file("err", text, sizeof text);
        if (strstr(text, word))
            return;
        nanosleep(&pause, NULL);
    }
    fail_msg("\"%s\" was never said:\n%s", word, text);
}

TEST(a_signal_is_no_failure_of_the_programs_own)
{
    int status = -1;
    pid_t pid = start(HUNT "-- sh -c 'echo >&2 begun; exec sleep 90'");
    wait_for("\nbegun\n");
    kill(pid, SIGINT);
    waitpid(pid, &status, 0);
    take_outcome(status);
    expect(128 + SIGINT, "killed by signal 2 (Interrupt) after ", "!failed",
           "Inconclusive: not every run was made to its end.\n",
           "end     accesses past the end of a buffer                ended by a signal\n");
}

TEST(a_signal_ends_the_run_and_the_list_is_told)
{
    static const int signals[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < 2; i++) {
        int status = -1;
        pid_t pid = start(HUNT "-- sh -c '\"$PROGRAM\" overrun; exec sleep 90'");
        wait_for("SUMMARY: cufence: overrun");
        kill(pid, signals[i]);
        waitpid(pid, &status, 0);
        take_outcome(status);
        expect(86, "cufence hunt: 1 finding in 1 run\n", ": waiting for the program to end; a second one kills it");
        expect_finding("overrun", 4096, "end", 1);
        assert_false(json_is_true(json_object_get(last.list, "complete")));
        assert_false(is_left("cufence-hunt-*"));
    }
}

TEST(a_second_signal_kills)
{
    int status = -1;
    time_t began = time(NULL);
    pid_t pid = start("-- sh -c 'trap \"\" INT; echo >&2 trapped; while :; do sleep 0.1; done'");
    wait_for("\ntrapped\n");
    kill(pid, SIGINT);
    wait_for("a second one kills it");
    kill(pid, SIGINT);
    waitpid(pid, &status, 0);
    take_outcome(status);
    expect(128 + SIGINT, "cufence hunt: end: killed by signal 9 ", "nothing found in 1 run\n");
    assert_true(time(NULL) - began < 60);
}

/* ---- command lines ---- */

TEST(a_wrong_command_line_is_told)
{
    static const struct {
        const char *arguments, *message;
    } cases[] = {
        {"", "cufence hunt: no program given"},
        {"--modes end,ends -- true", "\"ends\" is not allowed; use some of: end start align strict fresh; did you mean end?"},
        {"--modes '' -- true", "--modes: \"\" is not allowed"},
        {"--modes end, -- true", "--modes: \"\" is not allowed"},
        {"--set uaf=maybe -- true", "cufence hunt: --set: uaf=maybe is not allowed; use off | adaptive | strict"},
        {"--preset thorogh -- true", "--preset: \"thorogh\" is not allowed; did you mean thorough? Use one of"},
        {"--moodes end -- true", "cufence hunt: unknown option \"--moodes\", did you mean --modes?"},
        {"--modes end,start --side start -- true", "cufence hunt: side=start has no effect: each mode of --modes sets side"},
        {"--modes strict --set guard=1G,uaf=off -- true", "cufence hunt: uaf=off has no effect"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hunt(cases[i].arguments);
        expect(2, cases[i].message);
        assert_null(strstr(text, "run 1 of"));
    }
    setenv("CUFENCE_OPTIONS", "uav=strict", 1);
    hunt("-- true");
    unsetenv("CUFENCE_OPTIONS");
    expect(2, "CUFENCE_OPTIONS: unknown option 'uav', did you mean 'uaf'?");
}

/* ---- the mode fresh ---- */

static void hunt_fresh(const char *name)
{
    char command[256];
    snprintf(command, sizeof command, HUNT "--modes fresh -- \"$PROGRAM\" unwritten %s", name);
    hunt(command);
}

/* A finding about a buffer of 1024 bytes, so many of whose elements were never written. */
static void expect_fresh(const char *elements)
{
    char sentence[128];
    assert_int_equal(found(), 1);
    expect_finding("first NaN", 1024, "fresh", 1);
    snprintf(sentence, sizeof sentence, " had %s uninitialised elements", elements);
    expect(86, sentence, "is memory used before", "cufence hunt: 1 finding in 1 run\n");
}

TEST(computing_with_floats_that_nobody_wrote_is_found)
{
    hunt_fresh("floats");
    expect_fresh("56");
    expect(86, "launched at ", "fresh_stories.c", "\n  1  first NaN\n     first NaN: add writes 56 NaN to buffer #2, ",
           "     allocated at  ", " in story_unwritten\n     found by      fresh\n");
    hunt_fresh("own");
    expect_fresh("256");
}

/* Memory that was another buffer's before is filled, too. */
TEST(memory_that_is_used_again_is_nobodys)
{
    hunt_fresh("reused");
    expect_fresh("256");
    hunt_fresh("async");
    expect_fresh("256");
}

TEST(a_copy_is_no_use_but_its_use_is_one)
{
    hunt_fresh("copied");
    expect(0, "cufence hunt: nothing found in 1 run\n");
    hunt_fresh("copied_and_used");
    expect_fresh("56"); /* what follows from it is none */
}

TEST(what_only_lies_beside_what_was_written_is_silent)
{
    hunt_fresh("clean");
    expect(0, "cufence hunt: nothing found in 1 run\n");
    assert_true(json_is_true(json_object_get(last.list, "complete")));
}

/* -1 as an index, in front of the buffer. */
TEST(an_index_that_nobody_wrote_leads_out_of_the_buffer)
{
    hunt_fresh("by_index");
    expect_finding("underrun", 1024, "fresh", 1);
}

TEST_GROUP(set_up, remove_folder)
TEST_CONCURRENTLY
