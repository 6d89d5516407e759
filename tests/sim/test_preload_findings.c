/* What is found of programs under the preload library: pointers to freed buffers, writes beside buffers, races of streams. */
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

static void expect_refused_with(const char *settings, const char *story, const char *call, const char *text)
{
    run_guarded(&by_dlsym, story, settings, FAULTED, "launch: CUDA_ERROR_INVALID_VALUE\nthe end: CUDA_SUCCESS\n");
    expect_err(call, text, "which has been freed", "allocated     ", "freed         ", "cufence: 1 finding; ");
}

static void expect_refused(const char *story, const char *call, const char *text)
{
    static const char *const settings[] = {NULL, "slack=off,small=map", "uaf=strict"};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        expect_refused_with(settings[i], story, call, text);
}

TEST_WITH(a_freed_buffer_of_a_copy_or_set_in_a_graph_is_found, NULL, finish)
{
    expect_refused("kept copy_node", "host read out of bounds by cuGraphLaunch: reads 4096 bytes from byte 0 of buffer #2",
                   "given by   cuMemcpyDtoDAsync");
    expect_refused("kept copy_node_to", "host write out of bounds by cuGraphLaunch: writes 4096 bytes", "given by ");
    expect_refused("kept copy_node_by_hand", "host read out of bounds by cuGraphLaunch: reads 4096 bytes",
                   "given by   cuGraphAddMemcpyNode");
    expect_refused("kept copy_node_updated", "reads 4096 bytes from byte 0 of buffer #3",
                   "given by   cuGraphExecMemcpyNodeSetParams");
    expect_refused("kept copy_in_child", "host read out of bounds by cuGraphLaunch: reads 4096 bytes from byte 0 of buffer #2",
                   "given by   cuMemcpyDtoDAsync");
    expect_refused("kept set_node", "host write out of bounds by cuGraphLaunch: writes 3584 bytes",
                   "given by   cuMemsetD2D8Async");
    expect_refused("kept copy_enabled", "reads 4096 bytes from byte 0 of buffer #2",
                   "given by   cuGraphExecMemcpyNodeSetParams");
    expect_refused("kept inner_enabled", "reads 4096 bytes from byte 0 of buffer #2", "given by   cuMemcpyDtoDAsync");
    expect_refused("kept set_enabled", "writes 4096 bytes", "given by   cuGraphExecMemsetNodeSetParams");
}

TEST_WITH(a_change_that_is_refused_changes_nothing, NULL, finish)
{
    run_guarded(&by_dlsym, "kept copy_refused", NULL, FAULTED,
                "change: CUDA_ERROR_INVALID_VALUE\nlaunch: CUDA_SUCCESS\nthe end: CUDA_SUCCESS\n");
    expect_err("reads 4096 bytes from byte 8 of buffer #1", "cufence: 1 finding; ");
}

/* With explain=rerun, also on the simulated device, the code of kernels is kept. */
#ifdef CUFENCE_HAS_INSPECT
TEST_WITH(a_freed_buffer_of_a_texture_is_found, NULL, finish)
{
    for (int is_strict = 0; is_strict < 2; is_strict++)
        expect_refused_with(is_strict ? "explain=rerun,uaf=strict" : "explain=rerun", "kept texture",
                            "use-after-free by cuLaunchKernel: gives a kernel texture 0x", "given by   cuTexObjectCreate");
}
#endif

#define SILENT_CASE(story, name, ...)                                                                                          \
    TEST_WITH(name##_is_silent, NULL, finish)                                                                                  \
    {                                                                                                                          \
        static const char *const settings[] = {NULL, "slack=off", "uaf=strict", "uaf=off", "explain=rerun"};                   \
        for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {                                                    \
            run_guarded(&by_dlsym, story " " #name, settings[i], 0, __VA_ARGS__ "the end: CUDA_SUCCESS\n");                    \
            expect_silence();                                                                                                  \
        }                                                                                                                      \
    }
#define SILENT_LAUNCH(name, ...) SILENT_CASE("kept", name, __VA_ARGS__)
#define SILENT_GRAPHS(name, ...) SILENT_CASE("graphs", name, __VA_ARGS__)
SILENT_LAUNCH(copy_without_its_graph, )
SILENT_LAUNCH(copy_of_its_own, )
SILENT_LAUNCH(texture_in_order, )
SILENT_LAUNCH(texture_of_nobody, )
SILENT_LAUNCH(texture_elsewhere, )
SILENT_LAUNCH(copy_moved, "launch: CUDA_SUCCESS\n")
SILENT_LAUNCH(copy_not_moved, "change: CUDA_ERROR_INVALID_VALUE\nlaunch: CUDA_SUCCESS\n")
SILENT_LAUNCH(child_moved, "launch: CUDA_SUCCESS\n")
SILENT_LAUNCH(copy_updated, "launch: CUDA_SUCCESS\n")
SILENT_GRAPHS(handle_of_another, "update: CUDA_SUCCESS\n")
SILENT_GRAPHS(captured_twice, "it has 5\nit has 6\n")
SILENT_GRAPHS(captured_apart, "apart: yes\n")
SILENT_GRAPHS(captured_and_lost, "launch: CUDA_SUCCESS\n")
SILENT_GRAPHS(captured_by_two, "apart: yes\nlaunch: CUDA_SUCCESS\n")
SILENT_GRAPHS(joined_by_another, "given back: yes\napart: yes\nit has 5\nit has 5\n")
SILENT_GRAPHS(never_freed_elsewhere, "it has 5\n")
SILENT_GRAPHS(child_with_handle, "update: CUDA_SUCCESS\n")
SILENT_GRAPHS(freed_by_the_second, "it has 5\n")
SILENT_GRAPHS(never_freed, "it has 5\nit has 5\n")
SILENT_GRAPHS(allocated_again, "it has 5\nit has 5\nit has 5\nit has 5\n")

TEST_WITH(memory_of_a_graph_is_on_its_pools_device, NULL, finish)
{
    static const char *const preload[] = {NO_PRELOAD, PRELOAD};
    for (size_t i = 0; i < 2; i++) {
        run(&by_dlsym, "graphs pool_elsewhere", preload[i], NULL, "devices=2");
        expect_status(0);
        expect_out("on device 1\nused there: CUDA_SUCCESS\nused there: CUDA_SUCCESS\nthe end: CUDA_SUCCESS\n");
    }
    expect_silence();
}

#ifdef CUFENCE_HAS_INSPECT
TEST_WITH(only_the_graph_with_the_kernel_is_shown, NULL, finish)
{
    run_guarded(&by_dlsym, "graphs handle_of_a_kernel", "values=add_one", 0, "launch: CUDA_SUCCESS\nthe end: CUDA_SUCCESS\n");
    if (count_in(last.err, "cufence: values of launch") != 1)
        complain("there are not as many", "values of launch");
}
#endif

/* With uaf=strict it is kept, for what is allocated next. */
TEST_WITH(memory_of_a_graph_is_given_back_however_it_is_freed, NULL, finish)
{
    for (int is_off = 0; is_off < 2; is_off++) {
        run_guarded(&by_dlsym, "graphs freed_for_good", is_off ? "uaf=off" : NULL, 0,
                    "given back: yes\nthe end: CUDA_SUCCESS\n");
        expect_silence();
    }
}

/* With streams=on a free is compared with the work that was given the buffer. */
#ifndef __SANITIZE_THREAD__ /* as below */
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

/* ---- writes beside buffers, and the launches that may have done it ---- */

TEST_WITH(one_launch_is_derived, NULL, finish)
{
    expect_every_way("beside async -4 0", "slack=on", FAULTED, "context: CUDA_SUCCESS\n",
                     "slack WRITE: 4 bytes changed, 4 bytes before the start of buffer #2", "found      00 00 80 3f ",
                     "given to   store<<<(1,1,1), (1,1,1)>>>", "derived\n",
                     "SUMMARY: cufence: slack write: 4 bytes changed, 4 bytes before");
}

TEST_WITH(several_are_candidates, NULL, finish)
{
    run_guarded(&by_dlsym, "beside async 1000 3", "slack=on", FAULTED, "context: CUDA_SUCCESS\n");
    expect_err("slack WRITE: 4 bytes changed, 0 bytes past the end of buffer #2");
    if (count_in(last.err, "store<<<(1,1,1)") != 4 || count_in(last.err, "candidate\n") != 5) /* with the hint */
        complain("four candidates", "");
}

TEST_WITH(memory_of_malloc_is_watched, NULL, finish)
{
    run_guarded(&by_dlsym, "beside plain -4 0", "slack=on", FAULTED, "context: CUDA_SUCCESS\n");
    expect_err("slack WRITE: 4 bytes changed, 4 bytes before the start of buffer #2");
    run_guarded(&by_dlsym, "beside plain 0 0", "slack=on", 0, "context: CUDA_SUCCESS\n");
    expect_silence();
}

TEST_WITH(a_reset_is_an_end_too, NULL, finish)
{
    run_guarded(&by_dlsym, "beside_reset", "slack=on", FAULTED, "reset: CUDA_SUCCESS\n");
    expect_err("slack WRITE: 4 bytes changed, 4 bytes before the start of buffer #1");
}

/* Also where uaf=adaptive unmaps the buffer, and after as many frees as are checked out of turn. */
TEST_WITH(each_free_is_checked, NULL, finish)
{
    static const char *const stories[] = {"beside_one 3", "beside_one 16", "beside_one 17", "beside_one 39"};
    for (size_t i = 0; i < sizeof stories / sizeof *stories; i++) {
        run_guarded(&by_dlsym, stories[i], "slack=on", FAULTED, "");
        expect_err("slack WRITE: 4 bytes changed, 0 bytes past the end of buffer #");
    }
}

TEST_WITH(a_synchronised_stream_is_idle, NULL, finish)
{
    run_guarded(&by_dlsym, "idle", "slack=on", 0, "busy: hardly ever\n");
}

TEST_WITH(status_and_on_fault, NULL, finish)
{
    run_guarded(&by_dlsym, "beside async -4 0", "slack=on,on_fault=error/0", 0, "context: CUDA_SUCCESS\n");
    run_guarded(&by_dlsym, "beside async -4 0", "slack=on,on_fault=abort", FAULTED, "context: CUDA_SUCCESS\n");
}

/* Exactly the launches while the bytes were poisoned, however many come right before and after. */
TEST_WITH(poisoned_bytes, NULL, finish)
{
    run_guarded(&by_dlsym, "poison stale", "", FAULTED, "context: CUDA_SUCCESS\n");
    expect_err("WRITE to poisoned memory: 4 bytes changed, from byte 12 of the 4000 poisoned ones on, in buffer #1",
               "given to   store<<<(1,1,1), (1,1,1)>>>", "derived\n");
    if (strstr(last.err, "add_one"))
        complain("no launch of another time", "add_one");
    run_guarded(&by_dlsym, "poison right", "", 0, "context: CUDA_SUCCESS\n");
    expect_silence();
    run_guarded(&by_dlsym, "poison right async", "uaf=strict", 0, "context: CUDA_SUCCESS\n");
    expect_silence();
}

/* What was under way on another stream, or was written by the host, is named, and nothing is derived. */
TEST_WITH(others_may_have_written, NULL, finish)
{
    run_guarded(&by_dlsym, "late poison", "", FAULTED, "context: CUDA_SUCCESS\n");
    expect_err("4 bytes changed, from byte 12", "given to   store<<<", "candidate\n", "1 of the launches came at another time");
    run_guarded(&by_dlsym, "late copy", "", FAULTED, "context: CUDA_SUCCESS\n");
    expect_err("4 bytes changed, from byte 12", "cuMemcpyHtoD was given some of these bytes");
    run_guarded(&by_dlsym, "late slack", "slack=on,uaf=off", FAULTED, "context: CUDA_SUCCESS\n");
    expect_err("before the start of buffer #2", "candidate\n", "1 of the launches came at another time");
}

/* ---- lifetime across streams (streams=on): which programs are wrong, and that nothing is said of the others ---- */

/* These programs race, which ThreadSanitizer sees on the simulated device. */
#ifdef __SANITIZE_THREAD__
#define SKIP_WITH_TSAN skip()
#else
#define SKIP_WITH_TSAN ((void)0)
#endif

/* A case of a story. Where its status is 0, nothing is said. */
static void play(const char *story, const char *name, const char *settings, int status)
{
    char words[64];
    snprintf(words, sizeof words, "%s %s", story, name);
    run_guarded(&by_dlsym, words, settings, status, "played\n");
    if (!status)
        expect_silence();
}

/* In the headline, the summary, and at the two calls. */
static void expect_places(const char *file)
{
    if (count_in(last.err, file) < 4)
        complain("not both places", file);
}

#define USED "add_one<<<(32,1,1), (32,1,1)>>>"

/* The case, and what the report says of the call and of the use. */
static const struct {
    const char *name, *call, *used;
} wrong[] = {
    {"not_recorded", "cuMemFreeAsync: frees buffer #1 on stream 0x", USED},
    {"handle_again", "cuMemFreeAsync: frees buffer #1 on stream 0x", USED},
    {"stream_is_gone", "cuMemFreeAsync: frees buffer #1 on stream 0x", USED},
    {"by_another_thread", "cuMemFreeAsync: frees buffer #1 on stream 0x", USED},
    {"own_default_streams", "cuMemFreeAsync: frees buffer #1 on stream 0x", USED},
    {"in_a_struct", "cuMemFreeAsync: frees buffer #1 on stream 0x", "clear<<<(1,1,1), (1,1,1)>>>"},
    {"in_one_buffer", "cuMemFreeAsync: frees buffer #1 on stream 0x", "clear<<<(1,1,1), (1,1,1)>>>"},
    {"two_contexts", "cuMemFreeAsync: frees buffer #1 on stream 0x", "in use by  cuMemsetD32Async"},
    {"overwritten", "cuMemcpyHtoDAsync: writes buffer #1 on stream 0x", USED},
    {"overwritten_by_host", "cuMemcpyHtoD: writes buffer #1, which add_one", USED},
    {"set_while_copied", "cuMemsetD32Async: writes buffer #1 on stream 0x", "in use by  cuMemcpyDtoHAsync"},
};

/* tests/torture plays what it knows with streams=on; these it does not. */
static const char *const right[] = {"in_a_stale_member", "unified",       "event_synchronised",
                                    "event_polled",      "stream_polled", "copied_to_host",
                                    "pipelined",         "graph",         "host_told"};

TEST_WITH(a_race_is_reported_with_both_places, NULL, finish)
{
    SKIP_WITH_TSAN;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        play("order", wrong[i].name, "streams=on", FAULTED);
        expect_err("cufence: stream race by ", wrong[i].call, wrong[i].used);
        expect_places("order_stories.c:");
        if (count_in(last.err, "SUMMARY: cufence: stream race") != 1)
            complain("not one report", "");
    }
}

TEST_WITH(what_is_ordered_is_not_reported, NULL, finish)
{
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
        play("order", right[i], "streams=on", 0);
}

/* ---- pinned memory of the host (streams=on+host) ---- */

/* The case; what the report says of the call, and of the copy. */
static const struct {
    const char *name, *call, *copy;
} wrong_on_host[] = {
    {"changed", "by cuStreamSynchronize: finds a change in 70000 bytes of pinned memory at 0x", "in use by  cuMemcpyHtoDAsync"},
    {"changed_by_unified", "by cuCtxSynchronize: finds a change in 70000 bytes", "in use by  cuMemcpyAsync"},
    {"filled_again", "by cuMemcpyHtoDAsync: finds a change in 70000 bytes", "in use by  cuMemcpyHtoDAsync"},
    {"waited_too_early", "by cuStreamSynchronize: finds a change in", "in use by  cuMemcpyHtoDAsync"},
    {"freed", "by cuMemFreeHost: frees 70000 bytes", "in use by  cuMemcpyDtoHAsync"},
    {"unregistered", "by cuMemHostUnregister: frees 70000 bytes", "in use by  cuMemcpyHtoDAsync"},
    {"read_early", "by read_result: reads 70000 bytes", "in use by  cuMemcpyDtoHAsync"},
};
static const char *const right_on_host[] = {"waited",    "beside",     "in_turn", "not_pinned", "copied_at_once",
                                            "host_told", "in_a_graph", "timed",   "ended"};

TEST_WITH(a_host_that_does_not_wait_is_reported, NULL, finish)
{
    SKIP_WITH_TSAN;
    for (size_t i = 0; i < sizeof wrong_on_host / sizeof wrong_on_host[0]; i++) {
        play("host_copies", wrong_on_host[i].name, "streams=on+host", FAULTED);
        expect_err(wrong_on_host[i].call, wrong_on_host[i].copy);
        expect_places("host_stories.c:");
        play("host_copies", wrong_on_host[i].name, "streams=on", 0);
    }
}

TEST_WITH(a_host_that_waits_is_not, NULL, finish)
{
    for (size_t i = 0; i < sizeof right_on_host / sizeof right_on_host[0]; i++)
        play("host_copies", right_on_host[i], "streams=on+host", 0);
}

/* The driver is found in other ways, and NULL is another stream. */
TEST_WITH(every_way_is_seen, NULL, finish)
{
    SKIP_WITH_TSAN;
    for (size_t i = 0; i < WAYS; i++) {
        run_guarded(&ways[i], "order not_recorded", "streams=on", FAULTED, "played\n");
        expect_err("cufence: stream race by cuMemFreeAsync");
        run_guarded(&ways[i], "order unified", "streams=on", 0, "played\n");
        expect_silence();
    }
}

TEST_WITH(it_is_off_by_default, NULL, finish)
{
    SKIP_WITH_TSAN;
    play("order", "not_recorded", NULL, 0);
}

TEST_CONCURRENTLY
