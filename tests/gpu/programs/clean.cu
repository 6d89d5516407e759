// No bug: most ways to get, use, ask about and give back memory, twice with a reset of the device in between.
#include "check.h"

#include <cstdint>
#include <cstring>

#include <cuda.h> // types only: the driver's functions are asked for at run time

enum { COUNT = 1000, BLOCK = 128, GRID = (COUNT + BLOCK - 1) / BLOCK, REPLAYS = 3 };

__global__ void fill(int *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = i;
}

__global__ void twice(const int *in, int *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = 2 * in[i];
}

__global__ void add(const int *in, int *sum, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        sum[i] += in[i];
}

__global__ void fill_rows(char *out, size_t pitch, int width, int height)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < width * height)
        ((int *)(out + (i / width) * pitch))[i % width] = i;
}

static void expect_multiples(const int *device, int factor)
{
    int host[COUNT];
    CALL(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < COUNT; i++)
        EXPECT(host[i] == factor * i);
}

// What is allocated is missing from the free memory, and back there when it is freed. Only while no pool is in use, which keeps
// what was freed.
static void expect_figures()
{
    size_t before, during, after, total;
    void *buffer;
    const size_t size = (size_t)512 << 20;
    CALL(cudaMemGetInfo(&before, &total));
    EXPECT(before <= total);
    CALL(cudaMalloc(&buffer, size));
    CALL(cudaMemGetInfo(&during, &total));
    CALL(cudaFree(buffer));
    CALL(cudaMemGetInfo(&after, &total));
    EXPECT(before - during >= size && before - during < size + size / 4);
    EXPECT(after + size / 4 >= before);
    printf("figures\n");
}

static void use_plain()
{
    int *numbers;
    unsigned char bytes[COUNT];
    CALL(cudaMalloc(&numbers, COUNT * sizeof *numbers));
    fill<<<GRID, BLOCK>>>(numbers, COUNT);
    expect_multiples(numbers, 1);
    CALL(cudaMemset(numbers, 0x5a, COUNT * sizeof *numbers)); // up to the last byte
    CALL(cudaMemcpy(bytes, (char *)numbers + COUNT * sizeof *numbers - COUNT, COUNT, cudaMemcpyDeviceToHost));
    for (int i = 0; i < COUNT; i++)
        EXPECT(bytes[i] == 0x5a);
    CALL(cudaFree(numbers));
    CALL(cudaFree(NULL));
    printf("plain\n");
}

static void use_pitched()
{
    enum { WIDTH = 100, HEIGHT = 7 };
    char *rows;
    size_t pitch;
    int host[HEIGHT][WIDTH];
    CALL(cudaMallocPitch(&rows, &pitch, WIDTH * sizeof(int), HEIGHT));
    EXPECT(pitch >= WIDTH * sizeof(int));
    fill_rows<<<GRID, BLOCK>>>(rows, pitch, WIDTH, HEIGHT);
    CALL(cudaMemcpy2D(host, sizeof host[0], rows, pitch, WIDTH * sizeof(int), HEIGHT, cudaMemcpyDeviceToHost));
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        EXPECT(host[i / WIDTH][i % WIDTH] == i);
    CALL(cudaMemset2D(rows, pitch, 0, WIDTH * sizeof(int), HEIGHT));
    CALL(cudaFree(rows));
    printf("pitched\n");
}

static void use_stream_ordered()
{
    cudaStream_t stream;
    int *in, *out, host[COUNT];
    CALL(cudaStreamCreate(&stream));
    for (int round = 0; round < 100; round++) {
        CALL(cudaMallocAsync(&in, COUNT * sizeof *in, stream));
        CALL(cudaMallocAsync(&out, COUNT * sizeof *out, stream));
        fill<<<GRID, BLOCK, 0, stream>>>(in, COUNT);
        twice<<<GRID, BLOCK, 0, stream>>>(in, out, COUNT);
        CALL(cudaFreeAsync(in, stream));
        CALL(cudaMemcpyAsync(host, out, sizeof host, cudaMemcpyDeviceToHost, stream));
        CALL(cudaFreeAsync(out, stream));
    }
    CALL(cudaStreamSynchronize(stream));
    for (int i = 0; i < COUNT; i++)
        EXPECT(host[i] == 2 * i);
    CALL(cudaStreamDestroy(stream));
    printf("stream-ordered\n");
}

// The buffer in between is allocated and freed while the stream is captured.
static void use_graph()
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    int *in, *sum, *between;
    CALL(cudaMalloc(&in, COUNT * sizeof *in));
    CALL(cudaMalloc(&sum, COUNT * sizeof *sum));
    CALL(cudaMemset(sum, 0, COUNT * sizeof *sum));
    fill<<<GRID, BLOCK>>>(in, COUNT);
    CALL(cudaDeviceSynchronize());
    CALL(cudaStreamCreate(&stream));
    CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CALL(cudaMallocAsync(&between, COUNT * sizeof *between, stream));
    twice<<<GRID, BLOCK, 0, stream>>>(in, between, COUNT);
    add<<<GRID, BLOCK, 0, stream>>>(between, sum, COUNT);
    CALL(cudaFreeAsync(between, stream));
    CALL(cudaStreamEndCapture(stream, &graph));
    CALL(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < REPLAYS; i++)
        CALL(cudaGraphLaunch(executable, stream));
    CALL(cudaStreamSynchronize(stream));
    expect_multiples(sum, 2 * REPLAYS);
    CALL(cudaGraphExecDestroy(executable));
    CALL(cudaGraphDestroy(graph));
    CALL(cudaStreamDestroy(stream));
    CALL(cudaFree(in));
    CALL(cudaFree(sum));
    printf("graph\n");
}

static void *driver_function(const char *name)
{
    void *function = NULL;
    cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    CALL(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found));
#else
    CALL(cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found));
#endif
    EXPECT(found == cudaDriverEntryPointSuccess && function);
    return function;
}

static void ask_about_pointers()
{
    char *buffer;
    cudaPointerAttributes attributes;
    CUdeviceptr base = 0;
    size_t size = 0;
    CALL(cudaMalloc(&buffer, 4000));
    CALL(cudaPointerGetAttributes(&attributes, buffer + 100));
    EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);
    EXPECT(attributes.devicePointer == buffer + 100);
    CUresult (*range)(CUdeviceptr *, size_t *, CUdeviceptr) = (__typeof__(range))driver_function("cuMemGetAddressRange");
    EXPECT(range(&base, &size, (CUdeviceptr)(uintptr_t)(buffer + 3999)) == CUDA_SUCCESS);
    EXPECT(base == (CUdeviceptr)(uintptr_t)buffer);
    printf("range %zu\n", size);
    CALL(cudaFree(buffer));
}

static void use_all()
{
    use_plain();
    use_pitched();
    use_stream_ordered();
    use_graph();
    ask_about_pointers();
}

int main()
{
    void *left_behind;
    expect_figures();
    use_all();
    CALL(cudaMalloc(&left_behind, COUNT)); // goes with the device's context
    CALL(cudaDeviceReset());
    printf("reset\n");
    use_all();
    CALL(cudaDeviceReset());
    printf("done\n");
    return 0;
}
