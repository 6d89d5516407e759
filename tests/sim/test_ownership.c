/*
 * Whose memory a buffer is, and when it may be used again: peers, captures that others disturb, contexts by the hundred, little
 * memory. Programs that know nothing of cufence, as they are and under the preload library. tests/torture has the rest.
 */
#include "guarded.h"

/* One way to find the functions stands for all where the functions are few: see test_preload.c. */
static void expect_guarded(const char *story, const char *settings, const char *device, int status, const char *out)
{
    expect_run(&by_dlsym, story, PRELOAD, settings, device, status, out);
}

static void expect_well(const char *story, const char *device, const char *out)
{
    expect_guarded(story, NULL, device, 0, out);
    expect_silence();
}

static void expect_both(const char *story, const char *device, const char *out)
{
    expect_run(&by_dlsym, story, NO_PRELOAD, NULL, device, 0, out);
    expect_well(story, device, out);
}

/* ---- other devices ---- */

/* The driver does not wait for it either. */
TEST_WITH(a_peers_kernel_behind_a_free_is_a_use_after_free, NULL, finish)
{
    expect_guarded("foreign_kernel", "uaf=strict", "devices=2", 1,
                   "cuMemFree: CUDA_SUCCESS\nthe peer's kernel: CUDA_ERROR_ILLEGAL_ADDRESS\n");
    expect_err("use-after-free WRITE of 4 bytes, ", "on GPU 1 (cufence simulated device)\n",
               "100 bytes into buffer #1, which has been freed");
}

/* ---- streams and threads ---- */

TEST_WITH(the_last_frees_of_a_stream_are_not_lost, NULL, finish)
{
    tune("idle_age=50");
    expect_guarded("unmarked age", NULL, NULL, 0, "given back: yes\n");
    unsetenv("CUFENCE_TUNABLES");
    expect_guarded("unmarked stream", "uaf=off", NULL, 0, "of use to another stream: yes\n");
}

TEST_WITH(warm_calls_ask_the_driver_once_at_most, NULL, finish)
{
    static const char wanted[] = "legacy stream: 1 an allocation, 1 a free\n"
                                 "stream: 0 an allocation, 0 a free\n"
                                 "per-thread stream: 1 an allocation, 1 a free\n";
    expect_well("call_counts", NULL, wanted);
    expect_well("call_counts 2", "devices=2", wanted);
}

/* ---- captures ---- */

TEST_WITH(a_capture_whose_order_was_set_uses_nothing_twice, NULL, finish)
{
    expect_well("reordered none", NULL, "none: the same memory\nonce more: the same memory\nend: CUDA_SUCCESS\n");
    expect_well("reordered add", NULL, "add: the same memory\nonce more: the same memory\nend: CUDA_SUCCESS\n");
    expect_alike("reordered set", PRELOAD, NULL, 0, "set: other memory\nonce more: other memory\nend: CUDA_SUCCESS\n");
}

TEST_WITH(captures_of_other_threads_are_left_alone, NULL, finish)
{
    static const char ends[] = "the other's end: CUDA_SUCCESS\n", stale[] = "calls with a handle that is gone: 0\n";
    char wanted[256];
    snprintf(wanted, sizeof wanted, "%s%s", ends, stale);
    expect_both("prepared destroy", NULL, wanted);
    snprintf(wanted, sizeof wanted, "in the capture: CUDA_SUCCESS\nend: CUDA_SUCCESS\n%s%s", ends, stale);
    expect_well("prepared capture", NULL, wanted);
}

/* What is not reported then is lost. */
TEST_WITH(the_last_release_of_a_context_waits, NULL, finish)
{
    expect_guarded("release", NULL, NULL, FAULTED, "release: CUDA_SUCCESS\n");
    expect_err("0 bytes past the end of buffer #1");
}

/* ---- contexts ---- */

TEST_WITH(contexts_by_the_hundred_are_guarded, NULL, finish)
{
#ifdef __SANITIZE_THREAD__
    skip(); /* the simulated device has little address space there */
#endif
    expect_both("many_contexts 300", NULL, "refused 0, of another context 0\n");
}

/* strict=1: the device ends the program that uses a handle of what is gone. */
TEST_WITH(a_context_ends_while_others_look_for_memory, NULL, finish)
{
#ifdef __SANITIZE_THREAD__
    skip(); /* the simulated device has little address space there */
#endif
    expect_guarded("ending_contexts 300", NULL, "strict=1", 0, "all have ended\n");
}

/* Without a dump there is nothing but the two answers, of which one hides the fault: the first, or the last. */
TEST_WITH(the_worst_of_several_devices_decides_the_end, NULL, finish)
{
    static const char *const devices[] = {"devices=2,fail=cuCtxSynchronize:1:999", "devices=2,fail=cuCtxSynchronize:2:999"};
    for (int i = 0; i < 2; i++) {
        expect_guarded("silent_fault", "explain=off", devices[i], FAULTED, "");
        expect_err("== cufence: a kernel has faulted, without a report; ");
        if (strstr(last.err, "no faults"))
            complain("it is said that there was no fault", "");
        expect_err("a kernel has faulted: CUDA_ERROR_ILLEGAL_ADDRESS");
    }
}

/* ---- figures, addresses, processes ---- */

TEST_WITH(the_tail_of_a_very_large_buffer_is_known, NULL, finish)
{
#ifdef __SANITIZE_THREAD__
    skip(); /* the simulated device has little address space there */
#endif
    expect_guarded("tail", NULL, "memory=64G", FAULTED,
                   "into the tail: CUDA_SUCCESS\n"
                   "it holds 42\n"
                   "the last byte is one of 42949672960 from the first\n"
                   "so is one in the middle: yes\n"
                   "across the end: CUDA_ERROR_INVALID_VALUE\n"
                   "behind the end: CUDA_ERROR_INVALID_VALUE\n"
                   "before the start: CUDA_ERROR_INVALID_VALUE\n"
                   "range behind the end: CUDA_ERROR_NOT_FOUND\n"
                   "into freed memory: CUDA_ERROR_INVALID_VALUE\n");
    expect_err("writes 8 bytes from byte 42949672956 of buffer #2, 4 bytes past its end",
               "beginning 1073741824 bytes past the end of buffer #2",
               "writes 8 bytes from byte 42949672952 of buffer #2, which has been freed");
}

/* As without cufence, down to where nothing fits any more; each means is told once. */
TEST_WITH(with_little_address_space_programs_run_as_ever, NULL, finish)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they take terabytes */
    static const char *const stories[] = {"short_of_space 16384", "short_of_space 8192", "short_of_space 4096"};
    static const char wanted[] = "of the host: yes\nof the host: yes\nof the host: yes\nwrong: 0\n";
    for (size_t i = 0; i < sizeof stories / sizeof *stories; i++) {
        expect_run(&by_dlsym, stories[i], NO_PRELOAD, NULL, NULL, 0, wanted);
        expect_guarded(stories[i], NULL, NULL, 0, wanted);
        if (count_in(last.err, "address space is short") != 1)
            complain("smaller guards are not told once", "");
    }
    expect_guarded(stories[2], NULL, NULL, 0, wanted);
    expect_err("packed: ", "buffers for whose pages there was no address space");
    if (count_in(last.err, "no address space is left for guarded buffers") != 1)
        complain("unguarded buffers are not told once", "");
    expect_guarded(stories[0], NULL, "space=12G", 0, wanted); /* for the driver's context; as an H100's */
    expect_err(" allocations guarded");
#endif
}

TEST_CONCURRENTLY
