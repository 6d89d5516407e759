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
#define BARRIER "at a barrier; 32 other threads have not come"

TEST_WITH(nothing_is_launched_for_a_second, set_up, tear_down)
{
    run_guarded(&by_dlsym, "hang 2500", "stuck=1", 1, "waited: CUDA_ERROR_LAUNCH_FAILED\n");
    expect_err(STUCK, BARRIER, "/src/deadlock.cu:9 in deadlock, block (0,0,0) thread (32,0,0) and 31 more",
               "nothing was launched for 1.0 s", "SUMMARY: cufence: stuck at /src/deadlock.cu:9 in deadlock: 32 threads");
    if (count_in(last.err, STUCK) != 1)
        complain("reports that are not", "1");
}

TEST_WITH(a_shorter_wait_is_left_alone, set_up, tear_down)
{
    run_guarded(&by_dlsym, "hang 500", "stuck=1", 0, "waited: CUDA_SUCCESS\n");
    expect_silence();
}

/* One thread still works. */
TEST_WITH(what_is_slow_is_told_apart, set_up, tear_down)
{
    assert_int_equal(record("hang/coop-slow"), 0);
    run_guarded(&by_dlsym, "hang 2500", "stuck=1", 1, "waited: CUDA_ERROR_LAUNCH_FAILED\n");
    expect_err("not all 512", "cufence: stuck: 7 threads in a loop until the 4 bytes at 0x7fa462c00004 change",
               "1             /src/stuck.cu:24 ");
}

/* Without --kill it goes on. */
TEST_WITH(the_command_asks, set_up, tear_down)
{
    static const char asks[] = "hang 2000 & sleep 1; LD_PRELOAD= " CUFENCE_CLI " stuck %s $!; echo \"asked: $?\"; wait $!";
    char story[512];
    snprintf(story, sizeof story, asks, "");
    run(&by_dlsym, story, PRELOAD, NULL, NULL);
    expect_status(0);
    expect_in(last.out, "cufence: work is under way\n");
    expect_in(last.out, "launches   cusim_spin<<<(1,1,1), (1,1,1)>>>");
    expect_in(last.out, "asked: 0\nwaited: CUDA_SUCCESS\n");
    snprintf(story, sizeof story, asks, "--kill");
    run(&by_dlsym, story, PRELOAD, NULL, NULL);
    expect_status(1);
    expect_in(last.out, STUCK);
    expect_in(last.out, BARRIER);
    expect_in(last.out, "asked: 0\nwaited: CUDA_ERROR_LAUNCH_FAILED\n");
    expect_err(STUCK);
    run(&by_dlsym, "hang 1 & LD_PRELOAD= " CUFENCE_CLI " stuck $$; echo \"asked: $?\"; wait $!", NO_PRELOAD, NULL, NULL);
    expect_in(last.out, "asked: 1\n");
    expect_err("no cufence is in that process");
}
