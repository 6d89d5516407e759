#include "surroundings.h"

#include "base/reader.h"
#include "driver/driver.h"
#include "heap/heap.h"
#include "launch/launch.h"

#define MOST 64 /* devices that are distinguished */
#define NEAR 8  /* buffers examined around an address */

static int is_at(CUdevice device, const struct evidence *evidence)
{
    int bus = -1, slot = -1;
    return driver->cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device) == CUDA_SUCCESS &&
           driver->cuDeviceGetAttribute(&slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, device) == CUDA_SUCCESS &&
           (uint32_t)bus == evidence->pci_bus && (uint32_t)slot == evidence->pci_device;
}

/* Returns a bit for each device that matches the PCI bus and device number. */
static uint64_t devices_there(const struct evidence *evidence, int count)
{
    uint64_t found = 0;
    for (int i = 0; i < count && i < MOST; i++) {
        CUdevice device;
        if (driver->cuDeviceGet(&device, i) == CUDA_SUCCESS && is_at(device, evidence))
            found |= UINT64_C(1) << i;
    }
    return found;
}

static int is_one(uint64_t devices)
{
    return devices && !(devices & (devices - 1));
}

static uint64_t with_launches(const struct evidence *evidence, uint64_t devices)
{
    struct launch_entry newest;
    uint64_t found = 0;
    const char *kernel = evidence->site_count ? evidence->sites[0].symbol : NULL;
    for (int i = 0; kernel && i < MOST; i++) {
        const struct launch_query query = {.device = i, .kernel = kernel};
        if ((devices >> i & 1) && launch_read(&query, &newest, NULL, 1))
            found |= UINT64_C(1) << i;
    }
    return found;
}

/* Returns the bit of the device whose buffer, guard included, contains the address; 0 if none. */
static uint64_t owner_of(uint64_t address)
{
    cufence_buffer near[NEAR];
    size_t count = heap_near(address, near, NEAR);
    for (size_t i = 0; i < count; i++) {
        if (near[i].device >= 0 && near[i].device < MOST && address >= near[i].mapping_start && address < near[i].guard_end)
            return UINT64_C(1) << near[i].device;
    }
    return 0;
}

static uint64_t with_buffers(const struct evidence *evidence, uint64_t devices)
{
    uint64_t found = 0;
    const struct evidence_site *site = evidence->site_count ? &evidence->sites[0] : NULL;
    for (size_t k = 0; site && !found && k < site->lane_count; k++) {
        if (site->lanes[k].certainty != CERTAIN_NOT)
            found = owner_of(site->lanes[k].address) & devices;
    }
    for (size_t at = 0; site && !found && at + 8 <= site->parameter_bytes; at += 8) {
        uint64_t word = load_u64(site->parameters + at);
        found = owner_of(word) & devices;
    }
    return found;
}

int faulted_device(const struct evidence *evidence)
{
    int count = 0;
    driver->cuDeviceGetCount(&count);
    uint64_t devices = devices_there(evidence, count);
    if (!devices) /* the PCI address is not in the dump, or in another format */
        return count == 1 ? 0 : evidence->device < (uint32_t)count ? (int)evidence->device : -1;
    if (!is_one(devices)) {
        uint64_t launched = with_launches(evidence, devices);
        devices = is_one(launched) ? launched : with_buffers(evidence, launched ? launched : devices);
    }
    return is_one(devices) ? __builtin_ctzll(devices) : -1;
}
