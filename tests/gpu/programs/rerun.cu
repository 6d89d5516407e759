// A store beyond the end of a buffer is the last thing that a kernel does: its warp has exited when the driver looks, so only a
// second launch can tell address and thread. The first argument chooses the kernel.
#include "kinds.h"

#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda_fp16.h>

#include <dlfcn.h>

enum { COUNT = 1000, BLOCK = 128, BLOCKS = 8 };

#define ONE_TOO_FAR(name, type, statement)                                                                                     \
    __global__ void name(type *out, int n)                                                                                     \
    {                                                                                                                          \
        int i = own_index();                                                                                                   \
        if (i <= n)                                                                                                            \
            statement;                                                                                                         \
    }

ONE_TOO_FAR(store_1, unsigned char, out[i] = 7)                         // FAULT store_1
ONE_TOO_FAR(store_2, unsigned short, out[i] = 0x1234)                   // FAULT store_2
ONE_TOO_FAR(store_half, __half, out[i] = __float2half(1.5f))            // FAULT store_half
ONE_TOO_FAR(store_4, float, out[i] = 2.5f)                              // FAULT store_4
ONE_TOO_FAR(store_8, double, out[i] = 2.5)                              // FAULT store_8
ONE_TOO_FAR(store_16, float4, out[i] = make_float4(1, 2, 3, 4))         // FAULT store_16
ONE_TOO_FAR(add, int, atomicAdd(&out[i], 5))                            // FAULT add
ONE_TOO_FAR(swap, int, atomicCAS(&out[i], 0, 9))                        // FAULT swap
ONE_TOO_FAR(add_8, unsigned long long, atomicAdd(&out[i], 5ull))        // FAULT add_8
ONE_TOO_FAR(add_float, float, atomicAdd(&out[i], 5.0f))                 // FAULT add_float
ONE_TOO_FAR(exchange, unsigned, atomicExch(&out[i], 77u))               // FAULT exchange
ONE_TOO_FAR(swap_8, unsigned long long, atomicCAS(&out[i], 0ull, 9ull)) // FAULT swap_8

__global__ void add_half2(__half2 *out, int n)
{
    int i = own_index();
    if (i <= n)
        asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(&out[i]), "r"(0x45004500)); // FAULT add_half2
}

// Asynchronous copies into shared memory, which the kernel waits for. COPY has their bytes.
template <int COPY>
static __device__ void copy(const char *in, int n)
{
#if __CUDA_ARCH__ >= 800
    __shared__ alignas(16) char copied[BLOCK * COPY];
    int i = own_index();
    unsigned to = (unsigned)__cvta_generic_to_shared(copied + threadIdx.x * COPY);
    const char *from = in + (size_t)i * COPY;
    if (i <= n)
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(COPY)); // FAULT copy
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

__global__ void copy_4(const float *in, int n)
{
    copy<4>((const char *)in, n);
}

__global__ void copy_8(const double *in, int n)
{
    copy<8>((const char *)in, n);
}

__global__ void copy_16(const float4 *in, int n)
{
    copy<16>((const char *)in, n);
}

// Every thread from the 1000th on: 24 of them.
__global__ void no_mask(float *out, int n)
{
    out[own_index()] = (float)n; // FAULT no_mask
}

__global__ void before(float *out, int n)
{
    int i = own_index();
    if (i < n)
        out[i - 1] = 2.5f; // FAULT before
}

struct view {
    int n;
    float *data;
};

__global__ void by_struct(view v, int n)
{
    int i = own_index();
    if (i <= n)
        v.data[i] = 2.5f; // FAULT by_struct
}

__global__ void by_table(float **table, int n)
{
    int i = own_index();
    if (i <= n)
        table[1][i] = 2.5f; // FAULT by_table
}

static __device__ __noinline__ void put(float *out, int i)
{
    out[i] = 2.5f; // FAULT nested
}

__global__ void nested(float *out, int n)
{
    int i = own_index();
    if (i > n)
        return;
    put(out, i);
}

__global__ void cooperative(float *out, int n)
{
    cooperative_groups::this_grid().sync();
    int i = own_index();
    if (i <= n)
        out[i] = 2.5f; // FAULT cooperative
}

extern __shared__ float shared[];

__global__ void much_shared(float *out, int n)
{
    shared[threadIdx.x + 20000] = 2.5f;
    __syncthreads();
    int i = own_index();
    if (i <= n)
        out[i] = shared[threadIdx.x + 20000]; // FAULT much_shared
}

// 1000 MiB and more behind the end.
__global__ void far_away(float *out, int n)
{
    int i = own_index();
    if (i >= n)
        out[i == n ? (long)n : (long)n + ((long)i << 18)] = 2.5f; // FAULT far_away
}

__global__ void keep_busy(float *out, int rounds)
{
    float value = out[threadIdx.x];
    for (int i = 0; i < rounds; i++)
        value = value * 0.999f + 0.001f;
    out[threadIdx.x] = value;
}

// How many elements there are is said in memory of the host.
struct said {
    float *out;
    int n;
};

__global__ void by_host(float *out, const said *host)
{
    int i = own_index();
    if (i <= host->n)
        out[i] = 2.5f; // FAULT by_host
}

// The pointer is there, too, and the memory is written to.
__global__ void through_host(said *host, int *seen)
{
    int i = own_index();
    if (i == 0)
        *seen += 1;
    if (i <= host->n)
        host->out[i] = 2.5f; // FAULT through_host
}

template <class T>
static void launch(void (*kernel)(T *, int), size_t count = COUNT)
{
    kernel<<<(unsigned)((count + BLOCK) / BLOCK), BLOCK>>>(allocate<T>(count), (int)count);
}

static void launch_table()
{
    float *rows[2] = {allocate<float>(COUNT), allocate<float>(COUNT)};
    float **table = allocate<float *>(2);
    CALL(cudaMemcpy(table, rows, sizeof rows, cudaMemcpyHostToDevice));
    by_table<<<BLOCKS, BLOCK>>>(table, COUNT);
}

static void launch_cooperative()
{
    float *out = allocate<float>(COUNT);
    int n = COUNT;
    void *arguments[] = {&out, &n};
    CALL(cudaLaunchCooperativeKernel((void *)cooperative, BLOCKS, BLOCK, arguments, 0, 0));
}

static void launch_much_shared()
{
    int bytes = (20000 + BLOCK) * sizeof(float);
    CALL(cudaFuncSetAttribute(much_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    much_shared<<<BLOCKS, BLOCK, bytes>>>(allocate<float>(COUNT), COUNT);
}

static void launch_pinned()
{
    said *host;
    CALL(cudaMallocHost(&host, sizeof *host));
    host->n = COUNT;
    by_host<<<BLOCKS, BLOCK>>>(allocate<float>(COUNT), host);
}

// Memory of malloc's, registered, whose start is no page's; and mapped memory of cudaHostAlloc's.
static void launch_registered()
{
    char *own = (char *)malloc(1 << 20) + 4000;
    int *seen;
    said *host = (said *)own;
    CALL(cudaHostRegister(own, 256, cudaHostRegisterMapped));
    CALL(cudaHostAlloc(&seen, sizeof *seen, cudaHostAllocMapped | cudaHostAllocWriteCombined));
    *seen = 0;
    *host = said{allocate<float>(COUNT), COUNT};
    through_host<<<BLOCKS, BLOCK>>>(host, seen);
}

// On half of the multiprocessors. The driver's functions are found as any program may find them.
static void launch_green()
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    auto get_resource = (decltype(&cuDeviceGetDevResource))dlsym(library, "cuDeviceGetDevResource");
    auto split = (decltype(&cuDevSmResourceSplitByCount))dlsym(library, "cuDevSmResourceSplitByCount");
    auto describe = (decltype(&cuDevResourceGenerateDesc))dlsym(library, "cuDevResourceGenerateDesc");
    auto create = (decltype(&cuGreenCtxCreate))dlsym(library, "cuGreenCtxCreate");
    auto create_stream = (decltype(&cuGreenCtxStreamCreate))dlsym(library, "cuGreenCtxStreamCreate");
    float *out = allocate<float>(COUNT);
    CUdevResource all, halves[2];
    CUdevResourceDesc description;
    CUgreenCtx green;
    CUstream stream;
    unsigned parts = 1;
    EXPECT(get_resource && split && describe && create && create_stream);
    EXPECT(get_resource(0, &all, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS);
    EXPECT(split(halves, &parts, &all, nullptr, 0, all.sm.smCount / 2) == CUDA_SUCCESS && parts == 1);
    EXPECT(describe(&description, halves, 1) == CUDA_SUCCESS);
    EXPECT(create(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM) == CUDA_SUCCESS);
    EXPECT(create_stream(&stream, green, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
    store_4<<<BLOCKS, BLOCK, 0, stream>>>(out, COUNT);
}

static void launch_managed()
{
    said *host;
    CALL(cudaMallocManaged(&host, sizeof *host));
    host->n = COUNT;
    by_host<<<BLOCKS, BLOCK>>>(allocate<float>(COUNT), host);
}

static cudaKernelNodeParams store_node(void **given)
{
    cudaKernelNodeParams node = {};
    node.func = (void *)store_4;
    node.gridDim = dim3(BLOCKS);
    node.blockDim = dim3(BLOCK);
    node.kernelParams = given;
    return node;
}

// Two nodes of one kernel; the first gets other arguments when the graph has run.
static void launch_updated()
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaGraphNode_t nodes[2];
    float *right = allocate<float>(2 * COUNT), *wrong = allocate<float>(COUNT);
    int n = COUNT, fewer = COUNT - 1;
    void *well[] = {&right, &n}, *also_well[] = {&right, &fewer}, *bad[] = {&wrong, &n};
    cudaKernelNodeParams node = store_node(well);
    CALL(cudaGraphCreate(&graph, 0));
    CALL(cudaGraphAddKernelNode(&nodes[0], graph, nullptr, 0, &node));
    node.kernelParams = also_well;
    CALL(cudaGraphAddKernelNode(&nodes[1], graph, &nodes[0], 1, &node));
    CALL(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 3000; i++)
        CALL(cudaGraphLaunch(executable, 0));
    CALL(cudaDeviceSynchronize());
    node.kernelParams = bad;
    CALL(cudaGraphExecKernelNodeSetParams(executable, nodes[0], &node));
    CALL(cudaGraphLaunch(executable, 0));
}

// Equal launches on streams that are busy with others; the second is wrong.
static void launch_busy()
{
    cudaStream_t streams[4];
    float *out[4]; /* first: a call behind the fault fails */
    for (int i = 0; i < 4; i++) {
        CALL(cudaStreamCreate(&streams[i]));
        out[i] = allocate<float>(COUNT);
        keep_busy<<<1, BLOCK, 0, streams[i]>>>(allocate<float>(BLOCK), 1 << 20);
    }
    for (int i = 0; i < 4; i++)
        store_4<<<BLOCKS, BLOCK, 0, streams[i]>>>(out[i], i == 1 ? COUNT : COUNT - 1);
}

static void launch_graph()
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    float *buffers[3];
    for (float *&buffer : buffers)
        buffer = allocate<float>(COUNT);
    CALL(cudaStreamCreate(&stream));
    CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < 3; i++)
        store_4<<<BLOCKS, BLOCK, 0, stream>>>(buffers[i], i == 1 ? COUNT : COUNT - 1);
    CALL(cudaStreamEndCapture(stream, &graph));
    CALL(cudaGraphInstantiate(&executable, graph, 0));
    CALL(cudaGraphLaunch(executable, stream));
}

static void launch_late()
{
    float *out = allocate<float>(COUNT);
    if (!margin)
        CALL(cudaFree(out));
    store_4<<<BLOCKS, BLOCK>>>(out, COUNT - 1);
}

// A node of the graph allocates the memory. It is the driver's, and others share its page.
static void launch_graph_memory()
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaGraphNode_t nodes[2];
    cudaMemAllocNodeParams memory = {};
    memory.poolProps.allocType = cudaMemAllocationTypePinned;
    memory.poolProps.location.type = cudaMemLocationTypeDevice;
    memory.bytesize = COUNT * sizeof(float) + 2 * margin;
    CALL(cudaGraphCreate(&graph, 0));
    CALL(cudaGraphAddMemAllocNode(&nodes[0], graph, nullptr, 0, &memory));
    float *out = (float *)((char *)memory.dptr + margin);
    int n = COUNT;
    void *given[] = {&out, &n};
    cudaKernelNodeParams node = store_node(given);
    CALL(cudaGraphAddKernelNode(&nodes[1], graph, &nodes[0], 1, &node));
    CALL(cudaGraphInstantiate(&executable, graph, 0));
    CALL(cudaGraphLaunch(executable, 0));
}

// The program wants the driver's core dump for itself, and the driver then calls the launch a success.
static void launch_with_dump()
{
    setenv("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "1", 1);
    setenv("CUDA_COREDUMP_FILE", "own.%p.core", 1);
    setenv("CUDA_COREDUMP_GENERATION_FLAGS", "skip_global_memory,skip_shared_memory,skip_local_memory,skip_abort", 1);
    launch(store_4);
}

static void launch_in_child()
{
    int status;
    if (fork() == 0)
        return launch(store_4);
    EXPECT(wait(&status) > 0 && WIFEXITED(status));
    exit(WEXITSTATUS(status));
}

static const kind kinds[] = {
    {"store_1", [] { launch(store_1, 1008); }},
    {"store_2", [] { launch(store_2); }},
    {"store_half", [] { launch(store_half); }},
    {"store_4", [] { launch(store_4); }},
    {"store_8", [] { launch(store_8); }},
    {"store_16", [] { launch(store_16); }},
    {"add", [] { launch(add); }},
    {"swap", [] { launch(swap); }},
    {"add_8", [] { launch(add_8); }},
    {"add_float", [] { launch(add_float); }},
    {"add_half2", [] { launch(add_half2); }},
    {"exchange", [] { launch(exchange); }},
    {"swap_8", [] { launch(swap_8); }},
    {"copy_4", [] { copy_4<<<BLOCKS, BLOCK>>>(allocate<float>(COUNT), COUNT); }},
    {"copy_8", [] { copy_8<<<BLOCKS, BLOCK>>>(allocate<double>(COUNT), COUNT); }},
    {"copy_16", [] { copy_16<<<BLOCKS, BLOCK>>>(allocate<float4>(COUNT), COUNT); }},
    {"green", launch_green},
    {"no_mask", [] { launch(no_mask); }},
    {"before", [] { launch(before); }},
    {"by_struct",
     [] {
         by_struct<<<BLOCKS, BLOCK>>>(view{0, allocate<float>(COUNT)}, COUNT);
     }},
    {"by_table", launch_table},
    {"nested", [] { launch(nested); }},
    {"cooperative", launch_cooperative},
    {"pinned", launch_pinned},
    {"registered", launch_registered},
    {"managed", launch_managed},
    {"updated", launch_updated},
    {"much_shared", launch_much_shared},
    {"far_away", [] { launch(far_away); }},
    {"large", [] { launch(store_4, (3u << 30) / sizeof(float)); }},
    {"busy", launch_busy},
    {"graph", launch_graph},
    {"late", launch_late},
    {"graph_memory", launch_graph_memory},
    {"own_dump", launch_with_dump},
    {"child", launch_in_child},
    {"everywhere", [] { store_4<<<100000, 256>>>(allocate<float>(margin ? 25600000 : COUNT), 25599999); }},
    {"null", [] { store_4<<<BLOCKS, BLOCK>>>(margin ? allocate<float>(COUNT) : nullptr, COUNT); }},
    {"wild", [] { store_4<<<BLOCKS, BLOCK>>>(margin ? allocate<float>(COUNT) : (float *)0x123456789000, COUNT); }},
};

int main(int argc, char **argv)
{
    return run_kind(argc, argv, kinds, 1);
}
