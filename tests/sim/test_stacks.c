/*
 * What cufence takes of a caller's stack: a program that knows nothing of cufence, on fibres, under the preload library.
 * tests/torture has threads of the least size, and threads that are cancelled.
 */
#include "guarded.h"

/* Options that make hooks do more. */
static const char *const options[] = {
    NULL,         "streams=on", "slack=on,fill=nan", "uaf=strict,small=pack", "skip=func:*none*;file:*none*", "say=verbose",
#ifdef CUFENCE_HAS_INSPECT
    "nan=report",
#endif
};
#define OPTIONS (sizeof options / sizeof options[0])

#define OWN_STEPS                                                                                                              \
    "the first allocation: CUDA_SUCCESS\n"                                                                                     \
    "a free: CUDA_SUCCESS\n"                                                                                                   \
    "allocations and frees in order: CUDA_SUCCESS\n"                                                                           \
    "a launch: CUDA_SUCCESS\n"                                                                                                 \
    "copies: CUDA_SUCCESS\n"                                                                                                   \
    "a capture: CUDA_SUCCESS\n"                                                                                                \
    "another context: CUDA_SUCCESS\n"                                                                                          \
    "too large an allocation: CUDA_ERROR_OUT_OF_MEMORY\n"
#define MISUSES                                                                                                                \
    "a double free: CUDA_ERROR_INVALID_VALUE\n"                                                                                \
    "a copy out of bounds: CUDA_ERROR_INVALID_VALUE\n"

/* Fibres have a guard page, and print how much they took where that is more than 8 KiB. */
TEST_WITH(fibres_need_eight_kilobytes, NULL, finish)
{
    run(&by_dlsym, "fibres", NO_PRELOAD, NULL, NULL);
    expect_out("the start: CUDA_SUCCESS\n" OWN_STEPS);
    for (size_t i = 0; i < OPTIONS; i++) {
        run_guarded(&by_dlsym, "fibres", options[i], FAULTED, "the start: CUDA_SUCCESS\n" OWN_STEPS MISUSES);
        expect_err("double free by cuMemFree", "host read out of bounds by cuMemcpyDtoH",
                   "in copy_too_much"); /* the caller's stack is read, and not ours */
    }
}

TEST_WITH(abort_asks_the_loader_for_nothing, NULL, finish)
{
    const char *const story = "abort_in_handler " PROGRAMS_FOLDER "/libblocking.so";
    run(&by_dlsym, story, PRELOAD, NULL, NULL);
    expect_status(128 + SIGABRT);
}

TEST_CONCURRENTLY
