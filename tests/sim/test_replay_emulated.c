/* `cufence replay` of kernels into whose code no barriers fit, on the simulated device: it says what the program's report said,
 * by emulation. */
#include "replayed.h"
#include "unfenced.h"

static void save(size_t less, size_t without)
{
    char options[160];
    snprintf(options, sizeof options, "keep=replay=%s", folder);
    start(options);
    load("store_first", less, without);
    int n = COUNT;
    void *out = allocate(COUNT * 4), *other = allocate(64);
    launch_all("store_first", (void *[]){&out, &other, &n});
    cuCtxSynchronize();
}

static void save_unfenced(void)
{
    save(0, NONE);
}

static void save_unknown(void)
{
    save(0, MULTIPLY);
}

static void save_fenced(void)
{
    save(1, NONE);
}

static const char *const facts[] = {"out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1 \\(re-run\\)",
                                    "block \\(7,0,0\\) thread \\(104,0,0\\)",
                                    "address .* re-run$",
                                    "written +4 bytes past the end: 2\\.5",
                                    "block and thread are emulated",
                                    "model\\.cu:90",
                                    NULL};

static void expect_facts(const char *text)
{
    for (const char *const *fact = facts; *fact; fact++)
        if (!has(text, *fact))
            fail_msg("not found: %s\n%s", *fact, text);
}

TEST(test_same)
{
    char *err = make_bundle(save_unfenced);
    expect_facts(err);

    free(err);
    expect_replay("", 86, "block \\(7,0,0\\) thread \\(104,0,0\\)");

    expect_facts(said);
    assert_true(has(said, "launched at .*second_launch\\.h.* re-run$"));
    assert_true(has(said, "arguments +0 .* re-run$"));
    expect_replay("--json", 86, "\"emulated\": ?true");
    expect_replay("--times 3", 86, "faulted in 3 of 3 runs");
    expect_facts(said);
    clean();
}

/* The dump of this launch says which access faults: the program's dump and snapshot are not needed. */
TEST(test_bare)
{
    free(make_bundle(save_unfenced));
    run_shell("rm %s/fault.*", bundle);
    expect_replay("", 86, "model\\.cu:90 in store_first, block \\(7,0,0\\) thread \\(104,0,0\\)");
    assert_true(has(said, "block and thread are emulated"));
    clean();
}

/* What is changed for the launch is changed for its emulation and in the report. */
TEST(test_argument)
{
    free(make_bundle(save_unfenced));
    expect_replay("--set-arg 2=999", 0, "did not fault");
    assert_false(has(said, "emulated"));
    expect_replay("--set-arg 2=1010", 86, "block \\(7,0,0\\) thread \\(104,0,0\\) and 10 more");
    assert_true(has(said, " 2  1010$") && has(said, "launched at .*second_launch\\.h:"));
    expect_replay("--no-guards", 0, "bytes other than 0 were written");
    assert_false(has(said, "emulated"));
    clean();
}

static void save_until(void)
{
    char options[160];
    const int last = COUNT;
    snprintf(options, sizeof options, "keep=replay=%s", folder);
    start(options);
    load("store_until", 0, NONE);
    void *out = allocate(COUNT * 4), *until = allocate(64);
    CHECK_CU(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)until, &last, sizeof last));
    launch_all("store_until", (void *[]){&out, &until});
    cuCtxSynchronize();
}

/* The emulated threads load from memory. */
TEST(test_buffer)
{
    char array[128], arguments[256];
    char *err = make_bundle(save_until);
    assert_true(has(err, "block \\(7,0,0\\) thread \\(104,0,0\\)") && has(err, "are emulated"));
    free(err);
    expect_replay("", 86, "block \\(7,0,0\\) thread \\(104,0,0\\)");
    assert_true(has(said, "are emulated") && !has(said, "and [0-9]+ more"));
    snprintf(array, sizeof array, "%s/array.npy", folder);
    snprintf(arguments, sizeof arguments, "--buffer 1=%s", array);
    write_array(array, "<i4", 1, 4, 1005);
    expect_replay(arguments, 86, "block \\(7,0,0\\) thread \\(104,0,0\\) and 5 more");
    write_array(array, "<i4", 1, 4, 0);
    expect_replay(arguments, 0, "did not fault");
    clean();
}

/* The same words as in the program's report. */
TEST(test_unknown)
{
    static const char why[] = "could not be emulated: none of the";
    char *err = make_bundle(save_unknown);
    assert_true(has(err, why));
    free(err);
    expect_replay("", 86, why);
    assert_true(has(said, "0 bytes past the end of buffer #1"));
    assert_false(has(said, "are emulated"));
    clean();
}

TEST(test_fenced)
{
    free(make_bundle(save_fenced));
    expect_replay("", 86, "block \\(7,0,0\\) thread \\(104,0,0\\)");
    assert_false(has(said, "are emulated"));
    clean();
}

TEST_CONCURRENTLY
