/*
 * Programs that know nothing of cufence (tests/sim/programs), as they are and under the preload library, on the simulated
 * device. What they print without it is what CUDA's documentation says; with it, only what is wrong about a program changes.
 */
#include "guarded.h"

TEST_WITH(every_allocation_is_guarded, NULL, finish)
{
    static const char refused[] = "cuMemAlloc of nothing: CUDA_ERROR_INVALID_VALUE\n"
                                  "cuMemAlloc to nowhere: CUDA_ERROR_INVALID_VALUE\n"
                                  "cuMemAllocPitch of odd elements: CUDA_ERROR_INVALID_VALUE\n";
    static const char *const calls[] = {"cuMemAlloc", "cuMemAllocPitch", "cuMemAllocAsync", "cuMemAllocAsync, default stream",
                                        "cuMemAllocFromPoolAsync"};
    static const char *const ends[] = {"within", "with"};
    for (int is_guarded = 0; is_guarded < 2; is_guarded++) {
        char wanted[2048] = "";
        for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
            snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), "%s: usable, ends %s a mapping\n", calls[i],
                     ends[is_guarded]);
        strcat(wanted, refused);
        expect_alike("allocations", is_guarded ? PRELOAD : NO_PRELOAD, NULL, 0, wanted);
    }
}

TEST_WITH(libraries_get_the_alignment_that_they_count_on, NULL, finish)
{
    static const char aligned[] = "cuMemAlloc: 0 past a multiple of 256\n"
                                  "cuMemAllocPitch: 0 past a multiple of 256\n"
                                  "cuMemAllocAsync: 0 past a multiple of 256\n"
                                  "cuMemAllocFromPoolAsync: 0 past a multiple of 256\n";
    static const char flush[] = "cuMemAlloc: 96 past a multiple of 256\n"
                                "cuMemAllocPitch: 0 past a multiple of 256\n"
                                "cuMemAllocAsync: 96 past a multiple of 256\n"
                                "cuMemAllocFromPoolAsync: 96 past a multiple of 256\n";
    static const struct way as_xla = {"program_xla", NULL};
    static const char *const options[] = {NULL, "align=1", "align=auto"};
    expect_alike("alignment", NO_PRELOAD, NULL, 0, aligned);
    expect_alike("alignment", PRELOAD, NULL, 0, flush);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        run_guarded(&as_xla, "alignment", options[i], 0, aligned);
    }
    run(&as_xla, "alignment", PRELOAD, "align=512", NULL);
    expect_out(aligned);
}

TEST_WITH(other_memory_passes_through, NULL, finish)
{
    expect_the_same("foreign", "managed 42\n"
                               "pinned 42\n"
                               "is managed 1\n"
                               "cuMemFree of managed: CUDA_SUCCESS\n"
                               "cuMemFree of managed again: CUDA_ERROR_INVALID_VALUE\n"
                               "cuMemFree of pinned: CUDA_ERROR_INVALID_VALUE\n"
                               "cuMemFreeHost: CUDA_SUCCESS\n"
                               "cuMemFreeHost: CUDA_SUCCESS\n");
}

TEST_WITH(github_sees_the_source_line, NULL, finish)
{
    for (int is_there = 0; is_there < 2; is_there++) {
        setenv("GITHUB_ACTIONS", is_there ? "true" : "", 1);
        run(&ways[0], "overrun", PRELOAD, NULL, NULL);
        if ((strstr(last.err, "\n::error file=kernels.cu,line=12,title=cufence%3A overrun::") != NULL) != is_there)
            complain("annotation", is_there ? "missing" : "too many");
    }
    unsetenv("GITHUB_ACTIONS");
}

/* What a process says at its end; test_run.c has quiet ones. */
TEST_WITH(the_end_tells_what_was_guarded, NULL, finish)
{
    const struct way *way = &ways[0];
    run(way, "allocations", PRELOAD, NULL, NULL);
    expect_err("== cufence: no faults; 6 allocations guarded (at most ");
    run(way, "allocations", PRELOAD, "wait_ms=0", NULL);
    expect_err("== cufence: no faults seen, but the devices may still be working; 6 allocations guarded (at most ");
    run(way, "capture_at_end", PRELOAD, NULL, NULL);
    expect_err(
        "no faults, but not all buffers were checked for writes beside them: a stream is capturing; check before or after "
        "that; 1 allocation guarded");
    run(way, "foreign", PRELOAD, NULL, NULL);
    expect_err("== cufence: NOTHING WAS GUARDED: ", "1 launch seen",
               "== cufence: not guarded: 1 allocation of managed memory (cuMemAllocManaged), 4096 bytes in all");
    run(way, "after_fault", PRELOAD, NULL, NULL);
    expect_status(86);
    expect_err("== cufence: 1 finding; 2 allocations guarded (at most ", "at once), 2 launches seen\n",
               "exit status 86 because of what was found; the program's own was 0 (on_fault=error/0 keeps it)\n");
    if (count_in(last.err, "== SUMMARY: cufence: overrun at kernels.cu:12 in store: ") != 1)
        complain("not one summary", "");
    run(way, "overrun", PRELOAD, NULL, NULL); /* which says itself why it fails, after the report */
    const char *end = strstr(last.err, " launches seen\n");
    if (!end || !strstr(end, "== SUMMARY: cufence: overrun at kernels.cu:12 in store: "
                             "write, 0 bytes past the end of buffer #1\n"))
        complain("the summary is not last", "");
}

TEST_WITH(freeing_twice_is_refused_and_reported, NULL, finish)
{
    static const char afterwards[] = "cuMemAlloc afterwards: CUDA_SUCCESS\ncuMemFree afterwards: CUDA_SUCCESS\n";
    static const struct {
        const char *story, *out, *report, *buffer;
    } cases[] = {
        {"double_free", "second cuMemFree: CUDA_ERROR_INVALID_VALUE\n",
         "double free by cuMemFree: ", "was buffer #1 of 1000 bytes"},
        {"double_free async", "second cuMemFreeAsync: CUDA_ERROR_INVALID_VALUE\n",
         "double free by cuMemFreeAsync: ", "was buffer #1 of 1000 bytes"},
        {"double_free interior", "cuMemFree of the middle: CUDA_ERROR_INVALID_VALUE\n",
         "invalid free by cuMemFree: ", "16 bytes inside buffer #1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char wanted[512];
        snprintf(wanted, sizeof wanted, "%s%s", cases[i].out, afterwards);
        expect_alike(cases[i].story, NO_PRELOAD, NULL, 1, wanted);
        expect_every_way(cases[i].story, NULL, 1, wanted, cases[i].report, cases[i].buffer);
    }
}

/* From one line of a program twenty times, and from another: repetitions do not use up what it costs to name a place. */
TEST_WITH(the_same_again_is_counted, NULL, finish)
{
    run(&by_dlsym, "double_free often", PRELOAD, NULL, NULL);
    assert_int_equal(count_in(last.err, "cufence: double free by cuMemFree"), 2);
    assert_int_equal(count_in(last.err, "called at  "), 2);
    expect_err("cufence: findings reported above occurred 19 more times\n");
}

/* The report is about the buffer that was freed, not the one that has its memory by now, and text and JSON agree on when. */
TEST_WITH(a_late_second_free_tells_of_the_first, NULL, finish)
{
    char file[] = "/tmp/cufence-test-XXXXXX", settings[64], json[4096] = "";
    close(mkstemp(file));
    snprintf(settings, sizeof settings, "json=%s", file);
    run(&by_dlsym, "double_free late", PRELOAD, settings, NULL);
    read_finding(file, json, sizeof json);
    unlink(file);
    expect_in(last.out, "second cuMemFree: CUDA_ERROR_INVALID_VALUE\n");
    expect_err("was buffer #1 of 1000 bytes, which thread", "buffer     #1, 1000 bytes", "called at  ");
    expect_in(json, "\"call\":\"cuMemFree\"");
    expect_in(json, "\"buffer\":{\"id\":1,");
    const char *freed = strstr(json, "\"freed\":{");
    const char *ago = freed ? strstr(freed, "\"ago_ns\":") : NULL;
    uint64_t ns = ago ? strtoull(ago + strlen("\"ago_ns\":"), NULL, 10) : 0;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "freed         %llu.%llu ms ago by thread", (unsigned long long)(ns / 1000000),
             (unsigned long long)(ns / 100000 % 10));
    expect_err(wanted);
    if (ns < 60000000 || ns > 5000000000)
        complain("not the age of the first free", wanted);
    if (count_in(last.err, " ago ") != 2)
        complain("ages that are not of the allocation and the free", "2");
}

TEST_WITH(copies_past_the_end_are_refused_and_reported, NULL, finish)
{
    static const struct {
        const char *story, *call, *report;
    } cases[] = {
        {"out_of_bounds copy", "cuMemcpyHtoD", "writes 4001 bytes from byte 0 of buffer #1, 1 byte past its end"},
        {"out_of_bounds copy_async", "cuMemcpyDtoHAsync", "reads 3996 bytes from byte 8 of buffer #1, 4 bytes past its end"},
        {"out_of_bounds device", "cuMemcpyDtoD", "writes 4100 bytes from byte 0 of buffer #1, 100 bytes past its end"},
        {"out_of_bounds unified", "cuMemcpy", "reads 4004 bytes from byte 0 of buffer #1, 4 bytes past its end"},
        {"out_of_bounds rows", "cuMemcpy2D", "writes 5000 bytes from byte 0 of buffer #1, 1000 bytes past its end"},
        {"out_of_bounds set_rows", "cuMemsetD2D8", "writes 5000 bytes from byte 0 of buffer #1, 1000 bytes past its end"},
        {"out_of_bounds set", "cuMemsetD32", "writes 4004 bytes from byte 0 of buffer #1, 4 bytes past its end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char wanted[512], by[64];
        snprintf(wanted, sizeof wanted,
                 "%s: CUDA_ERROR_INVALID_VALUE\na good copy afterwards: CUDA_SUCCESS\ncuCtxSynchronize: CUDA_SUCCESS\n",
                 cases[i].call);
        snprintf(by, sizeof by, "out of bounds by %s: ", cases[i].call);
        expect_alike(cases[i].story, NO_PRELOAD, NULL, 1, wanted);
        for (size_t j = 0; j < WAYS; j++) {
            if (i != 0 && j != i % WAYS)
                continue; /* the first case in every way, the others by turns */
            run_guarded(&ways[j], cases[i].story, NULL, 1, wanted);
            expect_err(by, "on GPU 0 (cufence simulated device)\n", cases[i].report);
        }
    }
}

/* As of memory of cuMemAlloc, although ours is mapped. */
TEST_WITH(memory_is_not_the_programs_to_map, NULL, finish)
{
#define NOT_OWN                                                                                                                \
    "cuMemRetainAllocationHandle: CUDA_ERROR_INVALID_VALUE\n"                                                                  \
    "cuMemSetAccess: CUDA_ERROR_INVALID_VALUE\n"                                                                               \
    "cuMemMap there: CUDA_ERROR_INVALID_VALUE\n"                                                                               \
    "cuMemMap behind: CUDA_ERROR_INVALID_VALUE\n"                                                                              \
    "cuMemUnmap: CUDA_ERROR_INVALID_VALUE\n"                                                                                   \
    "cuMemAddressFree: CUDA_ERROR_INVALID_VALUE\n"                                                                             \
    "it holds 7\n"
    static const char *wanted = NOT_OWN NOT_OWN "own: cuMemMap: CUDA_SUCCESS\n"
                                                "own: cuMemSetAccess: CUDA_SUCCESS\n"
                                                "own: cuMemRetainAllocationHandle: CUDA_SUCCESS\n"
                                                "own: cuMemUnmap: CUDA_SUCCESS\n"
                                                "own: cuMemAddressFree: CUDA_SUCCESS\n";
    expect_alike("mapped", NO_PRELOAD, NULL, 0, wanted);
    for (size_t i = 0; i < WAYS; i++) { /* the program needs addresses, too: beside sanitizers there are few */
        run_guarded(&ways[i], "mapped", "guard=2M..2M", 0, wanted);
        expect_silence();
    }
}

TEST_WITH(sets_are_awaited_where_the_program_asks, NULL, finish)
{
    static const char wanted[] = "as it is: returns at once\n"
                                 "is 1\n"
                                 "with SYNC_MEMOPS: returns when it is done\n"
                                 "another buffer: returns at once\n"
                                 "is 0\n"
                                 "no more: returns at once\n"
                                 "is 1\n"
                                 "a freed one: CUDA_ERROR_INVALID_VALUE\n"
                                 "the next buffer: returns at once\n";
    for (size_t i = 0; i < WAYS; i++) {
        run_guarded(&ways[i], "synchronous", NULL, 0, wanted);
        expect_silence();
    }
}

TEST_WITH(nodes_of_memory_tell_the_programs_addresses, NULL, finish)
{
    expect_the_same("nodes_told", "allocates 4000 bytes at the address\nfree of what was told: CUDA_SUCCESS\n"
                                  "a node for later: CUDA_SUCCESS\nit holds 5050505\n");
}

TEST_WITH(nodes_past_the_end_are_refused_and_reported, NULL, finish)
{
    run_guarded(&by_dlsym, "nodes_beyond set", NULL, FAULTED,
                "cuGraphAddMemsetNode: CUDA_ERROR_INVALID_VALUE\na good set: CUDA_SUCCESS\na good copy: CUDA_SUCCESS\n");
    expect_err("out of bounds by cuGraphAddMemsetNode: ", "writes 4004 bytes from byte 0 of buffer #1, 4 bytes past its end");
    run_guarded(&by_dlsym, "nodes_beyond copy", NULL, FAULTED,
                "cuGraphAddMemcpyNode: CUDA_ERROR_INVALID_VALUE\na good set: CUDA_SUCCESS\na good copy: CUDA_SUCCESS\n");
    expect_err("out of bounds by cuGraphAddMemcpyNode: ", "writes 4001 bytes from byte 0 of buffer #1, 1 byte past its end");
}

TEST_WITH(a_guarded_buffer_is_not_exported, NULL, finish)
{
    const char *story = "ipc";
    expect_alike(story, NO_PRELOAD, NULL, 0, "cuIpcGetMemHandle: CUDA_SUCCESS\nbuffer: usable, ends within a mapping\n");
    for (size_t i = 0; i < WAYS; i++) {
        run_guarded(&ways[i], story, NULL, 1,
                    "cuIpcGetMemHandle: CUDA_ERROR_INVALID_VALUE\nbuffer: usable, ends with a mapping\n");
        expect_err("cuIpcGetMemHandle", "ipc=driver");
        run_guarded(&ways[i], story, "ipc=driver", 0,
                    "cuIpcGetMemHandle: CUDA_SUCCESS\nbuffer: usable, ends within a mapping\n");
        expect_silence();
    }
    static const struct way as_nccl = {"program_libnccl", NULL}; /* whose purpose it is */
    run_guarded(&as_nccl, story, NULL, 0, "cuIpcGetMemHandle: CUDA_SUCCESS\nbuffer: usable, ends within a mapping\n");
    expect_silence();
}

/* ---- options that leave allocations to the driver: what is left out behaves as without cufence ---- */

static const struct way *const way = &ways[0];

static void expect_left(const char *settings, unsigned guarded, const char *line)
{
    run(way, "allocations", PRELOAD, settings, NULL);
    expect_status(0);
    if (count_in(last.out, "ends with a mapping") != guarded)
        complain("another number of buffers is guarded", "");
    expect_err(line);
    expect_silence();
}

TEST_WITH(the_options_choose, NULL, finish)
{
    expect_left("skip=smaller:1537", 4, "not guarded: 1 buffer smaller than skip=smaller, 1536 bytes in all");
    expect_left("skip=lib:program_dlsym", 0, "not guarded: 6 buffers that skip names, ");
    expect_left("skip=lib:libcudnn*;func:elsewhere", 5, "no faults; 6 allocations guarded");
    expect_left("ipc=driver", 3, "not guarded: 3 buffers that other processes may open (NCCL, NVSHMEM, ipc=driver)");
}

TEST_WITH(without_pages_the_driver_allocates, NULL, finish)
{
    static const char without[] = "fail=cuMemCreate:0:2"; /* CUDA_ERROR_OUT_OF_MEMORY */
    run(way, "allocations", PRELOAD, NULL, without);
    expect_status(0);
    expect_in(last.out, "cuMemAllocFromPoolAsync: usable, ends within a mapping");
    expect_err("device 0 has no room left for whole pages of 2 MiB",
               "not guarded: 6 buffers for whose pages of 2 MiB there was no room");
}

/* A fault outside of all guarded buffers may be one of a buffer that nobody guards. */
TEST_WITH(a_report_says_that_some_are_not_guarded, NULL, finish)
{
    run(way, "beyond", PRELOAD, "skip=smaller:1G", NULL);
    expect_err("1 live buffer (4096 bytes) is not guarded",
               "2093568 bytes past the end of one of 4096 bytes"); /* it begins with its pages */
    run(way, "beyond", PRELOAD, NULL, NULL);
    expect_err("== SUMMARY: cufence: ");
    if (strstr(last.err, "not guarded"))
        complain("everything was guarded", "");
}

/* ---- a driver that is newer than the table of hooks: what it alone knows is passed through, and said ---- */

TEST_WITH(a_form_newer_than_the_table_is_passed_through_and_said_once, NULL, finish)
{
    static const char *const programs[] = {"program_dlsym", "program_proc", "program_linked"};
    static const char *const functions[] = {"cuMemAlloc", "cuMemFree", "cuStreamSynchronize"};
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        const struct way found = {programs[i], NULL};
        expect_run(&found, "newer_forms", PRELOAD, NULL, "newer=13020", 0, "known: at a page's end, newer: within a page\n");
        assert_int_equal(count_in(last.err, "newer than this cufence"), 3);
        for (size_t j = 0; j < 3; j++) {
            char line[64];
            snprintf(line, sizeof line, "cufence: this driver's %s ", functions[j]);
            assert_int_equal(count_in(last.err, line), 1);
        }
    }
}

/* ---- whose memory a buffer is, and when it may be used again; tests/torture has the rest ---- */

/* One way to find the functions stands for all where the functions are few. */
static void expect_guarded(const char *story, const char *settings, const char *device, int status, const char *out)
{
    expect_run(&by_dlsym, story, PRELOAD, settings, device, status, out);
}

static void expect_well(const char *story, const char *device, const char *out)
{
    expect_guarded(story, NULL, device, 0, out);
    expect_silence();
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
    expect_run(&by_dlsym, "many_contexts 300", NO_PRELOAD, NULL, NULL, 0, "refused 0, of another context 0\n");
    expect_well("many_contexts 300", NULL, "refused 0, of another context 0\n");
}

/* Without a dump there is nothing but the two answers, of which one hides the fault: the first, or the last. */
TEST_WITH(the_worst_of_several_devices_decides_the_end, NULL, finish)
{
    static const char *const devices[] = {"devices=2,fail=cuCtxSynchronize:1:999", "devices=2,fail=cuCtxSynchronize:2:999"};
    for (int i = 0; i < 2; i++) {
        expect_guarded("silent_fault", "explain=off", devices[i], FAULTED, "");
        expect_err("== cufence: 1 finding; ",
                   "reason     CUDA_ERROR_ILLEGAL_ADDRESS; without a core dump, nothing more is known");
    }
}

/* Before glibc 2.41 the second exit() ended the process while the first one waited for the dump. */
TEST_WITH(threads_that_end_the_process_together_wait_for_the_report, NULL, finish)
{
    expect_guarded("many_ends", NULL, NULL, FAULTED, "");
    expect_err("SUMMARY: cufence: overrun", "== cufence: 1 finding; ");
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

TEST_CONCURRENTLY
