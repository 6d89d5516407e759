/* The second launch and the program's surroundings: how either ends, and what the program sees of the other process. */
#include "second_launch.h"

#include "base/clock.h"
#include "fault/rerun_source.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define GONE_MS 200  /* how long the rerun process may outlive the program */
#define SLOW_MS 5000 /* the same on a machine that has other things to do; without a watch it took 62 s here */

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

static void hang(void)
{
    fault_in("hang_later", "explain=rerun");
    pause();
}

/* A child has the program's descriptors, and so its end of the socket. */
static void hang_and_fork(void)
{
    start("explain=rerun");
    launch("hang_later", allocate(COUNT * 4), COUNT);
    await_rerun();
    if (fork() == 0) {
        sleep(60);
        _exit(0);
    }
    pause();
}

static void hang_and_replace(void)
{
    start("explain=rerun");
    launch("hang_later", allocate(COUNT * 4), COUNT);
    await_rerun();
    execl("/bin/sleep", "sleep", "60", (char *)NULL);
    _exit(99);
}

/* Kills the program, unless it replaces itself, while its second launch hangs. */
static void expect_end(void (*story)(void), int is_killed)
{
    make_told();
    pid_t program = fork();
    if (program == 0) {
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        setpgid(0, 0);
        story();
        _exit(0);
    }
    pid_t second = await_rerun();
    assert_true(second > 0);
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, second, 0), .events = POLLIN};
    assert_true(end.fd >= 0 || errno == ESRCH);
    if (end.fd >= 0 && is_killed)
        assert_int_equal(poll(&end, 1, 0), 0);
    uint64_t begin = monotonic_ms();
    if (is_killed)
        kill(program, SIGKILL);
    if (end.fd >= 0)
        assert_int_equal(poll(&end, 1, SLOW_MS), 1);
    if (monotonic_ms() - begin > GONE_MS)
        fprintf(stderr, "the rerun process ended after %d ms\n", (int)(monotonic_ms() - begin));
    close(end.fd);
    kill(-program, SIGKILL);
    waitpid(program, NULL, 0);
    unlink(told);
}

TEST(test_killed)
{
    expect_end(hang, 1);
}

TEST(test_forked)
{
    expect_end(hang_and_fork, 1);
}

TEST(test_replaced)
{
    expect_end(hang_and_replace, 0);
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

/* ---- the program has no descriptors left ---- */

/* Uses up all but so many. */
static void use_up(int left)
{
    struct rlimit limit;
    int last = -1;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = 300;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (int made; (made = dup(STDERR_FILENO)) >= 0;)
        last = made;
    for (; left; last--)
        left -= close(last) == 0;
}

static void launch_hosted(void)
{
    struct hosted *pinned = pin(sizeof *pinned);
    pinned->out = allocate(COUNT * 4);
    launch_all("write_by_hosted", (void *[]){&pinned->out, &pinned});
}

static void tell_limited(void)
{
    start("explain=rerun");
    use_up(2); /* the driver needs one for its dump */
    launch_hosted();
    cuCtxSynchronize();
}

TEST(test_limited)
{
    SKIP_WITHOUT_HOST_MEMORY;
    expect_said(tell_limited, PATTERNS(PAST_THE_END, THREAD_PAST_THE_END, WRITTEN_PAST_THE_END));
}

/* The driver's dump of a full device takes seconds, and that of a second launch would again. */
TEST(a_full_device_leaves_little_time_unless_it_is_asked_for)
{
    struct options options = {.explain = EXPLAIN_AUTO, .exit_wait = 1000, .rerun_ms = 10000};
    struct evidence evidence = {.warps = 800}; /* 100 blocks of 256 threads */
    char name[96];
    assert_int_equal(rerun_source_limit(&options, &evidence, name), 10000);
    assert_string_equal(name, "wait_ms=1000/10000");
    evidence.warps = 8448;
    assert_true(rerun_source_limit(&options, &evidence, name) < 1000);
    assert_string_equal(name, "the second that it has on a full device (explain=rerun: wait_ms=1000/10000)");
    options.rerun_ms = 100;
    assert_int_equal(rerun_source_limit(&options, &evidence, name), 100);
    options = (struct options){.explain = EXPLAIN_RERUN, .rerun_ms = 10000};
    assert_int_equal(rerun_source_limit(&options, &evidence, name), 10000);
}

static int count_sockets(void)
{
    char path[64];
    struct stat file;
    int count = 0;
    for (int i = 0; i < 300; i++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", i);
        count += stat(path, &file) == 0 && S_ISSOCK(file.st_mode);
    }
    return count;
}

static int socket_count;

/* Once the rerun process is under way, nothing can be opened. */
static void *grab(void *unused)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    AWAIT(count_sockets() > socket_count || cufence_fault_count() > 0); /* or it was too quick */
    limit.rlim_cur = 3;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    AWAIT(cufence_fault_count() > 0);
    return NULL;
}

/* Memory that could not be handed over is no memory of zeros, where the pointer would be a null pointer. If the thread is late,
 * everything has been handed over. */
TELLS(grabbed, "could not be (launched again|handed over)|" PAST_THE_END, "!null-pointer")
{
    pthread_t thread;
    start("explain=rerun");
    socket_count = count_sockets();
    CHECK(pthread_create(&thread, NULL, grab, NULL) == 0);
    launch_hosted();
    cuCtxSynchronize();
    CHECK(pthread_join(thread, NULL) == 0);
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
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        story();
        exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

/* Where the pipe needs a name, the next process removes those of dead ones. */
TELLS(swept, PAST_THE_END, THREAD_PAST_THE_END)
{
    CHECK(refuse(SYS_close_range) && refuse(SYS_unshare));
    make_folder();
    int status = status_of(end_killed);
    CHECK(WIFSIGNALED(status) && count_files(folder) == 1);
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

/* A program that closes what it does not know, and uses the numbers anew. */
STORY(what_the_program_has_put_in_our_descriptors_place_is_left_alone)
{
    char name[64], found[8] = "";
    void *out;
    start("explain=rerun,on_fault=error/0");
    out = allocate(COUNT * 4);
    make_folder();
    snprintf(name, sizeof name, "%s/own", folder);
    for (int i = 3; i < 300; i++)
        close(i);
    int own = open(name, O_RDWR | O_CREAT, 0600);
    CHECK(own >= 0 && write(own, "mine", 4) == 4);
    for (int i = 4; i < 300; i++)
        CHECK(dup2(own, i) == i);
    launch("write_last", out, COUNT);
    cuCtxSynchronize();
    CHECK_OK(cufence_wait_reports(REPORT_MS));
    CHECK(cufence_fault_count() == 1);
    CHECK(pread(own, found, sizeof found, 0) == 4 && !strcmp(found, "mine"));
    CHECK(unlink(name) == 0 && rmdir(folder) == 0);
    lseek(own, 0, SEEK_SET);
}

static void tell_standard(void)
{
    char path[64], target[256];
    close(0);
    close(1);
    start("explain=rerun");
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", i);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        CHECK(length < 0 || !strncmp(target, "/memfd:cufence-sim", 18)); /* the driver's, as without us */
    }
    launch("write_last", allocate(COUNT * 4), COUNT);
    cuCtxSynchronize();
}

/* Sockets and pipe of the second launch get these numbers. */
static void tell_closed_later(void)
{
    start("explain=rerun");
    void *out = allocate(COUNT * 4);
    close(0);
    close(1);
    launch("write_last", out, COUNT);
    cuCtxSynchronize();
}

/* Nothing of ours takes the place of standard streams that the program has closed. */
TEST(test_standard)
{
    expect_said(tell_standard, PATTERNS(PAST_THE_END, THREAD_PAST_THE_END));
    expect_said(tell_closed_later, PATTERNS(PAST_THE_END, THREAD_PAST_THE_END));
}

static void tell_other_user(void)
{
    start("explain=dump");
    void *out = allocate(COUNT * 4);
    CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    launch("write_last", out, COUNT);
    cuCtxSynchronize();
}

/* A program that gives up root when it has started: the driver opens the pipe as the new user. */
TEST(test_other_user)
{
    if (geteuid() != 0)
        skip();
    expect_said(tell_other_user, PATTERNS("illegal memory access by a WRITE", "write_last"));
}
