/* `cufence replay` of kernels into whose code no barriers fit, on the simulated device: it says what the program's report said,
 * by emulation. */
#include "replayed.h"
#include "unfenced.h"

static void save(size_t less, size_t without)
{
    start(saving(""));
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

#define FACTS                                                                                                                  \
    "out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1 \\(re-run\\)",                                          \
        "block \\(7,0,0\\) thread \\(104,0,0\\)", "address .* re-run$", "written +4 bytes past the end: 2\\.5",                \
        "block and thread are emulated", "model\\.cu:90"

TEST(test_same)
{
    make_bundle(save_unfenced, FACTS);
    expect_replay("", 86, FACTS, "launched at .*second_launch\\.h.* re-run$", "arguments +0 .* re-run$");
    expect_replay("--json", 86, "\"emulated\": ?true");
    expect_replay("--times 3", 86, "faulted in 3 of 3 runs", FACTS);
}

/* The dump of this launch says which access faults: the program's dump and snapshot are not needed. */
TEST(test_bare)
{
    make_bundle(save_unfenced, "");
    SUCCEEDS("rm %s/fault.*", bundle);
    expect_replay("", 86, "model\\.cu:90 in store_first, block \\(7,0,0\\) thread \\(104,0,0\\)",
                  "block and thread are emulated");
}

/* What is changed for the launch is changed for its emulation and in the report. */
TEST(test_argument)
{
    make_bundle(save_unfenced, "");
    expect_replay("--set-arg 2=999", 0, "did not fault", "!emulated");
    expect_replay("--set-arg 2=1010", 86, "block \\(7,0,0\\) thread \\(104,0,0\\) and 10 more", " 2  1010$",
                  "launched at .*second_launch\\.h:");
    expect_replay("--no-guards", 0, "bytes other than 0 were written", "!emulated");
}

static void save_until(void)
{
    const int last = COUNT;
    start(saving(""));
    load("store_until", 0, NONE);
    void *out = allocate(COUNT * 4), *until = allocate(64);
    CHECK_CU(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)until, &last, sizeof last));
    launch_all("store_until", (void *[]){&out, &until});
    cuCtxSynchronize();
}

/* The emulated threads load from memory. */
TEST(test_buffer)
{
    make_bundle(save_until, "block \\(7,0,0\\) thread \\(104,0,0\\)", "are emulated");
    expect_replay("", 86, "block \\(7,0,0\\) thread \\(104,0,0\\)", "are emulated", "!and [0-9]+ more");
    write_array("<i4", 1, 4, 1005);
    expect_replay("--buffer 1=array.npy", 86, "block \\(7,0,0\\) thread \\(104,0,0\\) and 5 more");
    write_array("<i4", 1, 4, 0);
    expect_replay("--buffer 1=array.npy", 0, "did not fault");
}

/* The same words as in the program's report. */
TEST(test_unknown)
{
    static const char why[] = "could not be emulated: none of the";
    make_bundle(save_unknown, why);
    expect_replay("", 86, why, "0 bytes past the end of buffer #1", "!are emulated");
}

TEST(test_fenced)
{
    make_bundle(save_fenced, "");
    expect_replay("", 86, "block \\(7,0,0\\) thread \\(104,0,0\\)", "!are emulated");
}

TEST_GROUP(make_folder, remove_folder)
TEST_CONCURRENTLY
