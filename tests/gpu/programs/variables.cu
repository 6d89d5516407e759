// The address of a store beyond the end of a buffer comes from a variable of the module.
//   variables device|constant|kernel|unset|struct|value
#include "check.h"

#include <cstring>

enum { COUNT = 1000, BLOCK = 128, BLOCKS = 8 };

struct state {
    long version;
    float *out;
    int n;
};

__device__ float *target;
__device__ struct state held;
__constant__ float *table[2];
__device__ int extra = 7; // has a value from the start
__device__ int *inner = &extra;

__global__ void by_variable(int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        target[i] = 2.5f; // FAULT by_variable
}

__global__ void by_struct()
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= held.n)
        held.out[i] = 2.5f; // FAULT by_struct
}

__global__ void by_constant(int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        table[1][i] = 2.5f; // FAULT by_constant
}

/* Goes too far only if `extra` is still what the program has made of it. */
__global__ void by_value(float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= COUNT - 5 + *inner)
        out[i] = 2.5f; // FAULT by_value
}

__global__ void set(float *out)
{
    target = out;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "device";
    float *out;
    CALL(cudaMalloc(&out, COUNT * sizeof *out));
    CALL(cudaMemset(out, 0, COUNT * sizeof *out));
    if (!strcmp(what, "device"))
        CALL(cudaMemcpyToSymbol(target, &out, sizeof out));
    if (!strcmp(what, "kernel"))
        set<<<1, 1>>>(out);
    if (!strcmp(what, "constant")) {
        CALL(cudaMemcpyToSymbol(table, &out, sizeof out, sizeof out));
        by_constant<<<BLOCKS, BLOCK>>>(COUNT);
    } else if (!strcmp(what, "value")) {
        int five = 5;
        CALL(cudaMemcpyToSymbol(extra, &five, sizeof five));
        by_value<<<BLOCKS, BLOCK>>>(out);
    } else if (!strcmp(what, "struct")) {
        struct state state = {1, out, COUNT};
        CALL(cudaMemcpyToSymbol(held, &state, sizeof state));
        by_struct<<<BLOCKS, BLOCK>>>();
    } else {
        by_variable<<<BLOCKS, BLOCK>>>(COUNT);
    }
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorName(error));
    return error == cudaSuccess ? 0 : 1;
}
