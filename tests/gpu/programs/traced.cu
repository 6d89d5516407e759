// Launches whose results may differ from run to run, for tests/gpu/traces.py. `traced KIND`:
//   plain      nothing differs          race      many blocks write one place
//   constant   another scalar           atomic    many blocks add to one float
//   kernel     another kernel           copy      other data from the host
// What KIND changes follows the environment variable VARIANT (0 or 1); race and atomic differ by themselves.
#include "check.h"

#include <cstring>

enum { COUNT = 1 << 20, STEPS = 3 };

__global__ void scale(const float *from, float *to, int count, float factor)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        to[i] = from[i] * factor;
}

__global__ void scale_twice(const float *from, float *to, int count, float factor)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        to[i] = from[i] * factor;
}

__global__ void race(float *to, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < 16; k++)
        to[(i * 37 + k * 4099) % (count / 64)] = i; // RACE: who comes last?
}

__global__ void sum(const float *from, float *to, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        atomicAdd(to, from[i]); // ATOMIC: in which order?
}

int main(int count, char **arguments)
{
    static float numbers[COUNT];
    const char *kind = count > 1 ? arguments[1] : "plain", *variant = getenv("VARIANT");
    bool is_other = variant && atoi(variant);
    float *a, *b, *c;
    void *gone;
    cudaStream_t stream;
    for (int i = 0; i < COUNT; i++)
        numbers[i] = 0.001f * static_cast<float>(i % 1013) * (i % 3 ? 1.0f : 1e4f);
    if (!strcmp(kind, "copy") && is_other)
        numbers[12345] += 1;
    if (is_other) // other addresses
        CALL(cudaMalloc(&gone, 12345678));
    CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CALL(cudaMalloc(&a, sizeof numbers));
    CALL(cudaMalloc(&b, sizeof numbers));
    CALL(cudaMalloc(&c, 64));
    CALL(cudaMemcpyAsync(a, numbers, sizeof numbers, cudaMemcpyHostToDevice, stream));
    CALL(cudaMemsetAsync(c, 0, 64, stream));
    for (int step = 0; step < STEPS; step++) {
        float factor = !strcmp(kind, "constant") && is_other && step == 1 ? 2.5f : 2.0f;
        if (!strcmp(kind, "kernel") && is_other && step == 1)
            scale_twice<<<COUNT / 256, 256, 0, stream>>>(a, b, COUNT, factor);
        else
            scale<<<COUNT / 256, 256, 0, stream>>>(a, b, COUNT, factor);
        if (!strcmp(kind, "race"))
            race<<<COUNT / 256, 256, 0, stream>>>(b, COUNT);
        if (!strcmp(kind, "atomic"))
            sum<<<COUNT / 256, 256, 0, stream>>>(b, c, COUNT);
        CALL(cudaGetLastError());
    }
    CALL(cudaStreamSynchronize(stream));
    float total = 0;
    CALL(cudaMemcpy(&total, c, sizeof total, cudaMemcpyDeviceToHost));
    printf("total %g\n", static_cast<double>(total));
    return 0;
}
