/* Launches that are given freed pointers, of programs under the preload library: as test_preload.c. */
#include "guarded.h"

static void expect_found(const char *story, const char *settings)
{
    run_guarded(&by_dlsym, story, settings, 1, "the end: CUDA_ERROR_ILLEGAL_ADDRESS\n");
    expect_err("cufence: use-after-free ", "which has been freed", "add_one<<<", "argument 0 points to this buffer",
               "allocated at  ", "freed at      ", "cufence: 1 finding; ");
}

#define FOUND(name)                                                                                                            \
    TEST_WITH(name##_is_found, NULL, finish)                                                                                   \
    {                                                                                                                          \
        expect_found("freed " #name, NULL);                                                                                    \
        expect_found("freed " #name, "slack=off,small=map");                                                                   \
        expect_found("freed " #name, "uaf=strict");                                                                            \
    }
TEST_WITH(the_node_of_the_graph_is_named, NULL, finish)
{
    run_guarded(&by_dlsym, "freed graph", NULL, 1, "the end: CUDA_ERROR_ILLEGAL_ADDRESS\n");
    expect_err("a graph was launched after the free, and this kernel is node 1 of");
}

FOUND(same_stream)
FOUND(in_a_loop)
FOUND(other_stream)
FOUND(waited_free)
FOUND(within)
FOUND(busy)
FOUND(graph)

static void expect_nothing(const char *story, const char *settings)
{
    run_guarded(&by_dlsym, story, settings, 0, "the end: CUDA_SUCCESS\n");
    expect_silence();
}

#define SILENT(name)                                                                                                           \
    TEST_WITH(name##_is_silent, NULL, finish)                                                                                  \
    {                                                                                                                          \
        expect_nothing("freed " #name, NULL);                                                                                  \
        expect_nothing("freed " #name, "slack=off");                                                                           \
        expect_nothing("freed " #name, "uaf=strict");                                                                          \
        expect_nothing("freed " #name, "small=pack");                                                                          \
    }
SILENT(untouched)
SILENT(used_again)
SILENT(later)
SILENT(before_the_free)
SILENT(graph_in_order)

TEST_WITH(the_end_says_how_many_buffers_were_retired, NULL, finish)
{
    run_guarded(&by_dlsym, "freed retired", "uaf=strict", 0, "the end: CUDA_SUCCESS\n");
    expect_err("cufence: use after free: tested for 1 of 1 freed buffer\n");
}

/* With streams=on a free is compared with the work that was given the buffer. */
#ifndef __SANITIZE_THREAD__ /* as in test_order.c */
TEST_WITH(a_free_while_others_use_the_buffer_is_a_race, NULL, finish)
{
    static const struct {
        const char *story, *call;
    } wrong[] = {{"freed far", "cuMemFree: frees buffer #1, which add_one on stream 0x"},
                 {"freed far_async", "cuMemFreeAsync: frees buffer #1 on stream 0x"},
                 {"freed by_api", "cufence_free: frees buffer #1 on stream 0x"},
                 {"freed by_torch", "PyTorch's allocator: frees buffer #1 on stream 0x"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        /* a retired buffer would fault if the kernel came late */
        run(&by_dlsym, wrong[i].story, PRELOAD, "streams=on,uaf=off", "devices=2");
        expect_status(FAULTED);
        expect_err("cufence: stream race", wrong[i].call, "in use by  add_one<<<", "cufence: 1 finding; ");
    }
    run(&by_dlsym, "freed far_done", PRELOAD, "streams=on", "devices=2");
    expect_status(0);
    expect_silence();
}
#endif

TEST_WITH(without_the_option_nothing_is_retired, NULL, finish)
{
    expect_nothing("freed same_stream", "uaf=off");
    expect_nothing("freed graph", "uaf=off");
}

TEST_CONCURRENTLY
