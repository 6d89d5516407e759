/* The driver, its devices, and what they allow. */
#include "doctor.h"

#include "driver/driver.h"

#include <stdio.h>

#define GIB (1ull << 30)

/* Reserves as the allocator does: starts with the most that it asks for, and halves that until the driver agrees. */
static void check_address_space(struct findings *findings)
{
    CUdeviceptr address = 0;
    size_t size = 64ull << 40;
    while (size >= GIB && driver->cuMemAddressReserve(&address, size, 0, 0, 0) != CUDA_SUCCESS)
        size /= 2;
    if (size >= GIB)
        driver->cuMemAddressFree(address, size);
    found(findings, size >= GIB ? FOUND_YES : FOUND_MISSING, "address space",
          size >= GIB ? NULL : "raise the limit on address space: ulimit -v unlimited", "%zu GiB can be reserved in one piece",
          (size_t)(size / GIB));
}

/* What an attribute of the device may not be, or has to be. */
static const struct row {
    CUdevice_attribute which;
    int value, is_wanted; /* wanted: any other value is wrong */
    enum verdict_mark mark;
    const char *check, *remedy, *detail;
} rows[] = {
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1, 1, FOUND_MISSING, "  memory mapping",
     "use another device; a vGPU may have it switched off", "the device has no virtual memory management (attribute 102)"},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_PROHIBITED, 0, FOUND_MISSING, "  compute mode",
     "nvidia-smi --compute-mode=0 (as root)", "prohibited: no context can be created"},
    {CU_DEVICE_ATTRIBUTE_MPS_ENABLED, 1, 0, FOUND_NO, "  sharing", "stop the daemon: echo quit | nvidia-cuda-mps-control",
     "the device is shared by MPS, whose clients share a fault; cufence has not been tried there"},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1, 1, FOUND_NO, "  second launch",
     "use another device; a vGPU may have it switched off",
     "the device cannot give memory to another process (attribute 103): reports say less"},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_EXCLUSIVE_PROCESS, 0, FOUND_NO, "  second launch",
     "nvidia-smi --compute-mode=0 (as root)", "no other process can use the device: reports say less"},
};

/* Maps one page in the primary context, which becomes current. */
static CUresult try_mapping(CUdevice device, size_t *granularity)
{
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    const CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr address = 0;
    CUcontext context;
    CUresult result =
        driver->cuDevicePrimaryCtxRetain(&context, device)
            ?: driver->cuCtxSetCurrent(context)
            ?: driver->cuMemGetAllocationGranularity(granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM)
            ?: driver->cuMemAddressReserve(&address, *granularity, 0, 0, 0)
            ?: driver->cuMemCreate(&handle, *granularity, &properties, 0)
            ?: driver->cuMemMap(address, *granularity, 0, handle, 0)
            ?: driver->cuMemSetAccess(address, *granularity, &access, 1);
    if (result == CUDA_SUCCESS)
        driver->cuMemUnmap(address, *granularity);
    if (handle)
        driver->cuMemRelease(handle);
    if (address)
        driver->cuMemAddressFree(address, *granularity);
    return result;
}

static void check_device(struct findings *findings, CUdevice device)
{
    char name[128] = "?", what[32];
    size_t memory = 0, granularity = 0, missing = findings->count[FOUND_MISSING];
    unsigned compute = driver_describe(device, name, sizeof name);
    snprintf(what, sizeof what, "device %d", device);
    driver->cuDeviceTotalMem(&memory, device);
    found(findings, FOUND_YES, what, NULL, "%s, compute capability %u.%u, %.1f GiB", name, compute / 10, compute % 10,
          (double)memory / (double)GIB);
    if (compute < 70 || compute > 121) /* docs/guide/platforms.md */
        found(findings, FOUND_NEITHER, "  generation", NULL, "code of this GPU is not decoded: reports say less");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int value = 0;
        int is_known = driver->cuDeviceGetAttribute(&value, rows[i].which, device) == CUDA_SUCCESS;
        if (rows[i].is_wanted ? !is_known || value != rows[i].value : is_known && value == rows[i].value)
            found(findings, rows[i].mark, rows[i].check, rows[i].remedy, "%s", rows[i].detail);
    }
    if (findings->count[FOUND_MISSING] != missing)
        return;
    CUresult result = try_mapping(device, &granularity);
    if (result == CUDA_SUCCESS)
        found(findings, FOUND_YES, "  memory mapping", NULL, "granularity %zu KiB", granularity >> 10);
    else
        found(findings, FOUND_MISSING, "  memory mapping",
              "free memory on the device (nvidia-smi shows who holds it), or update the NVIDIA driver",
              "no page can be mapped: error %d", (int)result);
}

void check_driver(struct findings *findings)
{
    int count = 0;
    findings_section(findings, "driver and devices");
    if (driver_load() != CUFENCE_OK) {
        found(findings, FOUND_MISSING, "driver",
              "install or update the NVIDIA driver, and see CUDA_VISIBLE_DEVICES; a container has to be started with --gpus",
              "%s", cufence_error_detail());
        return;
    }
    found(findings, FOUND_YES, "driver", NULL, "%s, CUDA %d.%d%s", driver->path, driver->version / 1000,
          driver->version % 1000 / 10, driver->is_sim ? ", the simulated device" : "");
    CUresult result = driver->cuDeviceGetCount(&count);
    if (result != CUDA_SUCCESS || count < 1)
        found(findings, FOUND_MISSING, "devices", "check CUDA_VISIBLE_DEVICES and nvidia-smi", "there is none: error %d",
              (int)result);
    for (int i = 0; result == CUDA_SUCCESS && i < count; i++)
        check_device(findings, i);
    check_address_space(findings);
    if (driver->cuCoredumpSetAttributeGlobal)
        found(findings, FOUND_YES, "core dumps", NULL, "the driver can write them on request");
    else
        found(findings, FOUND_NO, "core dumps", "update the NVIDIA driver to CUDA 12.1 or later",
              "the driver has no cuCoredumpSetAttributeGlobal: a fault stops the program, but is not explained");
    if (!driver->cuFuncGetParamInfo)
        found(findings, FOUND_NO, "arguments", "update the NVIDIA driver to CUDA 12.4 or later",
              "the driver does not tell the layout of kernels' arguments: reports show fewer of them");
}
