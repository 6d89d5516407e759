#include "driver.h"

#include "call_checks.h"

#include "base/lock.h"
#include "base/files.h"
#include "base/env.h"
#include "base/error.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum need { OPTIONAL, REQUIRED };

typedef CUresult (*get_proc_address_v2)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
typedef CUresult (*get_proc_address_v1)(const char *, void **, int, cuuint64_t);

const struct driver *driver;

static struct driver table;
static struct lock load_lock = LOCK(RANK_DRIVER); /* held while loading */

/* Looks a symbol up with the C library's own dlsym, not an interposed one. */
static void *symbol_in(void *library, const char *name)
{
    static void *(*real)(void *, const char *); /* atomic */
    void *(*found)(void *, const char *) = __atomic_load_n(&real, __ATOMIC_RELAXED);
    if (!found) {
        static const char *const homes[] = {"libc.so.6", "libdl.so.2"}; /* libdl: before glibc 2.34 */
        static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
        for (size_t i = 0; !found && i < 2 * 3; i++) {
            void *home = dlopen(homes[i / 3], RTLD_LAZY | RTLD_NOLOAD);
            if (home)
                found = (void *(*)(void *, const char *))dlvsym(home, "dlsym", versions[i % 3]);
        }
        if (!found)
            found = dlsym;
        __atomic_store_n(&real, found, __ATOMIC_RELAXED);
    }
    return found(library, name);
}

/* Finds one function of the library. cuda.h gives the newest signature a suffix (cuMemAlloc_v2). cuGetProcAddress takes the
 * plain name and a version instead; dlsym needs the suffix. */
static void *find(const char *name, const char *symbol, int version)
{
    void *address = NULL;
    get_proc_address_v2 by_version2 = (get_proc_address_v2)symbol_in(table.library, "cuGetProcAddress_v2");
    if (by_version2) {
        CUdriverProcAddressQueryResult found;
        if (by_version2(name, &address, version, CU_GET_PROC_ADDRESS_DEFAULT, &found) == CUDA_SUCCESS && address)
            return address;
    }
    get_proc_address_v1 by_version1 = (get_proc_address_v1)symbol_in(table.library, "cuGetProcAddress");
    if (!by_version2 && by_version1 && by_version1(name, &address, version, CU_GET_PROC_ADDRESS_DEFAULT) == CUDA_SUCCESS)
        return address;
    return symbol_in(table.library, symbol);
}

/* Finds the simulated device in the installation that holds this code. The program `cufence` is known by the name that it was
 * started by, which may be a link, or have no folder if it was found in PATH. */
static int find_sim(char path[PATH_MAX])
{
    Dl_info info;
    char own[PATH_MAX];
    if (!dladdr((void *)&find_sim, &info) || !info.dli_fname)
        return 0;
    if (!realpath(strchr(info.dli_fname, '/') ? info.dli_fname : "/proc/self/exe", own))
        return 0;
    return installation_library(own, "libcufence_sim.so", path);
}

static cufence_status open_library(void)
{
    const char *wanted = env_get("CUFENCE_DRIVER");
    if (!wanted || !*wanted) {
        snprintf(table.path, sizeof table.path, "libcuda.so.1");
        table.library = dlopen(table.path, RTLD_NOW | RTLD_LOCAL);
    } else if (strcmp(wanted, "sim") == 0) {
        char path[PATH_MAX];
        const char *file = find_sim(path) ? path : "libcufence_sim.so"; /* which the loader may still find */
        table.library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
        snprintf(table.path, sizeof table.path, "%.*s", (int)sizeof table.path - 1, file);
        if (!table.library)
            return error_set(CUFENCE_ERROR_DRIVER_NOT_FOUND,
                             "CUFENCE_DRIVER=sim: %s; the simulated device is a part of cufence: install it again", dlerror());
    } else {
        snprintf(table.path, sizeof table.path, "%s", wanted);
        table.library = dlopen(table.path, RTLD_NOW | RTLD_LOCAL);
    }
    if (!table.library)
        return error_set(CUFENCE_ERROR_DRIVER_NOT_FOUND,
                         "cannot open the CUDA driver library %s: %s; install the NVIDIA driver, or set CUFENCE_DRIVER=sim for "
                         "the simulated device (`cufence demo` and tests only)",
                         wanted && *wanted ? wanted : "libcuda.so.1", dlerror());
    table.is_sim = symbol_in(table.library, "cusim_register_kernel") != NULL;
    return CUFENCE_OK;
}

static cufence_status find_functions(void)
{
    const char *missing = NULL;
    int missing_version = 0, found = 0;
#define SYMBOL_(text) #text
#define SYMBOL(text) SYMBOL_(text)
#define X(function, version_, need)                                                                                            \
    table.function = (__typeof__(table.function))find(#function, SYMBOL(function), version_);                                  \
    if (table.function)                                                                                                        \
        found++;                                                                                                               \
    else if ((need) == REQUIRED && !missing) {                                                                                 \
        missing = #function;                                                                                                   \
        missing_version = version_;                                                                                            \
    }
    DRIVER_FUNCTIONS(X)
#undef X
#undef SYMBOL
#undef SYMBOL_
    table.stream_capture_info =
        (__typeof__(table.stream_capture_info))find("cuStreamGetCaptureInfo", "cuStreamGetCaptureInfo_v2", 11030);
    if (!table.stream_capture_info && !missing) {
        missing = "cuStreamGetCaptureInfo";
        missing_version = 11030;
    }
    if (!found)
        return error_set(CUFENCE_ERROR_DRIVER_NOT_FOUND,
                         "%s is not a CUDA driver library: it has none of its functions; check CUFENCE_DRIVER", table.path);
    if (missing)
        return error_set(CUFENCE_ERROR_DRIVER_TOO_OLD,
                         "the CUDA driver %s lacks %s, which came with CUDA %d.%d; update the NVIDIA driver", table.path,
                         missing, missing_version / 1000, missing_version % 1000 / 10);
    return CUFENCE_OK;
}

static cufence_status load(void)
{
    cufence_status status = table.library ? CUFENCE_OK : open_library();
    if (status == CUFENCE_OK)
        status = find_functions();
    if (status == CUFENCE_OK) {
        CUresult result = table.cuInit(0);
        if (result != CUDA_SUCCESS) {
            const char *name = NULL;
            table.cuGetErrorName(result, &name);
            status = error_set(
                result == CUDA_ERROR_NO_DEVICE ? CUFENCE_ERROR_UNSUPPORTED : CUFENCE_ERROR_DRIVER,
                "cuInit: %s (%d) from %s; `cufence doctor` says more, CUFENCE_DRIVER=sim simulates one for `cufence demo`",
                name ? name : "unknown error", (int)result, table.path);
        }
    }
    if (status == CUFENCE_OK) {
        table.cuDriverGetVersion(&table.version);
        driver_check_calls(&table);
    } else if (table.library) {
        dlclose(table.library);
        memset(&table, 0, sizeof table);
    }
    return status;
}

cufence_status driver_load(void)
{
    if (__atomic_load_n(&driver, __ATOMIC_ACQUIRE))
        return CUFENCE_OK;
    HOLD(&load_lock);
    cufence_status status = driver ? CUFENCE_OK : load();
    if (status == CUFENCE_OK)
        __atomic_store_n(&driver, &table, __ATOMIC_RELEASE);
    return status;
}

void *driver_symbol(const char *name)
{
    HOLD(&load_lock);
    return table.library || open_library() == CUFENCE_OK ? symbol_in(table.library, name) : NULL;
}

/* Where the library that has this symbol was loaded; NULL: nowhere. */
static const void *base_of(const void *address)
{
    Dl_info info;
    return address && dladdr(address, &info) ? info.dli_fbase : NULL;
}

/* The program may have a driver beside the one that CUFENCE_DRIVER names. */
int driver_contains(const void *address)
{
    const void *base = base_of(address);
    const char *wanted = env_get("CUFENCE_DRIVER");
    void *loaded = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    int is_in = base && loaded && base_of(symbol_in(loaded, "cuInit")) == base;
    if (loaded)
        dlclose(loaded);
    return is_in || (base && wanted && *wanted && base_of(driver_symbol("cuInit")) == base);
}

int driver_has_faulted(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
        return 1;
    default:
        return 0;
    }
}

cufence_status driver_check(CUresult result, const char *call)
{
    if (result == CUDA_SUCCESS)
        return CUFENCE_OK;
    const char *name = NULL;
    driver->cuGetErrorName(result, &name);
    cufence_status status = result == CUDA_ERROR_OUT_OF_MEMORY ? CUFENCE_ERROR_OUT_OF_MEMORY
                            : driver_has_faulted(result)       ? CUFENCE_ERROR_FAULTED
                                                               : CUFENCE_ERROR_DRIVER;
    return error_set(status, "%s: %s (%d)", call, name ? name : "unknown error", (int)result);
}

uint32_t driver_describe(int number, char *name, size_t room)
{
    int major = 0, minor = 0;
    CUdevice device;
    name[0] = '\0';
    if (number < 0 || driver->cuDeviceGet(&device, number) != CUDA_SUCCESS)
        return 0;
    driver->cuDeviceGetName(name, (int)room, device);
    driver->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    driver->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    return (uint32_t)(major * 10 + minor);
}
