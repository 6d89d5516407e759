// Launches that are given freed pointers. The kernels of the first cases use them, those of the others do not, or are right to.
#include "check.h"

#include <cstring>

enum { COUNT = 1000, BLOCK = 128, BLOCKS = 8, TIMES = 60 };

__global__ void scale(float *numbers, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        numbers[i] = numbers[i] * 2 + 1; // FAULT scale
}

struct tensor {
    long strides[4];
    float *numbers;
};

__global__ void scale_of(tensor of, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        of.numbers[i] = of.numbers[i] * 2 + 1; // FAULT scale_of
}

// As PyTorch's lists of tensors: what is behind the first `count` is of an earlier launch.
struct list {
    float *numbers[32];
};

__global__ void scale_each(list of, int count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; i < n && k < count; k++)
        of.numbers[k][i] = 2;
}

__global__ void work(float *numbers, long clocks)
{
    long begin = clock64();
    while (clock64() - begin < clocks)
        numbers[threadIdx.x] += 1;
}

static cudaStream_t stream, other;
static cudaError_t heard; // what the program was told, in a loop that goes on until it is

static float *make(cudaStream_t on)
{
    float *numbers = NULL;
    heard = cudaMallocAsync(&numbers, COUNT * sizeof(float), on);
    if (heard == cudaSuccess)
        heard = cudaMemsetAsync(numbers, 0, COUNT * sizeof(float), on);
    return numbers;
}

static void use(float *numbers, int n, cudaStream_t on)
{
    scale<<<BLOCKS, BLOCK, 0, on>>>(numbers, n);
    heard = cudaGetLastError();
}

static float *freed()
{
    float *numbers = make(stream);
    CALL(cudaFreeAsync(numbers, stream)); // FREED freed
    return numbers;
}

static cudaGraphExec_t graph_of(float *numbers)
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    use(numbers, COUNT, stream);
    CALL(cudaStreamEndCapture(stream, &graph));
    CALL(cudaGraphInstantiate(&executable, graph, 0));
    return executable;
}

static void play(const char *name)
{
    float *numbers;
    if (!strcmp(name, "same_stream")) {
        use(freed(), COUNT, stream);
    } else if (!strcmp(name, "waited")) {
        CALL(cudaMalloc(&numbers, COUNT * sizeof(float)));
        CALL(cudaFree(numbers));
        use(numbers, COUNT, stream);
    } else if (!strcmp(name, "behind_work")) { // 20 ms of it, before the free
        numbers = make(stream);
        work<<<1, BLOCK, 0, stream>>>(numbers, 35000000);
        CALL(cudaFreeAsync(numbers, stream));
        use(numbers, COUNT, stream);
    } else if (!strcmp(name, "loop")) {
        for (int i = 0; i < TIMES && heard == cudaSuccess; i++) {
            numbers = make(stream);
            use(numbers, COUNT, stream);
            cudaFreeAsync(numbers, stream);
            if (heard == cudaSuccess)
                use(numbers, COUNT, stream);
        }
    } else if (!strcmp(name, "of_struct")) {
        scale_of<<<BLOCKS, BLOCK, 0, stream>>>(tensor{{1, 1, 1, 1}, freed()}, COUNT);
    } else if (!strcmp(name, "other_stream")) {
        numbers = freed();
        CALL(cudaStreamSynchronize(stream));
        use(numbers, COUNT, other);
    } else if (!strcmp(name, "graph")) {
        numbers = make(stream);
        cudaGraphExec_t executable = graph_of(numbers);
        for (int i = 0; i < 3; i++)
            CALL(cudaGraphLaunch(executable, stream));
        CALL(cudaFreeAsync(numbers, stream)); // FREED graph
        make(stream);
        CALL(cudaGraphLaunch(executable, stream));
    } else if (!strcmp(name, "unused")) {
        for (int i = 0; i < TIMES; i++) {
            use(freed(), 0, i % 2 ? other : stream);
            CALL(heard);
            numbers = make(stream);
            use(numbers, COUNT, stream);
            CALL(heard);
            CALL(cudaFreeAsync(numbers, stream));
        }
    } else if (!strcmp(name, "list")) {
        for (int i = 0; i < TIMES; i++) {
            list of = {};
            of.numbers[0] = make(stream);
            for (int k = 1; k < 32; k++)
                of.numbers[k] = freed();
            scale_each<<<BLOCKS, BLOCK, 0, stream>>>(of, 1, COUNT);
            CALL(cudaGetLastError());
            CALL(cudaFreeAsync(of.numbers[0], stream));
        }
    } else if (!strcmp(name, "graph_in_order")) {
        numbers = make(stream);
        cudaGraphExec_t executable = graph_of(numbers);
        float *next = make(stream);
        for (int i = 0; i < TIMES; i++) {
            CALL(cudaGraphLaunch(executable, stream));
            CALL(cudaFreeAsync(next, stream));
            next = make(stream);
        }
        float first = 0;
        CALL(cudaMemcpyAsync(&first, numbers, sizeof first, cudaMemcpyDeviceToHost, stream));
        CALL(cudaStreamSynchronize(stream));
        printf("%s\n", first > 1e17 ? "60 launches are right" : "wrong");
        CALL(cudaGraphExecDestroy(executable));
        CALL(cudaFreeAsync(numbers, stream));
        use(make(stream), COUNT, stream);
    } else {
        printf("no such case: %s\n", name);
        exit(2);
    }
}

int main(int, char **arguments)
{
    CALL(cudaSetDevice(0));
    CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CALL(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    play(arguments[1]);
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s: %s\n", arguments[1], cudaGetErrorName(error));
    return error != cudaSuccess;
}
