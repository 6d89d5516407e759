#include "memory.h"

#include "driver/driver.h"

#define MOST_AREAS 16 /* of 31 mappings: some hundred driver calls in all */

static struct {
    CUmemGenericAllocationHandle page; /* 0: none. It is kept when the areas are removed */
    struct {
        CUdeviceptr start;
        uint64_t bytes;
    } areas[MOST_AREAS];
    size_t count;
} far;

static cufence_status clear(CUdeviceptr start, uint64_t bytes)
{
    cufence_status status = CUFENCE_OK;
    for (uint64_t at = 0; at < bytes && status == CUFENCE_OK; at += PATTERN_PAGE)
        status = driver_check(driver->cuMemUnmap(start + at, PATTERN_PAGE), "cuMemUnmap");
    return status;
}

/* Returns 0 if that does not go; then nothing is mapped there. */
static int fill(int device, CUdeviceptr start, uint64_t bytes)
{
    uint64_t at = 0;
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    while (at < bytes && driver->cuMemMap(start + at, PATTERN_PAGE, 0, far.page, 0) == CUDA_SUCCESS)
        at += PATTERN_PAGE;
    if (at == bytes && driver->cuMemSetAccess(start, bytes, &access, 1) == CUDA_SUCCESS)
        return 1;
    clear(start, at);
    return 0;
}

void far_add(int device, uint64_t start, uint64_t end)
{
    const CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    if (start >= end || (start | end) % PATTERN_PAGE || far.count == MOST_AREAS)
        return;
    if (!far.page && driver->cuMemCreate(&far.page, PATTERN_PAGE, &kind, 0) != CUDA_SUCCESS)
        far.page = 0;
    if (!far.page || !fill(device, start, end - start))
        return;
    far.areas[far.count].start = start;
    far.areas[far.count++].bytes = end - start;
}

int far_is_there(void)
{
    return far.count > 0;
}

cufence_status far_write(const uint8_t *bytes)
{
    return far.count ? driver_check(driver->cuMemcpyHtoD(far.areas[0].start, bytes, PATTERN_PAGE), "cuMemcpyHtoD") : CUFENCE_OK;
}

int far_read(uint8_t *bytes)
{
    return far.count && driver->cuMemcpyDtoH(bytes, far.areas[0].start, PATTERN_PAGE) == CUDA_SUCCESS;
}

cufence_status far_remove(void)
{
    cufence_status status = CUFENCE_OK;
    for (; far.count && status == CUFENCE_OK; far.count--)
        status = clear(far.areas[far.count - 1].start, far.areas[far.count - 1].bytes);
    return status;
}
