// No bug: memory of the runtime's own calls, twice with a reset of the device in between. tests/contract asks the driver's.
#include "check.h"

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

static void expect_multiples(const int *device, int factor)
{
    int host[COUNT];
    CALL(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < COUNT; i++)
        EXPECT(host[i] == factor * i);
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

static void use_all()
{
    use_plain();
    use_stream_ordered();
    use_graph();
}

int main()
{
    void *left_behind;
    use_all();
    CALL(cudaMalloc(&left_behind, COUNT)); // goes with the device's context
    CALL(cudaDeviceReset());
    printf("reset\n");
    use_all();
    CALL(cudaDeviceReset());
    printf("done\n");
    return 0;
}
