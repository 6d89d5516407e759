/* Physical memory that another process can be given, on a driver that can, cannot, or only says that it can. */
#include "support/test.h"

#include "driver/driver.h"
#include "vmm/arena.h"
#include "vmm/physical.h"

#define PAGE ((uint64_t)2 << 20)
#define START ((uint64_t)0x7e0000000000)

/* ---- a driver: device 2 cannot export, 3 refuses to, 4 has no memory left, 5 is broken, 6 refuses too ---- */

enum { GOOD, ALSO_GOOD, UNABLE, REFUSING, FULL, BROKEN, LATE };

static struct {
    unsigned questions, creations, shareable, retained, exported, released;
    CUmemAllocationProp last;
    CUresult retain, export;
    uint64_t retained_at;
} calls;

static CUresult attribute(int *value, CUdevice_attribute which, CUdevice device)
{
    calls.questions++;
    if (which == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)
        *value = device != UNABLE;
    else if (which == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)
        *value = device == ALSO_GOOD;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                       unsigned long long flags)
{
    calls.creations++;
    calls.last = *prop;
    int is_shareable = prop->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    calls.shareable += (unsigned)is_shareable;
    switch (prop->location.id) {
    case REFUSING:
    case LATE:
        if (is_shareable)
            return CUDA_ERROR_NOT_SUPPORTED;
        break;
    case FULL:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case BROKEN:
        return CUDA_ERROR_INVALID_DEVICE;
    default:
        break;
    }
    *handle = 0x1000 + calls.creations;
    return CUDA_SUCCESS;
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
    calls.released++;
    return CUDA_SUCCESS;
}

static CUresult retain(CUmemGenericAllocationHandle *handle, void *address)
{
    calls.retained++;
    calls.retained_at = (uint64_t)(uintptr_t)address;
    *handle = 0x77;
    return calls.retain;
}

static CUresult export(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags)
{
    assert_int_equal(handle, 0x77);
    assert_int_equal(type, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    assert_int_equal(flags, 0);
    assert_int_equal(calls.released, 0); /* the handle is still ours */
    calls.exported++;
    *(int *)out = 99;
    return calls.export;
}

static CUresult reserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr wanted, unsigned long long flags)
{
    *address = START;
    return CUDA_SUCCESS;
}

static CUresult map(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags)
{
    return CUDA_SUCCESS;
}

static CUresult unmap(CUdeviceptr address, size_t size)
{
    return CUDA_SUCCESS;
}

static CUresult set_access(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count)
{
    return CUDA_SUCCESS;
}

static CUresult error_name(CUresult result, const char **name)
{
    *name = "CUDA_ERROR_OF_THE_TEST";
    return CUDA_SUCCESS;
}

static const struct driver able = {.cuGetErrorName = error_name,
                                   .cuDeviceGetAttribute = attribute,
                                   .cuMemCreate = create,
                                   .cuMemRelease = release,
                                   .cuMemAddressReserve = reserve,
                                   .cuMemMap = map,
                                   .cuMemUnmap = unmap,
                                   .cuMemSetAccess = set_access,
                                   .cuMemRetainAllocationHandle = retain,
                                   .cuMemExportToShareableHandle = export};

static int start(void **state)
{
    driver = &able;
    memset(&calls, 0, sizeof calls);
    return 0;
}

/* ---- handles ---- */

/* Each of them on a device of its own, which is asked once and tried once. */
TEST_WITH(handles_can_be_given_away_where_the_device_can, start, NULL)
{
    enum { SHAREABLE = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR };
    static const struct {
        int device;
        cufence_status status;
        unsigned creations, is_rdma; /* of the first handle */
        int is_shareable;
    } cases[] = {
        {GOOD, CUFENCE_OK, 1, 0, 1},
        {ALSO_GOOD, CUFENCE_OK, 1, 1, 1},
        {UNABLE, CUFENCE_OK, 1, 0, 0},
        {REFUSING, CUFENCE_OK, 2, 0, 0},
        {FULL, CUFENCE_ERROR_OUT_OF_MEMORY, 1, 0, 1}, /* which says nothing of sharing */
        {BROKEN, CUFENCE_ERROR_DRIVER, 2, 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CUmemGenericAllocationHandle handle = 0;
        start(NULL);
        assert_int_equal(physical_take(cases[i].device, PAGE, &handle), cases[i].status);
        assert_int_equal(calls.creations, cases[i].creations);
        assert_int_equal(calls.last.location.id, cases[i].device);
        assert_int_equal(physical_is_shareable(cases[i].device), cases[i].is_shareable);
        if (cases[i].status != CUFENCE_OK)
            continue;
        assert_int_equal(calls.last.requestedHandleTypes, cases[i].is_shareable ? SHAREABLE : 0);
        assert_int_equal(calls.last.allocFlags.gpuDirectRDMACapable, cases[i].is_rdma);
        unsigned before = calls.questions, shareable = calls.shareable;
        assert_int_equal(physical_take(cases[i].device, PAGE, &handle), CUFENCE_OK);
        assert_int_equal(calls.creations, cases[i].creations + 1);
        assert_int_equal(calls.questions, before);
        assert_int_equal(calls.shareable, shareable + (unsigned)cases[i].is_shareable);
    }
}

/* ---- slots ---- */

static void forget(struct slot *slot)
{
}

static int open_arena(void **state)
{
    start(state);
    assert_int_equal(arena_open((uint64_t)1 << 30, 16, forget), CUFENCE_OK);
    return 0;
}

static void map_slot(struct slot *slot, int device, uint64_t pages)
{
    assert_int_equal(slot_cut(slot, device, pages * PAGE, 4 * PAGE), CUFENCE_OK);
    assert_int_equal(slot_map(slot), CUFENCE_OK);
}

static const struct slot_export untouched = {.base = 1, .mapped = 2, .device = 3, .fd = 4};

static void assert_refused(uint64_t address, cufence_status wanted)
{
    struct slot_export out = untouched;
    assert_int_equal(arena_export(address, &out), wanted);
    assert_memory_equal(&out, &untouched, sizeof out);
}

TEST_WITH(a_mapping_is_exported_by_any_of_its_addresses, start, NULL)
{
    static struct slot slots[2];
    map_slot(&slots[0], GOOD, 1);
    map_slot(&slots[1], ALSO_GOOD, 3);
    const uint64_t places[] = {0, 1, PAGE + 77, 3 * PAGE - 1};
    for (unsigned i = 0; i < 4; i++) {
        struct slot_export out = untouched;
        calls.released = 0;
        assert_int_equal(arena_export(slots[1].base + places[i], &out), CUFENCE_OK);
        assert_int_equal(out.base, slots[1].base);
        assert_int_equal(out.mapped, 3 * PAGE);
        assert_int_equal(out.device, ALSO_GOOD);
        assert_int_equal(out.fd, 99);
        assert_int_equal(calls.retained_at, slots[1].base);
        assert_int_equal(calls.retained, i + 1);
        assert_int_equal(calls.released, 1); /* what was retained */
    }
}

TEST_WITH(what_is_not_mapped_is_not_exported, start, NULL)
{
    static struct slot slot, cut;
    map_slot(&slot, GOOD, 2);
    assert_int_equal(slot_cut(&cut, GOOD, PAGE, PAGE), CUFENCE_OK);
    assert_refused(slot.base + 2 * PAGE, CUFENCE_ERROR_INVALID_ARGUMENT); /* its guard */
    assert_refused(slot.base - 1, CUFENCE_ERROR_INVALID_ARGUMENT);
    assert_refused(cut.base, CUFENCE_ERROR_INVALID_ARGUMENT);
    assert_refused(arena_start(), CUFENCE_ERROR_INVALID_ARGUMENT);
    assert_refused(arena_end(), CUFENCE_ERROR_INVALID_ARGUMENT);
    assert_refused(0, CUFENCE_ERROR_INVALID_ARGUMENT);
    slot_unmap(&slot);
    assert_refused(slot.base, CUFENCE_ERROR_INVALID_ARGUMENT);
    assert_int_equal(calls.retained, 0);
}

TEST_WITH(a_failing_export_leaves_nothing, start, NULL)
{
    static struct slot slot, refused;
    map_slot(&slot, GOOD, 1);
    map_slot(&refused, LATE, 1);
    calls.released = 0;
    calls.retain = CUDA_ERROR_INVALID_VALUE;
    assert_refused(slot.base, CUFENCE_ERROR_DRIVER);
    assert_int_equal(calls.released, 0);
    calls.retain = CUDA_SUCCESS;
    calls.export = CUDA_ERROR_INVALID_VALUE;
    assert_refused(slot.base, CUFENCE_ERROR_DRIVER);
    assert_int_equal(calls.released, 1);
    assert_int_equal(calls.exported, 1);
    assert_refused(refused.base, CUFENCE_ERROR_UNSUPPORTED);
    assert_int_equal(calls.exported, 1);
}

TEST_GROUP(open_arena, NULL)
