// Kernels write beside buffers, where the hardware sees nothing: slack before [async] | tail [async] | clean, or as programs
// do: one_byte | two_bytes | tail_of_8 | head | count_down | four_before. All buffers are freed afterwards.
#include "check.h"

#include <cstring>

__global__ void store_at(char *at, int count, char value)
{
    if (threadIdx.x < count)
        at[threadIdx.x] = value; // FAULT store_at
}

__global__ void one_byte(char *to, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        to[i] = 0x41; // FAULT one_byte
}

__global__ void two_bytes(short *to, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        to[i] = 0x4142; // FAULT two_bytes
}

__global__ void tail_of_8(double *to, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        to[i] = 2.5; // FAULT tail_of_8
}

__global__ void head(float *to, int before)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < before)
        to[i - before] = 2.5f; // FAULT head
}

__global__ void count_down(float *to, int n)
{
    for (int i = n - 1; i >= -1; i--)
        to[i] = 2.5f; // FAULT count_down
}

__global__ void four_before(float *to, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        to[i - 1] = 2.5f; // FAULT four_before
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

static const struct shape {
    const char *name;
    void *kernel;
    int blocks, threads, n;
    size_t bytes;
} shapes[] = {
    {"one_byte", (void *)one_byte, 8, 128, 1003, 1003},  {"two_bytes", (void *)two_bytes, 4, 128, 501, 1002},
    {"tail_of_8", (void *)tail_of_8, 1, 128, 125, 1000}, {"head", (void *)head, 8, 128, 4, 1000},
    {"count_down", (void *)count_down, 1, 1, 250, 1000}, {"four_before", (void *)four_before, 2, 128, 250, 1000},
};

static bool write_shape(const char *name)
{
    for (shape one : shapes) {
        void *buffer, *given[] = {&buffer, &one.n};
        if (strcmp(one.name, name))
            continue;
        CALL(cudaMalloc(&buffer, one.bytes));
        CALL(cudaLaunchKernel(one.kernel, dim3(one.blocks), dim3(one.threads), given, 0, 0));
        CALL(cudaFree(buffer));
        return true;
    }
    return false;
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
    } else if (!write_shape(what)) {
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
