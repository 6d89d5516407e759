// Tens of thousands of buffers of 4 KiB, and one that takes half of the rest: natively 0.3 GiB and a large one, in whole pages
// more than any card has. Each is written and read, freed in an order of its own, and allocated again.
#include "check.h"

#include <vector>

enum { COUNT = 100000, NUMBERS = 1024 };

__global__ void write(unsigned **buffers, int count)
{
    for (int i = blockIdx.x; i < count; i += gridDim.x)
        for (int k = threadIdx.x; k < NUMBERS; k += blockDim.x)
            buffers[i][k] = (unsigned)(i * 31 + k);
}

__global__ void check(unsigned **buffers, int count, unsigned long long *right)
{
    for (int i = blockIdx.x; i < count; i += gridDim.x)
        for (int k = threadIdx.x; k < NUMBERS; k += blockDim.x)
            if (buffers[i][k] == (unsigned)(i * 31 + k))
                atomicAdd(right, 1ull);
}

static void use(const std::vector<unsigned *> &buffers)
{
    unsigned **table;
    unsigned long long *right, count = 0;
    CALL(cudaMalloc(&table, buffers.size() * sizeof *table));
    CALL(cudaMalloc(&right, sizeof *right));
    CALL(cudaMemset(right, 0, sizeof *right));
    CALL(cudaMemcpy(table, buffers.data(), buffers.size() * sizeof *table, cudaMemcpyHostToDevice));
    write<<<512, 256>>>(table, (int)buffers.size());
    check<<<512, 256>>>(table, (int)buffers.size(), right);
    CALL(cudaMemcpy(&count, right, sizeof count, cudaMemcpyDeviceToHost));
    EXPECT(count == (unsigned long long)buffers.size() * NUMBERS);
    CALL(cudaFree(table));
    CALL(cudaFree(right));
}

int main()
{
    std::vector<unsigned *> buffers(COUNT);
    cudaStream_t stream;
    CALL(cudaStreamCreate(&stream));
    for (int i = 0; i < COUNT; i++) {
        if (i % 2)
            CALL(cudaMalloc(&buffers[i], NUMBERS * sizeof(unsigned)));
        else
            CALL(cudaMallocAsync((void **)&buffers[i], NUMBERS * sizeof(unsigned), stream));
    }
    CALL(cudaStreamSynchronize(stream));
    use(buffers);
    printf("%d buffers are right\n", COUNT);
    for (int i = 0; i < COUNT; i += 3) // guarded ones and others, by both kinds of free
        CALL(i % 2 ? cudaFreeAsync(buffers[i], stream) : cudaFree(buffers[i]));
    for (int i = 0; i < COUNT; i += 3)
        CALL(cudaMalloc(&buffers[i], NUMBERS * sizeof(unsigned)));
    use(buffers);
    for (int i = 0; i < COUNT; i++)
        CALL(cudaFree(buffers[i]));
    char *large;
    size_t free_bytes, total;
    CALL(cudaMemGetInfo(&free_bytes, &total));
    CALL(cudaMalloc(&large, free_bytes / 2));
    CALL(cudaMemset(large, 1, free_bytes / 2));
    CALL(cudaDeviceSynchronize());
    CALL(cudaFree(large));
    printf("and once more\n");
    return 0;
}
