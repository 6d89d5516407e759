/* Captures, graphs and contexts of programs under the preload library: as test_preload.c. */
#include "guarded.h"

TEST_WITH(captured_allocations_live_as_long_as_the_graph, NULL, finish)
{
    expect_the_same("capture", NULL, 0,
                    "end of the capture: CUDA_SUCCESS\n"
                    "replay: CUDA_SUCCESS\n"
                    "replay: CUDA_SUCCESS\n"
                    "replay: CUDA_SUCCESS\n"
                    "after three replays 6\n");
}

TEST_WITH(an_overrun_in_a_graph_is_reported, NULL, finish)
{
    expect_every_way("capture overrun", NULL, 1, "end of the capture: CUDA_SUCCESS\nreplay: CUDA_ERROR_ILLEGAL_ADDRESS\n",
                     "0 bytes past the end of buffer #3", "store<<<(1,1,1), (1,1,1)>>>");
}

TEST_WITH(graph_memory_nodes_pass_through, NULL, finish)
{
    expect_the_same("graph_nodes", NULL, 0,
                    "the graph's memory holds 5\n"
                    "cuMemFreeAsync of the graph's memory: CUDA_SUCCESS\n"
                    "launch again: CUDA_SUCCESS\n"
                    "a node that frees it: CUDA_SUCCESS\n");
}

/* What happens to a graph's memory is the same in every way; these two find most of the functions differently. The device has
 * memory for a few of the buffers. */
static void expect_graph_memory(const char *name, const char *device, const char *out)
{
    static const size_t some[] = {0, WAYS - 2};
    char story[64];
    snprintf(story, sizeof story, "graph_memory %s", name);
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        expect_run(&ways[some[i]], story, PRELOAD, "small=map", device, 0, out);
        expect_silence();
    }
}

#define FEW "memory=256M"

TEST_WITH(capturing_again_and_again_takes_no_more_memory, NULL, finish)
{
    expect_graph_memory("threads", FEW, "counted to 200\nat the end: 0 held\n");
    expect_graph_memory("torch_loop", FEW, "100 graphs counted to 100\nat the end: 0 held\n");
}

#define CANNOT_FOLLOW(call)                                                                                                    \
    TEST_WITH(memory_of_a_capture_stays_without_##call, NULL, finish)                                                          \
    {                                                                                                                          \
        expect_graph_memory("unfollowed", FEW ",fail=" #call ":1:2",                                                           \
                            "counted to 1\nwith an executable: 1 held\nwithout: 1 held\n");                                    \
    }
CANNOT_FOLLOW(cuUserObjectCreate)
CANNOT_FOLLOW(cuGraphRetainUserObject)

TEST_WITH(memory_of_a_graph_with_a_condition_goes, NULL, finish)
{
    expect_graph_memory("conditional", FEW, "after a graph with a condition: 0 held\n");
}

TEST_WITH(whatever_launches_a_graph_keeps_its_memory, NULL, finish)
{
    expect_graph_memory("executable", FEW, "counted to 1\nwith an executable: 1 held\nwithout: 0 held\n");
    expect_graph_memory("in_flight", FEW, "before the launch has run: 1 held\ncounted to 1\nwithout: 0 held\n");
    expect_graph_memory("freed_by_another", FEW, "counted to 2\nwith the second graph: 1 held\nwithout: 0 held\n");
    expect_graph_memory("failed", FEW,
                        "synchronise: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED\n"
                        "end of the capture: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED\n"
                        "after a capture that failed: 0 held\n");
}

TEST_WITH(graphs_that_fit_release_nothing, NULL, finish)
{
    expect_graph_memory("in_turn", FEW, "the pool keeps 3 of 3\n");
}

TEST_WITH(what_a_graph_leaves_is_the_programs, NULL, finish)
{
    expect_graph_memory("output_again", FEW,
                        "free: CUDA_SUCCESS\n"
                        "free: CUDA_SUCCESS\n"
                        "free: CUDA_SUCCESS\n"
                        "the buffer held 3\n"
                        "the buffer holds 4\n"
                        "free: CUDA_SUCCESS\n"
                        "without: 0 held\n");
    expect_graph_memory("auto_free", FEW, "counted to 3\nwithout: 1 held\nfreed: 0 held\n");
    expect_graph_memory("output_in_use", FEW, "while it is used: 1 held\ncounted to 2\nwithout: 0 held\n");
}

TEST_WITH(a_late_access_to_a_graphs_memory_is_reported, NULL, finish)
{
    expect_run(&by_dlsym, "graph_memory late", PRELOAD, NULL, FEW, FAULTED,
               "without: 0 held\nlate access: CUDA_ERROR_ILLEGAL_ADDRESS\n");
    expect_err("use-after-free WRITE of 4 bytes", "100 bytes into buffer #2, which has been freed");
}

TEST_WITH(a_reset_of_the_device_is_survived, NULL, finish)
{
    static const char wanted[] = "cuDevicePrimaryCtxReset: CUDA_SUCCESS\n"
                                 "memory of before: CUDA_ERROR_INVALID_VALUE\n"
                                 "free of before: CUDA_ERROR_INVALID_VALUE\n"
                                 "after the reset 7\n";
    char with_overrun[512];
    expect_alike("reset", NO_PRELOAD, NULL, 0, wanted);
    snprintf(with_overrun, sizeof with_overrun, "%soverrun: CUDA_ERROR_ILLEGAL_ADDRESS\n", wanted);
    for (size_t i = 0; i < WAYS; i++) {
        run(&ways[i], "reset", PRELOAD, NULL, NULL);
        expect_out(wanted);
        run_guarded(&ways[i], "reset overrun", NULL, 1, with_overrun);
        expect_err("0 bytes past the end of buffer #3");
    }
}

TEST_WITH(threads_share_the_device, NULL, finish)
{
    expect_the_same("threads", NULL, 0, "all well, used 0\n");
}

TEST_CONCURRENTLY
