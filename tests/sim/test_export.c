/* A mapping that is given away: what another process would see of it, and how long. */
#include "support/test.h"

#include "driver/driver.h"
#include "vmm/arena.h"
#include "vmm/physical.h"

#define PAGE ((uint64_t)2 << 20)

static int can_export;

static void forget(struct slot *slot)
{
}

static int start(void **state)
{
    CUcontext context;
    assert_int_equal(driver_load(), CUFENCE_OK);
    assert_int_equal(driver->cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(driver->cuCtxSetCurrent(context), CUDA_SUCCESS);
    assert_int_equal(arena_open((uint64_t)1 << 30, 16, forget), CUFENCE_OK);
    assert_int_equal(
        driver->cuDeviceGetAttribute(&can_export, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0),
        CUDA_SUCCESS);
    return 0;
}

static void map_slot(struct slot *slot, uint64_t pages, const char *text)
{
    assert_int_equal(slot_cut(slot, 0, pages * PAGE, 4 * PAGE), CUFENCE_OK);
    assert_int_equal(slot_map(slot), CUFENCE_OK);
    assert_int_equal(driver->cuMemcpyHtoD(slot->base + 100, text, strlen(text) + 1), CUDA_SUCCESS);
}

/* Maps the memory somewhere else, as another process does; there are two references to it then. */
static CUdeviceptr import(const struct slot_export *from)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = from->device},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    assert_int_equal(
        driver->cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)from->fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        CUDA_SUCCESS);
    assert_int_equal(driver->cuMemAddressReserve(&address, from->mapped, 0, 0, 0), CUDA_SUCCESS);
    assert_int_equal(driver->cuMemMap(address, from->mapped, 0, handle, 0), CUDA_SUCCESS);
    assert_int_equal(driver->cuMemRelease(handle), CUDA_SUCCESS);
    assert_int_equal(driver->cuMemSetAccess(address, from->mapped, &access, 1), CUDA_SUCCESS);
    return address;
}

static void assert_text(CUdeviceptr address, const char *wanted)
{
    char text[64] = "";
    assert_int_equal(driver->cuMemcpyDtoH(text, address + 100, strlen(wanted) + 1), CUDA_SUCCESS);
    assert_string_equal(text, wanted);
}

TEST(what_is_exported_is_the_memory_itself)
{
    static struct slot slot;
    struct slot_export given = {.fd = -1};
    assert_int_equal(physical_is_shareable(0), can_export);
    map_slot(&slot, 3, "as the fault left it");
    if (!can_export) {
        assert_int_equal(arena_export(slot.base, &given), CUFENCE_ERROR_UNSUPPORTED);
        skip();
    }
    assert_int_equal(arena_export(slot.base + 2 * PAGE, &given), CUFENCE_OK);
    assert_int_equal(given.base, slot.base);
    assert_int_equal(given.mapped, 3 * PAGE);
    CUdeviceptr other = import(&given);
    assert_text(other, "as the fault left it");
    assert_int_equal(driver->cuMemcpyHtoD(slot.base + 100, "changed", 8), CUDA_SUCCESS);
    assert_text(other, "changed");
    assert_int_equal(close(given.fd), 0);
    assert_text(other, "changed");
}

/* Nobody has the memory any more, but for the descriptor. */
TEST(a_descriptor_keeps_the_memory)
{
    static struct slot slot;
    struct slot_export given = {.fd = -1};
    if (!can_export)
        skip();
    map_slot(&slot, 1, "still there");
    assert_int_equal(arena_export(slot.base, &given), CUFENCE_OK);
    slot_unmap(&slot);
    physical_trim(0);
    assert_int_equal(arena_export(slot.base, &given), CUFENCE_ERROR_INVALID_ARGUMENT);
    assert_text(import(&given), "still there");
    assert_int_equal(close(given.fd), 0);
}

TEST_GROUP(start, NULL)
