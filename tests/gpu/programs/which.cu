// Many launches of one kernel are on record when one of them faults in its last instruction. Which one, only trying them tells.
//   which streams|graph|distinct|equal|read [right]
#include "check.h"

#include <cstring>

enum { COUNT = 1000, BLOCK = 128, BLOCKS = 8, BUFFERS = 8, STREAMS = 8 };

static int too_long = COUNT + 1; // with a second argument it is right
static float *buffers[BUFFERS];
static float *sums;
static cudaStream_t streams[STREAMS];

__global__ void fill(float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = 2.5f; // FAULT fill
}

__global__ void sum(const float *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(out + i % 8, in[i]); // FAULT sum
}

/* 80 on 8 streams with 8 buffers. One of the first is too long. */
static void launch_on_streams()
{
    for (int i = 0; i < 80; i++)
        fill<<<BLOCKS, BLOCK, 0, streams[i % STREAMS]>>>(buffers[(i * 5 + i / 8) % BUFFERS],
                                                         i == 11 ? too_long : COUNT - i / 8);
}

/* 300 with a length of their own each. */
static void launch_distinct()
{
    for (int i = 0; i < 300; i++)
        fill<<<BLOCKS, BLOCK, 0, streams[i % STREAMS]>>>(buffers[i % BUFFERS], i == 21 ? too_long : COUNT - i);
}

/* 1000, of which all but one are alike. */
static void launch_equal()
{
    for (int i = 0; i < 1000; i++)
        fill<<<BLOCKS, BLOCK>>>(buffers[2], i == 100 ? too_long : COUNT);
}

static void launch_reads()
{
    for (int i = 0; i < 80; i++)
        sum<<<BLOCKS, BLOCK, 0, streams[i % STREAMS]>>>(buffers[(i * 5 + i / 8) % BUFFERS], sums,
                                                        i == 11 ? too_long : COUNT - i / 8);
}

static void launch_graph()
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CALL(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
    for (int i = 0; i < 80; i++)
        fill<<<BLOCKS, BLOCK, 0, streams[0]>>>(buffers[i % BUFFERS], i == 11 ? too_long : COUNT - i / 8);
    CALL(cudaStreamEndCapture(streams[0], &graph));
    CALL(cudaGraphInstantiate(&executable, graph, 0));
    CALL(cudaGraphLaunch(executable, streams[0]));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*launch)();
    } kinds[] = {{"streams", launch_on_streams},
                 {"graph", launch_graph},
                 {"distinct", launch_distinct},
                 {"equal", launch_equal},
                 {"read", launch_reads}};
    if (argc > 2)
        too_long = COUNT - 1;
    for (float *&buffer : buffers) {
        CALL(cudaMalloc(&buffer, COUNT * sizeof *buffer));
        CALL(cudaMemset(buffer, 0, COUNT * sizeof *buffer));
    }
    CALL(cudaMalloc(&sums, 8 * sizeof *sums));
    CALL(cudaMemset(sums, 0, 8 * sizeof *sums));
    for (cudaStream_t &stream : streams)
        CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CALL(cudaDeviceSynchronize());
    for (auto &kind : kinds)
        if (argc > 1 && !strcmp(argv[1], kind.name))
            kind.launch();
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorName(error));
    return error == cudaSuccess ? 0 : 1;
}
