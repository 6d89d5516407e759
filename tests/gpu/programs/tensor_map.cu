// Rows of floats go through shared memory by tensor maps (sm_90 and later):
//   good | load | store | add     a map of the buffer, or one of twice its rows, by which a tile is read, written, added to
//   freed | copied                its buffer has been freed; so has that of a map in device memory
//   bulk                          a bulk copy without a map, past the end
#include "check.h"

#include <cstdint>
#include <cstring>
#include <cuda.h>

enum { COLUMNS = 64, ROWS = 256, BOX = 16 };

#if __CUDA_ARCH__ >= 900
#define ON_90(...) __VA_ARGS__
#else
#define ON_90(...)
#endif

#define LOAD "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
#define STORE "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
#define ADD "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%1, %2}], [%3];"
#define BULK "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"

__device__ uint32_t shared_address(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}

__device__ void begin(uint64_t *barrier)
{
    ON_90(asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)));
          asm volatile("fence.proxy.async.shared::cta;"); asm volatile(
              "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(BOX * COLUMNS * 4));)
}

__device__ void wait(uint64_t *barrier)
{
    ON_90(asm volatile("{\n.reg .pred p;\nagain: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra again;\n}" ::"r"(
                           shared_address(barrier))
                       : "memory");)
}

__device__ void load(void *tile, const CUtensorMap *map, int row, uint64_t *barrier)
{
    [[maybe_unused]] uint32_t to = shared_address(tile), done = shared_address(barrier);
    ON_90(asm volatile(LOAD ::"r"(to), "l"(map), "r"(0), "r"(row), "r"(done) : "memory");) // FAULT load
}

__global__ void read_tile(const __grid_constant__ CUtensorMap map, float *out)
{
    __shared__ alignas(128) float tile[BOX * COLUMNS];
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) {
        begin(&barrier);
        load(tile, &map, blockIdx.x * BOX, &barrier);
    }
    __syncthreads();
    wait(&barrier);
    out[blockIdx.x * COLUMNS + threadIdx.x] = tile[threadIdx.x];
}

__global__ void read_copied(const CUtensorMap *map, float *out)
{
    __shared__ alignas(128) float tile[BOX * COLUMNS];
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) {
        begin(&barrier);
        load(tile, map, blockIdx.x * BOX, &barrier);
    }
    __syncthreads();
    wait(&barrier);
    out[blockIdx.x * COLUMNS + threadIdx.x] = tile[threadIdx.x];
}

__global__ void read_bulk(const float *in, float *out)
{
    __shared__ alignas(128) float tile[BOX * COLUMNS];
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) {
        [[maybe_unused]] const float *from = in + blockIdx.x * BOX * COLUMNS;
        [[maybe_unused]] uint32_t to = shared_address(tile), done = shared_address(&barrier), size = BOX * COLUMNS * 4;
        begin(&barrier);
        ON_90(asm volatile(BULK ::"r"(to), "l"(from), "r"(size), "r"(done) : "memory");) // FAULT bulk
    }
    __syncthreads();
    wait(&barrier);
    out[blockIdx.x * COLUMNS + threadIdx.x] = tile[threadIdx.x];
}

template <bool adds>
__global__ void write_tile(const __grid_constant__ CUtensorMap map)
{
    __shared__ alignas(128) float tile[BOX * COLUMNS];
    for (int i = threadIdx.x; i < BOX * COLUMNS; i += COLUMNS)
        tile[i] = 2;
    ON_90(asm volatile("fence.proxy.async.shared::cta;" ::: "memory");)
    __syncthreads();
    if (threadIdx.x == 0) {
        [[maybe_unused]] uint32_t from = shared_address(tile), row = blockIdx.x * BOX;
        if (adds)
            ON_90(asm volatile(ADD ::"l"(&map), "r"(0), "r"(row), "r"(from) : "memory")); // FAULT add
        else
            ON_90(asm volatile(STORE ::"l"(&map), "r"(0), "r"(row), "r"(from) : "memory")); // FAULT store
        ON_90(asm volatile("cp.async.bulk.commit_group;"); asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");)
    }
}

static CUtensorMap map_of(void *buffer, int rows)
{
    CUtensorMap map;
    void *entry;
    cudaDriverEntryPointQueryResult found;
    cuuint64_t size[] = {COLUMNS, (cuuint64_t)rows}, stride[] = {COLUMNS * sizeof(float)};
    cuuint32_t box[] = {COLUMNS, BOX}, step[] = {1, 1};
    CALL(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found));
    EXPECT(found == cudaDriverEntryPointSuccess);
    EXPECT(((decltype(&cuTensorMapEncodeTiled))entry)(
               &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, buffer, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
               CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS);
    return map;
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "good";
    int rows = !strcmp(what, "good") || !strcmp(what, "freed") || !strcmp(what, "copied") ? ROWS : 2 * ROWS, tiles = rows / BOX;
    float *in, *out;
    CUtensorMap *copied;
    CALL(cudaMalloc(&in, ROWS * COLUMNS * sizeof *in));
    CALL(cudaMalloc(&out, 2 * ROWS * COLUMNS * sizeof *out));
    CALL(cudaMalloc(&copied, sizeof *copied));
    CALL(cudaMemset(in, 0, ROWS * COLUMNS * sizeof *in));
    const CUtensorMap map = map_of(in, rows);
    CALL(cudaMemcpy(copied, &map, sizeof map, cudaMemcpyHostToDevice));
    CALL(cudaDeviceSynchronize());
    if (!strcmp(what, "freed") || !strcmp(what, "copied"))
        CALL(cudaFree(in));
    if (!strcmp(what, "store"))
        write_tile<false><<<tiles, COLUMNS>>>(map);
    else if (!strcmp(what, "add"))
        write_tile<true><<<tiles, COLUMNS>>>(map);
    else if (!strcmp(what, "copied"))
        read_copied<<<tiles, COLUMNS>>>(copied, out);
    else if (!strcmp(what, "bulk"))
        read_bulk<<<tiles, COLUMNS>>>(in, out);
    else
        read_tile<<<tiles, COLUMNS>>>(map, out);
    cudaError_t error = cudaDeviceSynchronize();
    printf("cudaDeviceSynchronize: %s\n", cudaGetErrorName(error));
    return error == cudaSuccess ? 0 : 1;
}
