// Ends so many milliseconds after a faulty launch, without ever waiting for it.
#include "check.h"

#include <unistd.h>

enum { COUNT = 1024 };

__global__ void increment(float *numbers, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= count)         // the bug: i < count would be right
        numbers[i] += 1.0f; // FAULT
}

int main(int argc, char **argv)
{
    float *numbers;
    CALL(cudaMalloc(&numbers, COUNT * sizeof *numbers));
    CALL(cudaMemset(numbers, 0, COUNT * sizeof *numbers));
    CALL(cudaDeviceSynchronize());
    increment<<<COUNT / 128 + 1, 128>>>(numbers, COUNT);
    if (argc > 1)
        usleep(1000 * atoi(argv[1]));
    return 0;
}
