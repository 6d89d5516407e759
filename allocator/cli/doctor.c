/* `cufence doctor`: what this machine's driver and permissions allow, and what to do about each 'no'. */
#include "cli.h"

#include "driver/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define GIB (1ull << 30)

enum need { NEEDED, HELPFUL };

struct tally {
    int missing; /* NEEDED ones that are not there */
    int weaker;  /* HELPFUL ones that are not there */
};

static void line(const char *mark, const char *what, const char *format, va_list arguments)
{
    printf("%-4s %-18s ", mark, what);
    vprintf(format, arguments);
    putchar('\n');
}

static void yes(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void no(struct tally *tally, enum need need, const char *what, const char *remedy, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

static void yes(const char *what, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    line("yes", what, format, arguments);
    va_end(arguments);
}

static void no(struct tally *tally, enum need need, const char *what, const char *remedy, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    line(need == NEEDED ? "NO" : "no", what, format, arguments);
    va_end(arguments);
    printf("%-4s %-18s -> %s\n", "", "", remedy);
    if (need == NEEDED)
        tally->missing++;
    else
        tally->weaker++;
}

static int attribute(CUdevice device, CUdevice_attribute which)
{
    int value = 0;
    return driver->cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : -1;
}

static const char *result_name(CUresult result)
{
    const char *name = NULL;
    driver->cuGetErrorName(result, &name);
    return name ? name : "unknown error";
}

/* ---- the driver and its devices ---- */

/* Reserves as the allocator does: from the most that it asks for, halved until the driver agrees. */
static void check_address_space(struct tally *tally)
{
    CUdeviceptr address = 0;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t size = 64ull << 40; size >= GIB; size /= 2) {
        result = driver->cuMemAddressReserve(&address, size, 0, 0, 0);
        if (result == CUDA_SUCCESS) {
            driver->cuMemAddressFree(address, size);
            yes("address space", "%zu GiB reserved in one piece", (size_t)(size / GIB));
            return;
        }
    }
    no(tally, NEEDED, "address space", "raise the limit on address space: ulimit -v unlimited",
       "not even 1 GiB can be reserved: %s", result_name(result));
}

/* Maps one page for real, in the device's primary context, which is current. */
static CUresult try_mapping(CUdevice device, size_t *granularity, const char **call)
{
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    const CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address = 0;
    *call = "cuMemGetAllocationGranularity";
    CUresult result = driver->cuMemGetAllocationGranularity(granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (result != CUDA_SUCCESS)
        return result;
    *call = "cuMemAddressReserve";
    result = driver->cuMemAddressReserve(&address, *granularity, 0, 0, 0);
    if (result != CUDA_SUCCESS)
        return result;
    *call = "cuMemCreate";
    result = driver->cuMemCreate(&handle, *granularity, &properties, 0);
    if (result != CUDA_SUCCESS)
        goto free_address;
    *call = "cuMemMap";
    result = driver->cuMemMap(address, *granularity, 0, handle, 0);
    if (result != CUDA_SUCCESS)
        goto release_handle;
    *call = "cuMemSetAccess";
    result = driver->cuMemSetAccess(address, *granularity, &access, 1);
    driver->cuMemUnmap(address, *granularity);
release_handle:
    driver->cuMemRelease(handle);
free_address:
    driver->cuMemAddressFree(address, *granularity);
    return result;
}

static void check_device(struct tally *tally, int ordinal)
{
    static const char *const compute_modes[] = {"default", "exclusive-thread", "prohibited", "exclusive-process"};
    CUdevice device;
    CUcontext context;
    char name[128] = "?", what[32];
    const char *call = "";
    size_t memory = 0, granularity = 0;
    snprintf(what, sizeof what, "device %d", ordinal);
    CUresult result = driver->cuDeviceGet(&device, ordinal);
    if (result != CUDA_SUCCESS) {
        no(tally, NEEDED, what, "check the device with nvidia-smi", "cuDeviceGet: %s", result_name(result));
        return;
    }
    driver->cuDeviceGetName(name, sizeof name, device);
    driver->cuDeviceTotalMem(&memory, device);
    yes(what, "%s, compute capability %d.%d, %.1f GiB", name, attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
        attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR), (double)memory / (double)GIB);

    int mode = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
    const char *mode_name = mode >= 0 && mode <= 3 ? compute_modes[mode] : "unknown";
    if (mode == CU_COMPUTEMODE_PROHIBITED)
        no(tally, NEEDED, "  compute mode", "nvidia-smi --compute-mode=0 (as root)", "%s: no context can be created",
           mode_name);
    else
        yes("  compute mode", "%s", mode_name);

    if (attribute(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 1) {
        no(tally, NEEDED, "  memory mapping", "use another device; a vGPU may have it switched off",
           "the device has no virtual memory management (attribute 102)");
        return;
    }
    result = driver->cuDevicePrimaryCtxRetain(&context, device);
    if (result == CUDA_SUCCESS)
        result = driver->cuCtxSetCurrent(context);
    if (result != CUDA_SUCCESS) {
        no(tally, NEEDED, "  context", "free memory on the device, or end the process that holds it: nvidia-smi names it", "%s",
           result_name(result));
        return;
    }
    result = try_mapping(device, &granularity, &call);
    if (result == CUDA_SUCCESS)
        yes("  memory mapping", "granularity %zu KiB: the least that a buffer takes", granularity >> 10);
    else
        no(tally, NEEDED, "  memory mapping",
           result == CUDA_ERROR_OUT_OF_MEMORY ? "free memory on the device: nvidia-smi shows who holds it"
                                              : "update the NVIDIA driver",
           "%s: %s", call, result_name(result));
}

static void check_driver(struct tally *tally)
{
    int count = 0;
    cufence_status status = driver_load();
    if (status != CUFENCE_OK) {
        no(tally, NEEDED, "driver",
           status == CUFENCE_ERROR_DRIVER_TOO_OLD ? "update the driver"
           : status == CUFENCE_ERROR_UNSUPPORTED
               ? "check CUDA_VISIBLE_DEVICES and nvidia-smi; a container has to be started with --gpus"
               : "install the NVIDIA driver; a container has to be started with --gpus",
           "%s", cufence_error_detail());
        return;
    }
    yes("driver", "%s, CUDA %d.%d%s", driver->path, driver->version / 1000, driver->version % 1000 / 10,
        driver->is_sim ? ", the simulated device" : "");
    CUresult result = driver->cuDeviceGetCount(&count);
    if (result != CUDA_SUCCESS || count < 1)
        no(tally, NEEDED, "devices", "check CUDA_VISIBLE_DEVICES and nvidia-smi", "none: %s", result_name(result));
    for (int i = 0; result == CUDA_SUCCESS && i < count; i++)
        check_device(tally, i);
    check_address_space(tally);
    if (driver->cuCoredumpSetAttributeGlobal)
        yes("core dumps", "the driver can write them on request");
    else
        no(tally, HELPFUL, "core dumps", "update the NVIDIA driver to CUDA 12.1 or later",
           "the driver has no cuCoredumpSetAttributeGlobal: a fault stops the program, but is not explained");
}

/* ---- the process and the system ---- */

/* The driver takes these variables over what cufence asks for. */
static void check_environment(struct tally *tally)
{
    static const char *const variables[] = {"CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "CUDA_COREDUMP_FILE",
                                            "CUDA_COREDUMP_GENERATION_FLAGS", "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP"};
    int found = 0;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = getenv(variables[i]);
        if (!value)
            continue;
        found = 1;
        no(tally, HELPFUL, "environment", "unset it: it wins over what cufence asks the driver for", "%s=%s is set",
           variables[i], value);
    }
    if (!found)
        yes("environment", "no CUDA_*COREDUMP* variable is in the way");
}

static void check_fifo(struct tally *tally)
{
    char folder[4096], path[4200];
    const char *temporary = getenv("TMPDIR");
    if (!temporary || !*temporary)
        temporary = "/tmp";
    int made = snprintf(folder, sizeof folder, "%s/cufence-doctor-XXXXXX", temporary) < (int)sizeof folder && mkdtemp(folder);
    int error = errno;
    if (made) {
        snprintf(path, sizeof path, "%s/fifo", folder);
        made = mkfifo(path, 0600) == 0;
        error = errno;
        unlink(path);
        rmdir(folder);
    }
    if (made)
        yes("named pipe", "can be made in %s, for core dumps", temporary);
    else
        no(tally, HELPFUL, "named pipe", "set TMPDIR to a folder on a local file system that you may write to",
           "cannot be made in %s: %s", temporary, strerror(error));
}

static void check_address_limit(struct tally *tally)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0)
        no(tally, HELPFUL, "address limit", "ulimit -v unlimited", "cannot be read: %s", strerror(errno));
    else if (limit.rlim_cur == RLIM_INFINITY)
        yes("address limit", "none (ulimit -v)");
    else
        no(tally, HELPFUL, "address limit", "ulimit -v unlimited", "%llu KiB of address space (ulimit -v)",
           (unsigned long long)limit.rlim_cur >> 10);
}

static void check_kernel_log(struct tally *tally)
{
    int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    int error = errno;
    char first[8192];
    int readable = log >= 0 && (read(log, first, sizeof first) >= 0 || errno == EAGAIN || errno == EPIPE);
    if (log >= 0) {
        if (!readable)
            error = errno;
        close(log);
    }
    if (readable)
        yes("kernel log", "/dev/kmsg can be read");
    else
        no(tally, HELPFUL, "kernel log",
           "not needed while core dumps work; else run as root or with CAP_SYSLOG, or set kernel.dmesg_restrict=0",
           "/dev/kmsg cannot be read: %s", strerror(error));
}

int cli_doctor(int argc, char **argv)
{
    struct tally tally = {0, 0};
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf("usage: cufence doctor\n\nSays what this machine's driver and permissions allow, and what to do about each no. "
               "A NO in\n"
               "capitals is something that cufence needs. Exit status: 0 if cufence can work here, 1 if not.\n");
        return 0;
    }
    if (argc > 1) {
        fprintf(stderr, "cufence doctor: takes no argument, but got \"%s\"; see cufence doctor --help\n", argv[1]);
        return CLI_USAGE;
    }
    check_driver(&tally);
    check_environment(&tally);
    check_fifo(&tally);
    check_address_limit(&tally);
    check_kernel_log(&tally);
    if (tally.missing)
        printf("\ncufence cannot work here: %d of the things that it needs are missing (marked NO).\n", tally.missing);
    else
        printf("\ncufence can work here%s.\n", tally.weaker ? ", with the limits marked no" : "");
    return tally.missing ? 1 : 0;
}
