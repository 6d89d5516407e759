/* A story about bytes of a buffer that the program poisons where it runs under cufence. */
#include "program.h"

#define ROW 4000u

/* The preload library has them for a program that is not linked with libcufence.so. */
#pragma weak cufence_poison
#pragma weak cufence_unpoison

/* poison stale|right [async]: a row of a buffer is written while it is poisoned, or not, among launches that have nothing to do
 * with that. */
STORY(poison)
{
    int is_stale = count > 2 && strcmp(arguments[2], "stale") == 0, is_async = count > 3;
    CUdeviceptr rows, other;
    if (!cufence_poison || !cufence_unpoison || cufence_poison((void *)(uintptr_t)ROW, ROW, NULL) == 0) /* too early */
        return 2;
    start();
    MUST(cu.cuMemAlloc(&rows, 4 * ROW));
    MUST(cu.cuMemAlloc(&other, ROW));
    CUdeviceptr row = rows + 2 * ROW;
    MUST(add_one(row, ROW / 4, NULL));
    if (cufence_poison((void *)(uintptr_t)row, ROW, NULL) != 0)
        return 3;
    MUST(store(other, 7, NULL));
    if (is_stale)
        MUST(store(row + 12, 0x3f800000, NULL)); /* 1.0f */
    if (cufence_unpoison((void *)(uintptr_t)row, ROW, NULL) != 0)
        return 4;
    for (int i = 0; i < 20; i++)
        MUST(add_one(row, ROW / 4, NULL));
    MUST(cu.cuCtxSynchronize());
    if (cufence_poison((void *)(uintptr_t)rows, ROW, NULL) != 0)
        return 5;
    if (is_async)
        MUST(cu.cuMemFreeAsync(rows, NULL)); /* checked in order */
    else
        MUST(cu.cuMemFree(rows)); /* or right away */
    if (cufence_unpoison((void *)(uintptr_t)rows, ROW, NULL) == 0)
        return 6;
    return say("context", cu.cuCtxSynchronize()) == CUDA_SUCCESS ? 0 : 1;
}
