/* The second launch of a faulted kernel, in another process, on the simulated device. */
#include "second_launch.h"

#include <dirent.h>

/* The argument is at that address, which need not be a pointer. */
static void launch_with(const char *kernel, void *argument, int n)
{
    launch_all(kernel, (void *[]){argument, &n});
}

/* ---- what is learned ---- */

static void tell_last(void)
{
    fault_in("write_last", "explain=rerun");
}

TEST(test_last)
{
    expect_said(tell_last,
                (const char *[]){"out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1",
                                 "block \\(7,0,0\\) thread \\(104,0,0\\)", "address .* re-run$",
                                 "written +4 bytes past the end: 2\\.5 +re-run", "model\\.cu:20", "!buffer .*candidate", NULL});
}

static void tell_off(void)
{
    fault_in("write_last", "explain=dump");
}

TEST(test_off)
{
    expect_said(tell_off, (const char *[]){"the warp had exited", "!re-run", "!thread \\(104", NULL});
}

static void tell_table(void)
{
    fault_by_table("explain=rerun");
}

TEST(test_table)
{
    expect_said(tell_table, (const char *[]){PAST_THE_END, THREAD_PAST_THE_END, WRITTEN_PAST_THE_END, NULL});
}

static void tell_struct(void)
{
    struct {
        char before[1000];
        void *out;
    } large = {{0}, NULL};
    start("explain=rerun");
    large.out = allocate(COUNT * 4);
    launch_with("write_by_struct", &large, COUNT);
    cuCtxSynchronize();
}

/* The pointer lies behind the bytes of the arguments that a launch's record always has. */
TEST(test_struct)
{
    expect_said(tell_struct, (const char *[]){PAST_THE_END, THREAD_PAST_THE_END, NULL});
}

static void tell_far(void)
{
    fault_in("write_far", "explain=rerun");
}

TEST(test_far)
{
    expect_said(tell_far, (const char *[]){PAST_THE_END, THREAD_PAST_THE_END, "written +4 bytes past the end: 2\\.5 +re-run",
                                           "at least 4 bytes were written further", NULL});
}

static void tell_shared(void)
{
    start("explain=rerun");
    void *out = allocate(COUNT * 4);
    launch_shared("write_last", (void *[]){&out, &(int){COUNT}}, 100000);
    cuCtxSynchronize();
}

/* More shared memory than a kernel has without being asked. */
TEST(test_shared)
{
    expect_said(tell_shared, (const char *[]){PAST_THE_END, THREAD_PAST_THE_END, NULL});
}

static void tell_several(void)
{
    start("explain=rerun");
    void *right = allocate(2 * COUNT * 4), *wrong = allocate(COUNT * 4);
    launch("write_last", right, COUNT);
    launch("write_last", wrong, COUNT);
    launch("write_last", right, COUNT - 1);
    cuCtxSynchronize();
}

/* Of three launches on record, the one in the middle did it. */
TEST(test_several)
{
    expect_said(tell_several, (const char *[]){"0 bytes past the end of buffer #2", "re-run", NULL});
}

static void tell_exception(void)
{
    fault_in("end_illegally", "explain=rerun");
}

/* No access is involved, and the warp has exited. */
TEST(test_exception)
{
    expect_said(tell_exception,
                (const char *[]){"exception: illegal instruction", "end_illegally", "block \\(7,0,0\\) thread \\(104,0,0\\)",
                                 "model\\.cu:170", "no buffer is involved", NULL});
}

static char kept[] = "/tmp/cufence-test-XXXXXX";

static void tell_kept(void)
{
    char options[128];
    snprintf(options, sizeof options, "explain=rerun,keep=dump=%s", kept);
    fault_in("write_last", options);
}

/* `cufence explain` tells from the files what the program told, in the same words. */
TEST(test_kept)
{
    char command[512], text[16384], line[512];
    assert_non_null(mkdtemp(kept));
    struct outcome outcome = run_child(tell_kept);
    snprintf(command, sizeof command, CUFENCE_CLI " explain %s", kept);
    FILE *explained = popen(command, "r");
    assert_non_null(explained);
    text[fread(text, 1, sizeof text - 1, explained)] = '\0';
    assert_int_equal(pclose(explained), 0);
    size_t found = 0;
    for (const char *at = outcome.err, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        const char *said = strstr(at, "== ");
        if (!said || said > end || (strncmp(said, "==   ", 5) != 0 && strncmp(said, "== SUMMARY", 10) != 0))
            continue;
        snprintf(line, sizeof line, "%.*s", (int)(end - said - 3), said + 3);
        if (!strstr(text, line))
            fail_msg("not explained: %s\nbut:\n%s", line, text);
        found += strstr(line, "re-run") != NULL;
    }
    assert_true(found >= 4); /* headline, address, bytes written, arguments */
    snprintf(command, sizeof command, "rm -r %s", kept);
    assert_int_equal(system(command), 0);
    free(outcome.err);
}

#define RANKS 3

static void tell_ranks(void)
{
    for (int i = 1; i < RANKS; i++)
        if (fork() == 0) {
            tell_last();
            exit(0);
        }
    tell_last();
    CHECK_OK(cufence_wait_reports(60000));
    while (wait(NULL) > 0)
        ;
}

/* Processes that fault at once each have a second launch and a report of their own. */
TEST(test_ranks)
{
    struct outcome outcome = run_child(tell_ranks);
    int pids[RANKS] = {0}, reports = 0;
    for (const char *line = outcome.err; line; line = strchr(line, '\n')) {
        int pid = 0, length = 0;
        line += *line == '\n';
        sscanf(line, "==%d== cufence: out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1 (re-run)%n", &pid,
               &length);
        if (!length)
            continue;
        assert_true(reports < RANKS);
        for (int i = 0; i < reports; i++)
            assert_int_not_equal(pids[i], pid);
        pids[reports++] = pid;
    }
    if (reports != RANKS)
        fail_msg("%d reports in:\n%s", reports, outcome.err);
    free(outcome.err);
}

/* ---- what the kernel was given ---- */

static void fill(void *pointer, const void *bytes, size_t size)
{
    CHECK_CU(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)pointer, bytes, size));
}

/* Launches with halves at 16 bytes into the first buffer, and floats in the second. */
static void give(const char *kernel)
{
    uint16_t halves[COUNT + 8];
    float floats[COUNT];
    int n = COUNT;
    for (int i = 0; i < COUNT + 8; i++)
        halves[i] = (uint16_t)(0x3800 + (i * 37 & 0x7ff));
    halves[8 + 1] = 0xfc00;
    for (int i = 0; i < COUNT; i++)
        floats[i] = (float)(i % 7) * 0.3f - 1;
    floats[1] = floats[500] = __builtin_nanf("");
    floats[2] = -__builtin_inff();
    floats[3] = 1e20f;
    floats[4] = floats[5] = floats[6] = 0;
    start("explain=rerun");
    char *in = allocate(sizeof halves);
    float *out = allocate(sizeof floats);
    fill(in, halves, sizeof halves);
    fill(out, floats, sizeof floats);
    in += 16;
    launch_all(kernel, (void *[]){&in, &out, &n});
    cuCtxSynchronize();
}

static void tell_given(void)
{
    give("write_end");
}

/* Without a signature, the bytes show the types. */
TEST(test_given)
{
    expect_said(
        tell_given,
        (const char *[]){"buffer #1 \\+16, 2016 bytes +re-run$",
                         "   float16\\[1000\\] \\(guess\\)  min 0\\.5[0-9]* max 1\\.99[0-9]+ mean 1\\.1[0-9]+,.* re-run$",
                         " 0 NaN,", " 1 Inf;", " first 0\\.6[0-9]+ -Inf 0\\.6", "buffer #2 \\+0, 4000 bytes$",
                         "   float32\\[1000\\] \\(guess\\)  min -1\\.0 max 1\\.0e\\+20 mean 1\\.00301e\\+17,.* re-run$",
                         " 3 zeros,", " 2 NaN,", " first -1\\.0 NaN -Inf 1\\.0e\\+20$", NULL});
}

static void tell_declared(void)
{
    give("_Z9write_endPK6__halfPfi");
}

TEST(test_declared)
{
    expect_said(tell_declared,
                (const char *[]){"   float16\\[1000\\]  min 0\\.5", "   float32\\[1000\\]  min -1\\.0", "!guess", NULL});
}

static void tell_large(void)
{
    const size_t size = (size_t)48 << 20;
    const double numbers[] = {-1, 3}, middle = 5;
    int n = 8;
    start("explain=rerun");
    char *in = allocate(size), *out = allocate(32);
    fill(in, numbers, sizeof numbers);
    fill(in + size / 2, &middle, sizeof middle);
    fill(in + size - sizeof numbers, numbers, sizeof numbers);
    launch_all("write_end", (void *[]){&in, &out, &n});
    cuCtxSynchronize();
}

/* Of a large buffer only the ends are read. */
TEST(test_large)
{
    expect_said(tell_large,
                (const char *[]){"   float64\\[6291456\\] \\(guess\\)  of 16 MiB:", "min -1\\.0 max 3\\.0 mean 0\\.0",
                                 " 2097148 zeros,", "   float32\\[8\\] \\(guess\\)  all are 0", NULL});
}

/* ---- when it cannot be done ---- */

static void tell_once(void)
{
    fault_in("write_once", "explain=rerun");
}

TEST(test_once)
{
    expect_said(tell_once, (const char *[]){"illegal memory access", "did not fault", NULL});
}

static void tell_pieces(void)
{
    fault_in("write_pieces", "explain=rerun");
}

/* The second launch wrote many pieces into one guard, but did not fault. */
TEST(test_pieces)
{
    expect_said(tell_pieces, (const char *[]){"out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1",
                                              "written +4 bytes past the end: 2\\.5 +re-run", "and more, 384 bytes in all",
                                              "address .* re-run$", NULL});
}

static void expect_no_child(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)getpid(), (int)getpid());
    FILE *file = fopen(path, "re");
    CHECK(!file || fgetc(file) == EOF);
    if (file)
        fclose(file);
    CHECK(waitpid(-1, NULL, __WALL | WNOHANG) == -1);
}

static void tell_hang(void)
{
    fault_in("hang_later", "explain=rerun,wait_ms=1000/300");
    CHECK_OK(cufence_wait_reports(REPORT_MS));
    expect_no_child();
}

TEST(test_hang)
{
    expect_said(tell_hang, (const char *[]){"illegal memory access",
                                            "could not be launched again: it took longer than wait_ms=1000/300", NULL});
}

static void tell_death(void)
{
    fault_in("end_later", "explain=rerun");
}

TEST(test_death)
{
    expect_said(tell_death, (const char *[]){"illegal memory access", "could not be launched again: ", NULL});
}

static void tell_withheld(void)
{
    setenv("CUFENCE_SIM", "shareable=0", 1);
    fault_in("write_last", "explain=rerun");
}

TEST(test_withheld)
{
    expect_said(tell_withheld, (const char *[]){"the warp had exited", "could not be launched again: memory that the", NULL});
}

static void tell_full(void)
{
    setenv("CUFENCE_SIM", "memory=2M", 1);
    fault_in("write_last", "explain=rerun,small=map");
}

/* The device has room for the copy, and for no page to see what is written. */
TEST(test_full)
{
    expect_said(tell_full, (const char *[]){PAST_THE_END, THREAD_PAST_THE_END, "of the second launch: ", NULL});
}

/* ---- the program does not notice ---- */

static volatile sig_atomic_t signals;

static void count_signal(int signal)
{
    signals++;
}

static void tell_quietly(void)
{
    signal(SIGCHLD, count_signal);
    fault_in("write_last", "explain=rerun");
    for (int i = 0; i < 2000 && cufence_fault_count() == 0; i++) {
        CHECK(waitpid(-1, NULL, WNOHANG) == -1);
        usleep(1000);
    }
    CHECK_OK(cufence_wait_reports(REPORT_MS));
    CHECK(cufence_fault_count() == 1);
    CHECK(signals == 0);
    expect_no_child();
}

TEST(test_quietly)
{
    expect_said(tell_quietly, (const char *[]){"re-run", NULL});
}

static int count_files(const char *folder)
{
    int count = 0;
    DIR *open = opendir(folder);
    CHECK(open);
    while (readdir(open))
        count++;
    closedir(open);
    return count;
}

/* Counts descriptors that are no ordinary files: a report opens those of libraries to find source lines. */
static int count_descriptors(void)
{
    char name[64], target[256];
    int count = 0;
    for (int i = 0; i < 1024; i++) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", i);
        ssize_t length = readlink(name, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        count += length > 0 && (*target != '/' || !strncmp(target, "/memfd", 6));
    }
    return count;
}

static void tell_no_trace(void)
{
    char folder[] = "/tmp/cufence-test-XXXXXX";
    CHECK(mkdtemp(folder));
    setenv("TMPDIR", folder, 1);
    start("explain=rerun");
    void *out = allocate(COUNT * 4);
    int files = count_files(folder), descriptors = count_descriptors();
    launch("write_last", out, COUNT);
    cuCtxSynchronize();
    CHECK_OK(cufence_wait_reports(REPORT_MS));
    AWAIT(count_descriptors() == descriptors); /* closed behind the report */
    CHECK(count_files(folder) == files);
    CHECK(count_descriptors() == descriptors);
}

TEST(test_no_trace)
{
    expect_said(tell_no_trace, (const char *[]){"re-run", NULL});
}

/* Without the preload library nobody sees how the program ends, so the report comes before the error. */
static void tell_report_first(void)
{
    start("explain=rerun,wait_ms=1000/300");
    launch("hang_later", allocate(COUNT * 4), COUNT);
    while (cuCtxSynchronize() != CUDA_ERROR_ILLEGAL_ADDRESS)
        usleep(1000);
    CHECK(cufence_fault_count() == 1);
}

TEST(test_report_first)
{
    expect_said(tell_report_first, (const char *[]){"could not be launched again", NULL});
}

TEST_CONCURRENTLY
