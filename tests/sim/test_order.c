/* Lifetime across streams (streams=on): which programs are wrong, what is said about them, and that nothing else is. */
#include "guarded.h"

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

TEST_WITH(the_json_has_both_places, NULL, finish)
{
    SKIP_WITH_TSAN;
    unlink("order.json");
    run(&by_dlsym, "order not_recorded", PRELOAD, "streams=on,json=order.json", NULL);
    json_t *found = finding_in("order.json");
    assert_string_equal(json_string_value(json_object_get(found, "kind")), "stream race");
    json_t *used = json_object_get(found, "used");
    assert_string_equal(json_string_value(json_object_get(used, "certainty")), "derived");
    assert_string_equal(json_string_value(json_object_get(used, "kernel")), "add_one");
    assert_string_not_equal(json_string_value(json_object_get(used, "stream")),
                            json_string_value(json_object_get(used, "by_stream")));
    assert_true(json_array_size(json_object_get(used, "frames")) > 0);
    assert_true(json_array_size(json_object_get(json_object_get(found, "called"), "frames")) > 0);
    json_decref(found);
}

TEST_CONCURRENTLY
