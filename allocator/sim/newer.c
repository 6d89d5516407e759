/* Invented forms of functions, for simulating a driver newer than its users know (CUFENCE_SIM newer=VERSION). Their parameters
 * are in a different order than today's, so that calling them as a known form fails. */
#include "config.h"
#include "stream.h"

static CUresult alloc_newer(size_t bytes, unsigned flags, CUdeviceptr *out)
{
    return flags != 0 ? CUDA_ERROR_INVALID_VALUE : cuMemAlloc(out, bytes);
}

static CUresult free_newer(unsigned flags, CUdeviceptr address)
{
    return flags != 0 ? CUDA_ERROR_INVALID_VALUE : cuMemFree(address);
}

static CUresult wait_newer(unsigned flags, CUstream stream)
{
    return flags != 0 ? CUDA_ERROR_INVALID_VALUE : cuStreamSynchronize(stream);
}

static CUresult wait_newer_ptsz(unsigned flags, CUstream stream)
{
    stream_use_own_default(1);
    CUresult result = wait_newer(flags, stream);
    stream_use_own_default(0);
    return result;
}

SYMBOL(alloc_newer, "cuMemAlloc", "cuMemAlloc_v9", CUDA_VERSION + 1, alloc_newer, NULL)
SYMBOL(free_newer, "cuMemFree", "cuMemFree_v9", CUDA_VERSION + 1, free_newer, NULL)
SYMBOL(wait_newer, "cuStreamSynchronize", "cuStreamSynchronize_v9", CUDA_VERSION + 1, wait_newer, wait_newer_ptsz)

int newer_version(void)
{
    const char *setting = secure_getenv("CUFENCE_SIM"), *found = setting == NULL ? NULL : strstr(setting, "newer=");
    return found == NULL ? 0 : atoi(found + strlen("newer="));
}
