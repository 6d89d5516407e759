// Copies between two GPUs, before either may touch the other's memory and after, and a kernel that reads the other's.
#include "check.h"

enum { COUNT = 1000 };

__global__ void fill(int *numbers, int first)
{
    if (threadIdx.x < COUNT)
        numbers[threadIdx.x] = first + (int)threadIdx.x;
}

__global__ void add(int *numbers, const int *others)
{
    if (threadIdx.x < COUNT)
        numbers[threadIdx.x] += others[threadIdx.x];
}

static int *numbers[2];

/* Whether number i of device 1 is wanted + factor * i; sets them to something else. */
static void check(const char *what, int wanted, int factor)
{
    static int host[COUNT];
    cudaError_t error = cudaDeviceSynchronize();
    CALL(cudaSetDevice(1));
    if (error == cudaSuccess)
        error = cudaMemcpy(host, numbers[1], sizeof host, cudaMemcpyDeviceToHost);
    int is_right = 1;
    for (int i = 0; i < COUNT; i++)
        is_right &= host[i] == wanted + factor * i;
    printf("%s: %s, %s\n", what, cudaGetErrorName(error), is_right ? "right" : "wrong");
    CALL(cudaMemset(numbers[1], 0xff, sizeof host));
    CALL(cudaDeviceSynchronize());
    CALL(cudaSetDevice(0));
}

static void copy_all_ways(const char *when)
{
    const size_t bytes = COUNT * sizeof(int);
    printf("%s\n", when);
    cudaError_t error = cudaMemcpyPeer(numbers[1], 1, numbers[0], 0, bytes);
    check("cudaMemcpyPeer", 5, error == cudaSuccess);
    error = cudaMemcpyPeerAsync(numbers[1], 1, numbers[0], 0, bytes, NULL);
    check("cudaMemcpyPeerAsync", 5, error == cudaSuccess);
    error = cudaMemcpy(numbers[1], numbers[0], bytes, cudaMemcpyDeviceToDevice);
    check("cudaMemcpy", 5, error == cudaSuccess);
    error = cudaMemcpyAsync(numbers[1], numbers[0], bytes, cudaMemcpyDefault, NULL);
    check("cudaMemcpyAsync", 5, error == cudaSuccess);
    error = cudaMemcpy2D(numbers[1], 40, numbers[0], 40, 40, COUNT / 10, cudaMemcpyDefault);
    check("cudaMemcpy2D", 5, error == cudaSuccess);
}

int main(void)
{
    for (int device = 0; device < 2; device++) {
        CALL(cudaSetDevice(device));
        CALL(cudaMalloc(&numbers[device], COUNT * sizeof(int)));
        fill<<<1, 1024>>>(numbers[device], 5);
        CALL(cudaDeviceSynchronize());
    }
    CALL(cudaSetDevice(0));
    copy_all_ways("no access");
    CALL(cudaDeviceEnablePeerAccess(1, 0));
    CALL(cudaSetDevice(1));
    CALL(cudaDeviceEnablePeerAccess(0, 0));
    CALL(cudaSetDevice(0));
    copy_all_ways("access");
    CALL(cudaSetDevice(1));
    fill<<<1, 1024>>>(numbers[1], 1);
    add<<<1, 1024>>>(numbers[1], numbers[0]);
    check("a kernel", 6, 2);
    return 0;
}
