#include "surroundings.h"

#include "driver/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEAR_PER_ADDRESS 8

static int is_mapped_by_host(uint64_t address)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    int found = 0;
    while (maps && !found && fgets(line, sizeof line, maps)) {
        unsigned long long start, end;
        char can_read;
        /* Device memory is reserved in the host's address space too, without access. */
        found =
            sscanf(line, "%llx-%llx %c", &start, &end, &can_read) == 3 && address >= start && address < end && can_read == 'r';
    }
    if (maps)
        fclose(maps);
    return found;
}

int evidence_device(const struct evidence *evidence)
{
    int devices = 0;
    driver->cuDeviceGetCount(&devices);
    for (int i = 0; i < devices; i++) {
        CUdevice device;
        int bus = -1, slot = -1;
        if (driver->cuDeviceGet(&device, i) == CUDA_SUCCESS &&
            driver->cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device) == CUDA_SUCCESS &&
            driver->cuDeviceGetAttribute(&slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, device) == CUDA_SUCCESS &&
            (uint32_t)bus == evidence->pci_bus && (uint32_t)slot == evidence->pci_device)
            return i;
    }
    return evidence->device < (uint32_t)devices ? (int)evidence->device : 0;
}

static int is_known(const struct surroundings *around, uint64_t address)
{
    for (size_t i = 0; i < around->near_count; i++) {
        if (address >= around->near[i].mapping_start && address < around->near[i].guard_end)
            return 1;
    }
    return 0;
}

/* Looks up what lies at and around an address. */
static void look_at(struct surroundings *around, const struct fault_sources *sources, uint64_t address)
{
    cufence_buffer found[NEAR_PER_ADDRESS];
    const size_t max = sizeof around->near / sizeof *around->near;
    size_t n = sources->near(address, found, NEAR_PER_ADDRESS);
    for (size_t i = 0; i < n && around->near_count < max; i++) {
        size_t k = 0;
        while (k < around->near_count && around->near[k].id != found[i].id)
            k++;
        if (k == around->near_count)
            around->near[around->near_count++] = found[i];
    }
}

/* Every address that the evidence names: of the accesses, first and last byte, and among the kernel's parameters. */
static void look_around(struct surroundings *around, const struct fault_sources *sources, const struct evidence *evidence)
{
    for (size_t i = 0; i < evidence->site_count; i++) {
        const struct evidence_site *site = &evidence->sites[i];
        for (size_t k = 0; k < site->lane_count; k++) {
            const struct evidence_lane *lane = &site->lanes[k];
            if (lane->certainty == CERTAIN_NOT)
                continue;
            uint64_t last = lane->address + (site->access_bytes ? site->access_bytes - 1 : 0);
            /* All lanes of a kernel come by here, and most of them by a span that is known. */
            if (!is_known(around, lane->address))
                look_at(around, sources, lane->address);
            if (last > lane->address && !is_known(around, last))
                look_at(around, sources, last);
        }
        for (size_t k = 0; site->parameters && k + 8 <= site->parameter_bytes; k += 8) {
            uint64_t word;
            memcpy(&word, site->parameters + k, sizeof word);
            if (word >= sources->arena_start() && word < sources->arena_end())
                look_at(around, sources, word);
        }
    }
}

/* The first address of an access that the evidence knows, 0 without one. */
static uint64_t first_address(const struct evidence *evidence)
{
    for (size_t i = 0; i < evidence->site_count; i++) {
        for (size_t k = 0; k < evidence->sites[i].lane_count; k++) {
            if (evidence->sites[i].lanes[k].certainty != CERTAIN_NOT)
                return evidence->sites[i].lanes[k].address;
        }
    }
    return 0;
}

struct surroundings *surroundings_of(const struct fault_sources *sources, const struct evidence *evidence, int device)
{
    struct surroundings *around = calloc(1, sizeof *around);
    uint64_t total = 0;
    if (!around)
        return NULL;
    look_around(around, sources, evidence);
    size_t live_count = sources->live(device, around->live, sizeof around->live / sizeof *around->live, &total);
    around->memory = (struct fault_memory){.near = around->near,
                                           .near_count = around->near_count,
                                           .live = around->live,
                                           .live_count = live_count,
                                           .live_total = (size_t)total,
                                           .arena_start = sources->arena_start(),
                                           .arena_end = sources->arena_end(),
                                           .is_host_address = is_mapped_by_host(first_address(evidence)),
                                           .now_ns = sources->now_ns()};
    return around;
}
