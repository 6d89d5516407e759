/*
 * A store past the end while every multiprocessor is full: measures the report of a large core dump. Not part of the build:
 *
 *   nvcc -arch=native -lineinfo -o full_device bench/full_device.cu
 *   build/bin/cufence run --set say=verbose -- ./full_device
 *
 * The line "core dump of N MiB: written in ..." shows where the time went.
 */
#include <cstdio>

__global__ void full(float *x, long n, int rounds)
{
    long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int round = 0; round < rounds; round++) {
        sum += x[(i + round * 31) % n];
        if (round == rounds / 2 && i == 5)
            x[n] = sum; /* one past the end */
    }
    x[i % n] = sum;
}

int main()
{
    const long n = 1 << 20;
    float *x;
    cudaMalloc(&x, n * sizeof *x);
    full<<<132 * 2 * 4, 1024>>>(x, n, 20000);
    std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    return 0;
}
