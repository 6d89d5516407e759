/* Checks the preload library of `cufence run` and backend:cufence: is it installed, does it load, do its hooks work? */
#include "doctor.h"
#include "program.h"

#include "base/text.h"
#include "driver/driver.h"

#include <cufence.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

void check_preload(struct findings *findings)
{
    char self[PATH_MAX], file[PATH_MAX];
    findings_section(findings, "preload: cufence run, backend:cufence");
    if (!installed_program(self) || !installed_preload(self, file)) {
        found(findings, FOUND_NO, "preload library", "without it there is the C API, and cufence.enable() in Python",
              INSTALLED_PRELOAD " is in none of these places, relative to this program's folder: " INSTALLED_PLACES);
        return;
    }
    found(findings, FOUND_YES, "preload library", NULL, "%s", file);
    /* a minute: the first start of a driver on a large machine takes several seconds */
    ask(findings, "loading",
        "exec timeout -k1 60 env -u CUFENCE_OPTIONS LD_PRELOAD='%s'\"${LD_PRELOAD:+:$LD_PRELOAD}\" '%s' doctor --probe 2>&1",
        file, self);
}

/* ---- the process under it ---- */

/* Looks functions up as a program does: the driver table of ours bypasses the hooks. */
#define NAME(function) #function
#define FIND(function) ((__typeof__(&(function)))dlsym(driver->library, NAME(function)))

/* Allocates with these functions, and looks whether the memory is cufence's. `library` is libcufence.so. */
static void try_hook(struct findings *findings, const char *check, void *allocate, void *release, void *library)
{
    enum { BYTES = 1000 };
    CUdeviceptr pointer = 0;
    cufence_description what = {0};
    __typeof__(&cufence_describe) describe = library ? (__typeof__(describe))dlsym(library, "cufence_describe") : NULL;
    int is_made = allocate && release && ((__typeof__(&cuMemAlloc))allocate)(&pointer, BYTES) == CUDA_SUCCESS;
    int is_ours = is_made && describe && describe((const void *)(uintptr_t)pointer, &what) == CUFENCE_OK &&
                  what.place == CUFENCE_PLACE_INSIDE && what.buffer.size == BYTES;
    if (is_made)
        ((__typeof__(&cuMemFree))release)(pointer);
    if (is_ours)
        found(findings, FOUND_YES, check, NULL, "a program that finds the driver so gets its memory from cufence");
    else
        found(findings, FOUND_MISSING, check, "reinstall cufence: library and preload library must come from one build",
              "a program that finds the driver so gets %s", is_made ? "its memory from the driver" : "no memory");
}

static void *by_address(const char *name)
{
    void *function = NULL;
    CUdriverProcAddressQueryResult found;
    return FIND(cuGetProcAddress_v2)(name, &function, 3020, 0, &found) == CUDA_SUCCESS ? function : NULL;
}

/* Uses CUDA as a program does. What is missing without it, check_driver() says. */
static void try_hooks(struct findings *findings)
{
    CUdevice device;
    CUcontext context;
    if (driver_load() != CUFENCE_OK || FIND(cuInit)(0) != CUDA_SUCCESS || FIND(cuDeviceGet)(&device, 0) != CUDA_SUCCESS ||
        FIND(cuDevicePrimaryCtxRetain)(&context, device) != CUDA_SUCCESS || FIND(cuCtxSetCurrent)(context) != CUDA_SUCCESS) {
        found(findings, FOUND_NEITHER, "hooks", NULL, "not tried: CUDA cannot be started");
        return;
    }
    void *library = dlopen("libcufence.so.0", RTLD_NOW | RTLD_NOLOAD);
    try_hook(findings, "hooks (dlsym)", FIND(cuMemAlloc), FIND(cuMemFree), library);
    if (FIND(cuGetProcAddress_v2))
        try_hook(findings, "hooks (address)", by_address("cuMemAlloc"), by_address("cuMemFree"), library);
}

int doctor_probe(void)
{
    struct findings findings = {.is_json = 1, .section = ""};
    if (dlopen(INSTALLED_PRELOAD, RTLD_NOW | RTLD_NOLOAD)) {
        found(&findings, FOUND_YES, "loading", NULL, "the loader puts it into programs (LD_PRELOAD works)");
        try_hooks(&findings);
    } else {
        found(&findings, FOUND_NO, "loading", "run without special rights, link dynamically with glibc, or use the C API",
              "LD_PRELOAD was ignored%s", getauxval(AT_SECURE) ? ": this process runs with special rights (AT_SECURE)" : "");
    }
    text_put_json(stdout, findings.all, JSON_COMPACT);
    return fflush(stdout); /* before what cufence says at the end */
}
