// The third kernel makes a NaN in one element, in the way that the first argument names; the others have nothing to do with it.
#include "check.h"

#include <cmath>
#include <cstring>
#include <cuda_fp16.h>

enum { COUNT = 100000, BLOCK = 128, AT = 41700 };
#define GRID ((COUNT + BLOCK - 1) / BLOCK), BLOCK

__device__ int number()
{
    return blockIdx.x * blockDim.x + threadIdx.x;
}

__global__ void prepare(float *out, float at)
{
    if (number() < COUNT)
        out[number()] = number() == AT ? at : 1.0f + (number() % 7);
}

__global__ void to_half(const float *in, __half *out)
{
    if (number() < COUNT)
        out[number()] = __float2half(in[number()]);
}

__global__ void log_of(const float *in, float *out)
{
    if (number() < COUNT)
        out[number()] = logf(in[number()]);
}

__global__ void divide(const float *in, float *out)
{
    if (number() < COUNT)
        out[number()] = in[number()] / in[number()];
}

/* The square of a large number is Inf in float16. */
__global__ void attend(const __half *in, __half *out)
{
    if (number() < COUNT) {
        __half square = __hmul(in[number()], in[number()]);
        out[number()] = __hsub(square, square);
    }
}

__global__ void pass_on(const float *in, float *out)
{
    if (number() < COUNT)
        out[number()] = in[number()] + 1.0f;
}

/* Half a buffer, while log_of works on the other one. */
__global__ void scale_slowly(const float *in, float *out)
{
    long begin = clock64();
    while (clock64() - begin < 100000000)
        ;
    if (number() < COUNT)
        out[number()] = in[number()] * 2;
}

static void play_beside(const float *fine, float *wrong, float at)
{
    float *both;
    cudaStream_t streams[2];
    for (cudaStream_t &stream : streams)
        CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CALL(cudaMalloc(&both, 2 * COUNT * sizeof *both));
    prepare<<<GRID>>>(wrong, at);
    CALL(cudaDeviceSynchronize());
    scale_slowly<<<GRID, 0, streams[0]>>>(fine, both);
    log_of<<<GRID, 0, streams[1]>>>(wrong, both + COUNT);
}

int main(int argc, char **argv)
{
    float *in, *out, *more;
    __half *half, *half_out;
    bool is_log = !strcmp(argv[1], "log"), is_half = !strcmp(argv[1], "half"), is_beside = !strcmp(argv[1], "beside");
    CALL(cudaMalloc(&in, COUNT * sizeof *in));
    CALL(cudaMalloc(&out, COUNT * sizeof *out));
    CALL(cudaMalloc(&more, COUNT * sizeof *more));
    CALL(cudaMalloc(&half, COUNT * sizeof *half));
    CALL(cudaMalloc(&half_out, COUNT * sizeof *half_out));
    prepare<<<GRID>>>(in, is_beside ? 1 : is_log ? -1.0f : is_half ? 60000.0f : 0.0f);
    to_half<<<GRID>>>(in, half);
    if (is_beside)
        play_beside(in, out, argc > 2 ? 1 : -1);
    else if (is_log)
        log_of<<<GRID>>>(in, out);
    else if (is_half)
        attend<<<GRID>>>(half, half_out);
    else
        divide<<<GRID>>>(in, out);
    pass_on<<<GRID>>>(out, more);
    CALL(cudaDeviceSynchronize());
    printf("done\n");
}
