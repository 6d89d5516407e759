/* Stories about rows of a buffer, which the program tells cufence of where it runs under it. */
#include "program.h"

#define ROWS 4
#define ROW 4000u

/* row stale|right [async]: a row of a buffer is written after it was released, or not, among launches that have nothing to do
 * with that. */
STORY(row)
{
    int is_stale = count > 2 && strcmp(arguments[2], "stale") == 0, is_async = count > 3;
    start(); /* cufence is there from then on */
    int (*region)(CUdeviceptr, size_t, size_t, const char *) =
        (int (*)(CUdeviceptr, size_t, size_t, const char *))driver_of_cufence("cufence_region");
    int (*take)(CUdeviceptr, const char *, CUstream) =
        (int (*)(CUdeviceptr, const char *, CUstream))driver_of_cufence("cufence_region_take");
    int (*release)(CUdeviceptr, CUstream) = (int (*)(CUdeviceptr, CUstream))driver_of_cufence("cufence_region_release");
    CUdeviceptr rows, other;
    if (!region || !take || !release)
        return 2;
    MUST(cu.cuMemAlloc(&rows, ROWS * ROW));
    MUST(cu.cuMemAlloc(&other, ROW));
    if (region(rows, ROW, ROWS, "kv") != 0 || take(rows + 2 * ROW, "request 4", NULL) != 0)
        return 3;
    MUST(add_one(rows + 2 * ROW, ROW / 4, NULL));
    if (release(rows + 2 * ROW, NULL) != 0)
        return 4;
    MUST(store(other, 7, NULL));
    if (is_stale)
        MUST(store(rows + 2 * ROW + 12, 0x3f800000, NULL)); /* 1.0f */
    if (take(rows + 2 * ROW, "request 5", NULL) != 0)
        return 5;
    for (int i = 0; i < 20; i++)
        MUST(add_one(rows + 2 * ROW, ROW / 4, NULL));
    MUST(cu.cuCtxSynchronize());
    if (release(rows, NULL) != 0)
        return 6;
    if (is_async)
        MUST(cu.cuMemFreeAsync(rows, NULL)); /* its free row is checked in order */
    else
        MUST(cu.cuMemFree(rows)); /* or right away */
    if (take(rows, "nobody", NULL) == 0)
        return 7;
    return say("context", cu.cuCtxSynchronize()) == CUDA_SUCCESS ? 0 : 1;
}
