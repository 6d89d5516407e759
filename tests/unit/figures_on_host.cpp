// The kernels of lens/kernels/figures.cu as they are, run on the host: one thread a block, one block after the other.
#include <cstdint>
#include <cstring>

#define __global__
#define __device__
#define __shared__ static
#define __syncthreads() ((void)0)

struct place {
    unsigned x;
};
static place threadIdx, blockIdx, blockDim = {1};

struct alignas(16) ulonglong2 {
    unsigned long long x, y;
};

static double __longlong_as_double(long long bits)
{
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

template <typename T>
static void atomicAdd(T *to, T value)
{
    *to += value;
}

template <typename T>
static void atomicMin(T *to, T value)
{
    *to = value < *to ? value : *to;
}

template <typename T>
static void atomicMax(T *to, T value)
{
    *to = value > *to ? value : *to;
}

#include "lens/kernels/figures.cu"

extern "C" void run_on_host(int is_nans, const figures_items *items)
{
    const figures_item &last = items->items[items->count - 1];
    for (blockIdx.x = 0; blockIdx.x < last.first_block + last.blocks; blockIdx.x++)
        is_nans ? cufence_nans(*items) : cufence_figures(*items);
}
