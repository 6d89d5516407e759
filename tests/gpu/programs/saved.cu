// Launches that do not fault, for tests/gpu/saved.py. `saved KIND`:
//   scale    an input and an output            hosted   an input in pinned host memory, an output there
//   table    the buffer is reached through     cluster  blocks in clusters (compute capability 9.0)
//            two tables in memory
//   sum      many blocks add to one float      offset   pointers into the middle of buffers, in a struct
#include "check.h"

#include <cooperative_groups.h>
#include <cstring>

enum { COUNT = 100003, BLOCK = 256, BLOCKS = (COUNT + BLOCK - 1) / BLOCK };

struct given {
    int count;
    const float *from;
    float *to;
    float factor;
};

__global__ void scale(const float *from, float *to, int count, float factor)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        to[i] = from[i] * factor;
}

__global__ void scale_struct(given what)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < what.count)
        what.to[i] = what.from[i] * what.factor;
}

__global__ void add_by_table(float ***tables, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        tables[1][2][i] += 1;
}

__global__ void count_hosted(const int *count, float *to, int *done)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < *count)
        to[i] = 2.5f;
    if (i == 0)
        *done += *count;
}

__global__ void sum(const float *from, float *to, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        atomicAdd(to, from[i]);
}

__global__ void in_clusters(float *to, int count)
{
#if __CUDA_ARCH__ >= 900
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned rank = cooperative_groups::this_cluster().block_rank();
    if (i < count)
        to[i] = static_cast<float>(rank);
#endif
}

static float *filled()
{
    static float numbers[COUNT];
    float *made;
    for (int i = 0; i < COUNT; i++)
        numbers[i] = 0.5f * static_cast<float>(i % 1013);
    CALL(cudaMalloc(&made, sizeof numbers));
    CALL(cudaMemcpy(made, numbers, sizeof numbers, cudaMemcpyHostToDevice));
    return made;
}

static float *zeros()
{
    float *made;
    CALL(cudaMalloc(&made, COUNT * sizeof *made));
    CALL(cudaMemset(made, 0, COUNT * sizeof *made));
    return made;
}

// The buffers change again right after the launch: what is saved is that of before.
static void by_table()
{
    float *out = filled(), **inner, ***outer, *other = filled();
    CALL(cudaMalloc(&inner, 8 * sizeof *inner));
    CALL(cudaMalloc(&outer, 2 * sizeof *outer));
    CALL(cudaMemcpy(inner + 2, &out, sizeof out, cudaMemcpyHostToDevice));
    CALL(cudaMemcpy(outer + 1, &inner, sizeof inner, cudaMemcpyHostToDevice));
    add_by_table<<<BLOCKS, BLOCK>>>(outer, COUNT);
    CALL(cudaMemsetAsync(out, 9, 64));
    CALL(cudaMemsetAsync(other, 9, 64));
}

static void by_host()
{
    int *hosted;
    CALL(cudaMallocHost(&hosted, 2 * sizeof *hosted));
    hosted[0] = COUNT;
    hosted[1] = 7;
    count_hosted<<<BLOCKS, BLOCK>>>(hosted, zeros(), hosted + 1);
    CALL(cudaDeviceSynchronize());
    hosted[1] = 9;
}

static void by_offset()
{
    const given what = {COUNT - 17, filled() + 17, zeros() + 5, 3};
    scale_struct<<<BLOCKS, BLOCK>>>(what);
}

static void by_cluster()
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = 2;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((BLOCKS + 1) / 2 * 2);
    config.blockDim = dim3(BLOCK);
    config.attrs = &attribute;
    config.numAttrs = 1;
    CALL(cudaLaunchKernelEx(&config, in_clusters, zeros(), static_cast<int>(COUNT)));
}

int main(int count, char **arguments)
{
    const char *kind = count > 1 ? arguments[1] : "scale";
    if (!strcmp(kind, "scale"))
        scale<<<BLOCKS, BLOCK>>>(filled(), zeros(), COUNT, 2);
    else if (!strcmp(kind, "table"))
        by_table();
    else if (!strcmp(kind, "hosted"))
        by_host();
    else if (!strcmp(kind, "offset"))
        by_offset();
    else if (!strcmp(kind, "sum"))
        sum<<<BLOCKS, BLOCK>>>(filled(), zeros(), COUNT);
    else if (!strcmp(kind, "cluster"))
        by_cluster();
    else
        return 2;
    CALL(cudaGetLastError());
    CALL(cudaDeviceSynchronize());
    return 0;
}
