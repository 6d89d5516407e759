/* Which GPU a dump comes from if several have the same PCI bus and device number: what was launched and allocated where tells.
 */
#include "child.h"

#include "launch/launch.h"
#include "fault/surroundings.h"

#define DEVICES 4
#define MIB ((size_t)1 << 20)

static uint64_t buffers[DEVICES];
static CUcontext contexts[DEVICES];
static struct evidence_lane lane;
static struct evidence_stop stop;

static int find(uint32_t bus, uint32_t slot, uint32_t index)
{
    const struct evidence evidence = {
        .device = index, .pci_bus = bus, .pci_device = slot, .stops = &stop, .stop_count = stop.symbol ? 1 : 0};
    return faulted_device(&evidence);
}

static void set_stop(const char *symbol, uint64_t address)
{
    lane = (struct evidence_lane){.address = address, .certainty = address ? CERTAIN_DERIVED : CERTAIN_NOT};
    stop = (struct evidence_stop){.symbol = symbol, .lanes = &lane, .lane_count = 1};
}

/* pci: of the devices from 0 on. Each gets a context and a buffer of 1 MiB. */
static void start(const char *pci, int devices)
{
    char machine[200];
    snprintf(machine, sizeof machine, "devices=%d%s", devices, pci);
    setenv("CUFENCE_SIM", machine, 1);
    CHECK_OK(cufence_init("on_fault=error/0"));
    for (int i = 0; i < devices; i++) {
        void *pointer;
        contexts[i] = use_device(i);
        CHECK_OK(cufence_malloc(&pointer, MIB, i, NULL));
        buffers[i] = (uint64_t)(uintptr_t)pointer;
    }
    set_stop("cusim_spin", 0);
}

static void launch(int device)
{
    CUmodule module;
    CUfunction function;
    void *flag = NULL, *arguments[] = {&flag};
    CHECK_CU(cuCtxSetCurrent(contexts[device]));
    CHECK_CU(cuModuleLoadData(&module, "any"));
    CHECK_CU(cuModuleGetFunction(&function, module, "cusim_spin"));
    const struct launch_call call = {.function = function, .grid = {1, 1, 1}, .block = {1, 1, 1}, .parameters = arguments};
    launch_record(context_of(contexts[device]), &call);
}

#define ALIKE ",pci=0:0:0,pci=1:0:0,pci=2:0:0,pci=3:0:0" /* a virtual machine with a domain for each GPU */

STORY(place_decides)
{
    start(",pci=0:0:0,pci=0:7:0,pci=0:0:6,pci=0:7:6", DEVICES);
    CHECK(find(7, 0, 0) == 1);
    CHECK(find(0, 6, 0) == 2);
    CHECK(find(7, 6, 0) == 3);
}

STORY(only_device_with_launches)
{
    start(ALIKE, DEVICES);
    launch(2);
    CHECK(find(0, 0, 0) == 2);
    set_stop("another", 0);
    CHECK(find(0, 0, 0) == -1);
}

STORY(owner_of_the_address)
{
    start(ALIKE, DEVICES);
    set_stop("cusim_spin", buffers[2] + MIB + 4); /* in the guard of device 2's buffer */
    CHECK(find(0, 0, 0) == 2);
    for (int i = 0; i < DEVICES; i++)
        launch(i);
    CHECK(find(0, 0, 0) == 2);
    set_stop("cusim_spin", buffers[1]);
    CHECK(find(0, 0, 0) == 1);
}

/* A peer's buffer tells nothing. */
STORY(owner_elsewhere)
{
    start(",pci=0:0:0,pci=0:3:0,pci=1:0:0,pci=2:0:0", DEVICES);
    set_stop("cusim_spin", buffers[1]);
    CHECK(find(0, 0, 0) == -1);
}

STORY(owner_of_the_arguments)
{
    start(ALIKE, DEVICES);
    uint64_t words[] = {1000, buffers[3] + 64};
    stop.parameters = (const uint8_t *)words;
    stop.parameter_bytes = sizeof words;
    CHECK(find(0, 0, 0) == 3);
}

STORY(nothing_tells)
{
    start(ALIKE, DEVICES);
    CHECK(find(0, 0, 2) == -1);
    set_stop(NULL, 0);
    CHECK(find(0, 0, 2) == -1);
    CHECK(find(9, 9, 2) == 2); /* nowhere: by the dump's own number */
    CHECK(find(9, 9, 7) == -1);
}

STORY(one_device)
{
    start(",pci=0:0:0", 1);
    CHECK(find(9, 9, 7) == 0);
    CHECK(find(0, 0, 7) == 0);
}

TEST_CONCURRENTLY
