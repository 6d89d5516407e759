/*
 * A CUDA program with a bug, which knows nothing of cufence. A row of a matrix is shifted by one column; the last thread of the
 * last row writes behind the buffer. Without cufence it prints "done": those 4 bytes are mapped too, or another buffer's.
 *
 *     nvcc -lineinfo -o fault fault.cu
 *     cufence run ./fault
 */
#include <cstdio>

#include <cuda_runtime.h>

enum { ROWS = 25, COLUMNS = 40 };

__global__ void shift(const float *in, float *out)
{
    int i = blockIdx.x * COLUMNS + threadIdx.x;
    out[i + 1] = in[i]; // FAULT: for i + 1 < ROWS * COLUMNS only
}

int main()
{
    float *in, *out;
    if (cudaMalloc(&in, ROWS * COLUMNS * sizeof *in) != cudaSuccess ||
        cudaMalloc(&out, ROWS * COLUMNS * sizeof *out) != cudaSuccess)
        return 2;
    cudaMemset(in, 0, ROWS * COLUMNS * sizeof *in);
    shift<<<ROWS, COLUMNS>>>(in, out);
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s\n", error == cudaSuccess ? "done" : cudaGetErrorString(error));
    return error == cudaSuccess ? 0 : 1;
}
