/* Faults of programs under the preload library, processes, and finding functions: as test_preload.c. */
#include "guarded.h"

#include <jansson.h>

static void expect_overrun_report(void)
{
    expect_err("out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1", "#1, 4096 bytes",
               "store<<<(1,1,1), (1,1,1)>>>", "kernels.cu:12");
    if (count_in(last.err, "cufence: out-of-bounds") != 1)
        complain("reports that are not", "1");
}

TEST_WITH(an_overrun_is_reported_and_returned_by_what_waits, NULL, finish)
{
    static const char *const waits[] = {"context", "stream", "event", "copy", "free"};
    char story[64], wanted[64];
    for (size_t i = 0; i < WAYS * sizeof waits / sizeof waits[0]; i++) {
        snprintf(story, sizeof story, "overrun %s", waits[i / WAYS]);
        snprintf(wanted, sizeof wanted, "%s: CUDA_ERROR_ILLEGAL_ADDRESS\n", waits[i / WAYS]);
        run_guarded(&ways[i % WAYS], story, NULL, 1, wanted);
        expect_overrun_report();
    }
}

TEST_WITH(a_program_that_never_synchronises_hears_of_it, NULL, finish)
{
    for (size_t i = 0; i < WAYS; i++) {
        run_guarded(&ways[i], "overrun none", NULL, FAULTED, "none: CUDA_SUCCESS\n");
        expect_overrun_report();
    }
}

/* `how` the driver is late with its dump. */
static void expect_waited_for(const char *how)
{
    expect_run(&by_dlsym, "overrun context", PRELOAD, NULL, how, 1, "context: CUDA_ERROR_ILLEGAL_ADDRESS\n");
    expect_overrun_report();
    expect_run(&by_dlsym, "overrun stream", PRELOAD, NULL, how, 1, "stream: CUDA_ERROR_ILLEGAL_ADDRESS\n");
    expect_overrun_report();
    expect_run(&by_dlsym, "overrun none", PRELOAD, NULL, how, FAULTED, "none: CUDA_SUCCESS\n");
    expect_overrun_report();
}

/* The error comes before the driver begins its dump. */
TEST_WITH(a_late_dump_is_waited_for, NULL, finish)
{
    expect_waited_for("late_dump=300");
}

/* The driver calls all work done, and begins its dump when the program may be long gone. */
TEST_WITH(a_fault_that_the_driver_swallows_is_waited_for, NULL, finish)
{
    expect_waited_for("swallow=2500");
}

/* Its dump never comes: the program hears of a fault all the same, at its end at the latest. */
TEST_WITH(a_fault_without_a_dump_is_told, NULL, finish)
{
    tune("swallowed=1000");
    expect_run(&by_dlsym, "overrun context", PRELOAD, NULL, "swallow=60000", 1, "context: CUDA_ERROR_LAUNCH_FAILED\n");
    expect_err("the driver does not say so: it calls all work done", "cufence: 1 finding; ");
    expect_run(&by_dlsym, "overrun none", PRELOAD, NULL, "swallow=60000", FAULTED, "none: CUDA_SUCCESS\n");
    expect_err("the driver does not say so: it calls all work done", "cufence: 1 finding; ");
    unsetenv("CUFENCE_TUNABLES");
}

/* The synchronisation ends before the report, which waits for a second launch; the end of the process waits for the report. */
TEST_WITH(a_report_is_finished_before_the_end, NULL, finish)
{
    static const char *const ends[] = {"abort",   "_exit", "quick_exit", "execv",  "execve", "execvp",
                                       "execvpe", "execl", "execle",     "execlp", "fexecve"};
    char story[64];
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        snprintf(story, sizeof story, "end_at_once %s", ends[i]);
        expect_run(&by_dlsym, story, PRELOAD, "explain=rerun,on_fault=continue", NULL, i ? 7 : 128 + SIGABRT,
                   "context: CUDA_SUCCESS\n");
        expect_overrun_report();
        expect_err("could not be launched again: ");
    }
}

TEST_WITH(a_handler_of_the_abort_may_exit, NULL, finish)
{
#ifdef __SANITIZE_THREAD__
    skip(); /* it takes what is called in a handler for a finding, and so it is */
#endif
    run(&by_dlsym, "exit_at_abort", PRELOAD, "on_fault=abort", NULL);
    expect_status(7);
    expect_overrun_report();
    expect_err("cufence: 1 finding; 1 allocation guarded");
}

/* Calls of the driver take their time, those of the process that launches the kernel again too. */
TEST_WITH(the_error_does_not_wait_for_the_second_launch, NULL, finish)
{
    expect_run(&by_dlsym, "end_at_once _exit", PRELOAD, "explain=rerun", "latency=cuMemMap:20000,latency=cuMemSetAccess:20000",
               7, "context: CUDA_ERROR_ILLEGAL_ADDRESS\n");
    const char *told = strstr(last.err, "it is told of the fault\n");
    if (!told || !strstr(told, "could not be launched again: "))
        complain("the report comes too early", "");
}

/* Somewhere else and later; sim.rerun compares all words, and sim.replay has the files. */
TEST_WITH(a_recorded_fault_can_be_explained, NULL, finish)
{
    char folder[] = "/tmp/cufence-record-XXXXXX", settings[128], path[128], text[16384];
    int pid = 0;
    assert_non_null(mkdtemp(folder));
    snprintf(settings, sizeof settings, "explain=dump,keep=%s/a/%%p", folder);
    run(&by_dlsym, "overrun context", PRELOAD, settings, NULL);
    expect_overrun_report();
    expect_err("cufence: kept for `cufence explain`: ");
    assert_int_equal(sscanf(last.err, "==%d==", &pid), 1);
    snprintf(path, sizeof path, "%s/a/%d", folder, pid);
    assert_int_equal(explain(path, text, sizeof text), 0);
    expect_in(text, "out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1");
    expect_in(text, "  threads    1 in 1 warp had not exited; by place:\n");
    remove_all(folder);
    run(&by_dlsym, "overrun context", PRELOAD, "keep=/proc/nowhere", NULL);
    expect_overrun_report();
    expect_err("cufence: keep: cannot write /proc/nowhere: ");
}

static void expect_launch(const struct way *way, const json_t *launches, size_t index, const char *wanted)
{
    json_t *launch = json_array_get(launches, index), *fields = json_object();
    static const char *const names[] = {"grid", "block", "cluster", "shared_bytes", "is_cooperative"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        json_object_set(fields, names[i], json_object_get(launch, names[i]));
    char *text = json_dumps(fields, JSON_COMPACT | JSON_PRESERVE_ORDER);
    expect_in(text, wanted);
    free(text);
    json_decref(fields);
}

/* What a second launch of the kernel would need. */
TEST_WITH(a_launch_is_on_record_as_it_was, NULL, finish)
{
    for (size_t i = 0; i < WAYS; i++) {
        char folder[] = "/tmp/cufence-launches-XXXXXX", settings[128], path[160];
        int pid = 0;
        assert_non_null(mkdtemp(folder));
        snprintf(settings, sizeof settings, "explain=dump,keep=%s", folder);
        run(&ways[i], "ways_to_launch", PRELOAD, settings, NULL);
        assert_int_equal(sscanf(last.err, "==%d==", &pid), 1);
        snprintf(path, sizeof path, "%s/fault-%d-1/facts.json", folder, pid);
        json_t *snapshot = json_load_file(path, 0, NULL), *launches = json_object_get(snapshot, "launches");
        assert_int_equal(json_array_size(launches), 3);
        expect_launch(&ways[i], launches, 0, "{\"grid\":[1,1,1],\"block\":[1,1,1],\"cluster\":[0,0,0]}");
        expect_launch(&ways[i], launches, 1,
                      "{\"grid\":[2,1,3],\"block\":[1,2,1],\"cluster\":[2,1,3],\"shared_bytes\":96,\"is_cooperative\":1}");
        expect_launch(&ways[i], launches, 2,
                      "{\"grid\":[1,2,1],\"block\":[1,1,4],\"cluster\":[0,0,0],\"shared_bytes\":64,\"is_cooperative\":1}");
        json_decref(snapshot);
        remove_all(folder);
    }
}

TEST_WITH(each_exception_has_its_own_error, NULL, finish)
{
    static const struct {
        const char *story, *error, *words;
    } exceptions[] = {
        {"other_exception 12", "CUDA_ERROR_ASSERT", "assertion failed"},
        {"other_exception 4", "CUDA_ERROR_ILLEGAL_INSTRUCTION", "illegal instruction"},
        {"other_exception 2", "CUDA_ERROR_LAUNCH_FAILED", "user stack overflow"},
    };
    for (size_t i = 0; i < sizeof exceptions / sizeof exceptions[0]; i++) {
        char wanted[512], summary[128], without[128];
        const char *story = exceptions[i].story, *error = exceptions[i].error;
        snprintf(wanted, sizeof wanted, "cuCtxSynchronize: %s\ncuMemAlloc: %s\ncuLaunchKernel: %s\ncuStreamSynchronize: %s\n",
                 error, error, error, error);
        expect_alike(story, NO_PRELOAD, NULL, 1, wanted);
        run(&by_dlsym, story, PRELOAD, NULL, NULL);
        expect_out(wanted);
        snprintf(summary, sizeof summary, "SUMMARY: cufence: exception in cusim_raise+0x40: %s\n", exceptions[i].words);
        expect_err(summary, "1 finding; cufence saw no allocation of device memory");
        run(&by_dlsym, story, PRELOAD, "explain=off", NULL);
        expect_out(wanted);
        snprintf(without, sizeof without, "reason     %s; without a core dump", error);
        expect_err(without);
    }
}

static const char *const hooked_calls[] = {
    "cuMemAlloc",         "cuMemAllocAsync",   "cuMemcpyHtoD",      "cuMemcpyDtoH",        "cuMemcpyDtoD",
    "cuMemcpyAsync",      "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemsetD8",          "cuMemsetD32Async",
    "cuLaunchKernel",     "cuLaunchKernelEx",  "cuGraphLaunch",     "cuStreamSynchronize", "cuStreamQuery",
    "cuEventSynchronize", "cuEventQuery",      "cuCtxSynchronize",  "cuMemFreeAsync",      "cuMemFree",
};

/* Frees succeed all the same: programs free in destructors. */
static const char *answer_of(const char *call, const char *answer)
{
    return strncmp(call, "cuMemFree", 9) == 0 ? "CUDA_SUCCESS" : answer;
}

static void every_call_after_a_fault_answers(const char *options, const char *answer)
{
    char wanted[4096];
    size_t length = (size_t)snprintf(wanted, sizeof wanted, "the fault: %s\n", answer);
    for (size_t i = 0; i < sizeof hooked_calls / sizeof hooked_calls[0]; i++)
        length += (size_t)snprintf(wanted + length, sizeof wanted - length, "%s: %s\n", hooked_calls[i],
                                   answer_of(hooked_calls[i], answer));
    for (size_t i = 0; i < WAYS; i++) {
        run_guarded(&ways[i], "after_fault", options, FAULTED, wanted);
        expect_overrun_report();
    }
}

TEST_WITH(after_a_fault_every_hooked_call_fails, NULL, finish)
{
    every_call_after_a_fault_answers("on_fault=error", "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_WITH(on_fault_continue_goes_on, NULL, finish)
{
    every_call_after_a_fault_answers("on_fault=continue", "CUDA_SUCCESS");
}

TEST_WITH(two_devices_are_kept_apart, NULL, finish)
{
    static const char values[] = "devices 0 1 used 4000 4000 values 11 12\n";
    char wanted[256];
    snprintf(wanted, sizeof wanted, "%soverrun on device 1: CUDA_SUCCESS\n", values);
    expect_alike("two_devices", NO_PRELOAD, "devices=2", 0, wanted);
    snprintf(wanted, sizeof wanted, "%soverrun on device 1: CUDA_ERROR_ILLEGAL_ADDRESS\n", values);
    for (size_t i = 0; i < WAYS; i++) {
        expect_run(&ways[i], "two_devices", PRELOAD, NULL, "devices=2", 1, wanted);
        expect_err("on GPU 1 (cufence simulated device)", "0 bytes past the end of buffer #2");
    }
}

TEST_WITH(peers_have_the_access_that_the_program_gives, NULL, finish)
{
    static const struct {
        const char *options, *before, *after;
    } rows[] = {{NULL, "no", "yes"}, {"peers=on", "yes", "yes"}, {"peers=off", "no", "no"}};
    static const char *const stories[] = {"peers pool", "peers context", "peers copy"};
    for (size_t i = 0; i < 3 * sizeof rows / sizeof rows[0]; i++) {
        const char *story = stories[i % 3];
        const int is_copy = i % 3 == 2; /* a copy reaches all memory, whatever the option says */
        const char *after = is_copy ? "yes" : rows[i / 3].after;
        char wanted[256];
        snprintf(wanted, sizeof wanted, "before: %s\nan early buffer: %s\none that is used again: %s\na late one: %s\n",
                 rows[i / 3].before, after, after, after);
        expect_run(&by_dlsym, story, PRELOAD, rows[i / 3].options, "devices=2", 0, wanted);
        if (!is_copy && rows[i / 3].options != NULL && strcmp(rows[i / 3].options, "peers=off") == 0)
            expect_err("because peers=off says so");
        else
            expect_silence();
    }
}

/* ---- captures, graphs and contexts: tests/contract and tests/torture have what is right about them ---- */

TEST_WITH(an_overrun_in_a_graph_is_reported, NULL, finish)
{
    expect_every_way("capture", NULL, 1, "end of the capture: CUDA_SUCCESS\nreplay: CUDA_ERROR_ILLEGAL_ADDRESS\n",
                     "0 bytes past the end of buffer #3", "store<<<(1,1,1), (1,1,1)>>>");
}

TEST_WITH(a_late_access_to_a_graphs_memory_is_reported, NULL, finish)
{
    expect_run(&by_dlsym, "graph_memory", PRELOAD, NULL, "memory=256M", FAULTED,
               "without: 0 held\nlate access: CUDA_ERROR_ILLEGAL_ADDRESS\n");
    expect_err("use-after-free WRITE of 4 bytes", "100 bytes into buffer #2, which has been freed");
}

TEST_WITH(memory_of_a_graph_that_cannot_be_followed_stays, NULL, finish)
{
    static const char *const devices[] = {"memory=256M,fail=cuUserObjectCreate:1:2",
                                          "memory=256M,fail=cuGraphRetainUserObject:1:2"};
    for (int i = 0; i < 2; i++)
        expect_run(&by_dlsym, "graph_memory stays", PRELOAD, NULL, devices[i], 0,
                   "without: 1 held\nlate access: CUDA_SUCCESS\n");
}

TEST_WITH(an_overrun_after_a_reset_is_reported, NULL, finish)
{
    for (size_t i = 0; i < WAYS; i++) {
        run_guarded(&ways[i], "reset", NULL, 1, "cuDevicePrimaryCtxReset: CUDA_SUCCESS\noverrun: CUDA_ERROR_ILLEGAL_ADDRESS\n");
        expect_err("0 bytes past the end of buffer #3");
    }
}

/* ---- processes, and finding functions ---- */

TEST_WITH(a_fork_before_cuda_works_on_both_sides, NULL, finish)
{
    expect_the_same("fork_first", "parent 0 child 0\n");
}

TEST_WITH(a_driver_in_another_namespace_is_left_alone, NULL, finish)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* a sanitizer's runtime cannot be loaded a second time */
#endif
    expect_alike("other_namespace", PRELOAD, NULL, 0, "there: CUDA_SUCCESS\n");
}

/* As where it is installed twice: the command's is not the one that the program is linked with. */
TEST_WITH(a_library_of_the_programs_own_is_taken, NULL, finish)
{
    char copy[64], words[96], command[512]; /* of this process: a copy that is written anew under another one ends that */
    snprintf(copy, sizeof copy, "./own_copy-%d.so", (int)getpid());
    snprintf(words, sizeof words, "own_copy %s", copy);
    snprintf(command, sizeof command, "cp -L $(dirname " PRELOAD ")/libcufence.so %s", copy);
    assert_int_equal(system(command), 0);
    expect_run(&by_dlsym, words, PRELOAD, NULL, NULL, 0, "");
    expect_err("no faults; 1 allocation guarded");
    unlink(copy);
}

TEST_WITH(a_process_without_cuda_stays_as_it_is, NULL, finish)
{
    char without[sizeof last.out];
    run(&by_dlsym, "untouched", NO_PRELOAD, NULL, NULL);
    strcpy(without, last.out); /* a sanitizer may have a thread of its own */
    expect_in(without, "libcufence.so no, threads ");
    run_guarded(&by_dlsym, "untouched", NULL, 0, without);
    expect_silence();
}

TEST_WITH(get_proc_address_gives_itself_and_one_function, NULL, finish)
{
    static const char wanted[] = "v2 gives itself: yes\n"
                                 "v2 by v2 gives itself: yes, cuMemAlloc as by dlsym: yes\n"
                                 "cuMemAlloc of v1 and v2 is one: yes\n"
                                 "cuCtxSynchronize has two forms: yes\n"
                                 "a function that is not there: CUDA_SUCCESS\n"
                                 "found nothing, status 1\n"
                                 "the same without a status: CUDA_ERROR_NOT_FOUND\n"
                                 "a version of tomorrow: CUDA_ERROR_INVALID_VALUE\n";
    expect_the_same("itself", wanted);
}

TEST_WITH(dlsym_works_for_those_who_have_nothing_to_do_with_it, NULL, finish)
{
    expect_the_same("next_symbol " PROGRAMS_FOLDER "/libnext_outer.so", "outer answers 42\n"
                                                                        "missing symbol: none\n"
                                                                        "missing driver function: none\n");
}

TEST_WITH(the_drivers_debugger_is_not_taken_down_at_the_exit, NULL, finish)
{
    static const char both[] = "loaded\ndestroyed\nthe program's own\n";
#ifdef __SANITIZE_THREAD__
    skip(); /* its runtime takes the registrations before the library can */
#endif
    expect_alike("exit_handlers " PROGRAMS_FOLDER "/libcudadebugger.so.1", NO_PRELOAD, NULL, 0, both);
    expect_alike("exit_handlers " PROGRAMS_FOLDER "/libcudadebugger.so.1", PRELOAD, NULL, 0, "loaded\nthe program's own\n");
    expect_the_same("exit_handlers " PROGRAMS_FOLDER "/libordinary.so.1", both);
}

/* PyTorch has 100,000 and more of them, and dladdr() takes tens of microseconds in libraries as large. */
TEST_WITH(static_objects_cost_no_search, NULL, finish)
{
    static const struct way counting = {"count_questions", NULL};
#ifdef __SANITIZE_THREAD__
    skip(); /* its runtime takes the registrations before the library can */
#endif
    run_guarded(&counting, PROGRAMS_FOLDER "/libstatics.so", NULL, 0, "dladdr 0\nlibraries seldom\n");
    expect_silence();
}

TEST_WITH(abort_asks_the_loader_for_nothing, NULL, finish)
{
    run(&by_dlsym, "abort_in_handler " PROGRAMS_FOLDER "/libblocking.so", PRELOAD, NULL, NULL);
    expect_status(128 + SIGABRT);
}

TEST_CONCURRENTLY
