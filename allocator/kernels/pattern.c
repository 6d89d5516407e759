#include "pattern.h"

#include "kernels.h"
#include "pattern.ptx.h"

#define THREADS 128u

CUfunction pattern_load(void)
{
    static const char *const names[] = {PATTERN_KERNEL};
    CUfunction function;
    return kernels_load(pattern_ptx, names, &function, 1) ? function : NULL;
}

CUresult pattern_launch(CUfunction function, CUstream stream, CUdeviceptr jobs, CUdeviceptr states, unsigned count)
{
    void *arguments[] = {&jobs, &states};
    return driver->cuLaunchKernel(function, count, 1, 1, THREADS, 1, 1, 0, stream, arguments, NULL);
}
