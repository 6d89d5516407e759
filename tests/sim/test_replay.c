/* keep=replay=DIR, and `cufence replay` of what it saved, on the simulated device. */
#include "replayed.h"

#include "analysis/snapshot/bundle.h"

#define HANG_MS "6000" /* by when the rerun process has come to its launch, on a busy machine too */

/* ---- saving ---- */

static const char *more_options = "";

/* The options that save in this test's folder, and more. */
static const char *saving(const char *more)
{
    static char options[192];
    snprintf(options, sizeof options, "keep=replay=%s%s", folder, more);
    return options;
}

static void save_last(void)
{
    start(saving(more_options));
    void *other = allocate(64), *out = allocate(COUNT * 4);
    CHECK_CU(cuMemsetD8((CUdeviceptr)(uintptr_t)out, 7, COUNT * 4));
    launch("write_last", out, COUNT);
    record_launch("write_last", (void *[]){&other, &(int){8}}, 0); /* is tried first */
    cuCtxSynchronize();
}

static void save_table(void)
{
    fault_by_table(saving(""));
}

/* ---- replaying ---- */

/* Edits the list of the bundle. */
static void edit(const char *program)
{
    run_shell("sed -i '%s' %s/scene.json", program, bundle);
}

/* ---- what is saved ---- */

static mode_t mode_of(const char *name)
{
    char path[256];
    struct stat file;
    snprintf(path, sizeof path, "%s/%s", bundle, name);
    return stat(path, &file) == 0 ? file.st_mode & 07777 : 0;
}

TEST(test_files)
{
    static const char *const files[] = {"scene.json",    "fault.snapshot.json", "fault.core.gz", "fault.rerun.core.gz",
                                        "README.md",     "report.txt",          "finding.json",  "kernel.cubin",
                                        "buffers/1.npy", "buffers/2.npy"};
    char *err = make_bundle(save_last), path[256];
    assert_true(has(err, "saved for `cufence replay`: .*/fault-[0-9]+-1 \\(2 buffers, 4064 bytes\\)"));
    assert_true(has(err, THREAD_PAST_THE_END));
    free(err);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        assert_int_equal(mode_of(files[i]), 0600);
    assert_int_equal(mode_of("."), 0700);
    assert_int_equal(mode_of("buffers"), 0700);

    uint8_t bytes[NPY_HEADER + COUNT * 4 + 1];
    uint64_t offset, size;
    struct problem problem;
    snprintf(path, sizeof path, "%s/buffers/2.npy", bundle);
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
    run_shell("grep -q 'buffers/2.npy' %s/README.md && grep -q 'SUMMARY' %s/report.txt", bundle, bundle);
    run_shell("%s explain %s | grep -q 'address .* re-run$'", CUFENCE_CLI, bundle);
    run_shell("%s explain %s | grep -q 'written .*2.5 .*re-run'", CUFENCE_CLI, bundle);
    run_shell("cd %s && mv fault.rerun.core.gz fault.restaged.core.gz && "
              "sed -i 's/\"snapshot\":2/\"snapshot\":1/; s/\"rerun\":/\"restaged\":/' fault.snapshot.json",
              bundle); /* as 0.1.0 named them */
    run_shell("%s explain %s | grep -q 'address .* re-run$'", CUFENCE_CLI, bundle);
    clean();
}

TEST(test_most)
{
    more_options = ",save_max=100";
    char *err = make_bundle(save_last);
    more_options = "";
    assert_true(has(err, "saved .*\\(1 buffers, 64 bytes\\)"));
    assert_true(has(err, "1 buffers were left out"));
    free(err);
    run_shell("grep -q '\"left_out\": \"save_max\"' %s/scene.json && grep -q 'left out: save_max' %s/README.md", bundle,
              bundle);
    run_shell("test ! -e %s/buffers/2.npy", bundle);
    expect_replay("", 86, "buffer #2 \\(4000 bytes\\) is not in the bundle: it holds zeros");
    assert_true(has(said, "0 bytes past the end of buffer #2"));
    clean();
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
    char *err = make_bundle(save_hang);
    assert_true(has(err, "it took longer than wait_ms=1000/" HANG_MS));
    assert_true(has(err, "saved for `cufence replay`: .* \\(1 buffers, 4000 bytes\\)"));
    free(err);
    expect_replay("--seconds 1", 1, "cannot be launched: it took longer than --seconds 1");
    clean();
}

/* Nothing is left of a bundle that could not be filled. */
TEST(test_nothing)
{
    snprintf(folder, sizeof folder, "/tmp/cufence-replay-XXXXXX");
    assert_non_null(mkdtemp(folder));
    struct outcome outcome = run_child(save_nothing);
    assert_true(has(outcome.err, "keep: nothing to replay: .*explain=dump"));
    free(outcome.err);
    assert_int_equal(find_bundle(), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* ---- replay ---- */

TEST(test_same)
{
    free(make_bundle(save_last));
    expect_replay("", 86, "out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #2");
    assert_true(has(said, "block \\(7,0,0\\) thread \\(104,0,0\\)"));
    assert_true(has(said, WRITTEN_PAST_THE_END));
    assert_true(has(said, "model\\.cu:20"));
    assert_true(has(said, " float32\\[1000\\] .*min 2\\.5 max 2\\.5.* re-run$"));
    assert_true(has(said, "1  1000"));
    assert_true(has(said, "launched at .*second_launch\\.h"));
    expect_replay("--json", 86, "^\\{.*\"kind\":\"overrun\".*\\}$");
    expect_replay("--times 3", 86, "faulted in 3 of 3 runs");
    clean();
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
    char array[128], arguments[256];
    char *err = make_bundle(save_packed);
    if (!has(err, "saved for `cufence replay`: .* \\(1 buffers, 2097152 bytes\\)"))
        fail_msg("%s", err);
    free(err);
    expect_replay("", 86, "bytes (past the end|before the start) of buffer #.*");
    snprintf(array, sizeof array, "%s/array.npy", folder);
    snprintf(arguments, sizeof arguments, "--buffer 0=%s", array);
    write_array(array, "<i4", 2, 8, 0);
    expect_replay(arguments, 2, "points into memory that several buffers may share, whose bytes cannot be replaced");
    clean();
}

/* Two loads lead to the buffer, which is none of the arguments. */
TEST(test_reached)
{
    free(make_bundle(save_table));
    expect_replay("", 86, PAST_THE_END);
    clean();
}

TEST(test_argument)
{
    free(make_bundle(save_last));
    expect_replay("--set-arg 1=999", 0, "did not fault");
    expect_replay("--set-arg 1=0x3e7 --times 2", 0, "faulted in 0 of 2 runs");
    expect_replay("--set-arg 1=999 --set-arg 1=1001", 86, "written +8 bytes past the end");
    expect_replay("--set-arg 2=5", 2, "has no argument 2; it has 2, from 0");
    expect_replay("--set-arg 1=4294967296", 2, "not a value of 4 bytes");
    expect_replay("--set-arg 1=x", 2, "not a value of 4 bytes; use");
    expect_replay("--set-arg 1=1.5d", 2, "not a value of 4 bytes");
    expect_replay("--set-arg 1=1.5f", 86, "1  1069547520"); /* its bits */
    expect_replay("--set-arg x", 2, "is not K=VALUE");
    edit("/\"arguments\": \\[/,/^ \\]/d");
    expect_replay("--set-arg 1=999", 2, "where the kernel.s arguments begin is not in the bundle");
    expect_replay("", 86, "buffer #2");
    clean();
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

TEST(test_buffer)
{
    char array[128], arguments[256];
    free(make_bundle(save_indexed));
    snprintf(array, sizeof array, "%s/array.npy", folder);
    snprintf(arguments, sizeof arguments, "--buffer 0=%s", array);
    expect_replay("", 86, PAST_THE_END);
    expect_replay(arguments, 2, "No such file");
    write_array(array, "<i4", 2, 8, 0);
    expect_replay(arguments, 0, "did not fault");
    write_array(array, "<i4", COUNT + 1, COUNT * 4 + 4, 0);
    expect_replay(arguments, 2, "has 4004 bytes, but the buffer only 4000");
    write_array(array, "<i4", 2, 7, 0);
    expect_replay(arguments, 2, "it is truncated");
    write_array(array, "|O", 2, 8, 0);
    expect_replay(arguments, 2, "not plain numbers");
    snprintf(arguments, sizeof arguments, "--buffer 1=%s", array);
    expect_replay(arguments, 2, "points to no buffer");
    clean();
}

TEST(test_no_guards)
{
    free(make_bundle(save_last));
    expect_replay("--no-guards --under env", 0, "^cufence replay: the launch did not fault$");
    expect_replay("--no-guards", 0, "bytes other than 0 were written 2 bytes past the end of buffer #2");
    assert_true(has(said, "did not fault"));
    clean();
}

/* The tool is the parent of the process that launches, and keeps its standard input and output. */
TEST(test_under)
{
    char arguments[256];
    free(make_bundle(save_last));
    run_shell("printf 'echo tool \"$2\" $#; exec \"$@\"\n' > %s/tool", folder);
    snprintf(arguments, sizeof arguments, "--under 'sh %s/tool'", folder);
    expect_replay(arguments, 86, "^tool rerun 3$");
    assert_true(has(said, "the launch failed: .*ILLEGAL_ADDRESS"));
    snprintf(arguments, sizeof arguments, "--set-arg 1=999 --under 'sh %s/tool'", folder);
    expect_replay(arguments, 0, "^tool rerun 3$");
    run_shell("printf '[ \"$1\" = --args ]; echo debugger $?; exit 5\n' > %s/cuda-gdb; chmod +x %s/cuda-gdb", folder, folder);
    run_shell("sed -i '1i #!/bin/sh' %s/cuda-gdb", folder);
    snprintf(arguments, sizeof arguments, "--under %s/cuda-gdb", folder);
    expect_replay(arguments, 5, "^debugger 0$");
    assert_true(has(said, "cuda-gdb ended before the launch$"));
    expect_replay("--under true", 1, "true ended before the launch$");
    expect_replay("--under 'true; false'", 2, "is not a command, .* need quotes in it");
    expect_replay("--under /nowhere/tool", 127, "cannot run /nowhere/tool");
    expect_replay("--under ' '", 2, "is not a command");
    clean();
}

/* A debugger starts the process by itself or by a shell, and both leave it its socket. On the simulated device a fault is a
 * signal. */
TEST(test_debugger)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* they do not work under a debugger */
#endif
    if (system("command -v gdb >/dev/null") != 0)
        skip();
    free(make_bundle(save_last));
    expect_replay("--under \"gdb -nx -batch -ex 'handle SIGSEGV nostop noprint pass' -ex run\"", 86,
                  "the launch failed: .*ILLEGAL_ADDRESS");
    expect_replay("--under \"gdb -nx -batch -ex 'set startup-with-shell off' -ex 'handle SIGSEGV nostop pass' -ex run\"", 86,
                  "the launch failed: .*ILLEGAL_ADDRESS");
    expect_replay("--under 'gdb -nx -batch -ex run -ex bt'", 0, "in write_last ");
    assert_true(has(said, "the process ended in the launch$"));
    clean();
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
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* the other process has its own memory where the host memory was */
#endif
    char array[128], arguments[256];
    char *err = make_bundle(save_pinned);
    assert_true(has(err, "saved .*\\(2 buffers, 4016 bytes\\)"));
    free(err);
    run_shell("test $(stat -c %%a-%%s %s/buffers/pinned-*.npy) = 600-%d", bundle, NPY_HEADER + 16);
    run_shell("grep -q '| buffers/pinned-.* | pinned host memory |' %s/README.md", bundle);
    expect_replay("--times 2", 86, "faulted in 2 of 2 runs");
    assert_true(has(said, PAST_THE_END));
    snprintf(array, sizeof array, "%s/array.npy", folder);
    write_array(array, "<i4", 4, 16, 0);
    snprintf(arguments, sizeof arguments, "--buffer 1=%s", array);
    expect_replay(arguments, 0, "did not fault"); /* with 0 elements, one is written */
    run_shell("cp %s/scene.json %s/input", bundle, folder);
    edit("/\"pinned\"/,$s/\"size\": 16/\"size\": 8/");
    expect_replay("", 1, "pinned host memory is damaged");
    run_shell("cp %s/input %s/scene.json", folder, bundle);
    edit("/\"pinned\"/,$s/\"\\(address\\|mapping_start\\)\": \"0x[0-9a-f]*\"/\"\\1\": \"0x900000000000\"/; "
         "/\"pinned\"/,$s/\"mapping_end\": \"0x[0-9a-f]*\"/\"mapping_end\": \"0x900000000010\"/");
    expect_replay("", 1, "pinned host memory at 0x900000000000 cannot be mapped in the new process");
    run_shell("cp %s/input %s/scene.json; truncate -s -1 %s/buffers/pinned-*.npy", folder, bundle, bundle);
    expect_replay("", 1, "it is truncated");
    clean();
    more_options = ",save_max=4005";
    free(make_bundle(save_pinned));
    more_options = "";
    expect_replay("", 86, "buffer #1 .* is not in the bundle: it holds zeros");
    clean();
    more_options = ",save_max=10";
    free(make_bundle(save_pinned));
    more_options = "";
    expect_replay("", 0, "pinned host memory at 0x[0-9a-f]* .* is not in the bundle: it holds zeros");
    clean();
}

/* ---- bundles of strangers ---- */

TEST(test_damaged)
{
    static const struct {
        const char *change, *pattern; /* %s is the bundle */
    } cases[] = {
        {"rm $B/scene.json", "scene.json: No such file"},
        {"rm $B/kernel.cubin", "kernel.cubin: No such file"},
        {"rm $B/buffers/2.npy", "buffers/2.npy: No such file"},
        {"truncate -s -1 $B/buffers/2.npy", "buffers/2.npy: it is truncated"},
        {"truncate -s 100 $B/buffers/2.npy", "buffers/2.npy: it is not a .npy file"},
        {"mv $B/buffers/2.npy $B/x; ln -s ../x $B/buffers/2.npy", "buffers/2.npy: Too many levels of symbolic links"},
        {"mv $B/buffers $B/x; ln -s x $B/buffers", "buffers: "},
        {"rm $B/buffers/2.npy; mkfifo $B/buffers/2.npy", "not a regular file"},
        {"cp $B/buffers/1.npy $B/buffers/2.npy", "it has 64 bytes, but the buffer 4000"},
        {"sed -i s,2.npy,../../x, $B/scene.json", "not a plain name"},
        {"sed -i s,2.npy,/etc/passwd, $B/scene.json", "not a plain name"},
        {"sed -i 's/\"bundle\": 1/\"bundle\": 9/' $B/scene.json", "has version 9"},
        {"sed -i 's/\"compute\": 90/\"compute\": 80/' $B/scene.json", "capability 8.0 .*, but the GPU here has 9.0"},
        {"sed -i 's/\"id\": 2/\"id\": -2/' $B/scene.json", "is damaged: \"id\""},
        {"sed -i 's/\"size\": 4000/\"size\": 4001/' $B/scene.json", "a buffer lies outside of its mapping"},
        {"sed -i 's/\"size\": 4000/\"size\": 9223372036854775807/' $B/scene.json", "is damaged: \"size\""},
        {"sed -i s/0x200008400000/0x200fff000000/ $B/scene.json", "its buffers need [0-9]+ MiB, but the GPU has"},
        {"sed -i s/0x200004000000/0x1000/ $B/scene.json", "outside of cufence's address space"},
        {"sed -i 's/\"mapping_end\": \"0x200004200000\"/\"mapping_end\": \"0x200008300000\"/' $B/scene.json",
         "two buffers overlap"},
        {"sed -i 's/60f03f/60f03/' $B/scene.json", "is damaged: \"arguments\""},
        {"sed -i 's/\"shared_bytes\": 0/\"shared_bytes\": 99999999/' $B/scene.json", "is damaged: \"shared_bytes\""},
        {"sed -i 's/\"offset\": 8/\"offset\": 9/' $B/scene.json", "outside of a launch's arguments"},
        {"sed -i s/write_last/absent/ $B/scene.json", "cannot be launched: cuModuleGetFunction"},
        {"sed -i 's/simulated/\\\\u001b/' $B/scene.json", "the kernel or the device is missing"},
        {"echo x > $B/scene.json", "is not a JSON object"},
        {": > $B/kernel.cubin", "kernel.cubin: it is empty"},
    };
    char saved[128];
    free(make_bundle(save_last));
    snprintf(saved, sizeof saved, "%s", bundle);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!HAS_USUAL_ADDRESSES && strstr(cases[i].change, "0x2000"))
            continue;
        snprintf(bundle, sizeof bundle, "%s/copy", folder);
        run_shell("rm -rf %s; cp -r %s %s; B=%s; %s", bundle, saved, bundle, bundle, cases[i].change);
        expect_replay("", 1, cases[i].pattern);
    }
    clean();
}

/* Only what lies around the buffers is reserved: this address space would be larger than the machine's. */
TEST(test_around)
{
    free(make_bundle(save_last));
    edit("s/0x201000000000/0x1fffffffff00000/");
    expect_replay("", 86, "0 bytes past the end of buffer #2");
    clean();
}

/* What only the report needs may be missing. */
TEST(test_bare)
{
    free(make_bundle(save_last));
    run_shell("rm %s/fault.* %s/report.txt %s/finding.json %s/README.md", bundle, bundle, bundle, bundle);
    expect_replay("", 86, "model.cu:20 in write_last, block \\(7,0,0\\) thread \\(104,0,0\\)");
    clean();
}

TEST(test_usage)
{
    snprintf(bundle, sizeof bundle, "%s", "");
    expect_replay("", 2, "no folder given");
    expect_replay("/nowhere", 1, "/nowhere: No such file");
    expect_replay("/usr", 1, "/usr: buffers: No such file or directory; a saved launch is a folder in that of keep=");
    expect_replay("--times 0 x", 2, "--times '0' is not allowed; use 1..1000000");
    expect_replay("a b", 2, "b");
    expect_replay("--help", 0, "usage: cufence replay");
}

TEST_CONCURRENTLY
