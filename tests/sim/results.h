/* What the tests of the simulated device share: a call's result is compared, and printed, by its name. */
#ifndef CUFENCE_TESTS_RESULTS_H
#define CUFENCE_TESTS_RESULTS_H

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

#endif
