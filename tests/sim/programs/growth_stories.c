/* Stories about what a long life costs: streams and threads that come and go, memory that nobody asks for, driver calls. */
#include "program.h"

#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#define BYTES 4096

static CUcontext context;

/* Of the host, in use. Nothing under a sanitizer, which has an allocator of its own. */
static size_t host_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void use_a_stream(void)
{
    CUdeviceptr buffer;
    CUstream stream = new_stream();
    MUST(cu.cuMemAllocAsync(&buffer, BYTES, stream));
    MUST(cu.cuMemFreeAsync(buffer, stream));
    MUST(cu.cuStreamSynchronize(stream));
    MUST(cu.cuStreamDestroy(stream));
}

static CUdeviceptr permanent;

static void *use_own_stream(void *allocates)
{
    CUdeviceptr buffer;
    MUST(cu.cuCtxSetCurrent(context));
    MUST(cu.cuMemsetD8Async(permanent, 1, BYTES, CU_STREAM_PER_THREAD));
    if (allocates != NULL) {
        MUST(cu.cuMemAllocAsync(&buffer, BYTES, CU_STREAM_PER_THREAD));
        MUST(cu.cuMemFreeAsync(buffer, CU_STREAM_PER_THREAD));
    }
    MUST(cu.cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return NULL;
}

static void run_thread(void *allocates)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, use_own_stream, allocates) == 0)
        pthread_join(thread, NULL);
}

static void use_a_thread(void)
{
    run_thread(&context);
}

/* What the device keeps of a thread's stream. */
static void use_a_thread_without_memory(void)
{
    run_thread(NULL);
}

#define LITTLE 700u /* bytes: what a simulated thread's stream has used takes about 600 */

/* Bytes of the host that are kept for each of many, one after the other; what the first hundred leave is there for good. On a
 * busy machine the background thread gives some back a while later: as long as there are more than `most`, it is waited for. */
static size_t kept_for_each(void (*use)(void), int many, size_t most)
{
    for (int i = 0; i < 100; i++)
        use();
    size_t before = host_bytes();
    for (int i = 0; i < many; i++)
        use();
    size_t after = host_bytes();
    for (int waits = 0; waits < 300 && most < SIZE_MAX && after > before + most * (size_t)many; waits++) {
        usleep(100000);
        after = host_bytes();
    }
    return after > before ? (after - before) / (size_t)many : 0;
}

static void say_kept(size_t bytes, uint64_t mapped)
{
    if (bytes > LITTLE)
        printf("%zu bytes of the host's memory are kept for each\n", bytes);
    else
        puts("little of the host's memory is kept");
    if (mapped > 100) /* of thousands; on a busy machine some are needed before others are given back */
        printf("%llu pieces of the device's memory were taken\n", (unsigned long long)mapped);
    else
        puts("little of the device's memory is taken");
}

STORY(many_streams)
{
    start();
    size_t kept = kept_for_each(use_a_stream, count > 2 ? atoi(arguments[2]) : 1, LITTLE);
    say_kept(kept, calls_of("cuMemCreate"));
    return 0;
}

STORY(many_threads)
{
    int many = count > 2 ? atoi(arguments[2]) : 1;
    start();
    MUST(cu.cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cu.cuMemAlloc(&permanent, BYTES));
    size_t without = kept_for_each(use_a_thread_without_memory, many, SIZE_MAX);
    size_t with = kept_for_each(use_a_thread, many, without + LITTLE);
    say_kept(with > without ? with - without : 0, calls_of("cuMemCreate"));
    return 0;
}

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
