#include "lifecycle.h"

#include "base/error.h"
#include "base/output.h"
#ifdef CUFENCE_HAS_LENS
#include "analysis/lines/cubin.h"
#include "contexts/contexts.h"
#include "lens/code/code.h"
#include "lens/lens.h"
#endif
#include "witness/rerun_source.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The option that asks for it, NULL if none does. */
static const char *asking(const struct options *options)
{
    return options->values[0]        ? "values"
           : options->nan != NAN_OFF ? "nan"
           : options->trace[0]       ? "trace"
           : options->save_values[0] ? "save_values"
                                     : NULL;
}

#ifdef CUFENCE_HAS_LENS
/* The code of modules is kept for a write into slack, which leaves no core dump. */
static cufence_status open(const struct options *options, const char *option)
{
    int wants_code = options->slack && rerun_source_is_wanted(options);
    if (wants_code)
        code_keep();
    return option || wants_code ? lens_open(options) : lens_check(options);
}
#endif

cufence_status lifecycle_lens(const struct options *options, int is_start)
{
    const char *option = asking(options);
    if (is_start && options->every > 1 && !options->trace[0] && options->nan == NAN_OFF)
        output_say("==%d== cufence: every= does nothing without trace= or nan=\n", (int)getpid());
#ifdef CUFENCE_HAS_LENS
    return is_start ? open(options, option) : lens_check(options);
#else
    return option
               ? error_set(CUFENCE_ERROR_UNSUPPORTED, "%s: this cufence was built without its lens (CUFENCE_LENS=OFF)", option)
               : CUFENCE_OK;
#endif
}

#ifdef CUFENCE_HAS_LENS
struct named {
    const char *symbol;
    struct span copy;
    int is_unclear; /* several modules have a kernel of the name */
};

static void take_named(struct span cubin, void *user)
{
    struct named *named = user;
    struct cubin_kernel kernel;
    if (!cubin_find_kernel(cubin, named->symbol, &kernel))
        return;
    if (named->copy.bytes) {
        named->is_unclear |= named->copy.size != cubin.size || memcmp(named->copy.bytes, cubin.bytes, cubin.size) != 0;
        return;
    }
    uint8_t *copy = malloc(cubin.size);
    if (copy)
        named->copy = (struct span){memcpy(copy, cubin.bytes, cubin.size), cubin.size};
}

/* Makes a context of the device current. */
static int enter(int device, uint32_t *sm)
{
    CUdevice handle;
    int major = 0, minor = 0;
    CUcontext context = driver->cuDeviceGet(&handle, device) == CUDA_SUCCESS ? context_primary_of(handle) : NULL;
    if (!context || driver->cuCtxPushCurrent(context) != CUDA_SUCCESS)
        return 0;
    driver->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle);
    driver->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle);
    *sm = (uint32_t)(10 * major + minor);
    return 1;
}

struct span lifecycle_code(const char *symbol, int device)
{
    struct named named = {.symbol = symbol};
    uint32_t sm;
    CUcontext popped;
    if (!code_is_kept || !enter(device, &sm))
        return named.copy;
    code_look_named(symbol, sm, take_named, &named);
    driver->cuCtxPopCurrent(&popped);
    if (named.is_unclear) {
        free((void *)(uintptr_t)named.copy.bytes);
        named.copy = (struct span){NULL, 0};
    }
    return named.copy;
}
#else
struct span lifecycle_code(const char *symbol, int device)
{
    (void)symbol;
    (void)device;
    return (struct span){NULL, 0};
}
#endif
