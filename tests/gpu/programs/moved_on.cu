// An access whose address registers have other values by the time that the driver looks: the load itself overwrites them, or
// the loop goes on. Every address depends on memory, so it can't be computed from the arguments. The first argument chooses the
// kernel.
#include "kinds.h"

#include <cmath>
#include <type_traits>

enum { COUNT = 1000, BLOCK = 128, BLOCKS = 8, BAD = 3 * BLOCK + 53 };

// A gather: one lane's index is out of range.
#define GATHER(name, type, out_type)                                                                                           \
    __global__ void name(const type *table, const int *places, out_type *out, int n)                                           \
    {                                                                                                                          \
        int i = own_index();                                                                                                   \
        if (i < n)                                                                                                             \
            out[i] = table[places[i]];                                                                                         \
    }

GATHER(gather, float, float)       // FAULT gather
GATHER(gather_8, double, double)   // FAULT gather_8
GATHER(gather_16, float4, float4)  // FAULT gather_16
GATHER(gather_1, signed char, int) // FAULT gather_1

// The list of pointers that a kernel follows: each load overwrites its address, and all but the last one are fine.
struct node {
    node *next;
    int value;
};

__global__ void chase(node *const *first, int *out, int n)
{
    int i = own_index();
    if (i >= n)
        return;
    node *at = first[i];
    while (at->next) // FAULT chase
        at = at->next;
    out[i] = at->value;
}

// CuPy 14.2's searchsorted: it reads bins[n_bins] where all bins are NaN.
__global__ void search(const double *values, const double *bins, long long *out, int n_bins, int n)
{
    int i = own_index();
    if (i >= n)
        return;
    double value = values[i];
    long long left = 0, right = n_bins;
    if (isnan(value)) {
        while (isnan(bins[left]) && left < n_bins) // FAULT search
            left++;
    } else {
        while (left < right) {
            long long middle = left + (right - left) / 2;
            if (bins[middle] <= value)
                left = middle + 1;
            else
                right = middle;
        }
    }
    out[i] = left;
}

// A store in a loop whose pointer moves on; the loop's start and end are in memory.
__global__ void fill(float *out, const int *bounds)
{
    int end = bounds[1];
    for (int at = bounds[0] + own_index(); at < end; at += BLOCK * BLOCKS)
        out[at] = 2.5f; // FAULT fill
}

// The same with a stride: what is written past the end are many pieces.
__global__ void fill_strided(float *out, const int *bounds)
{
    int end = bounds[1];
    for (int at = bounds[0] + 4 * own_index(); at < end; at += 4 * BLOCK * BLOCKS)
        out[at] = 2.5f; // FAULT fill_strided
}

// Atomics give the old value back, also into their address register.
__global__ void count(int *counters, const int *places, int *out, int n)
{
    int i = own_index();
    if (i < n)
        out[i] = atomicAdd(&counters[places[i]], 1); // FAULT count
}

// Each thread loads much before its last load leaves the table.
__global__ void heavy(const int *next, const int *starts, int *out, int rounds)
{
    int at = starts[own_index() % COUNT], sum = 0;
    for (int round = 0; round < rounds; round++) {
        at = next[at]; // FAULT heavy
        sum += at;
    }
    out[own_index() % COUNT] = sum;
}

// Buffer 1 is the table, and the index of one thread is out of it.
template <class T, class U>
static void launch_gather(void (*kernel)(T *, const int *, U *, int))
{
    std::vector<int> places(COUNT);
    auto *table = allocate<typename std::remove_const<T>::type>(COUNT);
    for (int i = 0; i < COUNT; i++)
        places[i] = i * 7 % COUNT;
    places[BAD] = COUNT + 16;
    kernel<<<BLOCKS, BLOCK>>>(table, copy_of(places), allocate<U>(COUNT), COUNT);
}

// Each thread follows up to 16 pointers; all of them end at the pointer past the last node.
static void launch_chase()
{
    std::vector<node> nodes(COUNT);
    std::vector<node *> first(COUNT);
    node *made = allocate<node>(COUNT);
    for (int i = 0; i < COUNT; i++) {
        nodes[i] = {i % 16 < 15 ? made + i + 1 : nullptr, i};
        first[i] = made + i;
    }
    nodes[COUNT - 1].next = made + COUNT;
    CALL(cudaMemcpy(made, nodes.data(), COUNT * sizeof(node), cudaMemcpyHostToDevice));
    chase<<<BLOCKS, BLOCK>>>(copy_of(first), allocate<int>(COUNT), COUNT);
}

static void launch_search()
{
    double *bins = copy_of(std::vector<double>(6, NAN));
    std::vector<double> values(COUNT, 1.0);
    values[BAD] = NAN;
    search<<<BLOCKS, BLOCK>>>(copy_of(values), bins, allocate<long long>(COUNT), 6, COUNT);
}

static void launch_heavy()
{
    std::vector<int> next(COUNT), starts(COUNT, 1);
    for (int i = 0; i < COUNT; i++)
        next[i] = 1 + i * 7 % (COUNT - 1);
    starts[BAD] = 0;
    next[0] = COUNT + 16;
    int *list = copy_of(next);
    heavy<<<BLOCKS, BLOCK>>>(list, copy_of(starts), allocate<int>(COUNT), 1000);
}

static void launch_fill(void (*kernel)(float *, const int *), int more)
{
    float *out = allocate<float>(8 * COUNT);
    kernel<<<BLOCKS, BLOCK>>>(out, copy_of(std::vector<int>{4, 8 * COUNT + more}));
}

static const kind kinds[] = {
    {"gather", [] { launch_gather(gather); }},
    {"gather_8", [] { launch_gather(gather_8); }},
    {"gather_16", [] { launch_gather(gather_16); }},
    {"gather_1", [] { launch_gather(gather_1); }},
    {"count", [] { launch_gather(count); }},
    {"chase", launch_chase},
    {"search", launch_search},
    {"heavy", launch_heavy},
    {"fill", [] { launch_fill(fill, 4); }},
    {"fill_strided", [] { launch_fill(fill_strided, 400); }},
};

int main(int argc, char **argv)
{
    return run_kind(argc, argv, kinds, 3);
}
