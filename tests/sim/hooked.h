/* A process under the preload library, but for the library. Include it once. */
#pragma once

#include "second_launch.h"

#include "preload/preload_internal.h"

static inline void start_hooked(const char *options)
{
    CUcontext context;
    char all[256];
    snprintf(all, sizeof all, "wait_ms=1000/60000,%s", options);
    setenv("CUFENCE_OPTIONS", all, 1);
    table_open();
    CHECK_CU(hook_cuInit(0));
    CHECK(is_active());
    CHECK_CU(hook_cuDevicePrimaryCtxRetain(&context, 0));
    CHECK_CU(cuCtxSetCurrent(context));
    CHECK_CU(cuModuleLoadData(&module, "any"));
}
