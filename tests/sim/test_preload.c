/*
 * Programs that know nothing of cufence (tests/sim/programs), as they are and under the preload library, on the simulated
 * device. What they print without it is what CUDA's documentation says; with it, only what is wrong about a program changes.
 */
#include "guarded.h"

#include <jansson.h>

/* ---- memory ---- */

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
    expect_out(&as_xla, "alignment", aligned);
}

TEST_WITH(pools_tell_what_is_used, NULL, finish)
{
    expect_the_same("statistics", NULL, 0,
                    "first USED_MEM_CURRENT 0\n"
                    "first RESERVED_MEM_CURRENT 0\n"
                    "both USED_MEM_CURRENT 6292456\n"
                    "both RESERVED_MEM_CURRENT 33554432\n"
                    "small USED_MEM_CURRENT 1000\n"
                    "small USED_MEM_HIGH 6292456\n"
                    "small RESERVED_MEM_HIGH 33554432\n"
                    "after-reset USED_MEM_HIGH 1000\n"
                    "trimmed USED_MEM_CURRENT 0\n"
                    "trimmed RESERVED_MEM_CURRENT 0\n"
                    "set RELEASE_THRESHOLD 10485760\n");
}

TEST_WITH(free_memory_is_what_can_be_allocated, NULL, finish)
{
    expect_the_same("memory_info", NULL, 0, "taken 32 given back 32 total 4096\n");
}

TEST_WITH(addresses_belong_to_their_buffer, NULL, finish)
{
    expect_the_same("ranges", NULL, 0,
                    "range begins at 0, has 1000\n"
                    "attribute begins at 0, has 1000\n"
                    "context known type 2 pointer +1 managed 0 device 0 size 1000 pool default\n"
                    "range of a host address: CUDA_ERROR_NOT_FOUND\n"
                    "host address: context none type 0\n"
                    "range of freed memory: CUDA_ERROR_NOT_FOUND\n"
                    "attribute of freed memory: CUDA_ERROR_INVALID_VALUE\n");
}

TEST_WITH(other_memory_passes_through, NULL, finish)
{
    expect_the_same("foreign", NULL, 0,
                    "managed 42\n"
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
            complain(&ways[0], "overrun", "annotation", is_there ? "missing" : "too many");
    }
    unsetenv("GITHUB_ACTIONS");
}

/* What a process says at its end. */
TEST_WITH(the_end_tells_what_was_guarded, NULL, finish)
{
    const struct way *way = &ways[0];
    run(way, "allocations", PRELOAD, NULL, NULL);
    expect_in(way, "allocations", last.err, "== cufence: no faults; 6 allocations guarded\n");
    run(way, "allocations", PRELOAD, "wait_ms=0", NULL);
    expect_in(way, "allocations", last.err,
              "== cufence: no faults seen, but the devices may still be working; 6 allocations guarded\n");
    run(way, "allocations", PRELOAD, "say=quiet", NULL);
    if (last.err[0])
        complain(way, "allocations", "not quiet", "");
    run(way, "foreign", PRELOAD, NULL, NULL);
    expect_in(way, "foreign", last.err, "== cufence: NOTHING WAS GUARDED: ");
    expect_in(way, "foreign", last.err, "1 launch seen");
    expect_in(way, "foreign", last.err,
              "== cufence: not guarded: 1 allocation of managed memory (cuMemAllocManaged), 4096 bytes in all");
    run(way, "after_fault", PRELOAD, NULL, NULL);
    expect_status(way, "after_fault", 86);
    expect_in(way, "after_fault", last.err, "== cufence: 1 finding; 2 allocations guarded, 2 launches seen\n");
    expect_in(way, "after_fault", last.err,
              "exit status 86 because of what was found; the program's own was 0 (exitcode=0 keeps it)\n");
    if (count_in(last.err, "== SUMMARY: cufence: overrun at kernels.cu:12 in store: ") != 1)
        complain(way, "after_fault", "not one summary", "");
    run(way, "overrun", PRELOAD, NULL, NULL); /* which says itself why it fails, after the report */
    const char *end = strstr(last.err, " launches seen\n");
    if (!end || !strstr(end, "== SUMMARY: cufence: overrun at kernels.cu:12 in store: "
                             "write, 0 bytes past the end of buffer #1\n"))
        complain(way, "overrun", "the summary is not last", "");
}

TEST_WITH(a_pool_of_the_program_is_guarded, NULL, finish)
{
    static const char rest[] = "own pool used 5000\n"
                               "default pool used 0\n"
                               "pool of the buffer: own\n"
                               "more than it may have: CUDA_ERROR_OUT_OF_MEMORY\n"
                               "as the device's pool used 5100\n"
                               "after its end: usable\n"
                               "from a destroyed pool: CUDA_ERROR_INVALID_VALUE\n";
    char wanted[1024];
    snprintf(wanted, sizeof wanted, "own pool: usable, ends within a mapping\n%s", rest);
    expect_alike("own_pool", NO_PRELOAD, NULL, 0, wanted);
    snprintf(wanted, sizeof wanted, "own pool: usable, ends with a mapping\n%s", rest);
    expect_alike("own_pool", PRELOAD, NULL, 0, wanted);
}

TEST_WITH(out_of_memory_is_an_answer_and_no_end, NULL, finish)
{
    expect_the_same("out_of_memory", "memory=128M", 0,
                    "held 8\n"
                    "one more: CUDA_ERROR_OUT_OF_MEMORY\n"
                    "a larger one afterwards: CUDA_SUCCESS\n"
                    "its use: CUDA_SUCCESS\n");
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
        for (size_t j = 0; j < WAYS; j++) {
            run_guarded(&ways[j], cases[i].story, NULL, 1, wanted);
            expect_in(&ways[j], cases[i].story, last.err, cases[i].report);
            expect_in(&ways[j], cases[i].story, last.err, cases[i].buffer);
        }
    }
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part))
        count++;
    return count;
}

/* From one line of a program twenty times, and from another: repetitions do not use up what it costs to name a place. */
TEST_WITH(the_same_again_is_counted, NULL, finish)
{
    const char *story = "double_free often";
    run(&by_dlsym, story, PRELOAD, NULL, NULL);
    assert_int_equal(count_of(last.err, "cufence: double free by cuMemFree"), 2);
    assert_int_equal(count_of(last.err, "called at  "), 2);
    expect_in(&by_dlsym, story, last.err, "cufence: findings reported above occurred 19 more times\n");
    run(&by_dlsym, story, PRELOAD, "max_reports=1", NULL);
    assert_int_equal(count_of(last.err, "cufence: double free by cuMemFree"), 1);
    expect_in(&by_dlsym, story, last.err, "cufence: findings reported above occurred 19 more times\n");
    expect_in(&by_dlsym, story, last.err, "cufence: 1 more finding not reported, because of max_reports=1\n");
}

/* The report is about the buffer that was freed, not the one that has its memory by now, and text and JSON agree on when. */
TEST_WITH(a_late_second_free_tells_of_the_first, NULL, finish)
{
    const char *story = "double_free late";
    char file[] = "/tmp/cufence-test-XXXXXX", settings[64], json[4096] = "";
    close(mkstemp(file));
    snprintf(settings, sizeof settings, "json=%s", file);
    run(&by_dlsym, story, PRELOAD, settings, NULL);
    FILE *in = fopen(file, "r");
    assert_non_null(in);
    json[fread(json, 1, sizeof json - 1, in)] = '\0';
    fclose(in);
    unlink(file);

    expect_in(&by_dlsym, story, last.out, "second cuMemFree: CUDA_ERROR_INVALID_VALUE\n");
    expect_in(&by_dlsym, story, last.err, "was buffer #1 of 1000 bytes, which thread");
    expect_in(&by_dlsym, story, last.err, "buffer     #1, 1000 bytes");
    expect_in(&by_dlsym, story, last.err, "called at  ");
    expect_in(&by_dlsym, story, json, "\"call\":\"cuMemFree\"");
    expect_in(&by_dlsym, story, json, "\"buffer\":{\"id\":1,");
    const char *freed = strstr(json, "\"freed\":{");
    const char *ago = freed ? strstr(freed, "\"ago_ns\":") : NULL;
    uint64_t ns = ago ? strtoull(ago + strlen("\"ago_ns\":"), NULL, 10) : 0;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "freed         %llu.%llu ms ago by thread", (unsigned long long)(ns / 1000000),
             (unsigned long long)(ns / 100000 % 10));
    expect_in(&by_dlsym, story, last.err, wanted);
    if (ns < 60000000 || ns > 5000000000)
        complain(&by_dlsym, story, "not the age of the first free", wanted);
    if (count_in(last.err, " ago ") != 2)
        complain(&by_dlsym, story, "ages that are not of the allocation and the free", "2");
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
            expect_in(&ways[j], cases[i].story, last.err, by);
            expect_in(&ways[j], cases[i].story, last.err, "on GPU 0 (cufence simulated device)\n");
            expect_in(&ways[j], cases[i].story, last.err, cases[i].report);
        }
    }
}

TEST_WITH(a_guarded_buffer_is_not_exported, NULL, finish)
{
    const char *story = "ipc";
    expect_alike(story, NO_PRELOAD, NULL, 0, "cuIpcGetMemHandle: CUDA_SUCCESS\nbuffer: usable, ends within a mapping\n");
    for (size_t i = 0; i < WAYS; i++) {
        run_guarded(&ways[i], story, NULL, 1,
                    "cuIpcGetMemHandle: CUDA_ERROR_INVALID_VALUE\nbuffer: usable, ends with a mapping\n");
        expect_in(&ways[i], story, last.err, "cuIpcGetMemHandle");
        expect_in(&ways[i], story, last.err, "ipc=driver");
        run_guarded(&ways[i], story, "ipc=driver", 0,
                    "cuIpcGetMemHandle: CUDA_SUCCESS\nbuffer: usable, ends within a mapping\n");
        expect_silence(&ways[i], story);
    }
    static const struct way as_nccl = {"program_libnccl", NULL}; /* whose purpose it is */
    run_guarded(&as_nccl, story, NULL, 0, "cuIpcGetMemHandle: CUDA_SUCCESS\nbuffer: usable, ends within a mapping\n");
    expect_silence(&as_nccl, story);
}

/* ---- faults ---- */

static void expect_overrun_report(const struct way *way, const char *story)
{
    expect_in(way, story, last.err, "out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1");
    expect_in(way, story, last.err, "0 bytes past the end of buffer #1");
    expect_in(way, story, last.err, "#1, 4096 bytes");
    expect_in(way, story, last.err, "store<<<(1,1,1), (1,1,1)>>>");
    expect_in(way, story, last.err, "kernels.cu:12");
    if (count_in(last.err, "cufence: out-of-bounds") != 1)
        complain(way, story, "reports that are not", "1");
}

static void expect_overrun_behind(const char *synchronisation)
{
    char story[64], wanted[64];
    snprintf(story, sizeof story, "overrun plain %s", synchronisation);
    snprintf(wanted, sizeof wanted, "%s: CUDA_ERROR_ILLEGAL_ADDRESS\n", synchronisation);
    for (size_t i = 0; i < WAYS; i++) {
        run_guarded(&ways[i], story, NULL, 1, wanted);
        expect_overrun_report(&ways[i], story);
    }
}

#define OVERRUN_BEHIND(call)                                                                                                   \
    TEST_WITH(an_overrun_is_reported_and_returned_by_##call, NULL, finish)                                                     \
    {                                                                                                                          \
        expect_overrun_behind(#call);                                                                                          \
    }
OVERRUN_BEHIND(context)
OVERRUN_BEHIND(stream)
OVERRUN_BEHIND(event)
OVERRUN_BEHIND(copy)
OVERRUN_BEHIND(free)

/* What finds the driver has no say in where the buffer comes from: twice is enough. */
TEST_WITH(wherever_the_buffer_comes_from, NULL, finish)
{
    static const char *const stories[] = {"overrun async stream", "overrun pool stream", "overrun pitch stream"};
    for (size_t i = 0; i < 2 * sizeof stories / sizeof stories[0]; i++) {
        run_guarded(&ways[i % 2], stories[i / 2], NULL, 1, "stream: CUDA_ERROR_ILLEGAL_ADDRESS\n");
        expect_overrun_report(&ways[i % 2], stories[i / 2]);
    }
}

TEST_WITH(an_overrun_is_silent_without_the_library, NULL, finish)
{
    expect_alike("overrun plain context", NO_PRELOAD, NULL, 0, "context: CUDA_SUCCESS\n");
}

TEST_WITH(a_program_that_never_synchronises_hears_of_it, NULL, finish)
{
    const char *story = "overrun plain none";
    for (size_t i = 0; i < WAYS; i++) {
        run_guarded(&ways[i], story, NULL, FAULTED, "none: CUDA_SUCCESS\n");
        expect_overrun_report(&ways[i], story);
    }
}

/* The error comes before the driver begins its dump. */
TEST_WITH(a_late_dump_is_waited_for, NULL, finish)
{
    const struct {
        const char *story, *out;
        int status;
    } ends[] = {{"overrun plain context", "context: CUDA_ERROR_ILLEGAL_ADDRESS\n", 1},
                {"overrun plain stream", "stream: CUDA_ERROR_ILLEGAL_ADDRESS\n", 1},
                {"overrun plain none", "none: CUDA_SUCCESS\n", FAULTED}};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        run(&by_dlsym, ends[i].story, PRELOAD, NULL, "late_dump=300");
        expect_status(&by_dlsym, ends[i].story, ends[i].status);
        expect_out(&by_dlsym, ends[i].story, ends[i].out);
        expect_overrun_report(&by_dlsym, ends[i].story);
    }
}

/* What `cufence explain` prints of a folder. */
static void explain(const char *folder, char *text, size_t size)
{
    char command[4096 + 256];
    snprintf(command, sizeof command, "%s explain %s", CUFENCE_CLI, folder);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    text[fread(text, 1, size - 1, pipe)] = '\0';
    assert_int_equal(pclose(pipe), 0);
}

/* The error comes before the report, which waits for a second launch; the end of the process waits for the report. */
TEST_WITH(a_report_is_finished_before_the_end, NULL, finish)
{
    run(&by_dlsym, "end_at_once exit", PRELOAD, "explain=rerun", NULL);
    expect_status(&by_dlsym, "end_at_once exit", 7);
    expect_overrun_report(&by_dlsym, "end_at_once exit");
    expect_in(&by_dlsym, "end_at_once exit", last.err, "could not be launched again: ");
    run(&by_dlsym, "end_at_once abort", PRELOAD, "explain=rerun", NULL);
    expect_overrun_report(&by_dlsym, "end_at_once abort");
}

/* The same words, somewhere else and later. */
TEST_WITH(a_recorded_fault_can_be_explained, NULL, finish)
{
    static char text[16384];
    char folder[] = "/tmp/cufence-record-XXXXXX", settings[128], path[128];
    const char *const endings[] = {"core.gz", "snapshot.json"};
    const char *story = "overrun plain context";
    assert_non_null(mkdtemp(folder));
    snprintf(settings, sizeof settings, "keep=dump=%s/a/%%p", folder);
    run(&by_dlsym, story, PRELOAD, settings, NULL);
    expect_overrun_report(&by_dlsym, story);
    const char *kept = strstr(last.err, "cufence: kept for `cufence explain`: ");
    int pid = 0;
    assert_non_null(kept);
    assert_int_equal(sscanf(last.err, "==%d==", &pid), 1);
    snprintf(path, sizeof path, "%s/a/%d", folder, pid);
    explain(path, text, sizeof text);
    size_t compared = 0;
    for (const char *line = strstr(last.err, "cufence: out-of-bounds"), *end; line && line < kept; line = end + 1) {
        char copy[512];
        end = strchr(line, '\n');
        snprintf(copy, sizeof copy, "%.*s\n", (int)(end - line), line);
        if (!strstr(copy, "kept for")) {
            expect_in(&by_dlsym, story, text, copy);
            compared++;
        }
    }
    assert_true(compared > 10);
    expect_in(&by_dlsym, story, text, "  threads    1 in 1 warp had not exited; by place:\n");
    for (size_t i = 0; i < 2; i++) {
        struct stat status;
        snprintf(path, sizeof path, "%s/a/%d/fault-%d-1.%s", folder, pid, pid, endings[i]);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0600);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/a/%d", folder, pid);
    rmdir(path);
    snprintf(path, sizeof path, "%s/a", folder);
    rmdir(path);
    assert_int_equal(rmdir(folder), 0);
    run(&by_dlsym, story, PRELOAD, "keep=dump=/proc/nowhere", NULL);
    expect_overrun_report(&by_dlsym, story);
    expect_in(&by_dlsym, story, last.err, "cufence: keep: cannot write /proc/nowhere: ");
}

static void expect_launch(const struct way *way, const json_t *launches, size_t index, const char *wanted)
{
    json_t *launch = json_array_get(launches, index), *fields = json_object();
    static const char *const names[] = {"grid", "block", "cluster", "shared_bytes", "is_cooperative"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        json_object_set(fields, names[i], json_object_get(launch, names[i]));
    char *text = json_dumps(fields, JSON_COMPACT | JSON_PRESERVE_ORDER);
    expect_in(way, "ways_to_launch", text, wanted);
    free(text);
    json_decref(fields);
}

/* What a second launch of the kernel would need. */
TEST_WITH(a_launch_is_on_record_as_it_was, NULL, finish)
{
    for (size_t i = 0; i < WAYS; i++) {
        char folder[] = "/tmp/cufence-launches-XXXXXX", settings[128], command[160];
        int pid = 0;
        assert_non_null(mkdtemp(folder));
        snprintf(settings, sizeof settings, "keep=dump=%s", folder);
        run(&ways[i], "ways_to_launch", PRELOAD, settings, NULL);
        assert_int_equal(sscanf(last.err, "==%d==", &pid), 1);
        snprintf(command, sizeof command, "%s/fault-%d-1.snapshot.json", folder, pid);
        json_t *snapshot = json_load_file(command, 0, NULL), *launches = json_object_get(snapshot, "launches");
        assert_int_equal(json_array_size(launches), 3);
        expect_launch(&ways[i], launches, 0, "{\"grid\":[1,1,1],\"block\":[1,1,1],\"cluster\":[0,0,0]}");
        expect_launch(&ways[i], launches, 1,
                      "{\"grid\":[2,1,3],\"block\":[1,2,1],\"cluster\":[2,1,3],\"shared_bytes\":96,\"is_cooperative\":1}");
        expect_launch(&ways[i], launches, 2,
                      "{\"grid\":[1,2,1],\"block\":[1,1,4],\"cluster\":[0,0,0],\"shared_bytes\":64,\"is_cooperative\":1}");
        json_decref(snapshot);
        snprintf(command, sizeof command, "rm -r %s", folder);
        assert_int_equal(system(command), 0);
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
        char wanted[512], without[128];
        const char *story = exceptions[i].story, *error = exceptions[i].error;
        snprintf(wanted, sizeof wanted, "cuCtxSynchronize: %s\ncuMemAlloc: %s\ncuLaunchKernel: %s\ncuStreamSynchronize: %s\n",
                 error, error, error, error);
        expect_alike(story, NO_PRELOAD, NULL, 1, wanted);
        run(&by_dlsym, story, PRELOAD, NULL, NULL);
        expect_out(&by_dlsym, story, wanted);
        expect_in(&by_dlsym, story, last.err, exceptions[i].words);
        run(&by_dlsym, story, PRELOAD, "explain=off", NULL);
        expect_out(&by_dlsym, story, wanted);
        snprintf(without, sizeof without, "a kernel has faulted: %s; without a core dump", error);
        expect_in(&by_dlsym, story, last.err, without);
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
        expect_overrun_report(&ways[i], "after_fault");
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

TEST_WITH(on_fault_abort_aborts, NULL, finish)
{
    run(&by_dlsym, "overrun", PRELOAD, "on_fault=abort", NULL);
    expect_status(&by_dlsym, "overrun", 128 + SIGABRT);
    expect_overrun_report(&by_dlsym, "overrun");
}

TEST_WITH(a_use_after_free_is_reported, NULL, finish)
{
    const char *story = "use_after_free";
    for (size_t i = 0; i < WAYS; i++) {
        run_guarded(&ways[i], story, "uaf=strict", 1, "cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS\n");
        expect_in(&ways[i], story, last.err, "use-after-free WRITE of 4 bytes");
        expect_in(&ways[i], story, last.err, "0 bytes into buffer #1, which has been freed");
    }
}

TEST_WITH(two_devices_are_kept_apart, NULL, finish)
{
    static const char values[] = "devices 0 1 used 4000 4000 values 11 12\n";
    char wanted[256];
    snprintf(wanted, sizeof wanted, "%soverrun on device 1: CUDA_SUCCESS\n", values);
    expect_alike("two_devices", NO_PRELOAD, "devices=2", 0, wanted);
    snprintf(wanted, sizeof wanted, "%soverrun on device 1: CUDA_ERROR_ILLEGAL_ADDRESS\n", values);
    for (size_t i = 0; i < WAYS; i++) {
        run(&ways[i], "two_devices", PRELOAD, NULL, "devices=2");
        expect_status(&ways[i], "two_devices", 1);
        expect_out(&ways[i], "two_devices", wanted);
        expect_in(&ways[i], "two_devices", last.err, "on GPU 1 (cufence simulated device)");
        expect_in(&ways[i], "two_devices", last.err, "0 bytes past the end of buffer #2");
    }
}

TEST_WITH(peers_have_the_access_that_the_program_gives, NULL, finish)
{
    static const struct {
        const char *options, *before, *after;
    } rows[] = {{NULL, "no", "yes"}, {"peers=on", "yes", "yes"}, {"peers=off", "no", "no"}};
    static const char *const stories[] = {"peers pool", "peers context", "peers copy"};
    for (size_t i = 0; i < 3 * sizeof rows / sizeof rows[0]; i++) {
        const char *story = stories[i % 3], *after = rows[i / 3].after;
        char wanted[256];
        snprintf(wanted, sizeof wanted, "before: %s\nan early buffer: %s\none that is used again: %s\na late one: %s\n",
                 rows[i / 3].before, after, after, after);
        run(&by_dlsym, story, PRELOAD, rows[i / 3].options, "devices=2");
        expect_status(&by_dlsym, story, 0);
        expect_out(&by_dlsym, story, wanted);
        if (rows[i / 3].options != NULL && strcmp(rows[i / 3].options, "peers=off") == 0)
            expect_in(&by_dlsym, story, last.err, "because peers=off says so");
        else
            expect_silence(&by_dlsym, story);
    }
}

/* ---- captures and contexts ---- */

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
    const char *story = "capture overrun";
    for (size_t i = 0; i < WAYS; i++) {
        run_guarded(&ways[i], story, NULL, 1, "end of the capture: CUDA_SUCCESS\nreplay: CUDA_ERROR_ILLEGAL_ADDRESS\n");
        expect_in(&ways[i], story, last.err, "0 bytes past the end of buffer #3");
        expect_in(&ways[i], story, last.err, "store<<<(1,1,1), (1,1,1)>>>");
    }
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
    static const size_t some[] = {0, 4};
    char story[64];
    snprintf(story, sizeof story, "graph_memory %s", name);
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        run(&ways[some[i]], story, PRELOAD, "small=map", device);
        expect_status(&ways[some[i]], story, 0);
        expect_out(&ways[some[i]], story, out);
        expect_silence(&ways[some[i]], story);
    }
}

#define FEW "memory=256M"

TEST_WITH(capturing_again_and_again_takes_no_more_memory, NULL, finish)
{
    expect_alike("graph_memory recapture", PRELOAD, FEW, 0, "100 graphs counted to 100\nat the end: 0 held\n");
    expect_graph_memory("threads", FEW, "counted to 200\nat the end: 0 held\n");
    expect_graph_memory("torch_loop", FEW, "100 graphs counted to 100\nat the end: 0 held\n");
}

#define CANNOT_FOLLOW(call)                                                                                                    \
    TEST_WITH(memory_of_a_capture_stays_without_##call, NULL, finish)                                                          \
    {                                                                                                                          \
        expect_graph_memory("executable", FEW ",fail=" #call ":1:2",                                                           \
                            "counted to 1\nwith an executable: 1 held\nwithout: 1 held\n");                                    \
    }
CANNOT_FOLLOW(cuUserObjectCreate)
CANNOT_FOLLOW(cuGraphRetainUserObject)

TEST_WITH(memory_of_a_capture_with_a_condition_stays, NULL, finish)
{
    expect_graph_memory("conditional", FEW, "after a graph with a condition: 1 held\n");
}

TEST_WITH(whatever_launches_a_graph_keeps_its_memory, NULL, finish)
{
    expect_graph_memory("executable", FEW, "counted to 1\nwith an executable: 1 held\nwithout: 0 held\n");
    expect_graph_memory("clone", FEW, "counted to 1\nwith a clone: 1 held\nwithout: 0 held\n");
    expect_graph_memory("child", FEW, "counted to 1\nwith a parent's executable: 1 held\nwithout: 0 held\n");
    expect_graph_memory("update", FEW, "with the second graph's work: 1 held\ncounted to 1\nwithout: 0 held\n");
    expect_graph_memory("in_flight", FEW, "before the launch has run: 1 held\ncounted to 1\nwithout: 0 held\n");
    expect_graph_memory("freed_by_another", FEW, "counted to 2\nwith the second graph: 1 held\nwithout: 0 held\n");
    expect_graph_memory("failed", FEW,
                        "synchronise: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED\n"
                        "end of the capture: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED\n"
                        "after a capture that failed: 0 held\n");
}

TEST_WITH(what_a_graph_leaves_is_the_programs, NULL, finish)
{
    expect_graph_memory("output", FEW,
                        "the buffer holds 2\n"
                        "with the buffer: 1 held\n"
                        "free: CUDA_SUCCESS\n"
                        "without: 0 held\n");
    expect_graph_memory("output_again", FEW,
                        "free: CUDA_SUCCESS\n"
                        "free: CUDA_SUCCESS\n"
                        "free: CUDA_SUCCESS\n"
                        "the buffer held 3\n"
                        "the buffer holds 4\n"
                        "free: CUDA_SUCCESS\n"
                        "without: 0 held\n");
    expect_graph_memory("auto_free", FEW, "counted to 3\nwith an executable: 1 held\nwithout: 0 held\n");
    expect_graph_memory("output_in_use", FEW, "while it is used: 1 held\ncounted to 2\nwithout: 0 held\n");
}

TEST_WITH(a_late_access_to_a_graphs_memory_is_reported, NULL, finish)
{
    const char *story = "graph_memory late";
    run(&by_dlsym, story, PRELOAD, NULL, FEW);
    expect_status(&by_dlsym, story, FAULTED);
    expect_out(&by_dlsym, story, "without: 0 held\nlate access: CUDA_ERROR_ILLEGAL_ADDRESS\n");
    expect_in(&by_dlsym, story, last.err, "use-after-free WRITE of 4 bytes");
    expect_in(&by_dlsym, story, last.err, "100 bytes into buffer #2, which has been freed");
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
        expect_out(&ways[i], "reset", wanted);
        run_guarded(&ways[i], "reset overrun", NULL, 1, with_overrun);
        expect_in(&ways[i], "reset overrun", last.err, "0 bytes past the end of buffer #3");
    }
}

TEST_WITH(threads_share_the_device, NULL, finish)
{
    expect_the_same("threads", NULL, 0, "all well, used 0\n");
}

/* ---- processes, and finding functions ---- */

TEST_WITH(a_fork_before_cuda_works_on_both_sides, NULL, finish)
{
    expect_the_same("fork_first", NULL, 0, "parent 0 child 0\n");
}

TEST_WITH(a_process_without_cuda_stays_as_it_is, NULL, finish)
{
    char without[sizeof last.out];
    run(&by_dlsym, "untouched", NO_PRELOAD, NULL, NULL);
    strcpy(without, last.out); /* a sanitizer may have a thread of its own */
    expect_in(&by_dlsym, "untouched", without, "maps of libcufence.so no, threads ");
    run_guarded(&by_dlsym, "untouched", NULL, 0, without);
    expect_silence(&by_dlsym, "untouched");
}

TEST_WITH(a_program_that_is_started_by_another_is_guarded, NULL, finish)
{
    for (size_t i = 0; i < WAYS; i++) {
        run_guarded(&ways[i], "exec_child", NULL, 0, "context: CUDA_ERROR_ILLEGAL_ADDRESS\nchild 1\n");
        expect_overrun_report(&ways[i], "exec_child");
    }
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
    expect_the_same("itself", NULL, 0, wanted);
}

TEST_WITH(dlsym_works_for_those_who_have_nothing_to_do_with_it, NULL, finish)
{
    expect_the_same("next_symbol " PROGRAMS_FOLDER "/libnext_outer.so", NULL, 0,
                    "outer answers 42\n"
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
    expect_the_same("exit_handlers " PROGRAMS_FOLDER "/libordinary.so.1", NULL, 0, both);
}

/* PyTorch has 100,000 and more of them, and dladdr() takes tens of microseconds in libraries as large. */
TEST_WITH(static_objects_cost_no_search, NULL, finish)
{
    static const struct way counting = {"count_questions", NULL};
#ifdef __SANITIZE_THREAD__
    skip(); /* its runtime takes the registrations before the library can */
#endif
    run_guarded(&counting, PROGRAMS_FOLDER "/libstatics.so", NULL, 0, "dladdr 0\nlibraries seldom\n");
    expect_silence(&counting, "libstatics.so");
}

TEST_CONCURRENTLY
