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
    CALL(cudaFreeAsync(numbers, stream));
    return numbers;
}

// ---- wrong ----

static void same_stream()
{
    use(freed(), COUNT, stream);
}

static void waited()
{
    float *numbers;
    CALL(cudaMalloc(&numbers, COUNT * sizeof(float)));
    CALL(cudaFree(numbers));
    use(numbers, COUNT, stream);
}

// 20 ms of work are on the stream before the free.
static void behind_work()
{
    float *numbers = make(stream);
    work<<<1, BLOCK, 0, stream>>>(numbers, 35000000);
    CALL(cudaFreeAsync(numbers, stream));
    use(numbers, COUNT, stream);
}

static void loop()
{
    for (int i = 0; i < TIMES && heard == cudaSuccess; i++) {
        float *numbers = make(stream);
        use(numbers, COUNT, stream);
        cudaFreeAsync(numbers, stream);
        if (heard == cudaSuccess)
            use(numbers, COUNT, stream);
    }
}

static void of_struct()
{
    scale_of<<<BLOCKS, BLOCK, 0, stream>>>(tensor{{1, 1, 1, 1}, freed()}, COUNT);
}

static void other_stream()
{
    float *numbers = freed();
    CALL(cudaStreamSynchronize(stream));
    use(numbers, COUNT, other);
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

static void graph()
{
    float *numbers = make(stream);
    cudaGraphExec_t executable = graph_of(numbers);
    for (int i = 0; i < 3; i++)
        CALL(cudaGraphLaunch(executable, stream));
    CALL(cudaFreeAsync(numbers, stream));
    make(stream);
    CALL(cudaGraphLaunch(executable, stream));
}

// What a copy, a set or a texture reads by an address of before. Nothing is read: the launch is refused.

enum how { COPIES, SETS, COPIES_IN_CHILD, HOWS };

static cudaGraphExec_t graph_of_copy(float *numbers, int how)
{
    cudaGraph_t graph, parent;
    cudaGraphNode_t node;
    cudaGraphExec_t executable;
    float *to = make(stream);
    CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    if (how == SETS)
        CALL(cudaMemsetAsync(numbers, 1, COUNT * sizeof(float), stream));
    else
        CALL(cudaMemcpyAsync(to, numbers, COUNT * sizeof(float), cudaMemcpyDeviceToDevice, stream));
    CALL(cudaStreamEndCapture(stream, &graph));
    if (how == COPIES_IN_CHILD) {
        CALL(cudaGraphCreate(&parent, 0));
        CALL(cudaGraphAddChildGraphNode(&node, parent, nullptr, 0, graph));
        graph = parent;
    }
    CALL(cudaGraphInstantiate(&executable, graph, 0));
    return executable;
}

static void launch_late(enum how how)
{
    float *numbers = make(stream);
    cudaGraphExec_t executable = graph_of_copy(numbers, how);
    CALL(cudaGraphLaunch(executable, stream));
    CALL(cudaFreeAsync(numbers, stream));
    make(stream);
    heard = cudaGraphLaunch(executable, stream); // FAULT late
    printf("launch: %s\n", cudaGetErrorName(heard));
}

enum { TEXELS = 1024 }; // so many bytes have the alignment that a texture needs

__global__ void look_up(cudaTextureObject_t texture, float *to)
{
    to[threadIdx.x] = tex1Dfetch<float>(texture, threadIdx.x);
}

static cudaTextureObject_t texture_of(float *texels)
{
    cudaTextureObject_t texture = 0;
    cudaResourceDesc resource = {};
    cudaTextureDesc description = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear = {texels, cudaCreateChannelDesc<float>(), TEXELS * sizeof(float)};
    description.readMode = cudaReadModeElementType;
    CALL(cudaCreateTextureObject(&texture, &resource, &description, nullptr));
    return texture;
}

static void texture()
{
    float *texels, *to = make(stream);
    CALL(cudaMalloc(&texels, TEXELS * sizeof(float)));
    cudaTextureObject_t texture = texture_of(texels);
    CALL(cudaFree(texels));
    look_up<<<1, BLOCK, 0, stream>>>(texture, to); // FAULT texture
    printf("launch: %s\n", cudaGetErrorName(cudaGetLastError()));
}

// cudaFree waits for no stream where the memory is a pool's; 20 ms of work use it.
static void free_of_pool(bool waits)
{
    float *numbers = make(stream);
    work<<<1, BLOCK, 0, stream>>>(numbers, 35000000);
    if (waits)
        CALL(cudaStreamSynchronize(stream));
    CALL(cudaFree(numbers)); // FAULT pool
}

// ---- right ----

static void copies_in_order()
{
    for (int i = 0; i < TIMES; i++) {
        float *numbers = make(stream);
        cudaGraphExec_t executable = graph_of_copy(numbers, i % HOWS);
        CALL(cudaGraphLaunch(executable, stream));
        CALL(cudaGraphLaunch(executable, stream));
        CALL(cudaGraphExecDestroy(executable));
        CALL(cudaFreeAsync(numbers, stream));
    }
}

// The driver gives the textures' handles out again.
static void textures_in_order()
{
    float *to = make(stream);
    for (int i = 0; i < TIMES; i++) {
        float *texels;
        CALL(cudaMalloc(&texels, TEXELS * sizeof(float)));
        cudaTextureObject_t texture = texture_of(texels);
        look_up<<<1, BLOCK, 0, stream>>>(texture, to);
        CALL(cudaStreamSynchronize(stream));
        CALL(cudaDestroyTextureObject(texture));
        CALL(cudaFree(texels));
    }
}

static void unused()
{
    for (int i = 0; i < TIMES; i++) {
        use(freed(), 0, i % 2 ? other : stream);
        CALL(heard);
        float *numbers = make(stream);
        use(numbers, COUNT, stream);
        CALL(heard);
        CALL(cudaFreeAsync(numbers, stream));
    }
}

static void in_a_list()
{
    for (int i = 0; i < TIMES; i++) {
        list of = {};
        of.numbers[0] = make(stream);
        for (int k = 1; k < 32; k++)
            of.numbers[k] = freed();
        scale_each<<<BLOCKS, BLOCK, 0, stream>>>(of, 1, COUNT);
        CALL(cudaGetLastError());
        CALL(cudaFreeAsync(of.numbers[0], stream));
    }
}

static void graph_in_order()
{
    float *numbers = make(stream), first = 0, *next = make(stream);
    cudaGraphExec_t executable = graph_of(numbers);
    for (int i = 0; i < TIMES; i++) {
        CALL(cudaGraphLaunch(executable, stream));
        CALL(cudaFreeAsync(next, stream));
        next = make(stream);
    }
    CALL(cudaMemcpyAsync(&first, numbers, sizeof first, cudaMemcpyDeviceToHost, stream));
    CALL(cudaStreamSynchronize(stream));
    EXPECT(first > 1e17f);
    CALL(cudaGraphExecDestroy(executable));
    CALL(cudaFreeAsync(numbers, stream));
    use(make(stream), COUNT, stream);
}

static const struct {
    const char *name;
    void (*play)();
} cases[] = {
    {"same_stream", same_stream},
    {"waited", waited},
    {"behind_work", behind_work},
    {"loop", loop},
    {"of_struct", of_struct},
    {"other_stream", other_stream},
    {"graph", graph},
    {"copy_node", [] { launch_late(COPIES); }},
    {"set_node", [] { launch_late(SETS); }},
    {"copy_in_child", [] { launch_late(COPIES_IN_CHILD); }},
    {"texture", texture},
    {"pool", [] { free_of_pool(false); }},
    {"pool_waited", [] { free_of_pool(true); }},
    {"copies_in_order", copies_in_order},
    {"textures_in_order", textures_in_order},
    {"unused", unused},
    {"list", in_a_list},
    {"graph_in_order", graph_in_order},
};

int main(int, char **arguments)
{
    CALL(cudaSetDevice(0));
    CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CALL(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    for (auto &found : cases) {
        if (!strcmp(found.name, arguments[1]))
            found.play();
    }
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s: %s\n", arguments[1], cudaGetErrorName(error));
    return error != cudaSuccess;
}
