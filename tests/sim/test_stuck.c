/* Kernels that hang: by stuck=SECONDS, and by `cufence stuck PID`. The simulated device runs no code of a GPU; where the
 * threads stand is what was recorded on one. As test_preload.c. */
#include "guarded.h"

static char dump[32];

/* The recorded dump, which the driver gives when it is asked. */
static int record(const char *name)
{
    char command[1024];
    snprintf(command, sizeof command, "gzip -dc %s/%s.core.gz > %s", CUFENCE_DUMPS, name, dump);
    setenv("CUSIM_RUNNING", dump, 1);
    return system(command);
}

static int set_up(void **state)
{
    int file = mkstemp(strcpy(dump, "/tmp/cufence-stuck-XXXXXX"));
    return file < 0 || close(file) != 0 || record("hang/deadlock") != 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    unsetenv("CUSIM_RUNNING");
    return unlink(dump) != 0 || finish(state) != 0 ? -1 : 0;
}

#define STUCK "cufence: stuck: 32 threads in a loop until the 4 bytes at 0x7f3c6fe00000 change\n"
/* Which the dump ends. */
#define WAITERS                                                                                                                \
    "  waits      thread ", ", in cuStreamSynchronize\n", "in wait_for_stream\n", ", in cuEventSynchronize\n",                 \
        "in wait_for_event\n", ", in cuMemcpyDtoH\n", "in wait_for_copy\n", ", in cuMemFree\n", "in wait_to_free\n",           \
        "and 2 more threads\n"
#define BARRIER "at a barrier; 32 other threads have not come"

TEST_WITH(nothing_is_launched_for_a_second, set_up, tear_down)
{
    run_guarded(&by_dlsym, "hang stream 2500", "stuck=1", 1, "waited: CUDA_ERROR_LAUNCH_FAILED\n");
    expect_err("cufence: for 1.", " s nothing was launched and nothing has ended", "asking for a dump", STUCK, BARRIER,
               "/src/deadlock.cu:9 in deadlock, block (0,0,0) thread (32,0,0) and 31 more", "reason     for 1.",
               "may write it: other threads of the kernel ", WAITERS,
               "SUMMARY: cufence: stuck at /src/deadlock.cu:9 in deadlock: 32 threads");
    if (count_in(last.err, STUCK) != 1)
        complain("reports that are not", "1");
    run_guarded(&by_dlsym, "hang 1500", "stuck=1,on_fault=abort", 128 + SIGABRT, "");
    run_guarded(&by_dlsym, "hang 1500", "stuck=1,explain=off", 0, "waited: CUDA_SUCCESS\n");
    expect_err("stuck= is off: there are no dumps");
    setenv("TMPDIR", "/nonexistent", 1);
    run_guarded(&by_dlsym, "hang 1500", "stuck=1", 0, "waited: CUDA_SUCCESS\n");
    expect_err("asking for a dump", "cannot make a folder in /nonexistent");
    unsetenv("TMPDIR");
}

TEST_WITH(a_shorter_wait_is_left_alone, set_up, tear_down)
{
    static const char *const stories[] = {"hang 500", "hang idle 1500", "hang capture 1500", "hang queue 700", "hang host 700"};
    for (size_t i = 0; i < sizeof stories / sizeof *stories; i++) {
        run_guarded(&by_dlsym, stories[i], "stuck=1", 0, "waited: CUDA_SUCCESS\n");
        expect_silence();
    }
}

/* Time in which the process was stopped is not the device's. */
TEST_WITH(a_stop_does_not_count, set_up, tear_down)
{
    run(&by_dlsym, "hang 3500 & P=$!; export LD_PRELOAD=; sleep .5; kill -STOP $P; sleep 2.5; kill -CONT $P; wait $P", PRELOAD,
        "stuck=3", NULL);
    expect_status(0);
    expect_silence();
}

/* One thread still works. */
TEST_WITH(what_is_slow_is_told_apart, set_up, tear_down)
{
    assert_int_equal(record("hang/coop-slow"), 0);
    run_guarded(&by_dlsym, "hang 2500", "stuck=1", 1, "waited: CUDA_ERROR_LAUNCH_FAILED\n");
    expect_err("511 of 512", "cufence: stuck: 7 threads in a loop until the 4 bytes at 0x7f8136c00004 change",
               "1             /src/stuck.cu:13 ");
}

/* The dump has ended the contexts whatever is in it; here, no warp is. */
TEST_WITH(a_dump_without_threads_is_no_success, set_up, tear_down)
{
    static unsigned char bytes[16 << 20];
    FILE *file = fopen(dump, "r+");
    size_t size = fread(bytes, 1, sizeof bytes, file);
    for (size_t i = 0; i + 4 <= size; i++)
        if (!memcmp(bytes + i, "\x0e\0\0\x80", 4))
            bytes[i] = 0xfe; /* no type of a section */
    rewind(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    run_guarded(&by_dlsym, "hang 2500", "stuck=1", 1, "waited: CUDA_ERROR_LAUNCH_FAILED\n");
    expect_err("asking for a dump", "no thread is in the driver's dump");
}

/* Without --kill it goes on. */
TEST_WITH(the_command_asks, set_up, tear_down)
{
    static const char asks[] = "hang stream 2500 & P=$!; sleep 1; export LD_PRELOAD=; " CUFENCE_CLI
                               " stuck $P >&2 & " CUFENCE_CLI " stuck %s $P; echo \"asked: $?\"; wait $! && wait $P";
    char story[512];
    snprintf(story, sizeof story, asks, "");
    run(&by_dlsym, story, PRELOAD, NULL, NULL);
    expect_status(0);
    expect_in(last.out, "cufence: work is under way\n");
    expect_in(last.out, "launches   cusim_spin<<<(1,1,1), (1,1,1)>>>");
    expect_err(WAITERS);
    expect_in(last.out, "asked: 0\nwaited: CUDA_SUCCESS\n");
    snprintf(story, sizeof story, asks, "--kill");
    run(&by_dlsym, story, PRELOAD, NULL, NULL);
    expect_status(1);
    expect_in(last.out, STUCK);
    expect_in(last.out, BARRIER);
    expect_in(last.out, "asked: 0\nwaited: CUDA_ERROR_LAUNCH_FAILED\n");
    expect_err(STUCK);
    char folder[] = "/tmp/cufence-stuck-XXXXXX";
    setenv("TMPDIR", mkdtemp(folder), 1);
    run(&by_dlsym,
        "hang stream 2500 & P=$!; sleep 1; export LD_PRELOAD=; rm -r $TMPDIR; " CUFENCE_CLI
        " stuck --kill $P; echo \"asked: $?\"; wait $P",
        PRELOAD, NULL, NULL);
    unsetenv("TMPDIR");
    expect_status(0);
    expect_in(last.out, "asked: 1\nwaited: CUDA_SUCCESS\n");
    expect_err("cufence: cannot make a folder in ");
    run(&by_dlsym,
        "hang 1 & F=$(mktemp -d); cp $(command -v sleep) $F/cufence-pipe; $F/cufence-pipe 2 >$F/file & sleep 1; "
        "for P in $$ $! '*'; do " CUFENCE_CLI " stuck \"$P\"; echo \"asked: $?\"; done; wait; cat $F/file; rm -r $F",
        NO_PRELOAD, NULL, NULL);
    expect_in(last.out, "asked: 1\nasked: 1\nasked: 1\n");
    expect_err("no cufence is in that process", "*: no such process");
    if (strstr(last.out, "tell") || count_in(last.err, "no cufence is") != 2)
        complain("a file of a process that is not cufence's was", "not left alone");
}

/* It may end while another asks: who asks then writes into a pipe that nobody reads. */
TEST_WITH(the_program_may_end_meanwhile, set_up, tear_down)
{
    run(&by_dlsym,
        "hang 5000 & P=$!; sleep 1; export LD_PRELOAD=; cd /proc/$P/task; "
        "exec 9>$(dirname $(grep -lx cufence-pipe */comm))/fd/1; flock 9; " CUFENCE_CLI
        " stuck $P 9>&- & Q=$!; sleep 1; kill -9 $P; exec 9>&-; wait $Q; echo \"asked: $?\"",
        PRELOAD, NULL, NULL);
    expect_in(last.out, "asked: 1\n");
    expect_err(": no answer; what the program prints may tell more");
}
