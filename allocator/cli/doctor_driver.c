/* The driver, its devices, and what they allow. */
#include "doctor.h"

#include "driver/driver.h"

#include <stdio.h>
#include <string.h>

#define GIB (1ull << 30)

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

/* Reserves as the allocator does: starts with the most that it asks for, and halves that until the driver agrees. */
static void check_address_space(struct findings *findings)
{
    CUdeviceptr address = 0;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t size = 64ull << 40; size >= GIB; size /= 2) {
        result = driver->cuMemAddressReserve(&address, size, 0, 0, 0);
        if (result == CUDA_SUCCESS) {
            driver->cuMemAddressFree(address, size);
            found(findings, FOUND_YES, "address space", NULL, "%zu GiB reserved in one piece", (size_t)(size / GIB));
            return;
        }
    }
    found(findings, FOUND_MISSING, "address space", "raise the limit on address space: ulimit -v unlimited",
          "not even 1 GiB can be reserved: %s", result_name(result));
}

/* Maps one page. The device's primary context is current. *call: the one that failed. */
static CUresult try_mapping(CUdevice device, size_t *granularity, const char **call)
{
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    const CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address = 0;
    CUresult result;
#define TRY(function, ...) (*call = #function, result = driver->function(__VA_ARGS__), result == CUDA_SUCCESS)
    if (!TRY(cuMemGetAllocationGranularity, granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) ||
        !TRY(cuMemAddressReserve, &address, *granularity, 0, 0, 0))
        return result;
    if (TRY(cuMemCreate, &handle, *granularity, &properties, 0)) {
        if (TRY(cuMemMap, address, *granularity, 0, handle, 0)) {
            (void)TRY(cuMemSetAccess, address, *granularity, &access, 1);
            driver->cuMemUnmap(address, *granularity);
        }
        driver->cuMemRelease(handle);
    }
#undef TRY
    driver->cuMemAddressFree(address, *granularity);
    return result;
}

/* Checks compute mode, MPS and MIG. */
static void check_sharing(struct findings *findings, CUdevice device, const char *name)
{
    if (attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) == CU_COMPUTEMODE_PROHIBITED)
        found(findings, FOUND_MISSING, "  compute mode", "nvidia-smi --compute-mode=0 (as root)",
              "prohibited: no context can be created");
    if (attribute(device, CU_DEVICE_ATTRIBUTE_MPS_ENABLED) == 1)
        found(findings, FOUND_NO, "  sharing",
              "run it without MPS: unset CUDA_MPS_PIPE_DIRECTORY, or stop the daemon (echo quit | nvidia-cuda-mps-control)",
              "the device is shared by MPS, whose clients share a fault; cufence has not been tried there");
    if (strstr(name, " MIG "))
        found(findings, FOUND_NO, "  sharing",
              "`cufence demo` shows whether faults are explained here; else use a whole device",
              "this is a MIG slice; cufence has not been tried on one");
}

/* Makes the primary context current and maps a page. */
static void check_mapping(struct findings *findings, CUdevice device)
{
    CUcontext context;
    const char *call = "";
    size_t granularity = 0;
    if (attribute(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 1) {
        found(findings, FOUND_MISSING, "  memory mapping", "use another device; a vGPU may have it switched off",
              "the device has no virtual memory management (attribute 102)");
        return;
    }
    CUresult result = driver->cuDevicePrimaryCtxRetain(&context, device);
    if (result == CUDA_SUCCESS)
        result = driver->cuCtxSetCurrent(context);
    if (result != CUDA_SUCCESS) {
        found(findings, FOUND_MISSING, "  context",
              "free memory on the device, or end the process that holds it: nvidia-smi names it", "%s", result_name(result));
        return;
    }
    result = try_mapping(device, &granularity, &call);
    if (result == CUDA_SUCCESS)
        found(findings, FOUND_YES, "  memory mapping", NULL, "granularity %zu KiB: the least that a buffer takes",
              granularity >> 10);
    else
        found(findings, FOUND_MISSING, "  memory mapping",
              result == CUDA_ERROR_OUT_OF_MEMORY ? "free memory on the device: nvidia-smi shows who holds it"
                                                 : "update the NVIDIA driver",
              "%s: %s", call, result_name(result));
}

/* Checks what a second launch in another process needs. */
static void check_witness(struct findings *findings, CUdevice device)
{
    static const char without[] = "reports of stores at the end of a kernel lack address and thread";
    if (!driver->cuMemRetainAllocationHandle || !driver->cuMemExportToShareableHandle || !driver->cuDeviceGetUuid)
        found(findings, FOUND_NO, "  second launch", "update the NVIDIA driver to CUDA 11.4 or later",
              "the driver cannot give memory to another process: %s", without);
    else if (attribute(device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) != 1)
        found(findings, FOUND_NO, "  second launch", "use another device; a vGPU may have it switched off",
              "the device cannot give memory to another process (attribute 103): %s", without);
    else if (attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) == CU_COMPUTEMODE_EXCLUSIVE_PROCESS)
        found(findings, FOUND_NO, "  second launch", "nvidia-smi --compute-mode=0 (as root)",
              "no other process can use the device: %s", without);
    else
        found(findings, FOUND_YES, "  second launch", NULL, "a faulted kernel can be launched again in another process");
}

/* What is known of the GPU's generation; docs/guide/platforms.md has the table. `capability`: major * 10 + minor. */
static void check_generation(struct findings *findings, int capability)
{
    if (capability < 80 || capability > 121)
        found(findings, FOUND_NEITHER, "  generation", NULL, "%s",
              capability < 70   ? "older than Volta: code is not decoded, so reports say less"
              : capability < 80 ? "Volta or Turing: of a store at the end of a kernel, reports list candidates only"
                                : "newer than this version of cufence: code is not decoded, so reports may say less");
}

static void check_device(struct findings *findings, int ordinal)
{
    CUdevice device;
    char name[128] = "?", what[32];
    size_t memory = 0;
    snprintf(what, sizeof what, "device %d", ordinal);
    CUresult result = driver->cuDeviceGet(&device, ordinal);
    if (result != CUDA_SUCCESS) {
        found(findings, FOUND_MISSING, what, "check the device with nvidia-smi", "cuDeviceGet: %s", result_name(result));
        return;
    }
    driver->cuDeviceGetName(name, sizeof name, device);
    driver->cuDeviceTotalMem(&memory, device);
    int major = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    int minor = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    found(findings, FOUND_YES, what, NULL, "%s, compute capability %d.%d, %.1f GiB", name, major, minor,
          (double)memory / (double)GIB);
    check_generation(findings, major * 10 + minor);
    check_sharing(findings, device, name);
    check_mapping(findings, device);
    check_witness(findings, device);
}

void check_driver(struct findings *findings)
{
    int count = 0;
    findings_section(findings, "driver and devices");
    cufence_status status = driver_load();
    if (status != CUFENCE_OK) {
        found(findings, FOUND_MISSING, "driver",
              status == CUFENCE_ERROR_DRIVER_TOO_OLD ? "update the driver"
              : status == CUFENCE_ERROR_UNSUPPORTED
                  ? "check CUDA_VISIBLE_DEVICES and nvidia-smi; a container has to be started with --gpus"
                  : "install the NVIDIA driver; a container has to be started with --gpus",
              "%s", cufence_error_detail());
        return;
    }
    found(findings, FOUND_YES, "driver", NULL, "%s, CUDA %d.%d%s", driver->path, driver->version / 1000,
          driver->version % 1000 / 10, driver->is_sim ? ", the simulated device" : "");
    CUresult result = driver->cuDeviceGetCount(&count);
    if (result != CUDA_SUCCESS || count < 1)
        found(findings, FOUND_MISSING, "devices", "check CUDA_VISIBLE_DEVICES and nvidia-smi", "none: %s", result_name(result));
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
