/* What happens after a fault on a real GPU to a program that nothing hooks: on_fault, and reports without synchronisation.
 * programs.py has exit statuses. */
#define TEST_OWN_MAIN
#include "support/test.h"

#include "story.h"

enum { COUNT = 1000, BLOCKS = 8 };

static void expect_reported(const struct story *story)
{
    if (story->witness->faults != 1 || !strstr(story->stderr_text, "0 bytes past the end"))
        fail_msg("status %d, signal %d, %d faults: %s", story->exit_status, story->signal, story->witness->faults,
                 story->stderr_text);
}

static void expect_status(const struct story *story, int status)
{
    if (story->exit_status != status)
        fail_msg("status %d, signal %d instead of %d: %s", story->exit_status, story->signal, status, story->stderr_text);
}

/* Launches the overrun and does not wait. */
static void plant(void)
{
    void *in = story_buffer("input", 4000, NULL), *out = story_buffer("output", 4000, NULL);
    int n = COUNT;
    story_ok(story_launch("gpu_read_past", BLOCKS, NULL, ARGUMENTS(&in, &out, &n)), "gpu_read_past");
}

static int tell_no_synchronisation(void)
{
    plant();
    return story_wait_report(10) ? 0 : 1;
}

TEST(test_no_synchronisation)
{
    const struct story *story = story_run("on_fault=error/0", tell_no_synchronisation);
    expect_status(story, 0);
    expect_reported(story);
    uint64_t took = story->witness->reported_ns - story->witness->launched_ns;
    if (took > 1000000000u)
        fail_msg("the report came %llu ms after the launch", (unsigned long long)(took / 1000000));
}

static int tell_at_exit(void)
{
    plant();
    return 0;
}

TEST(test_at_exit)
{
    const struct story *story = story_run("", tell_at_exit);
    expect_reported(story);
    expect_status(story, 86);
}

static int tell_error(void)
{
    void *pointer = NULL;
    plant();
    driver->cuCtxSynchronize();
    story_check(story_wait_report(10), "no report");
    witness->value[0] = (uint64_t)cufence_malloc(&pointer, 4000, 0, NULL);
    for (int i = 0; i < 2000 && witness->value[1] == CUDA_SUCCESS; i++) {
        witness->value[1] = (uint64_t)driver->cuCtxSynchronize();
        story_sleep_ms(1);
    }
    witness->value[2] = (uint64_t)driver->cuCtxSynchronize();
    return (int)cufence_fault_count() - 1; /* do not count the fault of the kernel that makes the error sticky */
}

TEST(test_error)
{
    const struct story *story = story_run("on_fault=error", tell_error);
    expect_reported(story);
    expect_status(story, 86);
    assert_int_equal(story->witness->value[0], CUFENCE_ERROR_FAULTED);
    assert_int_not_equal(story->witness->value[1], CUDA_SUCCESS);
    assert_int_equal(story->witness->value[2], story->witness->value[1]);
}

static int tell_abort(void)
{
    plant();
    driver->cuCtxSynchronize();
    story_sleep_ms(10000);
    return 0;
}

TEST(test_abort)
{
    const struct story *story = story_run("on_fault=abort", tell_abort);
    expect_reported(story);
    assert_int_equal(story->signal, SIGABRT);
}

/* cufence continues. The driver decides how long the context keeps working: 580.159.04 makes the error sticky by itself, 22
 * to 25 ms after the dump. */
static int tell_continue(void)
{
    void *after = NULL;
    story_ok((CUresult)cufence_free(story_buffer("spare", 4000, NULL), NULL), "cufence_free");
    plant();
    driver->cuCtxSynchronize();
    story_check(story_wait_report(10), "no report");
    story_check(cufence_malloc(&after, 4000, 0, NULL) == CUFENCE_OK, "cufence_malloc: %s", cufence_error_detail());
    CUresult result = driver->cuCtxSynchronize();
    story_check(result == CUDA_SUCCESS || result == CUDA_ERROR_ILLEGAL_ADDRESS, "cuCtxSynchronize: %d", (int)result);
    return 0;
}

TEST(test_continue)
{
    const struct story *story = story_run("on_fault=continue/0", tell_continue);
    expect_reported(story);
    expect_status(story, 0);
}

/* Without core dumps, the program still stops at the access, but without a report. */
static int tell_no_coredump(void)
{
    plant();
    return driver->cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS ? 0 : 1;
}

TEST(test_no_coredump)
{
    const struct story *story = story_run("explain=off,on_fault=error/0", tell_no_coredump);
    expect_status(story, 0);
}

int main(int argc, char **argv)
{
    story_require_gpu();
    return test_run(argc, argv);
}
