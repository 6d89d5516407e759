// Pinned memory and asynchronous copies: again | event | freed | waited
//   again    one staging buffer is filled again without a wait, so what arrives may be the next round's
//   event    the same with a wait for an event behind each copy
//   freed    a result's memory is freed while the copy to it may be under way
//   waited   it is freed behind it
#include "check.h"

#include <cstring>

enum { COUNT = 1 << 20, ROUNDS = 4 };

__global__ void sum_up(const int *values, unsigned long long *sum)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < COUNT; i += gridDim.x * blockDim.x)
        atomicAdd(sum, (unsigned long long)values[i]);
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "event";
    bool waits = !strcmp(what, "event") || !strcmp(what, "waited"), frees = !strcmp(what, "freed") || !strcmp(what, "waited");
    int *staging, *values;
    unsigned long long *sums, *result;
    cudaStream_t stream;
    cudaEvent_t copied;
    CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CALL(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
    CALL(cudaMallocHost(&staging, COUNT * sizeof *staging));
    CALL(cudaMallocHost(&result, ROUNDS * sizeof *result));
    CALL(cudaMalloc(&values, COUNT * sizeof *values));
    CALL(cudaMalloc(&sums, ROUNDS * sizeof *sums));
    CALL(cudaMemset(sums, 0, ROUNDS * sizeof *sums));
    for (int round = 0; round < ROUNDS && !frees; round++) {
        for (int i = 0; i < COUNT; i++)
            staging[i] = round + 1;
        CALL(cudaMemcpyAsync(values, staging, COUNT * sizeof *values, cudaMemcpyHostToDevice, stream)); // FAULT again
        CALL(cudaEventRecord(copied, stream));
        sum_up<<<64, 256, 0, stream>>>(values, &sums[round]);
        if (waits)
            CALL(cudaEventSynchronize(copied));
    }
    CALL(cudaMemcpyAsync(result, sums, ROUNDS * sizeof *sums, cudaMemcpyDeviceToHost, stream));
    if (waits)
        CALL(cudaStreamSynchronize(stream));
    if (frees)
        CALL(cudaFreeHost(result)); // FAULT freed
    CALL(cudaStreamSynchronize(stream));
    for (int round = 0; round < ROUNDS && !frees && waits; round++)
        EXPECT(result[round] == (unsigned long long)COUNT * (round + 1));
    printf("done\n");
    return 0;
}
