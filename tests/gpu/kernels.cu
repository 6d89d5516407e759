// Kernels for the stories of tests/gpu. The line that a report must name ends with "fault: <kernel>".
//
// The index arithmetic is realistic: the bug is in a comparison or in an index, never a made-up address.

// Work after the faulting access, so that the warp is still alive when the driver takes its dump.
__device__ static float keep_busy(float value, int rounds)
{
    for (int i = 0; i < rounds; i++)
        value = value * 0.999f + 0.001f;
    return value;
}

__device__ static int global_index()
{
    return blockIdx.x * blockDim.x + threadIdx.x;
}

extern "C" __global__ void gpu_read_past(const float *in, float *out, int n)
{
    int i = global_index();
    if (i >= n)
        return;
    float next = in[i + 1]; // fault: gpu_read_past
    out[i] = next - in[i];
}

extern "C" __global__ void gpu_write_past(float *out, float *scratch, int n)
{
    int i = global_index();
    if (i > n)
        return;
    out[i] = (float)i; // fault: gpu_write_past
    float value = keep_busy((float)i, 200000);
    if (i < n)
        scratch[i] = value;
}

// The store is the kernel's last instruction.
extern "C" __global__ void gpu_store_only(float *out, int n)
{
    int i = global_index();
    if (i <= n)
        out[i] = 1.0f; // fault: gpu_store_only
}

extern "C" __global__ void gpu_atomic(int *counts, int *scratch, int n)
{
    int i = global_index();
    if (i > n)
        return;
    int before = atomicAdd(&counts[i], 1); // fault: gpu_atomic
    if (i < n)
        scratch[i] = before;
}

// n is the number of 16-byte elements.
extern "C" __global__ void gpu_vector(const float4 *in, float *out, int n)
{
    int i = global_index();
    if (i > n)
        return;
    float4 four = in[i];                                    // fault: gpu_vector
    out[i < n ? i : 0] = four.x + four.y + four.z + four.w; // used by all, otherwise the compiler loads only where i < n
}

// Two-byte elements, an odd number of them.
extern "C" __global__ void gpu_half(const unsigned short *in, unsigned short *out, int n)
{
    int i = global_index();
    if (i > n)
        return;
    unsigned short value = in[i]; // fault: gpu_half
    out[i < n ? i : 0] = value;
}

extern "C" __global__ void gpu_read_before(const float *in, float *out, int n)
{
    int i = global_index();
    if (i >= n)
        return;
    float left = in[i - 1]; // fault: gpu_read_before
    out[i] = left + in[i];
}

extern "C" __global__ void gpu_gather(const float *table, float *out, int n)
{
    int i = global_index();
    if (i >= n)
        return;
    float value = table[n - 1 - i]; // fault: gpu_gather
    out[i] = value;
}

// In bounds from here on.

extern "C" __global__ void gpu_fill(int *out, size_t n, int value)
{
    for (size_t i = global_index(); i < n; i += (size_t)gridDim.x * blockDim.x)
        out[i] = value;
}

extern "C" __global__ void gpu_count_other(const int *in, size_t n, int value, int *others)
{
    for (size_t i = global_index(); i < n; i += (size_t)gridDim.x * blockDim.x)
        if (in[i] != value)
            atomicAdd(others, 1);
}

extern "C" __global__ void gpu_add(int *out, size_t n, int value)
{
    for (size_t i = global_index(); i < n; i += (size_t)gridDim.x * blockDim.x)
        out[i] += value;
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
