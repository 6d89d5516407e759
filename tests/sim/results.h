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
