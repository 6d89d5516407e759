// The kernel of lens/kernels/reach.cu as it is, run on the host with one thread.
#define __global__
#define __device__
#define __shared__ static
#define __syncthreads() ((void)0)
#define __threadfence() ((void)0)
#define __threadfence_block() ((void)0)

struct index {
    unsigned x;
};
static index threadIdx, blockDim = {1};

struct alignas(16) ulonglong2 {
    unsigned long long x, y;
};

static unsigned atomicAdd(unsigned *to, unsigned value)
{
    unsigned old = *to;
    *to += value;
    return old;
}

static unsigned atomicExch(unsigned *to, unsigned value)
{
    unsigned old = *to;
    *to = value;
    return old;
}

#include "lens/kernels/reach.cu"

extern "C" void reach_on_host(const void *arguments)
{
    cufence_reach(*static_cast<const reach *>(arguments));
}
