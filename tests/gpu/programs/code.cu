// Compiled to different kinds of images: code_ptx, code_zstd and code_lz4. A kernel is given memory that nobody has written,
// and that holds a NaN of an earlier buffer. The first launch, which leaves it alone, does not count as one that has written
// it, because the code tells that it only reads it; the types do not.
#include "check.h"

#include <cmath>
#include <vector>

enum { COUNT = 10000, BLOCK = 128, AT = 4170 };
#define GRID ((COUNT + BLOCK - 1) / BLOCK), BLOCK

__global__ void negate(float *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = -in[i];
}

int main()
{
    std::vector<float> host(COUNT, 2.0f);
    float *before, *in, *out, *more;
    host[AT] = NAN;
    CALL(cudaMalloc(&before, COUNT * sizeof *before));
    CALL(cudaMemcpy(before, host.data(), COUNT * sizeof *before, cudaMemcpyHostToDevice));
    CALL(cudaFree(before));
    CALL(cudaMalloc(&in, COUNT * sizeof *in));
    if (in != before)
        return printf("the memory of the earlier buffer was not used again\n"), 3;
    CALL(cudaMalloc(&out, COUNT * sizeof *out));
    CALL(cudaMalloc(&more, COUNT * sizeof *more));
    negate<<<GRID>>>(in, out, 0);
    negate<<<GRID>>>(in, more, COUNT);
    CALL(cudaDeviceSynchronize());
    printf("done\n");
}
