/*
 * Where reports go when standard error, the log or the handler does not take them, on the simulated device. Each story runs in
 * a program of its own, which this one becomes when it is started with the story's name: what a program's descriptors were at
 * its start matters.
 */
#define TEST_OWN_MAIN
#include "child.h"

#include "torch/pluggable.h"

#include <jansson.h>
#include <poll.h>
#include <sim.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>

#define COUNT 1000
#define FIRST_LINE "cufence: a kernel has faulted on GPU 0; reading the driver's core dump\n"

static void write_past(const cusim_thread *t, void *const *arguments)
{
    volatile float *out = *(volatile float *const *)arguments[0];
    if (t->thread_index[0] == 0)
        out[COUNT] = 1.0f;
}

static CUcontext use_device(int device)
{
    CUcontext context;
    CHECK_CU(cuDevicePrimaryCtxRetain(&context, device));
    CHECK_CU(cuCtxSetCurrent(context));
    return context;
}

static void start(const char *options)
{
    static const size_t pointer[] = {8};
    static const cusim_kernel kernel = {"write_past", write_past, pointer, 1, "model.cu", 12, 4, 0, 0};
    cusim_register_kernel(&kernel);
    CHECK_OK(cufence_init(options));
    use_device(0);
}

/* In the current context. */
static void overrun(void)
{
    CUmodule module;
    CUfunction function;
    void *pointer = NULL;
    CHECK_OK(cufence_malloc(&pointer, COUNT * 4, -1, NULL));
    CHECK_CU(cuModuleLoadData(&module, "any"));
    CHECK_CU(cuModuleGetFunction(&function, module, "write_past"));
    CHECK_CU(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&pointer}, NULL));
    cuCtxSynchronize();
}

static void faults(const char *options)
{
    start(options);
    overrun();
    CHECK_OK(cufence_wait_reports(20000));
    CHECK(cufence_fault_count() == 1);
}

/* ---- stories ---- */

static void plain(void)
{
    faults("exitcode=7");
}

/* No file may grow, once the simulated device has its own. */
static void limits_files(void)
{
    start("exitcode=7");
    CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0}) == 0);
    overrun();
    CHECK_OK(cufence_wait_reports(20000));
}

static char scratch[] = "/tmp/cufence-delivery-XXXXXX"; /* the folder of a test, and of its stories by the environment */

static const char *in_scratch(const char *name)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", getenv("DELIVERY_SCRATCH"), name);
    return path;
}

/* The data file gets descriptor 2. */
static void reuses_descriptor(int number, int flags)
{
    CHECK(number == 2);
    CHECK(write(number, "data", 4) == 4);
    CHECK((fcntl(number, F_GETFL) & flags) == flags);
    faults("exitcode=7");
}

static void closed_at_start(void)
{
    reuses_descriptor(open(in_scratch("data"), O_WRONLY | O_CREAT, 0600), O_WRONLY);
}

static void closes_and_opens_data(void)
{
    close(2);
    reuses_descriptor(open(in_scratch("data"), O_RDWR | O_CREAT, 0600), O_RDWR);
}

static void closes_and_opens_privately(void)
{
    close(2);
    reuses_descriptor(open(in_scratch("data"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600), O_WRONLY);
}

static void closes_and_opens_socket(void)
{
    int ends[2];
    char sent[8] = "";
    close(2);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && ends[0] == 2);
    faults("exitcode=7");
    if (recv(ends[1], sent, sizeof sent, MSG_DONTWAIT) >= 0 || errno != EAGAIN)
        _exit(98);
}

static void redirects(void)
{
    int log = open(in_scratch("err"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(dup2(log, 2) == 2);
    faults("exitcode=7");
}

static void logs(void)
{
    char options[400];
    snprintf(options, sizeof options, "exitcode=7,log=%s", in_scratch("log"));
    faults(options);
}

/* The disk is full for json=. */
static void json_to_full_disk(void)
{
    faults("exitcode=7,json=/dev/full");
}

static void json_to_nowhere(void)
{
    faults("exitcode=7,json=/nowhere/at/all");
}

static void json_to_silent_fifo(void)
{
    char options[400];
    CHECK(mkfifo(in_scratch("fifo"), 0600) == 0);
    snprintf(options, sizeof options, "exitcode=7,json=%s", in_scratch("fifo"));
    faults(options);
}

/* The file cannot grow beyond what it holds after the first report and a bit: the second report is cut. */
static void json_to_file_that_fills(void)
{
    char options[400];
    struct rlimit limit;
    snprintf(options, sizeof options, "exitcode=7,on_fault=continue,json=%s", in_scratch("json"));
    faults(options);
    struct stat file;
    CHECK(stat(in_scratch("json"), &file) == 0);
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = (rlim_t)file.st_size + 100;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    use_device(1);
    overrun();
    CHECK_OK(cufence_wait_reports(20000));
    limit.rlim_cur = limit.rlim_max;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    use_device(2);
    overrun();
    CHECK_OK(cufence_wait_reports(20000));
    CHECK(cufence_fault_count() == 3);
}

/* Signals that the program has blocked stay pending, whatever threads there are. */
static void reads_its_signals(void)
{
    sigset_t all, mine;
    sigfillset(&all);
    sigemptyset(&mine);
    sigaddset(&mine, SIGUSR1);
    start("exitcode=0");
    CHECK(pthread_sigmask(SIG_BLOCK, &mine, NULL) == 0);
    int fd = signalfd(-1, &mine, 0);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    CHECK(poll(&wait, 1, 5000) == 1);
}

/* The driver takes more than a second for its dump, here for two pieces of what is none. */
static void slow_dump(void)
{
    char fifo[1024] = "";
    size_t size = sizeof fifo;
    void *pointer = NULL;
    start("exitcode=7,on_fault=continue,say=verbose");
    CHECK_OK(cufence_malloc(&pointer, COUNT * 4, -1, NULL));
    CHECK_CU(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, fifo, &size));
    int fd = open(fifo, O_WRONLY);
    CHECK(write(fd, "no ", 3) == 3);
    usleep(1300000);
    CHECK(write(fd, "dump", 4) == 4);
    close(fd);
    CHECK_OK(cufence_wait_reports(20000));
}

static cufence_status waited;

static void waits_for_itself(const cufence_fault *fault, void *user)
{
    waited = cufence_wait_reports(30000);
    CHECK(strstr(cufence_error_detail(), "handler"));
}

static void handler_waits(void)
{
    CHECK_OK(cufence_set_fault_handler(waits_for_itself, NULL));
    faults("exitcode=0");
    CHECK(waited == CUFENCE_ERROR_UNSUPPORTED);
}

static void ends_the_process(const cufence_fault *fault, void *user)
{
    exit(5);
}

static void handler_exits(void)
{
    CHECK_OK(cufence_set_fault_handler(ends_the_process, NULL));
    faults("exitcode=0");
}

static int is_in_handler; /* atomic */

static void never_returns(const cufence_fault *fault, void *user)
{
    __atomic_store_n(&is_in_handler, 1, __ATOMIC_RELEASE);
    for (;;)
        pause();
}

static void handler_hangs(void)
{
    CHECK_OK(cufence_set_fault_handler(never_returns, NULL));
    start("exitcode=0,wait_ms=0/100");
    overrun();
    AWAIT(__atomic_load_n(&is_in_handler, __ATOMIC_ACQUIRE));
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* What a synchronisation of PyTorch's calls. The 5 s that it waited are far above what the rest may take. */
static void other_device_is_healthy(void)
{
    start("exitcode=0");
    CUcontext healthy = use_device(1);
    void *pointer = NULL;
    CHECK_OK(cufence_malloc(&pointer, 100, -1, NULL));
    CUcontext faulted = use_device(0);
    overrun();
    CHECK_OK(cufence_wait_reports(20000));
    CHECK(cufence_torch_before_sync(CUFENCE_TORCH_SYNC_DEVICE, 0) == 1);
    CHECK_CU(cuCtxSetCurrent(healthy));
    uint64_t begin = now_ms();
    for (int i = 0; i < 3; i++)
        CHECK(cufence_torch_before_sync(CUFENCE_TORCH_SYNC_DEVICE, 0) == 0);
    CHECK(now_ms() - begin < 5000);
    CHECK_OK(cufence_malloc(&pointer, 100, -1, NULL));
    CHECK_CU(cuCtxSetCurrent(faulted));
    CHECK(cufence_torch_before_sync(CUFENCE_TORCH_SYNC_DEVICE, 0) == 1);
    /* A fault there is awaited though the other device has had one. */
    CHECK_CU(cuCtxSetCurrent(healthy));
    overrun();
    CHECK_OK(cufence_wait_reports(20000));
    CHECK(cufence_fault_count() == 2);
    CHECK(cufence_torch_before_sync(CUFENCE_TORCH_SYNC_DEVICE, 0) == 1);
}

static const struct story {
    const char *name;
    void (*run)(void);
} stories[] = {
#define NAMED(name)                                                                                                            \
    {                                                                                                                          \
#name, name                                                                                                            \
    }
    NAMED(plain),
    NAMED(closed_at_start),
    NAMED(closes_and_opens_data),
    NAMED(closes_and_opens_privately),
    NAMED(closes_and_opens_socket),
    NAMED(redirects),
    NAMED(logs),
    NAMED(json_to_full_disk),
    NAMED(json_to_nowhere),
    NAMED(json_to_silent_fifo),
    NAMED(json_to_file_that_fills),
    NAMED(limits_files),
    NAMED(reads_its_signals),
    NAMED(slow_dump),
    NAMED(handler_waits),
    NAMED(handler_exits),
    NAMED(handler_hangs),
    NAMED(other_device_is_healthy),
};

/* ---- what the parent sees ---- */

/* Starts this program for a story, with `standard_error` as its descriptor 2; -1: closed. */
static pid_t launch(const char *story, int standard_error)
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
        setenv("DELIVERY_SCRATCH", scratch, 1);
        execl("/proc/self/exe", "delivery", story, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static int status_of(pid_t pid)
{
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
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
    pid_t pid = launch(story, ends[1]);
    close(ends[1]);
    read_all(ends[0]);
    return status_of(pid);
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

static int make_scratch(void **state)
{
    return mkdtemp(scratch) ? 0 : -1;
}

static int remove_scratch(void **state)
{
    rmdir(scratch);
    return 0;
}

static const char *scratch_file(const char *name)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    return path;
}

static void read_file(const char *name)
{
    int fd = open(scratch_file(name), O_RDONLY);
    assert_true(fd >= 0);
    read_all(fd);
    unlink(scratch_file(name));
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
    pid_t pid = launch("slow_dump", end);
    close(end);
    read_all(terminal);
    assert_int_equal(status_of(pid), 7);
    expect_text("cufence: a kernel has faulted");
    expect_time("cufence: 0.0 MiB of the core dump in ", 1);
    expect_text("its core dump (7 bytes) cannot be read");
    expect_time("cufence: core dump of 0.0 MiB: written in ", 1000);
    expect("slow_dump", 7);
    expect_text("its core dump (7 bytes) cannot be read");
    assert_null(strstr(text, "MiB of the core dump in"));
}

/* A pipe of one page with little room in it, whose reader begins when the report is waiting. */
static void expect_through_full_pipe(int is_blocking)
{
    static const char filler[4000];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, 4096) == 4096);
    assert_int_equal(write(ends[1], filler, sizeof filler), sizeof filler);
    if (!is_blocking)
        assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    pid_t pid = launch("plain", ends[1]);
    close(ends[1]);
    usleep(700000);
    char skipped[sizeof filler];
    for (size_t size = 0; size < sizeof filler;)
        size += (size_t)read(ends[0], skipped, sizeof filler - size);
    read_all(ends[0]);
    assert_int_equal(status_of(pid), 7);
    expect_text(FIRST_LINE);
    expect_text("out-of-bounds WRITE");
    expect_text("memory     |");
}

TEST(test_full_pipe)
{
    expect_through_full_pipe(1);
    expect_through_full_pipe(0);
}

/* The reader never reads: the process ends all the same, and the log says what happened. */
TEST(test_stuck_reader)
{
    int ends[2];
    char filler[4096] = "";
    assert_int_equal(pipe(ends), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, 4096) == 4096);
    assert_int_equal(write(ends[1], filler, sizeof filler), sizeof filler);
    pid_t pid = launch("logs", ends[1]);
    close(ends[1]);
    assert_int_equal(status_of(pid), 7);
    close(ends[0]);
    read_file("log");
    expect_text("out-of-bounds WRITE");
    expect_text("cufence: standard error has not taken the report above: Resource temporarily unavailable\n");
}

TEST(test_reader_gone)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    assert_int_equal(status_of(launch("plain", ends[1])), 7); /* and not by SIGPIPE */
    assert_int_equal(status_of(launch("logs", ends[1])), 7);
    close(ends[1]);
    read_file("log");
    expect_text("standard error has not taken the report above: Broken pipe\n");
}

TEST(test_full_disk_under_standard_error)
{
    int full = open("/dev/full", O_WRONLY);
    assert_int_equal(status_of(launch("logs", full)), 7);
    close(full);
    read_file("log");
    expect_text("standard error has not taken the report above: No space left on device\n");
}

TEST(test_limited_standard_error)
{
    char name[300];
    snprintf(name, sizeof name, "%s/limited", scratch);
    int file = open(name, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(status_of(launch("limits_files", file)), 7); /* and not by SIGXFSZ */
    close(file);
}

TEST(test_closed)
{
    static const char *const reusing[] = {"closes_and_opens_data", "closes_and_opens_privately"};
    assert_int_equal(status_of(launch("closed_at_start", -1)), 7);
    read_file("data");
    assert_string_equal(text, "data");
    for (size_t i = 0; i < sizeof reusing / sizeof *reusing; i++) {
        expect(reusing[i], 7);
        read_file("data");
        assert_string_equal(text, "data");
    }
    expect("closes_and_opens_socket", 7);
    assert_int_equal(status_of(launch("logs", -1)), 7);
    read_file("log");
    expect_text("standard error has not taken the report above: Bad file descriptor\n");
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
    unlink(scratch_file("fifo"));
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

TEST(test_signals)
{
    expect("reads_its_signals", 0);
}

TEST(test_handlers)
{
    expect("handler_waits", 0);
    expect("handler_exits", 5);
}

/* The process ends once a report would have been made. */
TEST(test_a_handler_that_hangs)
{
    expect("handler_hangs", 0);
}

TEST(test_healthy_device)
{
    expect("other_device_is_healthy", 0);
}

TEST_GROUP(make_scratch, remove_scratch)

TEST_CONCURRENTLY

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof stories / sizeof *stories; i++) {
        if (strcmp(argv[1], stories[i].name) == 0) {
            stories[i].run();
            return 0;
        }
    }
    return test_run(argc, argv);
}
