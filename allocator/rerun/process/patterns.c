#include "process_memory.h"

#include "base/error.h"
#include "driver/driver.h"

#include <stdlib.h>
#include <string.h>

#define PAGE PATTERN_PAGE
#define SAME_RANGE 4 /* unchanged bytes between two changed ones that may have been written with what was there */
#define MOST_RANGES 64
#define MOST_AREAS 16 /* of 31 mappings: some hundred driver calls in all */

static struct {
    int socket;
    uint8_t *pattern, *found; /* a page each */
} patterns;

/* Bytes that programs seldom write, and that are not alike. */
static void make_pattern(void)
{
    uint32_t random = 0x2545f491;
    for (size_t i = 0; i < PAGE; i++) {
        random = random * 1664525u + 1013904223u;
        patterns.pattern[i] = (uint8_t)(0xb5 ^ (random >> 29));
    }
}

cufence_status patterns_open(int socket)
{
    patterns.socket = socket;
    patterns.pattern = malloc(PAGE);
    patterns.found = malloc(PAGE);
    if (!patterns.pattern || !patterns.found)
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory");
    make_pattern();
    return CUFENCE_OK;
}

cufence_status patterns_write(uint64_t address, uint64_t bytes)
{
    return bytes ? driver_check(driver->cuMemcpyHtoD(address, patterns.pattern, bytes), "cuMemcpyHtoD") : CUFENCE_OK;
}

static int has_changed(size_t at)
{
    return patterns.found[at] != patterns.pattern[at];
}

/* Returns the end of the range of changed bytes that begins at `at`. */
static size_t end_of_range(size_t at, size_t size)
{
    size_t end = at + 1;
    for (size_t i = end; i < size && i - end < SAME_RANGE; i++)
        if (has_changed(i))
            end = i + 1;
    return end;
}

/* Tells of what has changed from the first byte on, which has. */
static void tell_rest(uint64_t address, size_t first, size_t size, int is_slack)
{
    struct rerun_message message = {.type = MESSAGE_WROTE, .number = (uint32_t)is_slack, .address = address + first};
    for (size_t i = first; i < size; i++) {
        if (!has_changed(i))
            continue;
        message.data_bytes++;
        message.bytes = i + 1 - first;
    }
    rerun_send(patterns.socket, &message, -1);
}

size_t patterns_tell(uint64_t address, uint64_t bytes, int is_slack, size_t sent)
{
    size_t count = 0;
    if (!bytes || driver->cuMemcpyDtoH(patterns.found, address, bytes) != CUDA_SUCCESS)
        return 0;
    for (size_t i = 0, end; i < bytes; i = end) {
        end = i + 1;
        if (!has_changed(i))
            continue;
        if (sent + count >= MOST_RANGES) {
            tell_rest(address, i, bytes, is_slack);
            return count + 1;
        }
        end = end_of_range(i, bytes);
        struct rerun_message message = {
            .type = MESSAGE_WROTE, .number = (uint32_t)is_slack, .address = address + i, .bytes = end - i};
        message.value_bytes = (uint32_t)(message.bytes < sizeof message.values ? message.bytes : sizeof message.values);
        memcpy(message.values, patterns.found + i, message.value_bytes);
        rerun_send(patterns.socket, &message, -1);
        count++;
    }
    return count;
}

/* ---- one page that is mapped many times, far out in the guards ---- */

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
    for (uint64_t at = 0; at < bytes && status == CUFENCE_OK; at += PAGE)
        status = driver_check(driver->cuMemUnmap(start + at, PAGE), "cuMemUnmap");
    return status;
}

/* Returns 0 if that does not go; then nothing is mapped there. */
static int fill(int device, CUdeviceptr start, uint64_t bytes)
{
    uint64_t at = 0;
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    while (at < bytes && driver->cuMemMap(start + at, PAGE, 0, far.page, 0) == CUDA_SUCCESS)
        at += PAGE;
    if (at == bytes && driver->cuMemSetAccess(start, bytes, &access, 1) == CUDA_SUCCESS)
        return 1;
    clear(start, at);
    return 0;
}

void patterns_add_far(int device, uint64_t start, uint64_t end)
{
    const CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    if (start >= end || (start | end) % PAGE || far.count == MOST_AREAS)
        return;
    if (!far.page && driver->cuMemCreate(&far.page, PAGE, &kind, 0) != CUDA_SUCCESS)
        far.page = 0;
    if (!far.page || !fill(device, start, end - start))
        return;
    far.areas[far.count].start = start;
    far.areas[far.count++].bytes = end - start;
}

cufence_status patterns_remove_far(void)
{
    cufence_status status = CUFENCE_OK;
    for (; far.count && status == CUFENCE_OK; far.count--)
        status = clear(far.areas[far.count - 1].start, far.areas[far.count - 1].bytes);
    return status;
}

int patterns_has_far(void)
{
    return far.count > 0;
}

cufence_status patterns_write_far(void)
{
    return far.count ? patterns_write(far.areas[0].start, PAGE) : CUFENCE_OK;
}

size_t patterns_count_far(void)
{
    size_t count = 0;
    if (!far.count || driver->cuMemcpyDtoH(patterns.found, far.areas[0].start, PAGE) != CUDA_SUCCESS)
        return 0;
    for (size_t i = 0; i < PAGE; i++)
        count += (size_t)has_changed(i);
    return count;
}
