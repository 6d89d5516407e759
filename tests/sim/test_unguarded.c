/*
 * Programs under the preload library with options that leave allocations to the driver: what is left out behaves as without
 * cufence, and the last lines say how much that was.
 */
#include "guarded.h"

static const struct way *const way = &ways[0];

static void expect_left(const char *settings, unsigned guarded, const char *line)
{
    run(way, "allocations", PRELOAD, settings, NULL);
    expect_status(0);
    if (count_in(last.out, "ends with a mapping") != guarded)
        complain("another number of buffers is guarded", "");
    expect_err(line);
    expect_silence();
}

TEST_WITH(the_options_choose, NULL, finish)
{
    expect_left("skip=smaller:1537", 4, "not guarded: 1 buffer smaller than skip=smaller, 1536 bytes in all");
    expect_left("skip=lib:program_dlsym", 0, "not guarded: 6 buffers that skip names, ");
    expect_left("skip=lib:libcudnn*;func:elsewhere", 5, "no faults; 6 allocations guarded");
    expect_left("ipc=driver", 3, "not guarded: 3 buffers that other processes may open (NCCL, NVSHMEM, ipc=driver)");
}

/* Whatever the settings, the program ends and prints as without cufence, in each way that programs find the driver. */
static void expect_as_without(const char *const *stories, size_t count, const char *settings)
{
    for (size_t i = 0; i < count; i++) {
        static char wanted[sizeof last.out];
        run(way, stories[i], NO_PRELOAD, NULL, NULL);
        int status = last.status;
        snprintf(wanted, sizeof wanted, "%s", last.out);
        for (size_t k = 0; k < WAYS; k++)
            run_guarded(&ways[k], stories[i], settings, status, wanted);
    }
}

/* Nothing but the place of the buffers changes. */
TEST_WITH(what_is_left_out_behaves_as_without, NULL, finish)
{
    static const char *const stories[] = {"statistics", "memory_info", "ranges", "foreign", "own_pool", "capture"};
    expect_as_without(stories, sizeof stories / sizeof stories[0], "skip=smaller:1G");
}

TEST_WITH(without_pages_the_driver_allocates, NULL, finish)
{
    static const char without[] = "fail=cuMemCreate:0:2"; /* CUDA_ERROR_OUT_OF_MEMORY */
    run(way, "allocations", PRELOAD, NULL, without);
    expect_status(0);
    expect_in(last.out, "cuMemAllocFromPoolAsync: usable, ends within a mapping");
    expect_err("device 0 has no room left for whole pages of 2 MiB",
               "not guarded: 6 buffers for whose pages of 2 MiB there was no room");
}

/* A fault outside of all guarded buffers may be one of a buffer that nobody guards. */
TEST_WITH(a_report_says_that_some_are_not_guarded, NULL, finish)
{
    run(way, "beyond", PRELOAD, "skip=smaller:1G", NULL);
    expect_err("1 live buffer (4096 bytes) is not guarded",
               "2093568 bytes past the end of one of 4096 bytes"); /* it begins with its pages */
    run(way, "beyond", PRELOAD, NULL, NULL);
    expect_err("== SUMMARY: cufence: ");
    if (strstr(last.err, "not guarded"))
        complain("everything was guarded", "");
}

/* Locks may be held by threads that a forked child doesn't have. */
TEST_WITH(a_forked_child_drops_what_is_not_guarded, NULL, finish)
{
    for (size_t k = 0; k < WAYS; k++)
        run_guarded(&ways[k], "fork_while_freeing", "skip=smaller:1G", 0, "no child hangs\n");
}

TEST_CONCURRENTLY
