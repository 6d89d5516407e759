/*
 * A driver library without one function: the simulated device, but what the variable CUFENCE_TEST_LACKS names is not found.
 * It stands for a driver that is older than cufence needs.
 */
#include <cuda.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *found);

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *found)
{
    void *library = dlopen(CUFENCE_SIM_LIBRARY, RTLD_NOW);
    __typeof__(cuGetProcAddress_v2) *real = library ? (__typeof__(real))dlsym(library, "cuGetProcAddress_v2") : NULL;
    const char *lacking = getenv("CUFENCE_TEST_LACKS");
    *function = NULL;
    return real && !(lacking && strcmp(name, lacking) == 0) ? real(name, function, version, flags, found)
                                                            : CUDA_ERROR_NOT_FOUND;
}
