/* Invented forms of functions, for simulating a driver newer than its users know (CUFENCE_SIM newer=VERSION). Their parameters
 * are in a different order than today's, so that calling them as a known form fails. */
#include "call.h"
#include "config.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

static CUresult alloc_newer(size_t bytes, unsigned flags, CUdeviceptr *out)
{
    return flags != 0 ? CUDA_ERROR_INVALID_VALUE : cuMemAlloc(out, bytes);
}

static CUresult free_newer(unsigned flags, CUdeviceptr address)
{
    return flags != 0 ? CUDA_ERROR_INVALID_VALUE : cuMemFree(address);
}

static CUresult synchronize_newer(unsigned flags, CUstream stream)
{
    return flags != 0 ? CUDA_ERROR_INVALID_VALUE : cuStreamSynchronize(stream);
}

static CUresult synchronize_newer_ptsz(unsigned flags, CUstream stream)
{
    stream_use_own_default(1);
    CUresult result = synchronize_newer(flags, stream);
    stream_use_own_default(0);
    return result;
}

typedef void (*newer_function)(void);

static const struct {
    const char *name;
    newer_function function, twin;
} forms[] = {
    {"cuMemAlloc", (newer_function)alloc_newer, NULL},
    {"cuMemFree", (newer_function)free_newer, NULL},
    {"cuStreamSynchronize", (newer_function)synchronize_newer, (newer_function)synchronize_newer_ptsz},
};

int newer_parse(const char *text, int *version)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);
    if (*end != '\0' || number <= CUDA_VERSION || number > 99990)
        return 0;
    *version = (int)number;
    return 1;
}

int newer_version(void)
{
    const char *setting = secure_getenv("CUFENCE_SIM"), *found = setting == NULL ? NULL : strstr(setting, "newer=");
    char digits[8] = "";
    int version = 0;
    if (found != NULL)
        memcpy(digits, found + strlen("newer="), strnlen(found + strlen("newer="), 5));
    return newer_parse(digits, &version) ? version : 0;
}

int newer_find(const char *name, int version, int is_twin, void **function)
{
    if (newer_version() == 0 || version < newer_version())
        return 0;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (strcmp(forms[i].name, name) != 0)
            continue;
        const newer_function *found = is_twin && forms[i].twin != NULL ? &forms[i].twin : &forms[i].function;
        memcpy(function, found, sizeof *function);
        return 1;
    }
    return 0;
}
