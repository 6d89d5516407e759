/* Which GPU a dump comes from if several have the same PCI bus and device number. Driver and sources are stand-ins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "driver/driver.h"
#include "witness/device.h"

#define DEVICES 4
#define PAGE UINT64_C(0x200000)

static struct {
    int bus, slot, launches;
} machine[DEVICES];
static int device_count;

static CUresult get_count(int *count)
{
    *count = device_count;
    return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *device, int ordinal)
{
    *device = ordinal + 100; /* a handle, not an ordinal */
    return CUDA_SUCCESS;
}

static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    *value = attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID ? machine[device - 100].bus : machine[device - 100].slot;
    return CUDA_SUCCESS;
}

/* Device i has one buffer, from page 10 * (i + 1) on, with a page of guard. */
static size_t near(uint64_t address, cufence_buffer *out, size_t max)
{
    size_t count = 0;
    for (int i = 0; i < device_count && count < max; i++) {
        uint64_t start = (uint64_t)(i + 1) * 10 * PAGE;
        if (address + PAGE >= start && address < start + 3 * PAGE)
            out[count++] = (cufence_buffer){.id = (uint64_t)i + 1,
                                            .device = i,
                                            .address = start,
                                            .size = PAGE,
                                            .mapping_start = start,
                                            .mapping_end = start + PAGE,
                                            .guard_end = start + 2 * PAGE};
    }
    return count;
}

static size_t launches(int device, const char *kernel, int has_graphs, struct launch_entry *out, struct stack *stacks,
                       size_t max)
{
    (void)has_graphs;
    (void)out;
    (void)stacks;
    assert_string_equal(kernel, "k");
    return (size_t)machine[device].launches < max ? (size_t)machine[device].launches : max;
}

static const struct fault_sources sources = {.near = near, .launches = launches};

/* The virtual machine that puts each GPU at 00:00 of a domain of its own. */
static int start(void **state)
{
    static struct driver standin;
    (void)state;
    standin = (struct driver){.cuDeviceGetCount = get_count, .cuDeviceGet = get_device, .cuDeviceGetAttribute = get_attribute};
    driver = &standin;
    device_count = DEVICES;
    memset(machine, 0, sizeof machine);
    return 0;
}

static struct evidence_lane lane;
static struct evidence_site site;

static int find(uint32_t bus, uint32_t slot, uint32_t index)
{
    const struct evidence evidence = {
        .device = index, .pci_bus = bus, .pci_device = slot, .sites = &site, .site_count = site.symbol ? 1 : 0};
    return faulted_device(&sources, &evidence);
}

static void set_site(const char *symbol, uint64_t address)
{
    lane = (struct evidence_lane){.address = address, .certainty = address ? CERTAIN_DERIVED : CERTAIN_NOT};
    site = (struct evidence_site){.symbol = symbol, .lanes = &lane, .lane_count = 1};
}

static void test_place_decides(void **state)
{
    (void)state;
    set_site("k", 0);
    machine[1].bus = 7;
    machine[2].slot = 6;
    machine[3].bus = 7;
    machine[3].slot = 6;
    assert_int_equal(find(7, 0, 0), 1);
    assert_int_equal(find(0, 6, 0), 2);
    assert_int_equal(find(7, 6, 0), 3);
}

static void test_only_device_with_launches(void **state)
{
    (void)state;
    set_site("k", 0);
    machine[2].launches = 5;
    assert_int_equal(find(0, 0, 0), 2);
}

static void test_owner_of_the_address(void **state)
{
    (void)state;
    set_site("k", 30 * PAGE + PAGE + 4); /* in the guard of device 2's buffer */
    assert_int_equal(find(0, 0, 0), 2);
    for (int i = 0; i < DEVICES; i++)
        machine[i].launches = 1;
    assert_int_equal(find(0, 0, 0), 2);
    set_site("k", 20 * PAGE);
    assert_int_equal(find(0, 0, 0), 1);
    machine[1].bus = 3; /* that one is elsewhere: a peer's buffer tells nothing */
    assert_int_equal(find(0, 0, 0), -1);
}

static void test_owner_of_the_arguments(void **state)
{
    (void)state;
    uint64_t words[] = {1000, 40 * PAGE + 64};
    set_site("k", 0);
    site.parameters = (const uint8_t *)words;
    site.parameter_bytes = sizeof words;
    assert_int_equal(find(0, 0, 0), 3);
}

static void test_nothing_tells(void **state)
{
    (void)state;
    set_site("k", 0);
    assert_int_equal(find(0, 0, 2), -1);
    set_site(NULL, 0);
    assert_int_equal(find(0, 0, 2), -1);
    assert_int_equal(find(9, 9, 2), 2); /* nowhere: by the dump's own number */
    assert_int_equal(find(9, 9, 7), -1);
    device_count = 1;
    assert_int_equal(find(9, 9, 7), 0);
    assert_int_equal(find(0, 0, 7), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_place_decides, start),        cmocka_unit_test_setup(test_only_device_with_launches, start),
        cmocka_unit_test_setup(test_owner_of_the_address, start), cmocka_unit_test_setup(test_owner_of_the_arguments, start),
        cmocka_unit_test_setup(test_nothing_tells, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
