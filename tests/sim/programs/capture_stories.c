/* Stories about captures beside which something else happens, and about what a long life costs. */
#include "program.h"

#include <unistd.h>

#define BYTES 4096

static size_t last_nodes(CUstream stream, CUgraphNode *out, size_t most)
{
    CUstreamCaptureStatus status;
    const CUgraphNode *nodes = NULL;
    size_t count = 0;
    MUST(cu.cuStreamGetCaptureInfo(stream, &status, NULL, NULL, &nodes, NULL, &count));
    for (size_t i = 0; i < count && i < most; i++)
        out[i] = nodes[i];
    return count;
}

/* Ends while a stream captures, so nothing of ours can run any more. */
STORY(capture_at_end)
{
    CUdeviceptr buffer;
    start();
    MUST(cu.cuMemAlloc(&buffer, BYTES));
    MUST(cu.cuStreamBeginCapture(new_stream(), CU_STREAM_CAPTURE_MODE_RELAXED));
    return 0;
}

/* reordered set|add|none: the work on the first buffer is put aside, so that what comes next may run beside it; or something
 * more is waited for, and the order stays. */
STORY(reordered)
{
    const char *how = count > 2 ? arguments[2] : "none";
    CUdeviceptr kept, buffer, next;
    CUgraphNode before[4];
    CUgraph graph;
    start();
    CUstream stream = new_stream();
    MUST(cu.cuMemAlloc(&kept, BYTES));
    MUST(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(cu.cuMemsetD8Async(kept, 0, BYTES, stream));
    size_t nodes = last_nodes(stream, before, 4);
    MUST(cu.cuMemAllocAsync(&buffer, BYTES, stream));
    MUST(cu.cuMemsetD8Async(buffer, 1, BYTES, stream));
    MUST(cu.cuMemFreeAsync(buffer, stream));
    if (strcmp(how, "set") == 0)
        MUST(cu.cuStreamUpdateCaptureDependencies(stream, before, NULL, nodes, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    else if (strcmp(how, "add") == 0)
        MUST(cu.cuStreamUpdateCaptureDependencies(stream, before, NULL, nodes, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    MUST(cu.cuMemAllocAsync(&next, BYTES, stream));
    printf("%s: %s\n", how, next == buffer ? "the same memory" : "other memory");
    MUST(cu.cuMemFreeAsync(next, stream));
    MUST(cu.cuMemAllocAsync(&buffer, BYTES, stream));
    printf("once more: %s\n", next == buffer ? "the same memory" : "other memory");
    MUST(cu.cuMemsetD8Async(buffer, 2, BYTES, stream));
    MUST(cu.cuMemFreeAsync(buffer, stream));
    say("end", cu.cuStreamEndCapture(stream, &graph));
    return 0;
}

/* ---- the last release of a primary context, behind a kernel that faults ---- */

STORY(release)
{
    CUdeviceptr kept;
    start();
    CUstream stream = new_stream();
    MUST(cu.cuMemAlloc(&kept, BYTES));
    MUST(store(kept + BYTES, 1, stream));
    say("release", cu.cuDevicePrimaryCtxRelease(0));
    return 0;
}

/* ---- what a long life costs: memory that nobody asks for, a very large buffer, driver calls ---- */

/* ---- frees behind which no other free comes ---- */

/* unmarked age|stream: given back after a while, or of use to another stream. The background looks now and then. */
STORY(unmarked)
{
    int ages = count > 2 && strcmp(arguments[2], "age") == 0, is_found = 0;
    CUdeviceptr buffers[2], found;
    start();
    CUstream stream = new_stream(), other = new_stream();
    for (int i = 0; i < 2; i++)
        MUST(cu.cuMemAllocAsync(&buffers[i], BYTES, stream));
    for (int i = 0; i < 2; i++) /* the first free on a stream is marked at once, the second one is not */
        MUST(cu.cuMemFreeAsync(buffers[i], stream));
    MUST(cu.cuStreamSynchronize(stream));
    for (int tries = 0; tries < 1000 && !is_found; tries++) {
        if (ages) {
            is_found = stats_of_cufence().mapped_bytes == 0;
        } else {
            MUST(cu.cuMemAllocAsync(&found, BYTES, other));
            is_found = found == buffers[1];
        }
        usleep(10000);
    }
    printf("%s: %s\n", ages ? "given back" : "of use to another stream", is_found ? "yes" : "no");
    return 0;
}

/* ---- a very large buffer ---- */

STORY(tail)
{
    const size_t size = (size_t)40 << 30;
    CUdeviceptr buffer, small, base = 0;
    size_t found = 0;
    uint64_t number = 42, read = 0;
    start();
    MUST(cu.cuMemAlloc(&small, BYTES));
    MUST(cu.cuMemAlloc(&buffer, size));
    say("into the tail", cu.cuMemcpyHtoD(buffer + size - 8, &number, 8));
    MUST(cu.cuMemcpyDtoH(&read, buffer + size - 8, 8));
    printf("it holds %llu\n", (unsigned long long)read);
    MUST(cu.cuMemGetAddressRange(&base, &found, buffer + size - 1));
    printf("the last byte is one of %zu from %s\n", found, base == buffer ? "the first" : "elsewhere");
    MUST(cu.cuMemGetAddressRange(&base, &found, buffer + size / 2));
    printf("so is one in the middle: %s\n", base == buffer && found == size ? "yes" : "no");
    say("across the end", cu.cuMemcpyHtoD(buffer + size - 4, &number, 8));
    say("behind the end", cu.cuMemcpyHtoD(buffer + size + ((size_t)1 << 30), &number, 8));
    say("before the start", cu.cuMemcpyHtoD(buffer - 24, &number, 8));
    say("range behind the end", cu.cuMemGetAddressRange(&base, &found, buffer + size + ((size_t)1 << 30)));
    MUST(cu.cuMemFree(buffer));
    say("into freed memory", cu.cuMemcpyHtoD(buffer + size - 8, &number, 8));
    MUST(cu.cuMemFree(small));
    return 0;
}

/* ---- driver calls ---- */

/* The fewest driver calls that `PAIRS` allocations, and as many frees, take in any of many rounds: now and then there is a
 * marker, and the background has its own. */
static void count_calls(const char *which, CUstream stream)
{
    enum { PAIRS = 16, ROUNDS = 100 };
    uint64_t least[2] = {UINT64_MAX, UINT64_MAX};
    CUdeviceptr buffers[PAIRS];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t before = calls_of(NULL);
        for (int i = 0; i < PAIRS; i++)
            MUST(cu.cuMemAllocAsync(&buffers[i], BYTES, stream));
        uint64_t between = calls_of(NULL);
        for (int i = 0; i < PAIRS; i++)
            MUST(cu.cuMemFreeAsync(buffers[i], stream));
        uint64_t after = calls_of(NULL);
        least[0] = between - before < least[0] ? between - before : least[0];
        least[1] = after - between < least[1] ? after - between : least[1];
    }
    printf("%s: %g an allocation, %g a free\n", which, (double)least[0] / PAIRS, (double)least[1] / PAIRS);
}

/* call_counts [DEVICES]: on the last of them, after all have been used. */
STORY(call_counts)
{
    int devices = count > 2 ? atoi(arguments[2]) : 1;
    CUdeviceptr buffer;
    start();
    for (int device = 0; device < devices; device++) {
        use_device(device);
        MUST(cu.cuMemAllocAsync(&buffer, BYTES, NULL));
    }
    count_calls("legacy stream", NULL);
    count_calls("stream", new_stream());
    count_calls("per-thread stream", CU_STREAM_PER_THREAD);
    return 0;
}
