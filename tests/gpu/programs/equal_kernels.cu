// Three launches of one kernel, each on a buffer of its own, in a graph or on a stream. Launch 0, 1 or 2 writes past its end.
//   equal_kernels WHICH [graph]
#include "check.h"

#include <cstring>

enum { COUNT = 1000, BLOCK = 128, LAUNCHES = 3 };

__global__ void fill(float *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= count)
        out[i] = 1; // FAULT
}

static void launch(float *const *buffers, int which, cudaStream_t stream)
{
    for (int i = 0; i < LAUNCHES; i++)
        fill<<<(COUNT + BLOCK) / BLOCK, BLOCK, 0, stream>>>(buffers[i], i == which ? COUNT : COUNT - 1);
}

int main(int argc, char **argv)
{
    int which = argc > 1 ? atoi(argv[1]) : 0;
    float *buffers[LAUNCHES];
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CALL(cudaStreamCreate(&stream));
    for (int i = 0; i < LAUNCHES; i++)
        CALL(cudaMalloc(&buffers[i], COUNT * sizeof **buffers));
    if (argc > 2 && !strcmp(argv[2], "graph")) {
        CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        launch(buffers, which, stream);
        CALL(cudaStreamEndCapture(stream, &graph));
        CALL(cudaGraphInstantiate(&executable, graph, 0));
        CALL(cudaGraphLaunch(executable, stream));
    } else {
        launch(buffers, which, stream);
    }
    cudaError_t error = cudaStreamSynchronize(stream);
    if (error == cudaSuccess)
        error = cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorName(error));
    return error == cudaSuccess ? 0 : 1;
}
