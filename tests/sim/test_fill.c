/* Fill and poison on the simulated device: what is in new buffers, and in freed ones. */
#include "pokes.h"

CLEAN(fills)
{
    CUstream stream = start_with_stream("fill=0x11");
    char *buffer = allocate(1000, stream);
    CHECK(sum_at(buffer, 1000, stream) == 1000 * 0x11);
    CHECK_CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)buffer, 0, 1000, stream));
    release(buffer, stream);
    CHECK(sum_at(allocate(1000, stream), 1000, stream) == 1000 * 0x11);
}

CLEAN(fills_with_nan)
{
    float values[4];
    start("fill=nan");
    char *buffer = allocate(sizeof values, NULL);
    CHECK_CU(cuMemcpyDtoH(values, (CUdeviceptr)(uintptr_t)buffer, sizeof values));
    for (int i = 0; i < 4; i++)
        CHECK(values[i] != values[i]);
}

CLEAN(poisons)
{
    CUstream stream = start_with_stream("fill=off/0xee,slack=on");
    char *buffer = allocate(1000, stream);
    CHECK_CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)buffer, 0, 1000, stream));
    CHECK(sum_at(buffer, 1000, stream) == 0);
    release(buffer, stream);
    CHECK(sum_at(buffer, 1000, stream) == 1000 * 0xee);
    CHECK(cufence_check(0) == 0);
}

TEST_CONCURRENTLY
