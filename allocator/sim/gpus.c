#include "trap.h"
#include "kernel.h"
#include "virtual_memory.h"

/* When address space is reserved, sanitizers touch their shadow of it, which is slow for a large one. It is half as much
 * again as a power of two: who reserves the largest one that there is leaves some to others, as on a GPU. */
#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define RESERVE_DEFAULT ((size_t)24 << 30)
#elif defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define RESERVE_DEFAULT ((size_t)384 << 30)
#else
#define RESERVE_DEFAULT ((size_t)3 << 39)
#endif

/* Written by load_config() only, before cuInit() has returned. */
static struct sim_config config = {
    .devices = 1, .reuses_handles = 1, .is_shareable = 1, .depth = 1024, .memory = (size_t)8 << 30, .reserve = RESERVE_DEFAULT};

const struct sim_config *config_get(void)
{
    return &config;
}

int config_has_device(int device)
{
    return device >= 0 && (unsigned)device < config.devices;
}

/* Parses a number with an optional suffix (powers of 1024). Returns 0 if invalid. */
static int parse_size(const char *text, size_t *value)
{
    static const char units[] = "KMGT";
    char unit, rest;
    int found = sscanf(text, "%zu%c%c", value, &unit, &rest);
    const char *at = found == 2 ? strchr(units, unit) : NULL;
    unsigned shift = at == NULL ? 0 : 10u * (unsigned)(at - units + 1);
    if (text[0] < '0' || found < 1 || (found > 1 && at == NULL) || *value > SIZE_MAX >> shift)
        return 0;
    *value <<= shift;
    return 1;
}

/* fail=CALL:NTH:CODE, latency=CALL:MICROSECONDS */
static int parse_call(const char *key, const char *text)
{
    char call[64];
    unsigned number, code;
    int length = 0, found = sscanf(text, "%63[^:]:%8u%n:%3u%n", call, &number, &length, &code, &length);
    if (found != (strcmp(key, "fail") == 0 ? 3 : 2) || text[length] != '\0')
        return 0;
    if (found == 2)
        cusim_set_latency(call, number);
    else if (number == 0)
        cusim_fail_calls(call, (CUresult)code);
    else
        cusim_fail_call(call, number, (CUresult)code);
    return 1;
}

/* Parses DOMAIN:BUS:DEVICE in hexadecimal, as PCI addresses are written, for the next device. */
static int parse_pci(const char *text)
{
    static unsigned next;
    unsigned domain, bus, device;
    int length = 0;
    if (sscanf(text, "%4x:%2x:%2x%n", &domain, &bus, &device, &length) != 3 || text[length] != '\0' || device > 0x1f ||
        next == SIM_MAX_DEVICES)
        return 0;
    config.pci[next].domain = domain;
    config.pci[next].bus = bus;
    config.pci[next++].device = device;
    return 1;
}

static int parse_setting(const char *key, char *value)
{
    static const struct {
        const char *key;
        size_t least, most, *value;
    } settings[] = LIST(
        LIST("devices", 1, SIM_MAX_DEVICES, &config.devices), LIST("memory", SIM_GRANULARITY, SIZE_MAX, &config.memory),
        LIST("reserve", SIM_GRANULARITY, SIZE_MAX, &config.reserve), LIST("space", SIM_GRANULARITY, SIZE_MAX, &config.space),
        LIST("reuse", 0, 1, &config.reuses_handles), LIST("shareable", 0, 1, &config.is_shareable),
        LIST("strict", 0, 1, &config.is_strict), LIST("newer", CUDA_VERSION + 1, 99990, &config.newer),
        LIST("depth", 1, 1000000, &config.depth), LIST("slow", 1, 1000000, &config.slow),
        LIST("late_dump", 1, 10000, &config.late_dump), LIST("swallow", 1, 60000, &config.swallow));
    size_t number = 0, i = 0;
    if (strcmp(key, "fail") == 0 || strcmp(key, "latency") == 0)
        return parse_call(key, value);
    if (strcmp(key, "pci") == 0)
        return parse_pci(value);
    while (i < sizeof settings / sizeof *settings && strcmp(settings[i].key, key) != 0)
        i++;
    if (i == sizeof settings / sizeof *settings || !parse_size(value, &number) || number < settings[i].least ||
        number > settings[i].most)
        return 0;
    *settings[i].value = number;
    return 1;
}

/* Reads CUFENCE_SIM, and makes the configuration final. Errors: INVALID_VALUE, with a message on stderr. */
static CUresult load_config(void)
{
    const char *text = secure_getenv("CUFENCE_SIM");
    char *const copy = text == NULL ? NULL : memory_copy(text, strlen(text)), *rest = copy;
    int is_good = 1;
    for (unsigned i = 0; i < SIM_MAX_DEVICES; i++)
        config.pci[i].bus = 0x10 + i;
    for (char *item; is_good && (item = strsep(&rest, ",")) != NULL;) {
        char *value = strchr(item, '=');
        if (value != NULL)
            *value++ = '\0';
        is_good = value != NULL ? parse_setting(item, value) : *item == '\0';
        if (!is_good)
            fprintf(stderr, "cufence_sim: CUFENCE_SIM=%s: '%s' is not a setting of sim.h with a value that it allows\n", text,
                    item);
    }
    free(copy);
    return is_good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- the driver's functions about devices ---- */

DRIVER_EARLY(cuInit, 2000, (unsigned int, Flags))
{
    static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
    static int is_done; /* under init_lock */
    CALL_REFUSE(Flags != 0, INVALID_VALUE);
    CALL_REFUSE(call_is_forked(), NOT_INITIALIZED);
    HOLD(&init_lock);
    if (is_done)
        return CUDA_SUCCESS;
    CALL_TRY(load_config());
    CALL_TRY(space_initialize());
    CALL_TRY(kernel_load_library());
    coredump_load_environment();
    call_set_initialized();
    is_done = 1;
    return CUDA_SUCCESS;
}

DRIVER_EARLY(cuDriverGetVersion, 2020, (int *, driverVersion))
{
    CALL_REFUSE(driverVersion == NULL, INVALID_VALUE);
    *driverVersion = newer_version() != 0 ? newer_version() : CUDA_VERSION;
    return CUDA_SUCCESS;
}

DRIVER(cuDeviceGetCount, 2000, (int *, count))
{
    CALL_REFUSE(count == NULL, INVALID_VALUE);
    *count = (int)config_get()->devices;
    return CUDA_SUCCESS;
}

CUresult device_check(CUdevice device, const void *out)
{
    CALL_REFUSE(out == NULL, INVALID_VALUE);
    return config_has_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

DRIVER(cuDeviceGet, 2000, (CUdevice *, device, int, ordinal))
{
    CALL_TRY(device_check(ordinal, device));
    *device = ordinal;
    return CUDA_SUCCESS;
}

DRIVER(cuDeviceGetName, 2000, (char *, name, int, len, CUdevice, dev))
{
    CALL_TRY(device_check(dev, name));
    CALL_REFUSE(len <= 0, INVALID_VALUE);
    snprintf(name, (size_t)len, "%s", SIM_DEVICE_NAME);
    return CUDA_SUCCESS;
}

DRIVER(cuDeviceGetUuid, 11040, (CUuuid *, uuid, CUdevice, dev))
{
    CALL_TRY(device_check(dev, uuid));
    memcpy(uuid->bytes, "cufence-sim-gpu", 16);
    uuid->bytes[15] = (char)dev;
    return CUDA_SUCCESS;
}

DRIVER(cuDeviceTotalMem, 3020, (size_t *, bytes, CUdevice, dev))
{
    CALL_TRY(device_check(dev, bytes));
    *bytes = config_get()->memory;
    return CUDA_SUCCESS;
}

#define ATTRIBUTE(name) [CU_DEVICE_ATTRIBUTE_##name]

DRIVER(cuDeviceGetAttribute, 2000, (int *, pi, CUdevice_attribute, attrib, CUdevice, dev))
{
    CALL_TRY(device_check(dev, pi));
    CALL_REFUSE(attrib < 1 || attrib >= CU_DEVICE_ATTRIBUTE_MAX, INVALID_VALUE);
    /* Attributes of an H100, except for the number of multiprocessors; others read as 0. */
    const int values[CU_DEVICE_ATTRIBUTE_MAX] = {
        ATTRIBUTE(COMPUTE_CAPABILITY_MAJOR) = 9,
        ATTRIBUTE(MULTIPROCESSOR_COUNT) = SIM_MULTIPROCESSORS,
        ATTRIBUTE(MAX_THREADS_PER_MULTIPROCESSOR) = 2048,
        ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) = SIM_SHARED_BYTES_OPTIN,
        ATTRIBUTE(UNIFIED_ADDRESSING) = 1,
        ATTRIBUTE(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) = 1,
        ATTRIBUTE(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) = (int)config_get()->is_shareable,
        ATTRIBUTE(MEMORY_POOLS_SUPPORTED) = 1,
        ATTRIBUTE(TEXTURE_ALIGNMENT) = 512,
        ATTRIBUTE(TEXTURE_PITCH_ALIGNMENT) = 32,
        ATTRIBUTE(DMA_BUF_SUPPORTED) = (int)config_get()->is_shareable,
        ATTRIBUTE(PCI_DOMAIN_ID) = (int)config_get()->pci[dev].domain,
        ATTRIBUTE(PCI_BUS_ID) = (int)config_get()->pci[dev].bus,
        ATTRIBUTE(PCI_DEVICE_ID) = (int)config_get()->pci[dev].device,
    };
    *pi = values[attrib];
    return CUDA_SUCCESS;
}

DRIVER(cuDeviceCanAccessPeer, 4000, (int *, canAccessPeer, CUdevice, dev, CUdevice, peerDev))
{
    CALL_TRY(device_check(dev, canAccessPeer));
    CALL_TRY(device_check(peerDev, canAccessPeer));
    *canAccessPeer = dev != peerDev;
    return CUDA_SUCCESS;
}
