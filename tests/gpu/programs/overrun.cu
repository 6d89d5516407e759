// Each element is added to the one behind it, also the last one. With an argument it ends well whatever has happened.
#include "check.h"

enum { COUNT = 1000, BLOCK = 128 };

__global__ void add_next(const float *in, float *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float next = in[i + 1]; // FAULT
    out[i] = in[i] + next;
}

int main(int argc, char **)
{
    float *in, *out;
    CALL(cudaMalloc(&in, COUNT * sizeof *in));
    CALL(cudaMalloc(&out, COUNT * sizeof *out));
    CALL(cudaMemset(in, 0, COUNT * sizeof *in));
    add_next<<<(COUNT + BLOCK - 1) / BLOCK, BLOCK>>>(in, out, COUNT);
    cudaError_t error = cudaDeviceSynchronize();
    printf("cudaDeviceSynchronize: %s\n", cudaGetErrorName(error));
    printf("cudaGetLastError: %s\n", cudaGetErrorName(cudaGetLastError()));
    return error == cudaSuccess || argc > 1 ? 0 : 1;
}
