/* The contract's kernels on a real GPU; kernels.ptx.h is generated from this file by ./dev ptx. */
extern "C" __global__ void contract_hold(const volatile unsigned *flag)
{
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do {
        if (*flag)
            return;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - start < 10000000000ull);
}

extern "C" __global__ void contract_fill(unsigned char *to, unsigned long long bytes, unsigned value)
{
    for (unsigned long long i = 0; i < bytes; i++)
        to[i] = (unsigned char)value;
}

extern "C" __global__ void contract_fetch(unsigned long long texture, float *to, unsigned floats)
{
    for (unsigned i = 0; i < floats; i++) {
        float x, y, z, w; /* four come, one is wanted */
        asm volatile("tex.1d.v4.f32.s32 {%0, %1, %2, %3}, [%4, {%5}];"
                     : "=f"(x), "=f"(y), "=f"(z), "=f"(w)
                     : "l"(texture), "r"(i));
        to[i] = x;
    }
}
