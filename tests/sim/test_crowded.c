/* A device whose every slot is taken by kernels of the program that wait for each other, and for the host: cufence's own
 * kernels begin only when those have ended. Until then nobody may wait for them, and nothing may go wrong with memory that they
 * are to check. */
#include "pokes.h"

#include <time.h>

enum { BUFFERS = 60, ROUNDS = 4 };

static uint32_t room, go, met[2];

/* meet(int self): tells the other one, and ends when both are there and the host has said so. */
static void meet(const cusim_thread *thread, void *const *arguments)
{
    int self = *(const int *)arguments[0];
    if (thread->thread_index[0])
        return;
    __atomic_store_n(&met[self], 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&met[!self], __ATOMIC_ACQUIRE) || !__atomic_load_n(&go, __ATOMIC_ACQUIRE))
        usleep(100);
}

static void launch_meeting(CUstream streams[2])
{
    static const size_t bytes[] = {4};
    const cusim_kernel kernel = {.name = "meet", .function = meet, .argument_bytes = bytes, .argument_count = 1};
    CUmodule module;
    CUfunction found;
    cusim_register_kernel(&kernel);
    CHECK_CU(cuModuleLoadData(&module, "any"));
    CHECK_CU(cuModuleGetFunction(&found, module, "meet"));
    for (int self = 0; self < 2; self++) {
        void *arguments[] = {&self};
        CHECK_CU(cuLaunchKernel(found, 1, 1, 1, 1, 1, 1, 0, streams[self], arguments, NULL));
    }
}

static size_t size_of(int buffer)
{
    return buffer % 3 ? 100 + 13 * (size_t)buffer : 2 * MIB + (size_t)buffer;
}

/* What the program does beside its kernels: nothing that waits for the device. */
static void allocate_and_free(CUstream *streams)
{
    static char *buffers[BUFFERS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BUFFERS; i++) {
            buffers[i] = allocate(size_of(i), streams[i % 3]);
            CHECK_CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)buffers[i], 1, size_of(i), streams[i % 3]));
        }
        for (int i = 0; i < BUFFERS; i++) {
            if (i % 5 == 0) /* freed on another stream than the one that uses it */
                CHECK_OK(cufence_record_stream(buffers[i], streams[i % 3]));
            release(buffers[i], streams[i % 5 ? i % 3 : (i + 1) % 3]);
        }
    }
}

/* Whether the set has reached both ends of the buffer, and nothing has come behind it: cufence writes there or everywhere. */
static int is_set(char *buffer, size_t size, CUstream stream)
{
    size_t end = size < 8192 ? size / 2 : 4096;
    return sum_at(buffer, end, stream) == end && sum_at(buffer + size - end, end, stream) == end;
}

static void crowded(const char *figures, const char *options)
{
    enum { KEPT = 20 };
    char *kept[KEPT];
    tune(figures);
    start(options);
    CUstream streams[] = {new_stream(), new_stream(), new_stream()};
    allocate_and_free(streams); /* cufence's kernels are loaded by now */
    for (int i = 0; i < KEPT; i++)
        kept[i] = allocate(size_of(i), streams[2]);
    CHECK_CU(cuCtxSynchronize());
    launch_meeting(streams);
    cusim_hold_own(&room);
    for (int i = 0; i < KEPT; i++)
        CHECK_CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)kept[i], 1, size_of(i), streams[2]));
    time_t began = time(NULL);
    allocate_and_free(streams);
    CHECK(time(NULL) - began < 9); /* a wait for one of cufence's kernels takes 10 s */
    CHECK(cuStreamQuery(streams[0]) == CUDA_ERROR_NOT_READY && cuStreamQuery(streams[1]) == CUDA_ERROR_NOT_READY);
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    AWAIT(__atomic_load_n(&met[0], __ATOMIC_ACQUIRE) && __atomic_load_n(&met[1], __ATOMIC_ACQUIRE));
    __atomic_store_n(&room, 1, __ATOMIC_RELEASE);
    CHECK_CU(cuCtxSynchronize());
    for (int i = 0; i < KEPT; i++)
        CHECK(is_set(kept[i], size_of(i), streams[2]));
    if (strstr(options, "slack=on"))
        CHECK(cufence_check(0) == 0);
    CHECK(cufence_fault_count() == 0);
}

#define CROWDED(name, figures, options)                                                                                        \
    STORY(name)                                                                                                                \
    {                                                                                                                          \
        crowded(figures, options);                                                                                             \
    }
CROWDED(watched, "slack_every=1", "slack=on")
CROWDED(by_default, "", "")
CROWDED(strict, "slack_every=2", "slack=on,uaf=strict")
CROWDED(packed, "slack_every=1", "small=pack")
CROWDED(adaptive, "uaf_share=100,idle_age=1", "slack=on")
CROWDED(filled, "slack_every=3", "slack=on,fill=0x5a/0xa5")
