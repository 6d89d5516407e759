// Exceptions that are not about memory.
//   exceptions trap|assert|recursion
#undef NDEBUG
#include "check.h"

#include <cassert>
#include <cstring>

__global__ void trap(int *out)
{
    if (threadIdx.x == 33)
        __trap();
    out[threadIdx.x] = 1;
}

__global__ void fails(int *out)
{
    assert(threadIdx.x != 33);
    out[threadIdx.x] = 1;
}

__device__ __noinline__ int down(int depth, volatile int *out)
{
    volatile int room[256];
    room[depth % 256] = depth;
    return depth ? down(depth - 1, out) + room[(depth + 1) % 256] : *out;
}

__global__ void recursion(int *out, int depth)
{
    out[threadIdx.x] = down(depth, out);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "trap";
    int *out;
    CALL(cudaMalloc(&out, 64 * sizeof *out));
    CALL(cudaMemset(out, 0, 64 * sizeof *out));
    if (!strcmp(what, "trap"))
        trap<<<1, 64>>>(out);
    else if (!strcmp(what, "assert"))
        fails<<<1, 64>>>(out);
    else
        recursion<<<1, 64>>>(out, 1 << 20);
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorName(error));
    return error == cudaSuccess ? 0 : 1;
}
