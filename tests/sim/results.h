/* What the tests of the simulated device share: a call's result is compared, and printed, by its name. */
#pragma once

#include "support/test.h"

#include <sim/sim.h>

#define OK(call) assert_result(call, CUDA_SUCCESS)

static inline void assert_result(CUresult result, CUresult wanted)
{
    const char *name = "?", *wanted_name = "?";
    cuGetErrorName(result, &name);
    cuGetErrorName(wanted, &wanted_name);
    assert_string_equal(name, wanted_name);
}

/* Makes the device's primary context current. */
static inline CUcontext use_device(int device)
{
    CUcontext primary;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&primary, device));
    OK(cuCtxSetCurrent(primary));
    return primary;
}

/* Keeps the stream busy until let_go(). */
static inline void launch_spin(CUfunction spin, uint32_t *flag, CUstream stream)
{
    OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&flag}, NULL));
}

static inline void let_go(uint32_t *flag)
{
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}
