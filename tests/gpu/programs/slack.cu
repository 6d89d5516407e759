// Kernels write beside buffers, where the hardware sees nothing: slack before [async] | tail | clean.
#include "check.h"

#include <cstring>

__global__ void store_at(char *at, int count, char value)
{
    if (threadIdx.x < count)
        at[threadIdx.x] = value; // FAULT
}

__global__ void store_all(char *buffer, size_t bytes)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < bytes; i += (size_t)gridDim.x * blockDim.x)
        buffer[i] = 7;
}

static void clean(cudaStream_t stream)
{
    for (size_t i = 0; i < 3000; i++) {
        size_t bytes = i * 7919 % 20000 + 1;
        char *buffer, *other;
        CALL(cudaMallocAsync(&buffer, bytes, stream));
        CALL(cudaMallocAsync(&other, 1000, stream));
        store_all<<<8, 128, 0, stream>>>(buffer, bytes);
        store_all<<<8, 128, 0, stream>>>(other, 1000);
        CALL(cudaFreeAsync(other, stream));
        CALL(cudaFreeAsync(buffer, stream));
    }
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "clean";
    bool is_async = count > 2 && !strcmp(arguments[2], "async");
    cudaStream_t stream;
    char *buffer;
    CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (!strcmp(what, "clean")) {
        clean(stream);
    } else {
        CALL(is_async ? cudaMallocAsync(&buffer, 1000, stream) : cudaMalloc(&buffer, 1000));
        store_all<<<8, 128, 0, stream>>>(buffer, 1000);
        store_at<<<1, 32, 0, stream>>>(!strcmp(what, "before") ? buffer - 16 : buffer + 1000, !strcmp(what, "before") ? 16 : 3,
                                       0x41);
        CALL(is_async ? cudaFreeAsync(buffer, stream) : cudaFree(buffer));
    }
    CALL(cudaDeviceSynchronize());
    printf("done\n");
    return 0;
}
