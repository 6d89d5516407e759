// Programs that hang, and twins that are merely slow: stuck NAME [slow]. One that hangs is given up after some seconds.
#include "check.h"

#include <cooperative_groups.h>
#include <cstring>
#include <thread>
#include <unistd.h>

__device__ int work(long rounds)
{
    unsigned value = threadIdx.x;
    for (long i = 0; i < rounds; i++)
        value = value * 1664525u + 1013904223u;
    return (int)value;
}

// Half of the block waits at a barrier inside a branch, the other half for what comes after it.
__global__ void barrier_in_branch(int *out, int is_slow, long rounds)
{
    __shared__ volatile int ready;
    if (threadIdx.x == 0)
        ready = 0;
    __syncthreads();
    if (threadIdx.x < 64) {
        out[threadIdx.x] = work(rounds);
        __syncthreads(); // BARRIER
        ready = 1;
    } else {
        if (is_slow)
            __syncthreads();
        while (ready == 0) // BRANCH
            ;
    }
    out[threadIdx.x] = 1;
}

// All blocks wait for the last one, which has no room while they are there.
__global__ void wait_for_last_block(volatile int *flag, int *out, long rounds)
{
    if (blockIdx.x == gridDim.x - 1) {
        if (threadIdx.x == 0) {
            out[0] = work(rounds);
            __threadfence();
            *flag = 1;
        }
    } else {
        if (threadIdx.x == 0)
            while (*flag == 0) // GRID
                ;
        __syncthreads();
    }
    out[threadIdx.x] = 1;
}

__global__ void wait_for_host(volatile int *flag, int *out)
{
    if (threadIdx.x == 0)
        while (*flag != 1) // HOSTFLAG
            ;
    __syncthreads();
    out[threadIdx.x] = 1;
}

__global__ void left_waits(volatile int *left, volatile int *right, int *out)
{
    if (threadIdx.x == 0) {
        while (*right == 0) // STREAMS
            ;
        *left = 1;
    }
    __syncthreads();
    out[threadIdx.x] = 1;
}

__global__ void right_waits(volatile int *left, volatile int *right, int *out, int is_slow, long rounds)
{
    if (threadIdx.x == 0) {
        if (is_slow) {
            out[64] = work(rounds);
            *right = 1;
        }
        while (*left == 0)
            ;
        *right = 1;
    }
    __syncthreads();
    out[threadIdx.x] = 1;
}

__global__ void all_blocks_meet(int *out, unsigned missing, long rounds)
{
    if (blockIdx.x == missing)
        return;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        out[64] = work(rounds);
    cooperative_groups::this_grid().sync(); // COOP
    out[threadIdx.x] = 1;
}

static void launch(const char *name, bool is_slow, int *flags, int *host, int *out)
{
    const long rounds = is_slow ? 300000000l : 0; // 0.7 s: others may use the GPU, and the limit is 3 s
    int processors;
    unsigned missing = is_slow ? 99 : 5;
    cudaStream_t streams[2];
    void *arguments[] = {&out, &missing, (void *)&rounds};
    cudaFuncAttributes loaded; // a kernel that is loaded only when it is launched waits for those that run
    CALL(cudaFuncGetAttributes(&loaded, right_waits));
    CALL(cudaFuncGetAttributes(&loaded, left_waits));
    CALL(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    CALL(cudaFuncSetAttribute(wait_for_last_block, cudaFuncAttributeMaxDynamicSharedMemorySize, 128 << 10));
    for (cudaStream_t &stream : streams)
        CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (!strcmp(name, "branch"))
        barrier_in_branch<<<2, 128>>>(out, is_slow, rounds);
    else if (!strcmp(name, "grid"))
        wait_for_last_block<<<is_slow ? processors : processors + 1, 64, 128 << 10>>>(flags + 16, out, rounds);
    else if (!strcmp(name, "hostflag"))
        wait_for_host<<<1, 128>>>(host + 3, out);
    else if (!strcmp(name, "coop"))
        CALL(cudaLaunchCooperativeKernel((void *)all_blocks_meet, dim3(8), dim3(64), arguments, 0, 0));
    else
        EXPECT(!strcmp(name, "streams"));
    if (!strcmp(name, "streams")) {
        left_waits<<<1, 64, 0, streams[0]>>>(flags, flags + 1, out);
        right_waits<<<1, 64, 0, streams[1]>>>(flags, flags + 1, out, is_slow, rounds);
    }
    CALL(cudaGetLastError());
}

static void give_up()
{
    sleep(45); // the driver may take its time, with other programs on the GPU
    puts("given up");
    fflush(stdout);
    _exit(3);
}

int main(int argc, char **argv)
{
    const bool is_slow = argc > 2;
    int *flags, *host, *out, seen[64];
    EXPECT(argc > 1);
    CALL(cudaMalloc(&flags, 4096));
    CALL(cudaMalloc(&out, 4096));
    CALL(cudaMemset(flags, 0, 4096));
    CALL(cudaMemset(out, 0, 4096));
    CALL(cudaMallocHost(&host, 4096));
    memset(host, 0, 4096);
    CALL(cudaDeviceSynchronize());
    launch(argv[1], is_slow, flags, host, out);
    puts("launched");
    fflush(stdout);
    std::thread(give_up).detach();
    if (is_slow && !strcmp(argv[1], "hostflag")) {
        sleep(1);
        *(volatile int *)(host + 3) = 1;
    }
    CALL(cudaDeviceSynchronize());
    CALL(cudaMemcpy(seen, out, sizeof seen, cudaMemcpyDeviceToHost));
    for (int i = 1; i < 64; i++)
        EXPECT(seen[i] == 1);
    puts("right");
    return 0;
}
