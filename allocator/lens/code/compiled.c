#include "compiled.h"

#include "driver/driver.h"

#include <stdlib.h>
#include <string.h>

static struct span copy_of(const void *bytes, size_t size)
{
    uint8_t *copy = size ? malloc(size) : NULL;
    return copy ? (struct span){memcpy(copy, bytes, size), size} : (struct span){NULL, 0};
}

struct span compiled_from(struct span ptx)
{
    CUjit_option options[] = {CU_JIT_GENERATE_LINE_INFO};
    void *values[] = {(void *)1}, *cubin = NULL;
    size_t size = 0;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUlinkState state;
    struct span compiled = {NULL, 0};
    if (!driver->cuLinkCreate || !driver->cuLinkAddData || !driver->cuLinkComplete || !driver->cuLinkDestroy)
        return compiled;
    driver->cuThreadExchangeStreamCaptureMode(&mode); /* the program may be capturing */
    if (driver->cuLinkCreate(1, options, values, &state) == CUDA_SUCCESS) {
        if (driver->cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)ptx.bytes, ptx.size, "ptx", 0, NULL, NULL) ==
                CUDA_SUCCESS &&
            driver->cuLinkComplete(state, &cubin, &size) == CUDA_SUCCESS)
            compiled = copy_of(cubin, size);
        driver->cuLinkDestroy(state);
    }
    driver->cuThreadExchangeStreamCaptureMode(&mode);
    return compiled;
}
