// Bugs inside kernels, for tests/gpu/deep.py: no access leaves a buffer. `deep KIND`:
//   race     a thread reads what its neighbour writes into shared memory, without a barrier
//   fresh    a sum of memory of which nobody has written the second half
//   clean    the same kernels with their barrier, and all of the memory written
#include "check.h"

#include <cstring>

enum { COUNT = 4096, BLOCK = 256 };

__global__ void shift(float *to, int has_barrier)
{
    __shared__ float row[BLOCK];
    row[threadIdx.x] = (float)threadIdx.x;
    if (has_barrier)
        __syncthreads();
    to[blockIdx.x * BLOCK + threadIdx.x] = row[(threadIdx.x + 33) % BLOCK];
}

__global__ void add(const float *from, float *to)
{
    int i = blockIdx.x * BLOCK + threadIdx.x;
    to[i] += from[i];
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "clean";
    float *from, *to;
    CALL(cudaMalloc(&from, COUNT * sizeof *from));
    CALL(cudaMalloc(&to, COUNT * sizeof *to));
    CALL(cudaMemset(to, 0, COUNT * sizeof *to));
    CALL(cudaMemset(from, 0, COUNT * sizeof *from / (strcmp(kind, "fresh") ? 1 : 2)));
    for (int i = 0; i < 3; i++) {
        shift<<<COUNT / BLOCK, BLOCK>>>(to, strcmp(kind, "race") != 0);
        add<<<COUNT / BLOCK, BLOCK>>>(from, to);
    }
    CALL(cudaDeviceSynchronize());
    return 0;
}
