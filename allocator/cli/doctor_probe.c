/*
 * `cufence doctor --probe`, which `cufence doctor` starts under its preload library: uses CUDA as a program does, and checks
 * whether the memory that it gets is cufence's. Prints one JSON object:
 *
 * - preload: path of the library as mapped; absent if it is not mapped
 * - problem: why CUDA could not be tried, such as no driver or no device
 * - version: of the libcufence.so that the preload library has opened; absent if it has not
 * - dlsym, cuGetProcAddress: whose memory an allocation is by a symbol found in this way: "ours", "the driver's", or what
 * failed
 */
#include "doctor.h"

#include "driver/driver.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

/* cuda.h defines these names as macros for versioned ones. */
#undef cuGetProcAddress
#define BYTES 1000

typedef CUresult (*init_function)(unsigned);
typedef CUresult (*device_function)(CUdevice *, int);
typedef CUresult (*retain_function)(CUcontext *, CUdevice);
typedef CUresult (*current_function)(CUcontext);
typedef CUresult (*allocate_function)(CUdeviceptr *, size_t);
typedef CUresult (*free_function)(CUdeviceptr);
typedef CUresult (*address_function)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
typedef cufence_status (*describe_function)(const void *, cufence_description *);
typedef const char *(*version_function)(void);

struct libraries {
    char preload[4096]; /* path of the mapped library, "" if it is not mapped */
    char cufence[4096];
};

/* With or without a version behind it. */
static void note(const char *name, const char *file, char *path, size_t size)
{
    const char *slash = strrchr(name, '/');
    size_t length = strlen(file);
    if (slash && strncmp(slash + 1, file, length) == 0 && (slash[1 + length] == '\0' || slash[1 + length] == '.'))
        snprintf(path, size, "%s", name);
}

static int look_at(struct dl_phdr_info *info, size_t size, void *user)
{
    struct libraries *libraries = user;
    (void)size;
    note(info->dlpi_name, "libcufence_preload.so", libraries->preload, sizeof libraries->preload);
    note(info->dlpi_name, "libcufence.so", libraries->cufence, sizeof libraries->cufence);
    return 0;
}

static void put(json_t *facts, const char *key, const char *text)
{
    json_object_set_new(facts, key, json_string(text));
}

/* Looks functions up as a program does. cufence's own driver table bypasses the hooks. */
static void *symbol(const char *name)
{
    return dlsym(driver->library, name);
}

/* Starts CUDA and makes device 0's context current. Returns the name of the call that failed, or NULL. */
static const char *start_cuda(void)
{
    init_function init = (init_function)symbol("cuInit");
    device_function get_device = (device_function)symbol("cuDeviceGet");
    retain_function retain = (retain_function)symbol("cuDevicePrimaryCtxRetain");
    current_function set_current = (current_function)symbol("cuCtxSetCurrent");
    CUdevice device;
    CUcontext context;
    if (!init || !get_device || !retain || !set_current)
        return "the driver lacks a function";
    if (init(0) != CUDA_SUCCESS)
        return "cuInit has failed";
    if (get_device(&device, 0) != CUDA_SUCCESS)
        return "there is no device";
    return retain(&context, device) == CUDA_SUCCESS && set_current(context) == CUDA_SUCCESS ? NULL : "no context can be made";
}

/* Allocates with these functions and says whose memory it is. */
static const char *whose(allocate_function allocate, free_function release, describe_function describe)
{
    CUdeviceptr pointer = 0;
    cufence_description what = {0};
    if (!allocate || !release)
        return "the functions were not found";
    if (allocate(&pointer, BYTES) != CUDA_SUCCESS)
        return "the allocation has failed";
    int is_ours = describe && describe((const void *)(uintptr_t)pointer, &what) == CUFENCE_OK &&
                  what.place == CUFENCE_PLACE_INSIDE && what.buffer.size == BYTES;
    if (release(pointer) != CUDA_SUCCESS)
        return "the free has failed";
    return is_ours ? "ours" : "the driver's";
}

static void *by_address(address_function ask, const char *name, int version)
{
    CUdriverProcAddressQueryResult found;
    void *function = NULL;
    return ask && ask(name, &function, version, 0, &found) == CUDA_SUCCESS ? function : NULL;
}

static void try_hooks(json_t *facts)
{
    struct libraries libraries = {0};
    const char *problem = driver_load() == CUFENCE_OK ? start_cuda() : cufence_error_detail();
    if (problem) {
        put(facts, "problem", problem);
        return;
    }
    dl_iterate_phdr(look_at, &libraries);
    void *library = libraries.cufence[0] ? dlopen(libraries.cufence, RTLD_NOW | RTLD_NOLOAD) : NULL;
    describe_function describe = library ? (describe_function)dlsym(library, "cufence_describe") : NULL;
    version_function version = library ? (version_function)dlsym(library, "cufence_version_string") : NULL;
    if (version)
        put(facts, "version", version());
    put(facts, "dlsym", whose((allocate_function)symbol("cuMemAlloc_v2"), (free_function)symbol("cuMemFree_v2"), describe));
    address_function ask = (address_function)symbol("cuGetProcAddress_v2");
    if (ask) /* CUDA 12.0 and later */
        put(facts, "cuGetProcAddress",
            whose((allocate_function)by_address(ask, "cuMemAlloc", 3020), (free_function)by_address(ask, "cuMemFree", 3020),
                  describe));
}

int cli_doctor_probe(void)
{
    struct libraries libraries = {0};
    json_t *facts = json_object();
    dl_iterate_phdr(look_at, &libraries);
    if (libraries.preload[0])
        put(facts, "preload", libraries.preload);
    if (libraries.preload[0])
        try_hooks(facts);
    json_dumpf(facts, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(facts);
    return 0;
}
