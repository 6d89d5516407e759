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

#define EACH(kernel, given, made, value)                                                                                       \
    __global__ void kernel(const given *in, made *out)                                                                         \
    {                                                                                                                          \
        int i = number();                                                                                                      \
        if (i < COUNT)                                                                                                         \
            out[i] = value;                                                                                                    \
    }

EACH(add_ints, int, int, in[i] + 1)
EACH(choose, bool, int, in[i] ? 7 : -7)
EACH(add_bytes, unsigned char, int, in[i] + 1)
EACH(accumulate, float, float, out[i] + in[i])
EACH(scale_doubles, double, double, in[i] * 3 + 1)
EACH(scale_halves, __half, __half, __hadd(in[i], __float2half(1.0f)))
EACH(unpack, padded, int, in[i].letter + in[i].number)
EACH(copy, int, int, in[i])

#define OF_ALL(kernel, type, both)                                                                                             \
    __global__ void kernel(const type *in, type *out)                                                                          \
    {                                                                                                                          \
        type a = 0, b;                                                                                                         \
        for (int i = threadIdx.x; i < COUNT; i += 32) {                                                                        \
            b = in[i];                                                                                                         \
            a = both;                                                                                                          \
        }                                                                                                                      \
        for (int step = 16; step; step /= 2) {                                                                                 \
            b = __shfl_down_sync(0xffffffff, a, step);                                                                         \
            a = both;                                                                                                          \
        }                                                                                                                      \
        if (threadIdx.x == 0)                                                                                                  \
            *out = a;                                                                                                          \
    }

OF_ALL(sum, float, a + b)
OF_ALL(largest, int, max(a, b))

__global__ void pack(padded *out) // the padding stays as it is
{
    if (number() < COUNT) {
        out[number()].letter = 'x';
        out[number()].number = 5;
    }
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

static const struct {
    const char *name;
    void (*run)(bool is_written);
} cases[] = {
    {"ints", [](bool is_written) { add_ints<<<GRID>>>(input(is_written, 5), fresh<int>()); }},
    {"flags", [](bool is_written) { choose<<<GRID>>>(input(is_written, true), fresh<int>()); }},
    {"bytes", [](bool is_written) { add_bytes<<<GRID>>>(input<unsigned char>(is_written, 5), fresh<int>()); }},
    {"floats", [](bool is_written) { accumulate<<<GRID>>>(input(true, 2.5f), input(is_written, 0.0f)); }},
    {"doubles", [](bool is_written) { scale_doubles<<<GRID>>>(input(is_written, 2.5), fresh<double>()); }},
    {"halves", [](bool is_written) { scale_halves<<<GRID>>>(input(is_written, __float2half(2.5f)), fresh<__half>()); }},
    {"total", [](bool is_written) { sum<<<1, 32>>>(input(is_written, 1.0f), fresh<float>(1)); }},
    {"maximum", [](bool is_written) { largest<<<1, 32>>>(input(is_written, 3), fresh<int>(1)); }},
    {"pool", pool},
    {"copied", copied},
};

int main(int count, char **argv)
{
    for (const auto &one : cases)
        if (count > 1 && !strcmp(one.name, argv[1]))
            one.run(count > 2);
    CALL(cudaDeviceSynchronize());
    printf("done\n");
}
