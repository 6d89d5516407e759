/* A story about bytes of a buffer that the program poisons where it runs under cufence. */
#include "program.h"

#define ROW 4000u

/* poison stale|right [async]: a row of a buffer is written while it is poisoned, or not, among launches that have nothing to do
 * with that. */
STORY(poison)
{
    int is_stale = count > 2 && strcmp(arguments[2], "stale") == 0, is_async = count > 3;
    start(); /* cufence is there from then on */
    typedef int function(CUdeviceptr, size_t, CUstream);
    function *poison = (function *)driver_of_cufence("cufence_poison"),
             *unpoison = (function *)driver_of_cufence("cufence_unpoison");
    CUdeviceptr rows, other;
    if (!poison || !unpoison)
        return 2;
    MUST(cu.cuMemAlloc(&rows, 4 * ROW));
    MUST(cu.cuMemAlloc(&other, ROW));
    CUdeviceptr row = rows + 2 * ROW;
    MUST(add_one(row, ROW / 4, NULL));
    if (poison(row, ROW, NULL) != 0)
        return 3;
    MUST(store(other, 7, NULL));
    if (is_stale)
        MUST(store(row + 12, 0x3f800000, NULL)); /* 1.0f */
    if (unpoison(row, ROW, NULL) != 0)
        return 4;
    for (int i = 0; i < 20; i++)
        MUST(add_one(row, ROW / 4, NULL));
    MUST(cu.cuCtxSynchronize());
    if (poison(rows, ROW, NULL) != 0)
        return 5;
    if (is_async)
        MUST(cu.cuMemFreeAsync(rows, NULL)); /* checked in order */
    else
        MUST(cu.cuMemFree(rows)); /* or right away */
    if (unpoison(rows, ROW, NULL) == 0)
        return 6;
    return say("context", cu.cuCtxSynchronize()) == CUDA_SUCCESS ? 0 : 1;
}
