/* Kernels into whose code no barriers fit, or whose code the driver refuses. With barriers, the thread is found, and what its
 * address is made of. */
#include "second_launch.h"
#include "unfenced.h"

static void overrun(void)
{
    int n = COUNT;
    void *out = allocate(COUNT * 4), *other = allocate(64);
    launch_all("store_first", (void *[]){&out, &other, &n});
    cuCtxSynchronize();
}

/* What was written tells the address; no dump has the warp. */
TELLS(unfenced, PAST_THE_END, "address .* re-run$", "written +4 bytes past the end: 2\\.5 +re-run", "!thread \\(")
{
    start("explain=rerun");
    load("store_first", 0);
    overrun();
}

TELLS(fenced, "block \\(7,0,0\\) thread \\(104,0,0\\)")
{
    start("explain=rerun");
    load("store_first", 1);
    overrun();
}

TELLS(refused, "could not be launched again: cuModuleLoadData:",
      "illegal memory access by a WRITE, through a pointer into buffer #1 \\(derived\\)", "!thread \\(", "!written",
      "!address .* re-run$")
{
    start("explain=rerun");
    load("store_first", 1);
    setenv("CUFENCE_SIM", "fail=cuModuleLoadData:0:200", 1); /* this process has read it */
    overrun();
}

static void tell_there(int place)
{
    start("explain=rerun,json=there.json");
    load("store_there", 0);
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
