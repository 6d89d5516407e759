#include "fault.h"
#include "kernel.h"
#include "space.h"

DRIVER_EARLY(cuInit, 2000, (unsigned int, Flags))
{
    static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
    static int is_done; /* under init_lock */
    CALL_REFUSE(Flags != 0, INVALID_VALUE);
    CALL_REFUSE(call_is_forked(), NOT_INITIALIZED);
    HOLD(&init_lock);
    if (is_done)
        return CUDA_SUCCESS;
    CALL_TRY(config_load());
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

#define ATTRIBUTE(name, value) LIST(CU_DEVICE_ATTRIBUTE_##name, (int)(value))

DRIVER(cuDeviceGetAttribute, 2000, (int *, pi, CUdevice_attribute, attrib, CUdevice, dev))
{
    CALL_TRY(device_check(dev, pi));
    /* Attributes of an H100, except for the number of multiprocessors; others read as 0. */
    const struct {
        CUdevice_attribute attribute;
        int value;
    } table[] = LIST(
        ATTRIBUTE(COMPUTE_CAPABILITY_MAJOR, 9), ATTRIBUTE(MULTIPROCESSOR_COUNT, SIM_MULTIPROCESSORS),
        ATTRIBUTE(MAX_THREADS_PER_MULTIPROCESSOR, 2048), ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, SIM_SHARED_BYTES_OPTIN),
        ATTRIBUTE(UNIFIED_ADDRESSING, 1), ATTRIBUTE(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1),
        ATTRIBUTE(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, config_get()->is_shareable),
        ATTRIBUTE(MEMORY_POOLS_SUPPORTED, 1), ATTRIBUTE(TEXTURE_ALIGNMENT, 512), ATTRIBUTE(TEXTURE_PITCH_ALIGNMENT, 32),
        ATTRIBUTE(DMA_BUF_SUPPORTED, config_get()->is_shareable), ATTRIBUTE(PCI_DOMAIN_ID, config_get()->pci[dev].domain),
        ATTRIBUTE(PCI_BUS_ID, config_get()->pci[dev].bus), ATTRIBUTE(PCI_DEVICE_ID, config_get()->pci[dev].device));
    *pi = 0;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (table[i].attribute == attrib)
            *pi = table[i].value;
    }
    return attrib < 1 || attrib >= CU_DEVICE_ATTRIBUTE_MAX ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

DRIVER(cuDeviceCanAccessPeer, 4000, (int *, canAccessPeer, CUdevice, dev, CUdevice, peerDev))
{
    CALL_TRY(device_check(dev, canAccessPeer));
    CALL_TRY(device_check(peerDev, canAccessPeer));
    *canAccessPeer = dev != peerDev;
    return CUDA_SUCCESS;
}
