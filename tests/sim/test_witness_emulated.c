/* Kernels into whose code no barriers fit, or whose code with them the driver refuses: their threads are emulated. */
#include "second_launch.h"
#include "unfenced.h"

static void overrun(void)
{
    int n = COUNT;
    void *out = allocate(COUNT * 4), *other = allocate(64);
    launch_all("store_first", (void *[]){&out, &other, &n});
    cuCtxSynchronize();
}

/* What was written says that the address is right. */
TELLS(unfenced, "out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1 \\(re-run\\)",
      "block \\(7,0,0\\) thread \\(104,0,0\\)", "address .* re-run$", "written +4 bytes past the end: 2\\.5 +re-run",
      "block and thread are emulated")
{
    start("explain=rerun");
    load("store_first", 0, NONE);
    overrun();
}

TELLS(fenced, "block \\(7,0,0\\) thread \\(104,0,0\\)", "!are emulated")
{
    start("explain=rerun");
    load("store_first", 1, NONE);
    overrun();
}

/* Nothing was launched, so all of it follows from the code. */
TELLS(refused, "out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1 \\(derived\\)",
      "block \\(7,0,0\\) thread \\(104,0,0\\)", "address .* derived$", "block and thread are emulated",
      "could not be launched again: cuModuleLoadData:", "arguments +0 .* derived$", "!written", "!address .* re-run$")
{
    start("explain=rerun");
    load("store_first", 1, NONE);
    setenv("CUFENCE_SIM", "fail=cuModuleLoadData:0:200", 1); /* this process has read it */
    overrun();
}

/* What was written, and where, contradicts the code. */
TELLS(unknown, PAST_THE_END, "written +4 bytes past the end: 2\\.5 +re-run", "!are emulated",
      "could not be emulated: none of the$", "!thread \\(")
{
    start("explain=rerun");
    load("store_first", 0, MULTIPLY); /* the address is not computed at all, and so wrong */
    overrun();
}

/* It faults behind the patterns, before the emulation has its turn. */
TELLS(far, "0 bytes past the end of buffer #1 \\(derived\\)", "block and thread are emulated",
      "block \\(7,0,0\\) thread \\(7,0,0\\) and 7 more")
{
    start("explain=rerun");
    struct machine_code down = machine_code("store_first");
    down.kernel = "store_down";
    down.code[MULTIPLY][0] = 0xfffc000007027825; /* IMAD.WIDE R2, R7, -0x40000, R2 */
    load_machine(&down, down.count, NONE);
    int n = 903;
    char *out = allocate(COUNT * 4), *top = out + COUNT * 4 + n * 0x40000L;
    launch_all("store_down", (void *[]){&top, &out, &n});
    cuCtxSynchronize();
}

static void tell_there(int place)
{
    start("explain=rerun,json=there.json");
    load("store_there", 0, NONE);
    int *out = allocate(COUNT * 4), *places = allocate(52), last = COUNT + 5;
    CHECK_CU(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)(places + place), &last, sizeof last));
    places += place;
    launch_all("store_there", (void *[]){&out, &places});
    cuCtxSynchronize();
}

/* The memory is read for the index, by a process of its own. */
TELLS(loaded, "out-of-bounds WRITE of 4 bytes, 20 bytes past the end of buffer #1",
      "cause +index 1005 was loaded from buffer #2 \\(argument 1\\), element 7 of 13 ",
      "hint +the kernel takes the index as it is in memory")
{
    tell_there(7);
}

TELLS(loaded_from_outside, "20 bytes past the end of buffer #1",
      "cause +index 1005 was loaded from buffer #2, element 14 of 13 ", "4 bytes past its( end)?",
      "hint +the index itself was read outside of buffer #2")
{
    tell_there(14); /* in the slack, which no access to it tells */
}

TEST_CONCURRENTLY
