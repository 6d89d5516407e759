// Kernels for the stories of tests/gpu.
//
// The index arithmetic is realistic: the bug is in a comparison or in an index, never a made-up address.

__device__ static int global_index()
{
    return blockIdx.x * blockDim.x + threadIdx.x;
}

extern "C" __global__ void gpu_read_past(const float *in, float *out, int n)
{
    int i = global_index();
    if (i >= n)
        return;
    float next = in[i + 1];
    out[i] = next - in[i];
}

// In bounds from here on.

extern "C" __global__ void gpu_fill(int *out, size_t n, int value)
{
    for (size_t i = global_index(); i < n; i += (size_t)gridDim.x * blockDim.x)
        out[i] = value;
}

// Waits `ns` of the device's clock, then stores.
extern "C" __global__ void gpu_wait(unsigned long long ns, int *out, int value)
{
    unsigned long long start, time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    while (time - start < ns);
    *out = value;
}
