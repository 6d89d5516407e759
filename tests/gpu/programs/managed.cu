// Memory of the host, which a debug allocator for device memory has to leave alone: pinned, mapped and managed.
#include "check.h"

enum { COUNT = 1000, BLOCK = 128 };

__global__ void add_one(int *numbers, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        numbers[i] += 1;
}

static void number(int *numbers)
{
    for (int i = 0; i < COUNT; i++)
        numbers[i] = i;
}

static void add_and_expect(int *seen_by_device, const int *seen_by_host)
{
    add_one<<<(COUNT + BLOCK - 1) / BLOCK, BLOCK>>>(seen_by_device, COUNT);
    CALL(cudaGetLastError());
    CALL(cudaDeviceSynchronize());
    for (int i = 0; i < COUNT; i++)
        EXPECT(seen_by_host[i] == i + 1);
}

static void use_pinned()
{
    int *host, *device;
    CALL(cudaMallocHost(&host, COUNT * sizeof *host));
    CALL(cudaMalloc(&device, COUNT * sizeof *device));
    number(host);
    CALL(cudaMemcpy(device, host, COUNT * sizeof *host, cudaMemcpyHostToDevice));
    add_one<<<(COUNT + BLOCK - 1) / BLOCK, BLOCK>>>(device, COUNT);
    CALL(cudaMemcpy(host, device, COUNT * sizeof *host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < COUNT; i++)
        EXPECT(host[i] == i + 1);
    cudaPointerAttributes attributes;
    CALL(cudaPointerGetAttributes(&attributes, host));
    EXPECT(attributes.type == cudaMemoryTypeHost);
    CALL(cudaFree(device));
    CALL(cudaFreeHost(host));
    printf("pinned\n");
}

static void use_mapped()
{
    int *host, *device;
    CALL(cudaHostAlloc(&host, COUNT * sizeof *host, cudaHostAllocMapped));
    CALL(cudaHostGetDevicePointer(&device, host, 0));
    number(host);
    add_and_expect(device, host);
    CALL(cudaFreeHost(host));
    printf("mapped\n");
}

static void use_managed()
{
    int *numbers, is_supported = 0;
    CALL(cudaDeviceGetAttribute(&is_supported, cudaDevAttrManagedMemory, 0));
    if (!is_supported) {
        printf("managed memory is not supported here\n");
        return;
    }
    CALL(cudaMallocManaged(&numbers, COUNT * sizeof *numbers));
    number(numbers);
    add_and_expect(numbers, numbers);
    cudaPointerAttributes attributes;
    CALL(cudaPointerGetAttributes(&attributes, numbers));
    EXPECT(attributes.type == cudaMemoryTypeManaged);
    CALL(cudaFree(numbers)); // cudaFree serves both kinds
    printf("managed\n");
}

int main()
{
    use_pinned();
    use_mapped();
    use_managed();
    return 0;
}
