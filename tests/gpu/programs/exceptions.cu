// Exceptions that are not about an address in global memory, or whose warp has exited; and memory that a second launch has not.
//   exceptions trap|trap_last|assert|recursion|illegal|shared|misaligned|device_heap [fits]
#undef NDEBUG
#include "check.h"

#include <cassert>
#include <cstring>

__global__ void trap(int *out)
{
    if (threadIdx.x == 33)
        __trap(); // FAULT trap
    out[threadIdx.x] = 1;
}

/* Nothing is left of the launch when the driver looks. */
__global__ void trap_last(int *out)
{
    out[threadIdx.x] = 1;
    if (threadIdx.x == 1 && blockIdx.x == 1)
        __trap(); // FAULT trap_last
}

__global__ void fails(int *out)
{
    assert(threadIdx.x != 33); // FAULT assert
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

__global__ void illegal(int *out)
{
    unsigned mask = out[0] ? 1 : 0xfffffffe; // without lane 0, which runs it too
    if (threadIdx.x < 33)
        __syncwarp(mask); // FAULT illegal
    out[threadIdx.x] = 1;
}

__global__ void shared_store(int *out, int at)
{
    extern __shared__ int room[];
    room[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = room[threadIdx.x ^ 1];
    if (threadIdx.x == 33)
        *(volatile int *)&room[at] = 2; // FAULT shared
}

__global__ void misaligned(char *out)
{
    if (threadIdx.x == 33)
        *(volatile int *)(out + 65) = 2; // FAULT misaligned
}

/* There is not enough of the heap for all threads; in a second launch others may get it. */
__global__ void from_heap(int **where, int words)
{
    int *made = (int *)malloc(words * sizeof *made);
    made[7] = threadIdx.x; // FAULT device_heap
    where[blockIdx.x * blockDim.x + threadIdx.x] = made;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "trap";
    int *out;
    CALL(cudaMalloc(&out, 64 * sizeof *out));
    CALL(cudaMemset(out, 0, 64 * sizeof *out));
    if (!strcmp(what, "trap"))
        trap<<<1, 64>>>(out);
    else if (!strcmp(what, "trap_last"))
        trap_last<<<4, 64>>>(out);
    else if (!strcmp(what, "assert"))
        fails<<<1, 64>>>(out);
    else if (!strcmp(what, "illegal"))
        illegal<<<1, 64>>>(out);
    else if (!strcmp(what, "shared"))
        shared_store<<<1, 64, 64 * sizeof *out>>>(out, 1 << 20);
    else if (!strcmp(what, "misaligned"))
        misaligned<<<1, 64>>>((char *)out);
    else if (!strcmp(what, "device_heap")) {
        int **where;
        CALL(cudaMalloc(&where, 256 * sizeof *where));
        from_heap<<<2, 128>>>(where, argc > 2 ? 16 : 1 << 16);
    } else
        recursion<<<1, 64>>>(out, 1 << 20);
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorName(error));
    return error == cudaSuccess ? 0 : 1;
}
