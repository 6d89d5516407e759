#include "memory.h"

#include "base/error.h"
#include "driver/driver.h"

#define PAGE PATTERN_PAGE

static struct {
    uint64_t from, to, bytes; /* bytes 0: there is none */
} moved;

cufence_status moved_refresh(void)
{
    return moved.bytes ? driver_check(driver->cuMemcpyDtoD(moved.to, moved.from, moved.bytes), "cuMemcpyDtoD") : CUFENCE_OK;
}

cufence_status moved_open(int device, const struct rerun_input *input)
{
    const CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    const CUmemAccessDesc access = {.location = kind.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    uint64_t start = input->moved_to / PAGE * PAGE;
    uint64_t bytes = (input->moved_to + input->moved_bytes - start + PAGE - 1) / PAGE * PAGE;
    CUmemGenericAllocationHandle handle;
    if (!input->moved_bytes)
        return CUFENCE_OK;
    int found = memory_find(input->moved_from, input->moved_bytes);
    if (found <= 0)
        return found ? CUFENCE_ERROR_SYSTEM : error_set(CUFENCE_ERROR_UNSUPPORTED, "the buffer's memory is not there");
    cufence_status status = driver_check(driver->cuMemCreate(&handle, bytes, &kind, 0), "cuMemCreate");
    if (status == CUFENCE_OK)
        status = driver_check(driver->cuMemMap(start, bytes, 0, handle, 0), "cuMemMap");
    if (status == CUFENCE_OK)
        status = driver_check(driver->cuMemSetAccess(start, bytes, &access, 1), "cuMemSetAccess");
    if (status != CUFENCE_OK)
        return status;
    moved.from = input->moved_from;
    moved.to = input->moved_to;
    moved.bytes = input->moved_bytes;
    return moved_refresh();
}
