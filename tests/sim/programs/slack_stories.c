/* Stories about writes beside a buffer that the hardware does not see. */
#include "program.h"

static CUdeviceptr allocate(int is_async, size_t size, CUstream stream)
{
    CUdeviceptr address;
    if (is_async)
        MUST(cu.cuMemAllocAsync(&address, size, stream));
    else
        MUST(cu.cuMemAlloc(&address, size));
    return address;
}

/* beside plain|async OFFSET LAUNCHES: stores 4 bytes at this offset from a buffer of 1000, after that many launches that store
 * within it, and frees it. */
int story_beside(int count, char **arguments)
{
    int is_async = count > 2 && strcmp(arguments[2], "async") == 0;
    long offset = count > 3 ? strtol(arguments[3], NULL, 10) : -4, launches = count > 4 ? strtol(arguments[4], NULL, 10) : 0;
    CUstream stream = NULL;
    start();
    if (is_async)
        MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr other = allocate(is_async, 1000, stream), address = allocate(is_async, 1000, stream);
    MUST(cu.cuCtxSynchronize()); /* the pattern is there, however busy the machine is */
    for (long i = 0; i < launches; i++)
        MUST(store(address + 4 * (CUdeviceptr)i, 7, stream));
    MUST(store(other, 7, stream));
    MUST(store(address + (CUdeviceptr)offset, 0x3f800000, stream)); /* 1.0f */
    MUST(is_async ? cu.cuMemFreeAsync(address, stream) : cu.cuMemFree(address));
    MUST(is_async ? cu.cuMemFreeAsync(other, stream) : cu.cuMemFree(other));
    return say("context", cu.cuCtxSynchronize()) == CUDA_SUCCESS ? 0 : 1;
}
