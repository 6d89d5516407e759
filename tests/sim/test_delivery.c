/*
 * Where reports go when standard error or the log does not take them, on the simulated device. Each story is a program of its
 * own, which this one becomes when it is started with the story's name: what a program's descriptors were at its start matters.
 */
#define TEST_OWN_MAIN
#include "fault_story.h"
#include "support/folder.h"
#include "torch/torch.h"

#include <jansson.h>
#include <sys/resource.h>

#define FIRST_LINE "cufence: a kernel has faulted on GPU 0; reading the driver's core dump\n"

static void faults(const char *options)
{
    start(options);
    fault_here();
    CHECK_OK(cufence_wait_reports(20000));
    CHECK(cufence_fault_count() == 1);
}

/* ---- stories by their names ---- */

static struct {
    const char *name;
    void (*run)(void);
} stories[32];
static size_t story_count;

#define NAMED(word)                                                                                                            \
    static void word(void);                                                                                                    \
    __attribute__((constructor)) static void word##_has_a_name(void)                                                           \
    {                                                                                                                          \
        stories[story_count].name = #word;                                                                                     \
        stories[story_count++].run = word;                                                                                     \
    }                                                                                                                          \
    static void word(void)

/* The story that the arguments name, or the tests. */
static int run_named(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < story_count; i++) {
        if (strcmp(argv[1], stories[i].name) == 0) {
            snprintf(folder, sizeof folder, "%s", getenv("DELIVERY_FOLDER")); /* the test's */
            stories[i].run();
            return 0;
        }
    }
    return test_run(argc, argv);
}

/* ---- stories ---- */

NAMED(plain)
{
    faults("on_fault=error/7");
}

NAMED(redirects)
{
    int log = open(in_folder("err"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(dup2(log, 2) == 2);
    faults("on_fault=error/7");
}

NAMED(logs)
{
    char options[400];
    snprintf(options, sizeof options, "on_fault=error/7,log=%s", in_folder("log"));
    faults(options);
}

NAMED(changes_folder)
{
    CHECK(chdir(folder) == 0);
    start("on_fault=error/7,log=log");
    CHECK(chdir("/") == 0);
    fault_here();
    CHECK_OK(cufence_wait_reports(20000));
}

static void *print_more(void *unused)
{
    cufence_torch_add("of another thread\n", "{}");
    return unused;
}

/* Standard error is full: another thread waits to print when the report comes. */
NAMED(aborts_beside_another)
{
    pthread_t thread;
    start("on_fault=abort");
    CHECK(pthread_create(&thread, NULL, print_more, NULL) == 0);
    usleep(100000);
    fault_here();
    pause();
}

/* The disk is full for json=. */
NAMED(json_to_full_disk)
{
    faults("on_fault=error/7,json=/dev/full");
}

NAMED(json_to_nowhere)
{
    faults("on_fault=error/7,json=/nowhere/at/all");
}

NAMED(json_to_silent_fifo)
{
    char options[400];
    CHECK(mkfifo(in_folder("fifo"), 0600) == 0);
    snprintf(options, sizeof options, "on_fault=error/7,json=%s", in_folder("fifo"));
    faults(options);
}

/* The file cannot grow beyond what it holds after the first report and a bit: the second report is cut. */
NAMED(json_to_file_that_fills)
{
    char options[400];
    struct rlimit limit;
    snprintf(options, sizeof options, "on_fault=continue/7,json=%s", in_folder("json"));
    faults(options);
    struct stat file;
    CHECK(stat(in_folder("json"), &file) == 0);
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = (rlim_t)file.st_size + 100;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    use_device(1);
    fault_here();
    CHECK_OK(cufence_wait_reports(20000));
    limit.rlim_cur = limit.rlim_max;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    use_device(2);
    fault_here();
    CHECK_OK(cufence_wait_reports(20000));
    CHECK(cufence_fault_count() == 3);
}

/* The driver takes more than a second for its dump, here for two pieces of what is none. */
NAMED(slow_dump)
{
    char fifo[1024] = "";
    size_t size = sizeof fifo;
    void *pointer = NULL;
    start("on_fault=continue/7,say=verbose");
    CHECK_OK(cufence_malloc(&pointer, COUNT * 4, -1, NULL));
    CHECK_CU(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, fifo, &size));
    int fd = open(fifo, O_WRONLY);
    CHECK(write(fd, "no ", 3) == 3);
    usleep(1300000);
    CHECK(write(fd, "dump", 4) == 4);
    close(fd);
    CHECK_OK(cufence_wait_reports(20000));
}

/* ---- what the parent sees ---- */

/* Starts this program for a story, with `standard_error` as its descriptor 2; -1: closed. */
static pid_t start_story(const char *story, int standard_error)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGPIPE, SIG_DFL);
        alarm(300);
        if (standard_error < 0)
            close(2);
        else
            dup2(standard_error, 2);
        for (int i = 3; i < 64; i++)
            close(i);
        setenv("CUFENCE_SIM", "devices=3", 1);
        setenv("DELIVERY_FOLDER", folder, 1);
        execl("/proc/self/exe", "delivery", story, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static char text[1 << 16];

/* All that comes until the end. */
static void read_all(int fd)
{
    size_t size = 0;
    for (ssize_t got; size < sizeof text - 1 && (got = read(fd, text + size, sizeof text - 1 - size)) > 0;)
        size += (size_t)got;
    text[size] = '\0';
    close(fd);
}

/* Returns the exit status; what the story prints is in `text`. */
static int run_story(const char *story)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = start_story(story, ends[1]);
    close(ends[1]);
    read_all(ends[0]);
    return await_child(pid);
}

static void expect(const char *story, int status)
{
    int ended = run_story(story);
    if (ended != status)
        print_error("%s ended with %d:\n%s\n", story, ended, text);
    assert_int_equal(ended, status);
}

static void expect_text(const char *wanted)
{
    if (!strstr(text, wanted))
        print_error("not there: %s\nin:\n%s\n", wanted, text);
    assert_non_null(strstr(text, wanted));
}

static void read_file(const char *name)
{
    int fd = open(in_folder(name), O_RDONLY);
    assert_true(fd >= 0);
    read_all(fd);
    unlink(in_folder(name));
}

TEST(test_first_line)
{
    char *first, *report;
    expect("plain", 7);
    expect_text(FIRST_LINE);
    first = strstr(text, FIRST_LINE);
    report = strstr(text, "out-of-bounds WRITE");
    assert_true(report && first < report);
    assert_null(strstr(first + 1, FIRST_LINE)); /* none for the fault that makes the error real */
}

/* The text, and behind it a time in these units of a second: the second between the two pieces, or more on a slow machine. */
static void expect_time(const char *wanted, double units)
{
    expect_text(wanted);
    double seconds = strtod(strstr(text, wanted) + strlen(wanted), NULL) / units;
    assert_true(seconds >= 1 && seconds < 60);
}

/* A terminal is told how far the dump has come, a file is not. */
TEST(test_progress)
{
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    int end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    pid_t pid = start_story("slow_dump", end);
    close(end);
    read_all(terminal);
    assert_int_equal(await_child(pid), 7);
    expect_text("cufence: a kernel has faulted");
    expect_time("cufence: 0.0 MiB of the core dump in ", 1);
    expect_text("its core dump (7 bytes) cannot be read");
    expect_time("cufence: core dump of 0.0 MiB: written in ", 1000);
    expect("slow_dump", 7);
    expect_text("its core dump (7 bytes) cannot be read");
    assert_null(strstr(text, "MiB of the core dump in"));
}

/* A pipe of one page that has so many bytes. */
static void fill_pipe(int ends[2], size_t size)
{
    static const char filler[4096];
    assert_int_equal(pipe(ends), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, 4096) == 4096);
    assert_int_equal(write(ends[1], filler, size), size);
}

/* A pipe with little room in it, whose reader begins when the report is waiting. */
static void expect_through_full_pipe(int is_blocking)
{
    char filler[4000];
    int ends[2];
    fill_pipe(ends, sizeof filler);
    if (!is_blocking)
        assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    pid_t pid = start_story("plain", ends[1]);
    close(ends[1]);
    usleep(700000);
    for (size_t size = 0; size < sizeof filler;)
        size += (size_t)read(ends[0], filler, sizeof filler - size);
    read_all(ends[0]);
    assert_int_equal(await_child(pid), 7);
    expect_text(FIRST_LINE);
    expect_text("out-of-bounds WRITE");
    expect_text("memory     |");
}

TEST(test_full_pipe)
{
    expect_through_full_pipe(1);
    expect_through_full_pipe(0);
}

TEST(an_abort_lets_others_print)
{
    int ends[2];
    char filler[4096];
    fill_pipe(ends, sizeof filler);
    pid_t pid = start_story("aborts_beside_another", ends[1]);
    close(ends[1]);
    usleep(1000000);
    assert_int_equal(read(ends[0], filler, sizeof filler), sizeof filler);
    read_all(ends[0]);
    assert_int_equal(await_child(pid), 128 + SIGABRT);
    expect_text("of another thread");
    expect_text("SUMMARY: cufence: overrun");
}

/* The reader never reads: the process ends all the same, and the log says what happened. */
TEST(test_stuck_reader)
{
    int ends[2];
    fill_pipe(ends, 4096);
    pid_t pid = start_story("logs", ends[1]);
    close(ends[1]);
    assert_int_equal(await_child(pid), 7);
    close(ends[0]);
    read_file("log");
    expect_text("out-of-bounds WRITE");
    expect_text("cufence: standard error has not taken the report above: Resource temporarily unavailable\n");
}

/* A pipe without a reader, a full disk, or nothing at all. */
TEST(what_standard_error_does_not_take_is_in_the_log)
{
    int ends[2], full = open("/dev/full", O_WRONLY);
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    const struct {
        int standard_error;
        const char *why;
    } cases[] = {{ends[1], "Broken pipe"}, {full, "No space left on device"}, {-1, "Bad file descriptor"}};
    assert_int_equal(await_child(start_story("plain", ends[1])), 7); /* and not by SIGPIPE */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char wanted[128];
        assert_int_equal(await_child(start_story("logs", cases[i].standard_error)), 7);
        read_file("log");
        snprintf(wanted, sizeof wanted, "standard error has not taken the report above: %s\n", cases[i].why);
        expect_text(wanted);
    }
    close(ends[1]);
    close(full);
}

TEST(the_log_stays_in_its_folder)
{
    unlink(in_folder("log"));
    expect("changes_folder", 7);
    read_file("log");
    expect_text("out-of-bounds WRITE");
}

TEST(test_redirected)
{
    expect("redirects", 7);
    assert_string_equal(text, "");
    read_file("err");
    expect_text("out-of-bounds WRITE");
}

TEST(test_unwritable_json)
{
    expect("json_to_full_disk", 7);
    expect_text("cufence: cannot write the report to /dev/full: No space left on device\n");
    expect("json_to_nowhere", 7);
    expect_text("cufence: cannot write the report to /nowhere/at/all: No such file or directory\n");
    expect("json_to_silent_fifo", 7);
    expect_text("/fifo: No such device or address\n");
    unlink(in_folder("fifo"));
}

/* The report that was cut spoils no other one's line. */
TEST(test_torn_json)
{
    unsigned lines = 0, whole = 0;
    expect("json_to_file_that_fills", 7);
    expect_text("/json: File too large\n");
    read_file("json");
    for (char *rest, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        json_t *report = json_loads(line, 0, NULL);
        lines++;
        whole += report != NULL;
        json_decref(report);
    }
    assert_int_equal(lines, 5);
    assert_int_equal(whole, 4); /* the first one, two reports, the last one */
}

TEST_GROUP(make_folder, remove_folder)

TEST_CONCURRENTLY

int main(int argc, char **argv)
{
    return run_named(argc, argv);
}
