/* Starts that come too late, fail or are in a bad place, and what a process leaves behind, on the simulated device. */
#include "fault_story.h"
#include "refused.h"

#include <sys/resource.h>

static void too_late(void)
{
    CUcontext context;
    CHECK_CU(cuInit(0));
    CHECK_CU(cuDevicePrimaryCtxRetain(&context, 0));
    start(NULL);
}

/* No thread gets a table of descriptors of its own: the pipe needs a name. */
static void no_place_for_the_fifo(void)
{
    CHECK(refuse(SYS_close_range) && refuse(SYS_unshare));
    setenv("TMPDIR", "/nowhere", 1);
    start(NULL);
}

static void variables_in_the_way(void)
{
    setenv("CUDA_COREDUMP_FILE", "/tmp/somewhere", 1);
    start(NULL);
}

static char folder[] = "/tmp/cufence-traces-XXXXXX";

static void leaves_no_traces(void)
{
    setenv("TMPDIR", folder, 1);
    CHECK_OK(cufence_init(NULL));
}

static void leaves_no_traces_after_a_fault(void)
{
    setenv("TMPDIR", folder, 1);
    ends_without_a_look();
}

/* A start that fails at each of its steps, and then one that does not. */
static void starts_after_failures(void)
{
    const size_t all = (size_t)16 << 30;
    struct rlimit files, few = {0};
    CUdeviceptr taken;
    setenv("TMPDIR", folder, 1);
    setenv("CUFENCE_SIM", "reserve=16G", 1);
    CHECK(cufence_init("exitcode=many") == CUFENCE_ERROR_OPTION);
    CHECK_CU(cuInit(0));

    CHECK_CU(cuMemAddressReserve(&taken, all - ((size_t)32 << 20), 0, 0, 0));
    for (int i = 0; i < 3; i++) {
        CHECK(cufence_init("exitcode=0") == CUFENCE_ERROR_OUT_OF_ADDRESS_SPACE);
        CHECK(strstr(cufence_error_detail(), "ulimit -v"));
        CHECK(count_files(folder) == 0);
    }
    CHECK_CU(cuMemAddressFree(taken, all - ((size_t)32 << 20)));

    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    few.rlim_max = files.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    cufence_status status = cufence_init("exitcode=0");
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    CHECK(status == CUFENCE_ERROR_SYSTEM && count_files(folder) == 0);

    void *pointer = &pointer;
    CHECK(cufence_malloc(&pointer, 100, 0, NULL) == CUFENCE_ERROR_NOT_INITIALIZED && pointer == &pointer);
    start("exitcode=0");
    CHECK_CU(launch("_Z10write_pastPfi", allocate(COUNT * 4, "weights"), NULL));
    settle();
    CHECK(cufence_fault_count() == 1);
    cufence_stats stats;
    CHECK_OK(cufence_get_stats(0, &stats));
    CHECK(stats.reserved_address_bytes == all); /* the starts that failed hold none of it */
}

static void cannot_arm(void)
{
    setenv("TMPDIR", folder, 1);
    CHECK_CU(cuInit(0));
    cusim_fail_call("cuCoredumpSetAttributeGlobal", 3, CUDA_ERROR_NOT_PERMITTED);
    start(NULL);
    CHECK(count_files(folder) == 0);
}

/* ---- what the parent sees ---- */

TEST(test_warnings)
{
    expect_status(too_late, 0, 0, "CUDA was in use on device 0 before cufence was started");
    expect_status(no_place_for_the_fifo, 0, 0, "/nowhere");
    expect_status(variables_in_the_way, 0, 0, "CUDA_COREDUMP_FILE is set");
}

/* As after chroot(): the driver's dump, and with it the fault, would be lost. */
STORY_OF(the_driver_cannot_open_the_pipe, 0,
         "no faults seen, but the driver could not have told of one: Operation not permitted", NULL)
{
    start("");
    allocate(COUNT * 4, "a");
    CHECK(refuse(SYS_openat));
}

TEST(test_traces)
{
    assert_non_null(mkdtemp(folder));
    expect_status(leaves_no_traces, 0, 0, NULL);
    expect_status(leaves_no_traces_after_a_fault, 86, 1, NULL);
    expect_status(starts_after_failures, 0, 1, NULL);
    expect_status(cannot_arm, 0, 0, "CUDA_ERROR_NOT_PERMITTED");
    assert_int_equal(rmdir(folder), 0);
}

TEST_CONCURRENTLY
