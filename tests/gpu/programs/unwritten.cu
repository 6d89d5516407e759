// Reads of memory that nobody has written, and twins that write it first: `unwritten CASE [written]`.
#include "check.h"

#include <cstring>
#include <cuda_fp16.h>

enum { COUNT = 10000, PART = 9000, BLOCK = 128 };
#define GRID ((COUNT + BLOCK - 1) / BLOCK), BLOCK

struct padded {
    char letter; // padding follows
    int number;
};

__device__ int number()
{
    return blockIdx.x * blockDim.x + threadIdx.x;
}

template <class T>
__global__ void fill(T *out, int count, T value)
{
    if (number() < count)
        out[number()] = value;
}

__global__ void add_ints(const int *in, int *out)
{
    if (number() < COUNT)
        out[number()] = in[number()] + 1;
}

__global__ void choose(const bool *in, int *out)
{
    if (number() < COUNT)
        out[number()] = in[number()] ? 7 : -7;
}

__global__ void add_bytes(const unsigned char *in, int *out)
{
    if (number() < COUNT)
        out[number()] = in[number()] + 1;
}

__global__ void accumulate(const float *in, float *out)
{
    if (number() < COUNT)
        out[number()] += in[number()];
}

__global__ void scale_doubles(const double *in, double *out)
{
    if (number() < COUNT)
        out[number()] = in[number()] * 3 + 1;
}

__global__ void scale_halves(const __half *in, __half *out)
{
    if (number() < COUNT)
        out[number()] = __hadd(in[number()], __float2half(1.0f));
}

__global__ void sum(const float *in, float *out)
{
    float total = 0;
    for (int i = threadIdx.x; i < COUNT; i += 32)
        total += in[i];
    for (int step = 16; step; step /= 2)
        total += __shfl_down_sync(0xffffffff, total, step);
    if (threadIdx.x == 0)
        *out = total;
}

__global__ void largest(const int *in, int *out)
{
    int best = 0;
    for (int i = threadIdx.x; i < COUNT; i += 32)
        best = max(best, in[i]);
    for (int step = 16; step; step /= 2)
        best = max(best, __shfl_down_sync(0xffffffff, best, step));
    if (threadIdx.x == 0)
        *out = best;
}

__global__ void pack(padded *out) // the padding stays as it is
{
    if (number() < COUNT) {
        out[number()].letter = 'x';
        out[number()].number = 5;
    }
}

__global__ void unpack(const padded *in, int *out)
{
    if (number() < COUNT)
        out[number()] = in[number()].letter + in[number()].number;
}

__global__ void copy(const int *in, int *out)
{
    if (number() < COUNT)
        out[number()] = in[number()];
}

template <class T>
T *fresh(int count = COUNT)
{
    T *made;
    CALL(cudaMalloc(&made, count * sizeof(T)));
    return made;
}

// Memory for COUNT elements, of which all are written, or PART.
template <class T>
T *input(bool is_written, T value)
{
    T *made = fresh<T>();
    fill<<<GRID>>>(made, is_written ? COUNT : PART, value);
    return made;
}

static void ints(bool is_written)
{
    add_ints<<<GRID>>>(input(is_written, 5), fresh<int>());
}

static void flags(bool is_written)
{
    choose<<<GRID>>>(input(is_written, true), fresh<int>());
}

static void bytes(bool is_written)
{
    add_bytes<<<GRID>>>(input<unsigned char>(is_written, 5), fresh<int>());
}

static void floats(bool is_written)
{
    accumulate<<<GRID>>>(input(true, 2.5f), input(is_written, 0.0f));
}

static void doubles(bool is_written)
{
    scale_doubles<<<GRID>>>(input(is_written, 2.5), fresh<double>());
}

static void halves(bool is_written)
{
    scale_halves<<<GRID>>>(input(is_written, __float2half(2.5f)), fresh<__half>());
}

static void total(bool is_written)
{
    sum<<<1, 32>>>(input(is_written, 1.0f), fresh<float>(1));
}

static void maximum(bool is_written)
{
    largest<<<1, 32>>>(input(is_written, 3), fresh<int>(1));
}

// Of the driver's pool, the second time with memory that was used; the twin never reads the padding.
static void pool(bool is_written)
{
    int *made, *out = fresh<int>();
    padded *packed;
    CALL(cudaMallocAsync(&made, COUNT * sizeof *made, nullptr));
    fill<<<GRID>>>(made, COUNT, 1);
    CALL(cudaFreeAsync(made, nullptr));
    CALL(cudaMallocAsync(&made, COUNT * sizeof *made, nullptr));
    CALL(cudaMallocAsync(&packed, COUNT * sizeof *packed, nullptr));
    pack<<<GRID>>>(packed);
    unpack<<<GRID>>>(packed, out);
    if (!is_written)
        add_ints<<<GRID>>>(made, out);
    CALL(cudaFreeAsync(made, nullptr));
    CALL(cudaFreeAsync(packed, nullptr));
}

// A copy is no use; what is computed with it is.
static void copied(bool is_written)
{
    int *in = input(false, 5), *between = fresh<int>(), *last = fresh<int>();
    copy<<<GRID>>>(in, between);
    CALL(cudaMemcpyAsync(last, between, COUNT * sizeof *last, cudaMemcpyDeviceToDevice, nullptr));
    if (!is_written)
        add_ints<<<GRID>>>(last, fresh<int>());
}

int main(int count, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(bool is_written);
    } cases[] = {{"ints", ints},     {"flags", flags}, {"bytes", bytes},     {"floats", floats}, {"doubles", doubles},
                 {"halves", halves}, {"total", total}, {"maximum", maximum}, {"pool", pool},     {"copied", copied}};
    for (const auto &one : cases)
        if (count > 1 && !strcmp(one.name, argv[1]))
            one.run(count > 2);
    CALL(cudaDeviceSynchronize());
    printf("done\n");
}
