// A kernel whose only pointer argument is a table of pointers, and which writes past the end of what the second one points to.
#include "check.h"

enum { COUNT = 1000 };

__global__ void fill(float *const *table, int count)
{
    float *out = table[1];
    if (threadIdx.x <= count)
        out[threadIdx.x] = 1; // FAULT
}

int main()
{
    float *pointers[2], **table;
    for (int i = 0; i < 2; i++)
        CALL(cudaMalloc(&pointers[i], COUNT * sizeof **pointers));
    CALL(cudaMalloc(&table, sizeof pointers));
    CALL(cudaMemcpy(table, pointers, sizeof pointers, cudaMemcpyHostToDevice));
    fill<<<1, 1024>>>(table, COUNT);
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorName(error));
    return error == cudaSuccess ? 0 : 1;
}
