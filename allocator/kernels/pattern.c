#include "pattern.h"

#include "base/aside.h"
#include "base/clock.h"
#include "kernels.h"
#include "pattern.ptx.h"

#define PAUSE_US 20u
#define THREADS 128u
#define BLOCKS 64u /* that fill a page */

int pattern_load(CUfunction *function, CUfunction *fill)
{
    static const char *const names[] = {PATTERN_KERNEL, PATTERN_FILL_KERNEL};
    CUfunction functions[2];
    if (!kernels_load(pattern_ptx, names, functions, 2))
        return 0;
    *function = functions[0];
    *fill = functions[1];
    return 1;
}

CUresult pattern_launch(CUfunction function, CUstream stream, CUdeviceptr jobs, CUdeviceptr states, unsigned count)
{
    void *arguments[] = {&jobs, &states};
    return kernels_launch(function, count, THREADS, stream, arguments);
}

int pattern_await(struct flight *flight, struct pattern_job *jobs, size_t count, uint64_t until_ms)
{
    while (!flight_is_over(flight)) {
        if (monotonic_ms() < until_ms) {
            aside_sleep(PAUSE_US);
            continue;
        }
        for (size_t i = 0; i < count; i++)
            __atomic_store_n(&jobs[i].does, 0, __ATOMIC_RELEASE);
        return 0;
    }
    return 1;
}

CUresult pattern_fill(CUfunction fill, CUstream stream, CUdeviceptr start, uint64_t bytes)
{
    void *arguments[] = {&start, &bytes};
    return kernels_launch(fill, BLOCKS, THREADS, stream, arguments);
}
