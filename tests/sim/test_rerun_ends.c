/* The second launch and the program's surroundings: what the program sees of the other process, and what is left behind. How
 * either ends, and programs without descriptors or with others in their place: torture.surroundings. */
#include "second_launch.h"

#include "fault/rerun_source.h"

#include <poll.h>
#include <sys/syscall.h>

static char told[] = "/tmp/cufence-test-XXXXXX";

static void make_told(void)
{
    int file = mkstemp(strcpy(told, "/tmp/cufence-test-XXXXXX"));
    assert_true(file >= 0);
    close(file);
    setenv("CUFENCE_TEST_RERUN", told, 1);
}

/* Waits for the number that the rerun process tells. */
static pid_t await_rerun(void)
{
    int pid = 0, length = 0;
    AWAIT({
        FILE *file = fopen(told, "re");
        int is_told = file && fscanf(file, "%d\n%n", &pid, &length) == 1 && length;
        if (file)
            fclose(file);
        is_told;
    });
    return pid;
}

/* ---- what the program sees ---- */

static volatile sig_atomic_t signals;

static void count_signal(int signal)
{
    signals++;
}

static void tell_reaping(void)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    signal(SIGCHLD, count_signal);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    start("explain=rerun,wait_ms=1000/300");
    launch("hang_later", allocate(COUNT * 4), COUNT);
    await_rerun();
    CHECK(waitpid(-1, NULL, WNOHANG) == -1);
    syscall(SYS_close, ends[1]); /* ThreadSanitizer takes descriptors of a process that shares memory for this one's */
    CHECK(poll(&(struct pollfd){.fd = ends[0]}, 1, 0) == 1); /* nobody else has what the program closes */
    cuCtxSynchronize();
    CHECK_OK(cufence_wait_reports(REPORT_MS));
    CHECK(waitpid(-1, NULL, WNOHANG) == -1);
    CHECK(waitpid(-1, NULL, WNOHANG | __WALL) == -1);
    CHECK(signals == 0);
}

/* As the first process of a container is one: what has no parent becomes its child. */
TEST(test_reaping)
{
    make_told();
    expect_said(tell_reaping, PATTERNS("it took longer than wait_ms=1000/300"));
    unlink(told);
}

TELLS(ignored, PAST_THE_END, THREAD_PAST_THE_END)
{
    signal(SIGCHLD, SIG_IGN);
    fault_in("write_last", "explain=rerun");
    CHECK_OK(cufence_wait_reports(REPORT_MS));
    CHECK(waitpid(-1, NULL, WNOHANG | __WALL) == -1);
}

/* The driver's dump of a full device takes seconds, and that of a second launch would again. */
TEST(many_warps_leave_little_time_unless_it_is_asked_for)
{
    struct options options = {.explain = EXPLAIN_AUTO, .exit_wait = 1000, .rerun_ms = 10000};
    struct evidence evidence = {.warps = 511};
    char name[96];
    assert_int_equal(rerun_source_limit(&options, &evidence, name), 10000);
    assert_string_equal(name, "wait_ms=1000/10000");
    evidence.warps = 800; /* 100 blocks of 256 threads */
    assert_true(rerun_source_limit(&options, &evidence, name) < 1000);
    assert_string_equal(name, "the second that it has where 512 warps run (explain=rerun: wait_ms=1000/10000)");
    options.rerun_ms = 100;
    assert_int_equal(rerun_source_limit(&options, &evidence, name), 100);
    options = (struct options){.explain = EXPLAIN_RERUN, .rerun_ms = 10000};
    assert_int_equal(rerun_source_limit(&options, &evidence, name), 10000);
}

/* ---- what is left behind ---- */

static char folder[] = "/tmp/cufence-test-XXXXXX";

static void make_folder(void)
{
    CHECK(mkdtemp(strcpy(folder, "/tmp/cufence-test-XXXXXX")));
    setenv("TMPDIR", folder, 1);
}

static void end_killed(void)
{
    start("explain=dump");
    CHECK(count_files(folder) == 1);
    kill(getpid(), SIGKILL);
}

static void live_on(void)
{
    start("explain=dump");
    pause();
}

static void end_well(void)
{
    start("explain=dump");
    CHECK(count_files(folder) == 2); /* its own, and that of the living process */
}

static void age_names(void)
{
    char path[600];
    const struct timespec old[] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    DIR *open = opendir(folder);
    CHECK(open);
    for (const struct dirent *entry; (entry = readdir(open)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        CHECK(entry->d_name[0] == '.' || utimensat(AT_FDCWD, path, old, 0) == 0);
    }
    closedir(open);
}

static int status_of(void (*story)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        story();
        exit(0);
    }
    return await_child(pid);
}

/* Where the pipe needs a name, the next process removes those of dead ones. */
TELLS(swept, PAST_THE_END, THREAD_PAST_THE_END)
{
    CHECK(refuse(SYS_close_range) && refuse(SYS_unshare));
    make_folder();
    CHECK(status_of(end_killed) == 128 + SIGKILL && count_files(folder) == 1);
    pid_t living = fork();
    if (living == 0)
        live_on();
    AWAIT(count_files(folder) == 2); /* the first is too new to be swept: it might have no reader yet */
    usleep(100000);
    age_names();
    CHECK(status_of(end_well) == 0 && count_files(folder) == 1);
    kill(living, SIGKILL);
    waitpid(living, NULL, 0);
    fault_in("write_last", "explain=rerun");
}
