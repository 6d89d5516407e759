/* The torture program's kernels on a real GPU; kernels.ptx.h is generated from this file (see there). */
struct result {
    unsigned wrong, done, index, got;
};

/* Word i of a buffer is value + i * step. */
extern "C" __global__ void torture_fill(unsigned *to, unsigned long long words, unsigned value, unsigned step)
{
    unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += stride)
        to[i] = value + (unsigned)i * step;
}

extern "C" __global__ void torture_check(const unsigned *from, unsigned long long words, unsigned value, unsigned step,
                                         struct result *result)
{
    unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    unsigned long long first = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (unsigned long long i = first; i < words; i += stride) {
        unsigned got = from[i];
        if (got != value + (unsigned)i * step && atomicAdd_system(&result->wrong, 1) == 0) {
            result->index = (unsigned)i;
            result->got = got;
        }
    }
    if (first == 0)
        atomicAdd_system(&result->done, 1);
}

extern "C" __global__ void torture_copy(unsigned *to, const unsigned *from, unsigned long long words)
{
    unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += stride)
        to[i] = from[i];
}

/* Keeps a stream busy until the host sets *flag. Gives up after this many microseconds, and sets *expired. */
extern "C" __global__ void torture_hold(const volatile unsigned *flag, unsigned *expired, unsigned microseconds)
{
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do {
        if (*flag)
            return;
        __nanosleep(2000);
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - start < microseconds * 1000ull);
    atomicAdd_system(expired, 1);
}
