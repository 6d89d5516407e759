/* keep=DIR, and `cufence replay` of what it saved, on the simulated device. */
#include "second_launch.h"
#include "support/shell.h"

#include "analysis/bundle/bundle.h"

#include <pthread.h>
#include <sys/stat.h>

static char bundle[128]; /* of this test, in its folder */

/* The options that save in this test's folder, and more. */
static inline const char *saving(const char *more)
{
    static char options[192];
    snprintf(options, sizeof options, "keep=%s%s", folder, more);
    return options;
}

/* Runs a story that makes a bundle, and says what the patterns demand. */
#define make_bundle(story, ...) make_only_bundle(story, PATTERNS(__VA_ARGS__))
static inline void make_only_bundle(void (*story)(void), const char *const *patterns)
{
    SUCCEEDS("rm -rf fault-*");
    expect_said(story, patterns);
    SUCCEEDS("ls -d $PWD/fault-*");
    assert_int_equal(count_in(text, "\n"), 1);
    snprintf(bundle, sizeof bundle, "%.*s", (int)strcspn(text, "\n"), text);
}

#define expect_replay(arguments, status, ...)                                                                                  \
    expect_end(run_shell("%s replay %s %s", CUFENCE_CLI, arguments, bundle), status, PATTERNS(__VA_ARGS__))

#define HANG_MS "6000" /* by when the rerun process has come to its launch, on a busy machine too */

/* ---- saving ---- */

static const char *more_options = "";

static void save_last(void)
{
    start(saving(more_options));
    void *other = allocate(64), *out = allocate(COUNT * 4);
    CHECK_CU(cuMemsetD8((CUdeviceptr)(uintptr_t)out, 7, COUNT * 4));
    void *arguments[] = {&out, &(int){COUNT}};
    record_launch("write_last", arguments, 0);
    CUfunction function = record_launch("write_last", (void *[]){&other, &(int){8}}, 0); /* the newest is tried first */
    CHECK_CU(cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, NULL, arguments, NULL));
    cuCtxSynchronize();
}

/* The buffer is none of the kernel's arguments: two loads lead to it. */
static void save_table(void)
{
    start(saving(""));
    float *out = allocate(COUNT * 4);
    float **inner = allocate(8 * sizeof *inner);
    float ***outer = allocate(2 * sizeof *outer);
    CHECK_CU(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)(inner + 2), &out, sizeof out));
    CHECK_CU(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)(outer + 1), &inner, sizeof inner));
    launch("write_by_table", outer, COUNT);
    cuCtxSynchronize();
}

/* ---- replaying ---- */

/* Edits the list of the bundle. */
static void edit(const char *program)
{
    SUCCEEDS("sed -i '%s' %s/launch.json", program, bundle);
}

/* ---- what is saved ---- */

TEST(test_files)
{
    static const char *const files[] = {
        "launch.json",  "facts.json",   "dump.gz",      "second-dump.gz", "README.md", "report.txt",
        "finding.json", "kernel.cubin", "buffer-1.npy", "buffer-2.npy",   "."};
    char path[256];
    make_bundle(save_last, "saved for `cufence replay`: .*/fault-[0-9]+-1 \\(2 buffers, 4064 bytes\\)", THREAD_PAST_THE_END);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", strrchr(bundle, '/'), files[i]);
        assert_int_equal(mode_of(path), !strcmp(files[i], ".") ? 0700 : 0600);
    }

    uint8_t bytes[NPY_HEADER + COUNT * 4 + 1];
    uint64_t offset, size;
    struct problem problem;
    snprintf(path, sizeof path, "%s/buffer-2.npy", bundle);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fread(bytes, 1, sizeof bytes, file), NPY_HEADER + COUNT * 4);
    fclose(file);
    assert_int_equal(npy_read(bytes, sizeof bytes, &offset, &size, &problem), CUFENCE_OK);
    assert_int_equal(offset, NPY_HEADER);
    assert_int_equal(size, COUNT * 4);
    float first;
    memcpy(&first, bytes + offset, sizeof first);
    assert_true(first == 2.5f || bytes[offset] == 7);
    SUCCEEDS("grep -q 'buffer-2.npy' %s/README.md && grep -q 'SUMMARY' %s/report.txt", bundle, bundle);
    SUCCEEDS("%s explain %s | grep -q 'address .* re-run$'", CUFENCE_CLI, bundle);
    SUCCEEDS("%s explain %s | grep -q 'written .*2.5 .*re-run'", CUFENCE_CLI, bundle);
    SUCCEEDS("! %s explain %s | grep 'kernel.cubin'", CUFENCE_CLI, bundle); /* a cubin is no dump */
}

TEST(test_most)
{
    more_options = ";100";
    make_bundle(save_last, "saved .*\\(1 buffer, 64 bytes\\)", "1 buffer was left out");
    more_options = "";
    SUCCEEDS(
        "grep -q '\"left_out\": \"over the BYTES of keep=\"' %s/launch.json && grep -q 'left out: over the BYTES' %s/README.md",
        bundle, bundle);
    SUCCEEDS("test ! -e %s/buffer-2.npy", bundle);
    expect_replay("", 86, "buffer #2 \\(4000 bytes\\) is not in the bundle: it holds zeros",
                  "0 bytes past the end of buffer #2");
}

static void save_nothing(void)
{
    fault_in("write_last", saving(",explain=dump"));
}

static void save_hang(void)
{
    fault_in("hang_later", saving(",wait_ms=1000/" HANG_MS));
}

/* The end of the process waits for it. The memory is there, though the second launch never ended. */
TEST(test_hang)
{
    make_bundle(save_hang, "it took longer than wait_ms=1000/" HANG_MS,
                "saved for `cufence replay`: .* \\(1 buffer, 4000 bytes\\)");
    expect_replay("--seconds 1", 1, "cannot be launched: it took longer than --seconds 1");
}

static void *take_name(void *unused)
{
    char name[256];
    snprintf(name, sizeof name, "%s/fault-%d-1/facts.json", folder, (int)getpid());
    while (mkdir(name, 0700) != 0)
        usleep(1000);
    return unused;
}

static void save_without_facts(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, take_name, NULL) == 0 && pthread_detach(thread) == 0);
    save_last();
}

/* Without launch.json, what is there for another launch is of no use. */
TEST(test_cut_short)
{
    make_bundle(save_without_facts, "keep: cannot write .*/facts.json: File exists");
    SUCCEEDS("test \"$(cd %s && echo *)\" = facts.json || { ls -l %s; false; }", bundle, bundle);
}

/* What could not be launched again can be explained, by its folder's name and by the dump's. */
TEST(test_nothing)
{
    make_bundle(save_nothing, "keep: nothing to replay: .*explain=dump", "kept for `cufence explain`: .*/fault-[0-9]+-1$");
    SUCCEEDS("test \"$(cd %s && echo *)\" = 'dump.gz facts.json finding.json report.txt' || { ls -l %s; false; }", bundle,
             bundle);
    SUCCEEDS("%s explain %s | grep -q 'launched at .*second_launch.h'", CUFENCE_CLI, bundle);
    SUCCEEDS("cd %s; %s explain dump.gz | grep -q 'launched at .*second_launch.h'", bundle, CUFENCE_CLI);
    SUCCEEDS("cp %s/dump.gz other.gz; %s explain other.gz | grep -q 'SUMMARY: cufence: illegal'", bundle, CUFENCE_CLI);
    expect_replay("", 1, "launch.json: No such file or directory; the kernel could not be launched again");
    SUCCEEDS("echo x > %s/facts.json; %s explain %s 2>&1 | grep -q 'facts.json: not JSON'", bundle, CUFENCE_CLI, bundle);
    SUCCEEDS("mv %s/facts.json %s/scene.json; ! %s explain %s 2>&1 | grep -v 'written by an earlier cufence'", bundle, bundle,
             CUFENCE_CLI, bundle);
}

/* ---- replay ---- */

TEST(test_same)
{
    make_bundle(save_last, "");
    expect_replay("", 86, "out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #2",
                  "block \\(7,0,0\\) thread \\(104,0,0\\)", WRITTEN_PAST_THE_END, "model\\.cu:20",
                  " word32\\[1000\\] .*min 2\\.5 max 2\\.5.* re-run$", "1  1000", "launched at .*second_launch\\.h");
    expect_replay("--json", 86, "^\\{.*\"kind\":\"overrun\".*\\}$");
    expect_replay("--times 3", 86, "faulted in 3 of 3 runs");
}

/* All of a page that buffers share is kept. */
static void save_packed(void)
{
    const int index = 600000;
    start(saving(",small=pack"));
    void *table = NULL;
    for (int i = 0; i < 64; i++) /* a few buffers of each place share no page */
        table = allocate(COUNT * 4);
    CHECK_CU(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)table, &index, sizeof index));
    launch("write_indexed", table, 0);
    cuCtxSynchronize();
}

TEST(test_shared)
{
    make_bundle(save_packed, "saved for `cufence replay`: .* \\(1 buffer, 2097152 bytes\\)");
    expect_replay("", 86, "bytes (past the end|before the start) of buffer #.*");
}

TEST(test_reached)
{
    make_bundle(save_table, PAST_THE_END, THREAD_PAST_THE_END, WRITTEN_PAST_THE_END);
    expect_replay("", 86, PAST_THE_END);
}

/* What the README tells: 999 and 1001 in place of 1000. */
TEST(test_argument)
{
    make_bundle(save_last, "");
    edit("s/e8030000\"/e7030000\"/");
    expect_replay("", 0, "did not fault");
    expect_replay("--times 2", 0, "faulted in 0 of 2 runs");
    edit("s/e7030000\"/e9030000\"/");
    expect_replay("", 86, "written +8 bytes past the end");
    edit("/\"arguments\": \\[/,/^ \\]/d");
    expect_replay("", 86, "buffer #2");
}

static void save_indexed(void)
{
    const int index = COUNT;
    start(saving(""));
    void *table = allocate(COUNT * 4);
    CHECK_CU(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)table, &index, sizeof index));
    launch("write_indexed", table, 0);
    cuCtxSynchronize();
}

/* Writes zeros over the first words of a file in the bundle. */
static void clear(const char *file, int bytes)
{
    SUCCEEDS("dd if=/dev/zero of=$(echo %s/%s) bs=1 count=%d seek=%d conv=notrunc", bundle, file, bytes, NPY_HEADER);
}

TEST(test_buffer)
{
    make_bundle(save_indexed, "");
    expect_replay("", 86, PAST_THE_END);
    clear("buffer-1.npy", 4);
    expect_replay("", 0, "did not fault");
}

static void save_pinned(void)
{
    start(saving(more_options));
    void *out = allocate(COUNT * 4), *pinned = pin(sizeof(struct hosted));
    launch_all("write_hosted", (void *[]){&out, &pinned});
    cuCtxSynchronize();
}

TEST(test_pinned)
{
    SKIP_WITHOUT_HOST_MEMORY;
    make_bundle(save_pinned, "saved .*\\(2 buffers, 4016 bytes\\)");
    SUCCEEDS("test $(stat -c %%a-%%s %s/memory-*.npy) = 600-%d", bundle, NPY_HEADER + 16);
    SUCCEEDS("grep -q '| memory-.* | pinned host memory |' %s/README.md", bundle);
    expect_replay("--times 2", 86, "faulted in 2 of 2 runs", PAST_THE_END);
    SUCCEEDS("cp %s/launch.json input", bundle);
    edit("/\"pinned\"/,$s/\"size\": 16/\"size\": 8/");
    expect_replay("", 1, "pinned host memory is damaged");
    SUCCEEDS("cp input %s/launch.json", bundle);
    edit("/\"pinned\"/,$s/\"\\(address\\|mapping_start\\)\": \"0x[0-9a-f]*\"/\"\\1\": \"0x900000000000\"/; "
         "/\"pinned\"/,$s/\"mapping_end\": \"0x[0-9a-f]*\"/\"mapping_end\": \"0x900000000010\"/");
    expect_replay("", 1, "pinned host memory at 0x900000000000 cannot be mapped in the new process");
    SUCCEEDS("cp input %s/launch.json", bundle);
    clear("memory-*.npy", 16);
    expect_replay("", 0, "did not fault"); /* with 0 elements, one is written */
    SUCCEEDS("truncate -s -1 %s/memory-*.npy", bundle);
    expect_replay("", 1, "it is truncated");
    more_options = ";4005";
    make_bundle(save_pinned, "");
    more_options = "";
    expect_replay("", 86, "buffer #1 .* is not in the bundle: it holds zeros");
    more_options = ";10";
    make_bundle(save_pinned, "");
    more_options = "";
    expect_replay("", 0, "pinned host memory at 0x[0-9a-f]* .* is not in the bundle: it holds zeros");
}

/* ---- bundles of strangers ---- */

TEST(test_damaged)
{
    static const struct {
        const char *change, *pattern; /* %s is the bundle */
    } cases[] = {
        {"rm $B/launch.json", "launch.json: No such file"},
        {"rm $B/kernel.cubin", "kernel.cubin: No such file"},
        {"rm $B/buffer-2.npy", "buffer-2.npy: No such file"},
        {"truncate -s -1 $B/buffer-2.npy", "buffer-2.npy: it is truncated"},
        {"truncate -s 100 $B/buffer-2.npy", "buffer-2.npy: it is not a .npy file"},
        {"mv $B/buffer-2.npy $B/x; ln -s x $B/buffer-2.npy", "buffer-2.npy: it is a symbolic link; cufence does not follow"},
        {"mv $B/launch.json $B/scene.json", "written by an earlier cufence"},
        {"rm $B/buffer-2.npy; mkfifo $B/buffer-2.npy", "not a regular file"},
        {"cp $B/buffer-1.npy $B/buffer-2.npy", "it has 64 bytes, but the buffer 4000"},
        {"sed -i s,buffer-2.npy,../../x, $B/launch.json", "not a plain name"},
        {"sed -i s,buffer-2.npy,/etc/passwd, $B/launch.json", "not a plain name"},
        {"sed -i 's/\"bundle\": 1/\"bundle\": 9/' $B/launch.json", "has version 9"},
        {"sed -i 's/\"compute\": 90/\"compute\": 80/' $B/launch.json", "capability 8.0 .*, but the GPU here has 9.0"},
        {"sed -i 's/\"id\": 2/\"id\": -2/' $B/launch.json", "is damaged: \"id\""},
        {"sed -i 's/\"size\": 4000/\"size\": 4001/' $B/launch.json", "a buffer lies outside of its mapping"},
        {"sed -i 's/\"size\": 4000/\"size\": 9223372036854775807/' $B/launch.json", "is damaged: \"size\""},
        {"sed -i s/0x200008400000/0x200fff000000/ $B/launch.json", "its buffers need [0-9]+ MiB, but the GPU has"},
        {"sed -i s/0x200004000000/0x1000/ $B/launch.json", "outside of cufence's address space"},
        {"sed -i 's/\"mapping_end\": \"0x200004200000\"/\"mapping_end\": \"0x200008300000\"/' $B/launch.json",
         "two buffers overlap"},
        {"sed -i 's/60f03f/60f03/' $B/launch.json", "is damaged: \"arguments\""},
        {"sed -i 's/\"shared_bytes\": 0/\"shared_bytes\": 99999999/' $B/launch.json", "is damaged: \"shared_bytes\""},
        {"sed -i 's/\"offset\": 8/\"offset\": 9/' $B/launch.json", "outside of a launch's arguments"},
        {"sed -i s/write_last/absent/ $B/launch.json", "cannot be launched: cuModuleGetFunction"},
        {"echo x > $B/launch.json", "is not a JSON object"},
        {": > $B/kernel.cubin", "kernel.cubin: it is empty"},
    };
    char saved[128];
    make_bundle(save_last, "");
    snprintf(saved, sizeof saved, "%s", bundle);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!HAS_USUAL_ADDRESSES && strstr(cases[i].change, "0x2000"))
            continue;
        snprintf(bundle, sizeof bundle, "%s/copy", folder);
        SUCCEEDS("rm -rf %s; cp -r %s %s; B=%s; %s", bundle, saved, bundle, bundle, cases[i].change);
        expect_replay("", 1, cases[i].pattern);
    }
}

/* Only what lies around the buffers is reserved: this address space would be larger than the machine's. */
TEST(test_around)
{
    make_bundle(save_last, "");
    edit("s/0x201000000000/0x1fffffffff00000/");
    expect_replay("", 86, "0 bytes past the end of buffer #2");
}

/* What only the report needs may be missing. */
TEST(test_bare)
{
    make_bundle(save_last, "");
    SUCCEEDS("cd %s; rm facts.json dump.gz second-dump.gz report.txt finding.json README.md", bundle);
    expect_replay("", 86, "model.cu:20 in write_last, block \\(7,0,0\\) thread \\(104,0,0\\)");
}

TEST(test_usage)
{
    snprintf(bundle, sizeof bundle, "%s", "");
    expect_replay("", 2, "no folder given");
    expect_replay("/usr", 1, "/usr: launch.json: No such file or directory; a saved launch is a folder in that of keep=");
    expect_replay("--times 0 x", 2, "--times '0' is not allowed; use 1..1000000");
    expect_replay("a b", 2, "b");
}

/* ---- variables of the module: in the second launch, and replayed ---- */

/* The kernel's pointer is in a variable, which the host has set. lacking: a function of the driver that then fails; NULL: none.
 */
static void fault_by_variable(const char *options, const char *lacking)
{
    CUdeviceptr address;
    size_t bytes;
    setenv("SIM_TEST_VARIABLE", "target", 1); /* for the rerun process */
    cusim_declare_variable("target");
    start(options);
    void *out = allocate(COUNT * 4);
    CHECK_CU(cuModuleGetGlobal(&address, &bytes, module, "target"));
    CHECK_CU(cuMemcpyHtoD(address, &out, sizeof out));
    if (lacking)
        cusim_fail_calls(lacking, CUDA_ERROR_OUT_OF_MEMORY);
    launch("write_by_variable", NULL, COUNT);
    cuCtxSynchronize();
}

/* Without its value the kernel meets a null pointer, which says nothing about the fault. */
TELLS(variable_unread, "illegal memory access by a WRITE", "target: the kernel uses this variable of its", "!null",
      "!thread \\(")
{
    fault_by_variable("explain=rerun", "cuMemcpyDtoHAsync");
}

static void keep_variable(void)
{
    fault_by_variable(saving(""), NULL);
}

/* Only the variable leads to the buffer. */
TEST(variables_are_replayed)
{
    make_bundle(keep_variable, PAST_THE_END, THREAD_PAST_THE_END, WRITTEN_PAST_THE_END, "!null");
    SUCCEEDS("grep -q '\"name\": *\"target\"' %s/launch.json", bundle);
    setenv("SIM_TEST_VARIABLE", "target", 1);
    expect_replay("", 86, "0 bytes past the end of buffer #1");
}

TEST_GROUP(make_folder, remove_folder)
TEST_CONCURRENTLY
