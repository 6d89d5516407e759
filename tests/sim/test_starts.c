/* Starts that come too late, fail or are in a bad place, and what a process leaves behind, on the simulated device. */
#include "fault_story.h"

#include "analysis/dump/coredump.h"
#include "unit/coredump_builder.h"

#include <fcntl.h>

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

static char folder[] = "/tmp/cufence-traces-XXXXXX";

/* ---- core dumps that the program wants for itself ---- */

static char own_dump[64];

static void want_dump(void)
{
    snprintf(own_dump, sizeof own_dump, "%s/own-dump", folder);
    setenv("CUDA_COREDUMP_FILE", own_dump, 1);
    setenv("CUDA_COREDUMP_GENERATION_FLAGS", "skip_abort", 1);
    setenv("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "1", 1);
}

static void expect_own_dump(void)
{
    CHECK(unlink(own_dump) == 0);
}

static void fault(void)
{
    CHECK_CU(launch("_Z10write_pastPfi", allocate(COUNT * 4, "a"), NULL));
    settle();
}

/* cufence initialises CUDA itself, so the variables are in nobody's way. */
static void variables_before_cuda(void)
{
    want_dump();
    start("on_fault=error/0");
    const char *kept = getenv("CUDA_COREDUMP_FILE");
    CHECK(kept && strcmp(kept, own_dump) == 0);
    fault();
    CHECK(cufence_fault_count() == 1);
    expect_own_dump();
}

/* The driver has seen them: the dump is its own. */
static void variables_with_cuda(void)
{
    want_dump();
    CHECK_CU(cuInit(0));
    start("on_fault=error/0");
    fault();
    CHECK(cufence_fault_count() == 0);
    expect_own_dump();
}

/* The driver has not seen them: nobody writes the file, as without cufence. */
static void variables_after_cuda(void)
{
    CHECK_CU(cuInit(0));
    want_dump();
    start("on_fault=error/0");
    fault();
    CHECK(cufence_fault_count() == 1 && access(own_dump, F_OK) != 0);
}

static void attributes_before_cufence(void)
{
    unsigned char yes = 1;
    size_t size = sizeof own_dump, one = 1;
    snprintf(own_dump, sizeof own_dump, "%s/own-dump", folder);
    CHECK_CU(cuInit(0));
    CHECK_CU(cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, own_dump, &size));
    CHECK_CU(cuCoredumpSetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, &yes, &one));
    start("on_fault=error/0");
    fault();
    CHECK(cufence_fault_count() == 1);
    expect_own_dump();
}

/* cufence cannot arm its dumps, and gives the driver what it has kept from it. */
static void variables_are_handed_back(void)
{
    want_dump();
    cusim_fail_call("cuCoredumpSetAttributeGlobal", 3, CUDA_ERROR_NOT_PERMITTED);
    start("on_fault=error/0");
    fault();
    expect_own_dump();
}

/* What the driver writes into cufence's pipe when somebody has written into the program's: no warp has an exception. */
static void write_requested_dump(void)
{
    char pipe[1024] = "";
    size_t size = sizeof pipe;
    struct dump_builder builder;
    CHECK_CU(cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, pipe, &size));
    builder_start(&builder);
    builder_add(&builder, COREDUMP_DEVICES, 96, 96, 0, 0);
    const uint8_t *bytes = builder_finish(&builder, COREDUMP_MACHINE, &size);
    int fd = open(pipe, O_WRONLY);
    CHECK(write(fd, bytes, size) == (ssize_t)size);
    close(fd);
    builder_end(&builder);
    CHECK_OK(cufence_wait_reports(REPORT_MS));
}

static void a_requested_dump(void)
{
    snprintf(own_dump, sizeof own_dump, "%s/own-dump", folder);
    setenv("CUDA_COREDUMP_FILE", own_dump, 1);
    setenv("CUDA_ENABLE_USER_TRIGGERED_COREDUMP", "1", 1);
    start(NULL);
    write_requested_dump();
    expect_own_dump();
    CHECK(cufence_fault_count() == 0);
    CHECK_CU(cuCtxSynchronize());
}

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
    CHECK(cufence_init("on_fault=many") == CUFENCE_ERROR_OPTION);
    CHECK_CU(cuInit(0));

    CHECK_CU(cuMemAddressReserve(&taken, all - ((size_t)32 << 20), 0, 0, 0));
    for (int i = 0; i < 3; i++) {
        CHECK(cufence_init("on_fault=error/0") == CUFENCE_ERROR_OUT_OF_ADDRESS_SPACE);
        CHECK(strstr(cufence_error_detail(), "ulimit -v"));
        CHECK(count_files(folder) == 0);
    }
    CHECK_CU(cuMemAddressFree(taken, all - ((size_t)32 << 20)));

    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    few.rlim_max = files.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    cufence_status status = cufence_init("on_fault=error/0");
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    CHECK(status == CUFENCE_ERROR_SYSTEM && count_files(folder) == 0);

    void *pointer = &pointer;
    CHECK(cufence_malloc(&pointer, 100, 0, NULL) == CUFENCE_ERROR_NOT_INITIALIZED && pointer == &pointer);
    start("on_fault=error/0");
    CHECK_CU(launch("_Z10write_pastPfi", allocate(COUNT * 4, "weights"), NULL));
    settle();
    CHECK(cufence_fault_count() == 1);
    cufence_stats stats = {.struct_size = sizeof stats};
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
}

TEST(test_program_dumps)
{
    assert_non_null(mkdtemp(folder));
    expect_status(variables_before_cuda, 0, 1, "cufence: the program's own core dump: ");
    expect_status(variables_with_cuda, 0, 0,
                  "CUDA_ENABLE_COREDUMP_ON_EXCEPTION was set when the program initialised CUDA, before cufence, and overrides "
                  "it; unset it, or start the program with `cufence run`");
    expect_status(variables_after_cuda, 0, 1, NULL);
    expect_status(attributes_before_cufence, 0, 1, "cufence: the program's own core dump: ");
    expect_status(variables_are_handed_back, 0, 0, "faults will be caught but not explained");
    expect_status(a_requested_dump, 0, 0, "cufence: the program's own core dump: ");
    assert_int_equal(rmdir(folder), 0);
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
