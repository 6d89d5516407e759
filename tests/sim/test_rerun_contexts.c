/* The second launch of kernels in contexts of other kinds, and where the GPU takes no second process. */
#include "second_launch.h"
#include "support/shell.h"

/* ---- the program's context ---- */

/* In the rerun process it is the device's primary context. */
TEST(a_kernel_is_staged_whatever_its_context)
{
    static const char *const stories[] = {"green", "green_stream", "own_context"};
    for (size_t i = 0; i < sizeof stories / sizeof *stories; i++) {
        int status = run_shell("LD_LIBRARY_PATH=%s %s run --explain rerun --wait-ms 1000/60000 -- %s %s", CUFENCE_RUN_DRIVER,
                               CUFENCE_CLI, CUFENCE_SAVED_STORY, stories[i]);
        expect_end(status, 3,
                   PATTERNS("cuCtxSynchronize: error 700", "out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1",
                            "block \\(7,0,0\\) thread \\(104,0,0\\)", "address .* re-run$",
                            "written +4 bytes past the end: 2\\.5 +re-run", "launched at .*saved_story\\.c:"));
    }
}

/* ---- no second process ---- */

static CUresult refusal;

static void tell_refused(void)
{
    char fail[64];
    start("explain=rerun");
    snprintf(fail, sizeof fail, "fail=cuDevicePrimaryCtxRetain:0:%d", (int)refusal);
    setenv("CUFENCE_SIM", fail, 1); /* this process has read it */
    launch("write_last", allocate(COUNT * 4), COUNT);
    while (cuCtxSynchronize() != CUDA_ERROR_ILLEGAL_ADDRESS)
        usleep(1000);
    CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK_OK(cufence_wait_reports(60000));
    CHECK(cufence_fault_count() == 1);
}

/* The report has what the dump told, and why there is no more. */
TEST(a_device_for_one_process_gives_a_note)
{
    static const struct {
        CUresult refusal;
        const char *reason;
    } cases[] = {
        {CUDA_ERROR_DEVICE_UNAVAILABLE, "could not be launched again: the GPU is in compute mode"},
        {CUDA_ERROR_MPS_SERVER_NOT_READY, "could not be launched again: the MPS server takes no"},
        {CUDA_ERROR_OUT_OF_MEMORY, "could not be launched again: cuDevicePrimaryCtxRetain:"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        refusal = cases[i].refusal;
        expect_said(tell_refused, PATTERNS("illegal memory access by a WRITE \\(address unknown: the warp had exited\\)",
                                           "kernel +write_last .* exact$", "model\\.cu:20", "buffer +#1, 4000 bytes",
                                           cases[i].reason, "!re-run$"));
    }
}

TEST_GROUP(make_folder, remove_folder)
