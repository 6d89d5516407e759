/* Stories about writes that the hardware does not see: next to a buffer, and into poisoned bytes of one. */
#include "program.h"

#include <unistd.h>

static CUdeviceptr allocate(int is_async, size_t size, CUstream stream)
{
    CUdeviceptr address;
    if (is_async)
        MUST(cu.cuMemAllocAsync(&address, size, stream));
    else
        MUST(cu.cuMemAlloc(&address, size));
    return address;
}

/* beside plain|async OFFSET LAUNCHES: stores 4 bytes at this offset from a buffer of 1000, after that many launches that store
 * within it, and frees it. */
STORY(beside)
{
    int is_async = count > 2 && strcmp(arguments[2], "async") == 0;
    long offset = count > 3 ? strtol(arguments[3], NULL, 10) : -4, launches = count > 4 ? strtol(arguments[4], NULL, 10) : 0;
    CUstream stream = NULL;
    start();
    if (is_async)
        stream = new_stream();
    CUdeviceptr other = allocate(is_async, 1000, stream), address = allocate(is_async, 1000, stream);
    MUST(cu.cuCtxSynchronize()); /* the pattern is there, however busy the machine is */
    for (long i = 0; i < launches; i++)
        MUST(store(address + 4 * (CUdeviceptr)i, 7, stream));
    MUST(store(other, 7, stream));
    MUST(store(address + (CUdeviceptr)offset, 0x3f800000, stream)); /* 1.0f */
    MUST(is_async ? cu.cuMemFreeAsync(address, stream) : cu.cuMemFree(address));
    MUST(is_async ? cu.cuMemFreeAsync(other, stream) : cu.cuMemFree(other));
    return say("context", cu.cuCtxSynchronize()) == CUDA_SUCCESS ? 0 : 1;
}

/* beside_reset: stores in front of a live buffer, and resets the device before the end, as many programs do. */
STORY(beside_reset)
{
    start();
    CUdeviceptr address = allocate(0, 1000, NULL);
    MUST(cu.cuCtxSynchronize());
    MUST(store(address - 4, 0x3f800000, NULL));
    return say("reset", cu.cuDevicePrimaryCtxReset(0)) == CUDA_SUCCESS ? 0 : 1;
}

/* beside_one N: of forty buffers of one place, one after the other, stores behind the Nth. */
STORY(beside_one)
{
    const long wrong = count > 2 ? strtol(arguments[2], NULL, 10) : -1;
    start();
    for (long i = 0; i < 40; i++) {
        CUdeviceptr address = allocate(0, 1000, NULL);
        MUST(cu.cuCtxSynchronize());
        MUST(store(address + (i == wrong ? 1000 : 0), 7, NULL));
        MUST(cu.cuCtxSynchronize());
        MUST(cu.cuMemFree(address));
        usleep(5000); /* the background thread unmaps some */
    }
    return 0;
}

/* How often a stream says that it is busy after it was synchronised with, while cufence has checks to launch. */
static unsigned long times_busy(CUstream stream)
{
    CUdeviceptr live[8], freed;
    unsigned long busy = 0;
    for (unsigned round = 0; round < 8; round++) {
        live[round] = allocate(1, 1000 + 1000 * round, stream);
        freed = allocate(1, 100000, stream);
        MUST(cu.cuMemFreeAsync(freed, stream));
        MUST(cu.cuStreamSynchronize(stream));
        for (unsigned asked = 0; asked < 3000; asked++) {
            busy += cu.cuStreamQuery(stream) != CUDA_SUCCESS;
            usleep(1);
        }
    }
    for (unsigned round = 0; round < 8; round++)
        MUST(cu.cuMemFreeAsync(live[round], stream));
    return busy;
}

/* idle: a stream that was synchronised with is idle. A loaded machine can hold up the simulated device, so it has some tries.
 */
STORY(idle)
{
    int is_often = 1;
    start();
    CUstream stream = new_stream();
    for (int tries = 0; tries < 10 && is_often; tries++)
        is_often = times_busy(stream) > 2;
    printf("busy: %s\n", is_often ? "often" : "hardly ever");
    return 0;
}

/* ---- bytes of a buffer that the program poisons where it runs under cufence ---- */

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

/* late poison|copy|slack: a row is written while it is poisoned, by a launch that was made before, on another stream, or by the
 * host; or in front of a buffer, by a launch that was given the one before it in the memory. */
STORY(late)
{
    static uint32_t flag;
    start();
    int is_slack = count > 2 && strcmp(arguments[2], "slack") == 0, is_copy = count > 2 && strcmp(arguments[2], "copy") == 0;
    CUstream own = new_stream(), other = new_stream();
    CUdeviceptr row = allocate(is_slack, ROW, own);
    spin(&flag, other);
    if (!is_copy)
        MUST(store(is_slack ? row - 4 : row + 12, 0x3f800000, other));
    if (is_slack) {
        MUST(cu.cuMemFreeAsync(row, own));
        usleep(30000); /* the clock of launches ticks */
        row = allocate(1, ROW - 100, own);
    }
    MUST(store(row + 16, 7, own));
    if (!is_slack && cufence_poison((void *)(uintptr_t)row, ROW, own) != 0)
        return 3;
    MUST(cu.cuStreamSynchronize(own));
    let_go(&flag);
    MUST(cu.cuStreamSynchronize(other));
    if (is_copy)
        MUST(cu.cuMemcpyHtoD(row + 12, &(int){7}, 4));
    if (is_slack)
        MUST(cu.cuMemFreeAsync(row, own));
    else if (cufence_unpoison((void *)(uintptr_t)row, ROW, own) != 0)
        return 4;
    return say("context", cu.cuCtxSynchronize()) == CUDA_SUCCESS ? 0 : 1;
}
