// Allocates until nothing is left, frees, and goes on.
#include "check.h"

enum { MOST = 1024 };
static const size_t chunk = (size_t)1 << 30;

__global__ void fill(unsigned *out, size_t count)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        out[i] = (unsigned)i;
}

int main()
{
    static unsigned *chunks[MOST];
    int count = 0;
    cudaError_t error = cudaSuccess;
    while (count < MOST && (error = cudaMalloc(&chunks[count], chunk)) == cudaSuccess)
        count++;
    printf("%d GiB, then %s\n", count, cudaGetErrorName(error));
    EXPECT(error == cudaErrorMemoryAllocation && count > 1);
    EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
    EXPECT(cudaGetLastError() == cudaSuccess); // it is not sticky

    for (int i = 0; i < count; i++)
        CALL(cudaFree(chunks[i]));
    unsigned *large, last = 0;
    size_t numbers = (size_t)(count / 2) * chunk / sizeof *large;
    CALL(cudaMalloc(&large, numbers * sizeof *large));
    fill<<<1024, 256>>>(large, numbers);
    CALL(cudaMemcpy(&last, large + numbers - 1, sizeof last, cudaMemcpyDeviceToHost));
    EXPECT(last == (unsigned)(numbers - 1));
    CALL(cudaFree(large));
    printf("recovered\n");
    return 0;
}
